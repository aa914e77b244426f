"""One file a server. SERVERS lists them in the order in which they start; a new one is a file and a line here."""

from __future__ import annotations

from typing import Final, Protocol

from headwater.stack.process import Command
from headwater.stack.servers import connect, elasticsearch, kafka, postgres, redis
from headwater.stack.site import Site


class Server(Protocol):
    """The contract: pure configuration in, one command out, and a question that only a working server answers."""

    @property
    def name(self) -> str: ...

    @property
    def bundles(self) -> tuple[str, ...]:
        """The artifact bundles it is made of."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The servers that must be ready before it starts."""

    def prepare(self, site: Site) -> None:
        """Writes configuration and first-time data. Idempotent; also runs before a restart after a crash."""

    def command(self, site: Site) -> Command: ...

    def ready(self, site: Site) -> bool:
        """True once a client's request is answered. May raise: that is a no."""


SERVERS: Final[tuple[Server, ...]] = (
    postgres.Postgres(),
    kafka.Kafka(),
    elasticsearch.Elasticsearch(),
    redis.Redis(),
    connect.Connect(),
)
NAMES: Final = tuple(server.name for server in SERVERS)
