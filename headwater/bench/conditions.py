"""Under which conditions a figure was measured: without them it means nothing."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from typing import Final

import psutil

from cdc.capture import Capture, Pace
from cdc.connect import ConnectClient
from cdc.connector import ConnectorConfig
from cdc.postgres import connect
from headwater.deployment import Deployment, embedded_servers
from headwater.stack import artifacts, java
from headwater.stack import state as stack_state

_DEBEZIUM: Final = "io.debezium.connector.postgresql.PostgresConnector"
_MAIN_CLASSES: Final = {
    "kafka.Kafka": "kafka",
    "org.apache.kafka.connect.cli.ConnectDistributed": "connect",
    "org.elasticsearch.bootstrap.Elasticsearch": "elasticsearch",
    "org.elasticsearch.server/org.elasticsearch.bootstrap.Elasticsearch": "elasticsearch",
}


@dataclass(frozen=True, slots=True)
class Machine:
    cores: int
    memory_bytes: int
    system: str
    python: str
    java: int
    load_average_1m: float
    """Before the bench began."""
    servers_beside: Mapping[str, int]
    """Other servers of the kinds that Headwater runs, on this machine at the same time: they took their share."""
    at: datetime


@dataclass(frozen=True, slots=True)
class Versions:
    postgres: str
    kafka: str
    debezium: str
    spark: str
    headwater: str


@dataclass(frozen=True, slots=True)
class CaptureConditions:
    machine: Machine
    versions: Versions
    own_stack: bool
    rows: int
    rows_per_transaction: int
    rounds: int
    commits: int
    background_rows_per_s: int
    row_bytes: int
    """In Postgres' pages, on average."""
    record_bytes: int
    """Key and value of a record of the log, on average, uncompressed."""
    pace: Pace
    compression: str
    kafka_heap_mb: int | None
    """None where the server is not ours."""
    connect_heap_mb: int | None
    spark_master: str


def machine(own: Iterable[int], java_binary: str) -> Machine:
    """`own` are the processes that belong to the bench."""
    return Machine(
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        java=java.find(java_binary).version,
        load_average_1m=round(os.getloadavg()[0], 2),
        servers_beside=_servers_beside(frozenset(own)),
        at=datetime.now(UTC).replace(microsecond=0),
    )


def versions(deployment: Deployment, capture: Capture) -> Versions:
    with connect(capture.postgres) as conn:
        row = conn.execute("select current_setting('server_version')").fetchone()
    with ConnectClient(capture.connect) as client:
        debezium = client.plugins().get(_DEBEZIUM, "unknown")
    embedded = "kafka" in embedded_servers(deployment.settings)
    return Versions(
        postgres=str(row[0]) if row else "unknown",
        kafka=artifacts.versions()["kafka"] if embedded else f"at {deployment.kafka.bootstrap}",
        debezium=debezium,
        spark=metadata.version("pyspark"),
        headwater=metadata.version("headwater"),
    )


def own_processes(deployment: Deployment) -> list[int]:
    return [id_.pid for id_ in stack_state.load(deployment.settings.data_folder).processes.values()]


def heaps(deployment: Deployment) -> tuple[int | None, int | None]:
    """Of Kafka and of Connect, where they are embedded."""
    embedded, wanted = embedded_servers(deployment.settings), deployment.settings.stack
    return (
        wanted.kafka_heap_mb if "kafka" in embedded else None,
        wanted.connect_heap_mb if "connect" in embedded else None,
    )


def compression() -> str:
    return ConnectorConfig.__dataclass_fields__["compression"].default  # type: ignore[return-value]


def server_of(command: Sequence[str]) -> str | None:
    """Which kind of server a command line starts, if one that Headwater runs too."""
    if not command:
        return None
    program = command[0].rpartition("/")[2]
    if program == "java":
        return next((_MAIN_CLASSES[word] for word in command if word in _MAIN_CLASSES), None)
    if program == "postgres" and "-D" in command:
        return "postgres"
    return "redis" if program.startswith("redis-server") else None


def _servers_beside(own: frozenset[int]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for process in psutil.process_iter(["pid", "cmdline"]):
        server = server_of(process.info["cmdline"] or ())
        if server and process.info["pid"] not in own:
            found[server] += 1
    return dict(sorted(found.items()))
