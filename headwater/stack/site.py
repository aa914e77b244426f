"""What every embedded server is given: its folders, ports, secrets, account and Java."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cdc.errors import StackError
from headwater.stack.account import Account
from headwater.stack.java import Java
from headwater.stack.state import StackState


@dataclass(frozen=True, slots=True)
class HeapSizes:
    kafka_mb: int = 512
    connect_mb: int = 512
    elasticsearch_mb: int = 512


@dataclass(frozen=True)
class Site:
    """One stack's place on this machine."""

    data: Path
    """Each server has a folder of its own in it."""
    logs: Path
    state: StackState
    account: Account
    found_java: Java | None
    """None where no server of this stack runs on Java."""
    installed: dict[str, Path]
    """Where each server was unpacked."""
    heap: HeapSizes
    wal_keep_max_mb: int

    @property
    def java(self) -> Java:
        if self.found_java is None:
            raise StackError("no server of this stack runs on Java", hint="headwater doctor")
        return self.found_java

    def folder(self, server: str) -> Path:
        path = self.data / server
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path


LOG4J = """rootLogger.level=info
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{ISO8601} %-5p %c{1} %m%n
"""


def jvm(site: Site, server: str, heap_mb: int, main: str, *arguments: str) -> tuple[str, ...]:
    """The command line of one of Kafka's programs. Serial GC: on a small heap it costs the fewest threads."""
    log4j = site.folder(server) / "log4j2.properties"
    log4j.write_text(LOG4J)
    return (
        str(site.java.binary), f"-Xmx{heap_mb}m", "-Xms128m", "-XX:+UseSerialGC", "-Djava.awt.headless=true",
        "-Duser.timezone=UTC",
        f"-Dlog4j2.configurationFile={log4j}", "-cp", f"{site.installed['kafka']}/*", main, *arguments,
    )  # fmt: skip
