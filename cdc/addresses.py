"""How to reach the outside world, and what things are called there. Values only: nothing here opens a connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote, urlencode


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """One database on one server, as one user. The password is never part of the repr."""

    host: str
    port: int
    database: str
    user: str
    password: str = field(default="", repr=False)
    options: tuple[tuple[str, str], ...] = ()
    """Further libpq parameters, such as ("sslmode", "verify-full")."""

    def conninfo(self) -> str:
        """A libpq URI, for psycopg."""
        auth = quote(self.user, safe="") + (f":{quote(self.password, safe='')}" if self.password else "")
        query = f"?{urlencode(self.options)}" if self.options else ""
        return f"postgresql://{auth}@{self.host}:{self.port}/{quote(self.database, safe='')}{query}"


@dataclass(frozen=True, slots=True)
class KafkaAddress:
    """A Kafka cluster, with the security settings of librdkafka (security.protocol, sasl.*, ssl.*)."""

    bootstrap: str
    security: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def client(self) -> dict[str, str]:
        return {"bootstrap.servers": self.bootstrap, **dict(self.security)}


@dataclass(frozen=True, slots=True)
class ConnectAddress:
    """Kafka Connect's REST API."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """One captured database and the names derived from it, in one place so that nobody spells them by hand."""

    name: str

    @property
    def changes_topic(self) -> str:
        return f"{self.name}.changes"

    @property
    def eras_topic(self) -> str:
        return f"{self.name}.eras"

    @property
    def alerts_topic(self) -> str:
        return f"{self.name}.alerts"

    @property
    def heartbeat_topic(self) -> str:
        return f"__headwater-heartbeat.{self.name}"

    @property
    def connector(self) -> str:
        return f"headwater-{self.name}"

    @property
    def slot(self) -> str:
        return f"headwater_{self.name}"

    @property
    def publication(self) -> str:
        return f"headwater_{self.name}"
