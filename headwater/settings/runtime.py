"""Sections [spark], [capture], [views], [verify], [rebuild], [stack], [log], [http], [warehouse], [api].

Every limit it keeps is here: each has a unit in its name, a default that suits a machine with two cores, and bounds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from headwater.settings.base import LocalPath, Port, Section

_HOST: Final = re.compile(r"^([a-z0-9_]([a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\])$")


def _dotted(conf: object) -> object:
    """`spark.sql.ansi.enabled = true` is nested tables to TOML, and one dotted name to Spark; values become text."""
    if not isinstance(conf, Mapping):
        return conf
    flat: dict[str, object] = {}
    for name, value in conf.items():
        if isinstance(value, Mapping):
            inner = _dotted(value)
            flat |= {f"{name}.{rest}": text for rest, text in inner.items()} if isinstance(inner, dict) else {}
        else:
            flat[name] = _conf_text(value)
    return flat


def _conf_text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _hosts(text: str) -> str:
    names = [part.strip().lower() for part in text.split(",") if part.strip()]
    if not all(_HOST.match(name) for name in names):
        raise ValueError("must be host names without a port, separated by commas")
    return ",".join(names)


class SparkSettings(Section):
    """The Spark session."""

    master: str = Field(
        default="local[4]",
        pattern=r"^(local(\[[^\]]+\])?|spark://.+|yarn|k8s://.+)$",
        description="local[N], spark://HOST:PORT, yarn or k8s://…",
    )
    driver_memory_mb: int = Field(default=1024, ge=512, le=1_048_576, description="Heap of the driver's JVM")
    conf: Annotated[dict[str, SecretStr], BeforeValidator(_dotted)] = Field(
        default={}, description="Further Spark properties by name; in the environment as a JSON object"
    )

    def properties(self) -> dict[str, str]:
        """The further Spark properties, in clear."""
        return {name: value.get_secret_value() for name, value in self.conf.items()}


class CaptureSettings(Section):
    """From Postgres to the log."""

    retention_days: int = Field(default=7, ge=1, le=3650, description="How long Kafka keeps the log")
    heartbeat_interval_ms: int = Field(
        default=1000, ge=100, le=600_000, description="How often the heartbeat moves the slot on, also on quiet tables"
    )
    wal_keep_max_mb: int = Field(
        default=10_240,
        ge=64,
        le=104_857_600,
        description="Write-ahead log that the slot may hold back (max_slot_wal_keep_size) before Postgres drops it",
    )
    snapshot_fetch_rows: int = Field(default=10_240, ge=1, le=1_000_000, description="Rows a snapshot reads at a time")
    poll_interval_ms: int = Field(default=20, ge=1, le=60_000, description="How long Debezium waits for new changes")
    max_batch_rows: int = Field(default=2048, ge=1, le=1_000_000, description="Rows Debezium hands over at a time")
    max_queue_rows: int = Field(default=8192, ge=2, le=4_000_000, description="Rows Debezium holds in memory")
    max_restarts: int = Field(
        default=1000, ge=0, le=100_000, description="Restarts of a failed connector in a row before it is left"
    )
    restart_backoff_ms: int = Field(default=1000, ge=10, le=600_000, description="Wait before the first restart")
    restart_backoff_max_ms: int = Field(
        default=60_000, ge=10, le=3_600_000, description="Longest wait before a restart; the wait doubles each time"
    )

    @model_validator(mode="after")
    def _check(self) -> CaptureSettings:
        if self.max_queue_rows <= self.max_batch_rows:
            raise ValueError("capture.max_queue_rows must be greater than capture.max_batch_rows")
        if self.restart_backoff_max_ms < self.restart_backoff_ms:
            raise ValueError("capture.restart_backoff_max_ms must not be less than capture.restart_backoff_ms")
        return self


class ViewsSettings(Section):
    """Views over the log."""

    folder: LocalPath = Field(default="views", description="Where `plan` and `apply` look for .sql files")
    shards: int = Field(
        default=1,
        ge=1,
        le=256,
        description="Parts that a new view's state is split into, for epochs too large for one task; more cost latency",
    )
    records_per_epoch_max: int = Field(
        default=50_000, ge=100, le=10_000_000, description="Records of the log that one epoch takes while catching up"
    )
    build_records_per_epoch_max: int = Field(
        default=100_000, ge=100, le=10_000_000, description="The same while a view is being built"
    )
    hold_ms_max: int = Field(
        default=5_000,
        ge=100,
        le=3_600_000,
        description="How long views that were applied apart from others may hold those up before they are left behind",
    )
    copy_interval_s: int = Field(
        default=900, ge=1, le=86_400, description="How often the state is copied, to be put back after damage"
    )
    durable: bool = Field(
        default=False,
        description="Force every epoch to disk: without it a power failure means going back to the last copy",
    )
    niceness: int = Field(
        default=10, ge=0, le=19, description="How far Spark gives way to who waits for an answer; 0: not at all"
    )
    processors_left: int = Field(
        default=1,
        ge=0,
        le=1024,
        description="Processors that Spark leaves to the API and the servers, as far as there are more than one",
    )
    restart_backoff_ms: int = Field(default=1_000, ge=10, le=600_000, description="Wait before the first restart")
    restart_backoff_max_ms: int = Field(
        default=30_000, ge=10, le=3_600_000, description="Longest wait before a restart; the wait doubles each time"
    )


class VerifySettings(Section):
    """Views and sinks looked at by themselves, while everything runs."""

    interval_s: int = Field(
        default=60, ge=0, le=86_400, description="How often some rows of every view are compared; 0: never"
    )
    sample_rows: int = Field(default=100, ge=1, le=1_000, description="Rows of a view that a sample compares")
    full_interval_s: int = Field(
        default=86_400, ge=0, le=31_536_000, description="How often all rows of a view are compared; 0: never"
    )
    repair: bool = Field(default=False, description="Write rows again by itself that a sample finds wrong in a sink")
    busy_percent_max: float = Field(
        default=1.5,
        gt=0,
        le=100,
        description="What samples may take of one core, here and in Postgres: they pause for as long as that needs",
    )


class RebuildSettings(Section):
    """Filling sinks anew beside those that are read."""

    live_lag_ms_max: int = Field(
        default=2_000,
        ge=50,
        le=3_600_000,
        description="How far what readers see may be behind the log before a rebuild slows down",
    )
    keep_standby_s: int = Field(
        default=86_400,
        ge=0,
        le=31_536_000,
        description="How long the generation, and the definition, that readers left is kept fed",
    )


class StackSettings(Section):
    """The embedded servers."""

    kafka_heap_mb: int = Field(default=512, ge=256, le=65_536, description="Heap of Kafka")
    connect_heap_mb: int = Field(default=512, ge=256, le=65_536, description="Heap of Kafka Connect")
    elasticsearch_heap_mb: int = Field(default=512, ge=256, le=31_744, description="Heap of Elasticsearch")
    niceness: int = Field(
        default=10, ge=0, le=19, description="How far all of them but Redis give way to the API; 0: not at all"
    )
    account: str = Field(
        default="nobody",
        pattern=r"^[a-z_][a-z0-9_-]{0,31}$",
        description="Who runs the servers when Headwater is started by root: Postgres and Elasticsearch refuse root",
    )
    start_timeout_s: int = Field(default=120, ge=5, le=3600, description="How long a server may take to become ready")
    java: LocalPath = Field(default="", description="The java program; empty: JAVA_HOME, then PATH")
    cache_folder: LocalPath = Field(
        default="", description="Where fetched servers are kept, shared by all projects; empty: the user's cache folder"
    )
    repository: str = Field(
        default="",
        pattern=r"^(https?://[^@\s]+)?$",
        description="A Maven repository to fetch the servers from; empty: the one that Maven itself uses",
    )


class LogSettings(Section):
    """What Headwater says about itself."""

    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="The least level written")
    format: Literal["auto", "console", "json"] = Field(
        default="auto", description="On standard error: lines for people, or JSON; auto: JSON unless it is a terminal"
    )


class HttpSettings(Section):
    """The HTTP API, the pages and the metrics."""

    host: str = Field(default="127.0.0.1", min_length=1, description="The address to listen on")
    port: Port = Field(default=8321, description="The port to listen on")
    hosts: Annotated[str, AfterValidator(_hosts)] = Field(
        default="",
        description="Names that it is called by, as behind a proxy, separated by commas: where no key is needed, it "
        "answers to these, to localhost and to the host of `alerts.public_url` only",
    )

    def listed_hosts(self) -> tuple[str, ...]:
        return tuple(filter(None, self.hosts.split(",")))

    @property
    def url(self) -> str:
        """With a slash at its end."""
        return f"http://{self.host}:{self.port}/"


class WarehouseSettings(Section):
    """Delta tables: of the views, and of the log itself."""

    folder: LocalPath = Field(default="", description="Where the tables are; empty: `warehouse` in the data folder")
    interval_s: int = Field(
        default=30, ge=1, le=86_400, description="How often views are written there: each time makes files"
    )
    archive: bool = Field(default=True, description="Keep the change log there, too, beyond Kafka's retention")
    archive_interval_s: int = Field(default=60, ge=1, le=86_400, description="How often the log is appended to it")


class ApiSettings(Section):
    """Who may read over HTTP, and how often."""

    keys: Literal["auto", "required"] = Field(
        default="auto", description="Whether a key is needed; auto: unless the server listens on loopback only"
    )
    requests_per_s_max: int = Field(default=1_000, ge=1, le=1_000_000, description="Of one caller, on average")
    requests_burst_max: int = Field(default=2_000, ge=1, le=1_000_000, description="Of one caller, at once")
