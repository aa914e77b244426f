"""Where everything is: the settings, with the embedded servers' addresses filled in from the running stack."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cdc.addresses import ConnectAddress, KafkaAddress, PostgresAddress, Source
from cdc.errors import StackError
from headwater.settings import Settings
from headwater.stack import state as stack_state
from headwater.stack.state import StackState
from search.address import ElasticsearchAddress
from views.sinks.cache import RedisAddress

if TYPE_CHECKING:
    from cdc.capture import Capture
    from headwater.stack.stack import StackPlan

CAPTURE_ROLE = "headwater_capture"


@dataclass(frozen=True, slots=True)
class Deployment:
    settings: Settings
    source: Source
    postgres: PostgresAddress
    capture_postgres: PostgresAddress
    kafka: KafkaAddress
    connect: ConnectAddress
    elasticsearch: ElasticsearchAddress
    redis: RedisAddress

    @classmethod
    def resolve(cls, settings: Settings) -> Deployment:
        """Fails when something is embedded and the stack is not running."""
        state = StackState()
        if embedded_servers(settings):
            if not stack_state.is_running(settings.data_folder):
                raise StackError(
                    "the embedded stack is not running",
                    detail=f"data folder {settings.data_folder}",
                    hint="headwater up",
                )
            state = stack_state.load(settings.data_folder)
        return cls.of(_with_demo(settings), state)

    @classmethod
    def of(cls, settings: Settings, state: StackState) -> Deployment:
        postgres = settings.postgres.address() or _embedded_postgres(settings, state)
        return cls(
            settings=settings,
            source=settings.named_source,
            postgres=postgres,
            capture_postgres=settings.capture_address() or _embedded_capture(postgres, state),
            kafka=settings.kafka.address() or KafkaAddress(f"127.0.0.1:{state.ports.get('kafka', 0)}"),
            connect=settings.connect.address() or ConnectAddress(f"http://127.0.0.1:{state.ports.get('connect', 0)}"),
            elasticsearch=_elasticsearch(settings, state),
            redis=_redis(settings, state),
        )

    def capture(self) -> Capture:
        from cdc.capture import Capture, Pace

        wanted = self.settings.capture
        pace = Pace(
            retention_ms=wanted.retention_days * 24 * 3_600_000,
            heartbeat_interval_ms=wanted.heartbeat_interval_ms,
            poll_interval_ms=wanted.poll_interval_ms,
            batch_rows_max=wanted.max_batch_rows,
            queue_rows_max=wanted.max_queue_rows,
            snapshot_fetch_rows=wanted.snapshot_fetch_rows,
        )
        return Capture(
            self.source, self.postgres, self.capture_postgres, self.kafka, self.connect, self.settings.tables, pace
        )


def _with_demo(settings: Settings) -> Settings:
    """With the way to the demo's catchers, where it runs: as its own process knows it."""
    from headwater.demo.catchers import listening

    catchers = listening(settings.data_folder)
    return catchers.opened(settings) if catchers else settings


def embedded_servers(settings: Settings) -> tuple[str, ...]:
    """The servers that Headwater runs itself, in the order in which they start."""
    from headwater.stack.servers import NAMES

    return tuple(name for name in NAMES if getattr(settings, name).embedded)


def stack_plan(settings: Settings) -> StackPlan:
    from headwater.stack.cache import Cache, default_folder
    from headwater.stack.site import HeapSizes
    from headwater.stack.stack import StackPlan

    wanted = settings.stack
    folder = Path(wanted.cache_folder) if wanted.cache_folder else default_folder()
    return StackPlan(
        folder=settings.data_folder.absolute(),
        servers=embedded_servers(settings),
        cache=Cache(folder, wanted.repository),
        heap=HeapSizes(wanted.kafka_heap_mb, wanted.connect_heap_mb, wanted.elasticsearch_heap_mb),
        account=wanted.account,
        java=wanted.java,
        start_timeout_s=wanted.start_timeout_s,
        wal_keep_max_mb=settings.capture.wal_keep_max_mb,
        niceness=wanted.niceness,
    )


def _embedded_postgres(settings: Settings, state: StackState) -> PostgresAddress:
    """A database of the source's name on the embedded server."""
    port, password = state.ports.get("postgres", 0), state.secrets.get("postgres", "")
    return PostgresAddress("127.0.0.1", port, settings.source, "postgres", password)


def _embedded_capture(postgres: PostgresAddress, state: StackState) -> PostgresAddress:
    return replace(postgres, user=CAPTURE_ROLE, password=state.secrets.get("capture", ""))


def _elasticsearch(settings: Settings, state: StackState) -> ElasticsearchAddress:
    wanted = settings.elasticsearch
    if wanted.embedded:
        url = f"http://127.0.0.1:{state.ports.get('elasticsearch', 0)}"
        return ElasticsearchAddress(url, "elastic", state.secrets.get("elasticsearch", ""))
    return ElasticsearchAddress(
        wanted.url.get_secret_value(),
        wanted.user,
        wanted.password.get_secret_value(),
        wanted.api_key.get_secret_value(),
        wanted.ca_file,
    )


def _redis(settings: Settings, state: StackState) -> RedisAddress:
    wanted = settings.redis
    if wanted.embedded:
        return RedisAddress(f"redis://:{state.secrets.get('redis', '')}@127.0.0.1:{state.ports.get('redis', 0)}/0")
    return RedisAddress(wanted.url.get_secret_value(), wanted.ca_file)
