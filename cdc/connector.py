"""The capture end of the path: what Kafka Connect is told so that Debezium writes `<source>.changes`.

A pure value: `ConnectorConfig.to_connect()` gives the connector's configuration, nothing here talks to a server. It
guarantees, by configuration alone:

- one topic with one partition, BEGIN, rows and END in commit order; TRUNCATE and logical messages in their place;
- values that survive JSON: numerics as text, times in microseconds (as ISO text they would lose 24:00), bytes in base64
  through the converter (Debezium's own base64 writes NULL for an unchanged large value), and SQL NULL as NULL (the
  converter would otherwise put the column's default in its place);
- a gap is a failure where Debezium can see it: at every start it compares its offset with the slot's restart_lsn
  (`trust_offset`), and stops when the slot is ahead or gone. Tried on 3.7: a slot that was dropped or made anew fails
  the task, and is not made again. Debezium makes the slot only where it has no offset, at the very first start.
  It cannot see a slot that somebody advanced by hand while capture was stopped: pg_replication_slot_advance moves
  confirmed_flush_lsn at once and restart_lsn only later, and until then the task resumes past the gap;
- a value that Debezium cannot convert is a failure too, where its default is a NULL and a line in a log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from cdc.addresses import PostgresAddress, Source
from cdc.errors import ConfigurationError
from cdc.events import TableName
from cdc.relations import OWN_TABLES

PLACEHOLDER: Final = "__headwater_unchanged_6f2b9d1c__"
"""Stands in the log for a TOASTed value that an update did not touch; nobody types this by accident."""

RECORD_BYTES_MAX: Final = 64 * 1024 * 1024
"""The largest row, as JSON, that the log carries."""

HEARTBEAT_TABLE: Final = TableName("headwater", "heartbeat")
SIGNAL_TABLE: Final = TableName("headwater", "signal")

HEARTBEAT_QUERY: Final = f"UPDATE {HEARTBEAT_TABLE} SET beat_at = now(), beats = beats + 1 WHERE id = 1"

_CONNECTOR_CLASS: Final = "io.debezium.connector.postgresql.PostgresConnector"
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_ROUTER: Final = "org.apache.kafka.connect.transforms.RegexRouter"
_HEARTBEAT_PREFIX: Final = "__headwater-heartbeat"

_DRIVER_OPTIONS: Final = {
    "sslmode": "database.sslmode",
    "sslrootcert": "database.sslrootcert",
    "sslcert": "database.sslcert",
    "sslkey": "database.sslkey",
    "sslpassword": "database.sslpassword",
    "connect_timeout": "driver.connectTimeout",
    "application_name": "driver.ApplicationName",
    "channel_binding": "driver.channelBinding",
    "gssencmode": "driver.gssEncMode",
}
"""libpq's names on the left; Debezium's, or those of the JDBC driver behind it, on the right."""

_SECRETS: Final = frozenset({"database.password", "database.sslpassword"})

_PLAIN: Final = re.compile(r"[A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """Everything that decides how one source is captured. Tables are the user's; Headwater's own are added."""

    source: Source
    postgres: PostgresAddress
    """As the capture role. Its password is not part of the repr."""
    tables: tuple[TableName, ...]
    keys: tuple[tuple[TableName, tuple[str, ...]], ...] = ()
    """Columns to key by, for tables without a primary key (those of the replica identity's index)."""
    excluded: tuple[tuple[TableName, str], ...] = ()
    """Columns that are left out of the log, such as those of a type that Debezium cannot carry."""
    own_tables: tuple[TableName, ...] = OWN_TABLES

    poll_interval_ms: int = 20
    """Most of the time from commit to log; shorter costs CPU at rest (docs/benchmarks.md)."""
    heartbeat_interval_ms: int = 5_000
    status_update_interval_ms: int = 5_000
    signal_poll_interval_ms: int = 1_000
    batch_rows_max: int = 2_048
    queue_rows_max: int = 8_192
    queue_bytes_max: int = 128 * 1024 * 1024
    snapshot_fetch_rows: int = 10_240
    incremental_chunk_rows: int = 4_096
    retries_max: int = 0
    """None of Debezium's own: it would go on inside a transaction, and mistake the place (resuming.py). The task fails,
    and Headwater's restart with backoff sets it right first."""
    retry_wait_ms: int = 2_000
    slot_retries_max: int = 30
    """A killed worker's walsender holds the slot until Postgres notices."""
    slot_retry_wait_ms: int = 2_000

    retention_ms: int = 7 * 24 * 3_600_000
    heartbeat_retention_ms: int = 24 * 3_600_000
    replication_factor: int = -1
    """-1: what the broker does by default."""
    record_bytes_max: int = RECORD_BYTES_MAX
    compression: str = "lz4"

    def to_connect(self) -> dict[str, str]:
        """The connector's configuration, for Connect's REST API. Holds the password: never print it, see `redacted`."""
        return {
            **_identity(),
            **self._database(),
            **self._slot(),
            **self._tables(),
            **self._values(),
            **self._pace(),
            **self._heartbeat_and_signals(),
            **self._topic(),
            **self._producer(),
        }

    def _database(self) -> dict[str, str]:
        return {
            "database.hostname": self.postgres.host,
            "database.port": str(self.postgres.port),
            "database.user": self.postgres.user,
            "database.password": self.postgres.password,
            "database.dbname": self.postgres.database,
            "topic.prefix": self.source.name,
            "database.tcpKeepAlive": "true",
            **_driver_options(self.postgres.options),
        }

    def _slot(self) -> dict[str, str]:
        return {
            "plugin.name": "pgoutput",
            "slot.name": self.source.slot,
            "slot.drop.on.stop": "false",
            "slot.max.retries": str(self.slot_retries_max),
            "slot.retry.delay.ms": str(self.slot_retry_wait_ms),
            "publication.name": self.source.publication,
            "publication.autocreate.mode": "disabled",
            # The default resumes silently past a gap.
            "offset.mismatch.strategy": "trust_offset",
            "lsn.flush.mode": "connector",
            "lsn.flush.timeout.action": "fail",
            "status.update.interval.ms": str(self.status_update_interval_ms),
        }

    def _tables(self) -> dict[str, str]:
        # The snapshot goes by this order, and marks its first row only if its first table has one: the heartbeat has.
        captured = dict.fromkeys((HEARTBEAT_TABLE, *self.own_tables, *self.tables))
        settings = {
            "table.include.list": ",".join(_exactly(table) for table in captured),
            "snapshot.mode": "initial",
            "snapshot.isolation.mode": "repeatable_read",
            "snapshot.fetch.size": str(self.snapshot_fetch_rows),
            "incremental.snapshot.chunk.size": str(self.incremental_chunk_rows),
            "skipped.operations": "none",
            "tombstones.on.delete": "false",
            "provide.transaction.metadata": "true",
            "schema.refresh.mode": "columns_diff",
        }
        if self.excluded:
            columns = (f"{_exactly(table)[:-1]}\\.{_escaped(column)})" for table, column in self.excluded)
            settings["column.exclude.list"] = ",".join(columns)
        if self.keys:
            settings["message.key.columns"] = ";".join(
                f"{_escaped(table.schema)}\\.{_escaped(table.name)}:{','.join(columns)}" for table, columns in self.keys
            )
        return settings

    def _values(self) -> dict[str, str]:
        return {
            "decimal.handling.mode": "string",
            "time.precision.mode": "microseconds",
            "interval.handling.mode": "string",
            "hstore.handling.mode": "json",
            "binary.handling.mode": "bytes",
            "include.unknown.datatypes": "true",
            "unavailable.value.placeholder": PLACEHOLDER,
            **{
                f"{side}.converter{name}": value
                for side in ("key", "value")
                for name, value in (("", _JSON), (".schemas.enable", "false"), (".replace.null.with.default", "false"))
            },
            "extended.headers.enabled": "false",
        }

    def _pace(self) -> dict[str, str]:
        return {
            "poll.interval.ms": str(self.poll_interval_ms),
            "max.batch.size": str(self.batch_rows_max),
            "max.queue.size": str(self.queue_rows_max),
            "max.queue.size.in.bytes": str(self.queue_bytes_max),
            "errors.max.retries": str(self.retries_max),
            "retriable.restart.connector.wait.ms": str(self.retry_wait_ms),
            "errors.tolerance": "none",
            "event.processing.failure.handling.mode": "fail",
            # The default writes a warning to a log and NULL into the change.
            "event.converting.failure.handling.mode": "fail",
        }

    def _heartbeat_and_signals(self) -> dict[str, str]:
        return {
            "heartbeat.interval.ms": str(self.heartbeat_interval_ms),
            "topic.heartbeat.prefix": _HEARTBEAT_PREFIX,
            "heartbeat.action.query": HEARTBEAT_QUERY,
            "signal.enabled.channels": "source",
            "signal.data.collection": str(SIGNAL_TABLE),
            "signal.poll.interval.ms": str(self.signal_poll_interval_ms),
        }

    def _topic(self) -> dict[str, str]:
        """Tables, transaction markers and messages, all into one; only the heartbeat's name does not match."""
        return {
            "transforms": "one_log",
            "transforms.one_log.type": _ROUTER,
            "transforms.one_log.regex": f"{_escaped(self.source.name)}\\..*",
            "transforms.one_log.replacement": self.source.changes_topic,
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": str(self.replication_factor),
            "topic.creation.default.cleanup.policy": "delete",
            "topic.creation.default.retention.ms": str(self.retention_ms),
            "topic.creation.default.max.message.bytes": str(self.record_bytes_max),
            "topic.creation.groups": "heartbeat",
            "topic.creation.heartbeat.include": f"{_escaped(_HEARTBEAT_PREFIX)}\\..*",
            "topic.creation.heartbeat.partitions": "1",
            "topic.creation.heartbeat.replication.factor": str(self.replication_factor),
            "topic.creation.heartbeat.retention.ms": str(self.heartbeat_retention_ms),
        }

    def _producer(self) -> dict[str, str]:
        return {
            "exactly.once.support": "required",
            "transaction.boundary": "poll",
            "producer.override.compression.type": self.compression,
            "producer.override.linger.ms": "0",
            "producer.override.batch.size": str(256 * 1024),
            "producer.override.max.request.size": str(self.record_bytes_max),
            "producer.override.buffer.memory": str(max(2 * self.record_bytes_max, 32 * 1024 * 1024)),
        }


def redacted(config: dict[str, str]) -> dict[str, str]:
    """The same configuration, fit to be printed."""
    return {name: "********" if name in _SECRETS and value else value for name, value in config.items()}


def _identity() -> dict[str, str]:
    return {"connector.class": _CONNECTOR_CLASS, "tasks.max": "1"}


def _exactly(table: TableName) -> str:
    """A pattern for this table alone: Debezium's lists are regular expressions, and ignore case unless told."""
    return f"(?-i:{_escaped(table.schema)}\\.{_escaped(table.name)})"


def _escaped(text: str) -> str:
    """In hexadecimal, because Debezium splits its lists at commas, colons and spaces before it looks for patterns."""
    return "".join(c if _PLAIN.match(c) else f"\\x{{{ord(c):x}}}" for c in text)


def _driver_options(options: tuple[tuple[str, str], ...]) -> dict[str, str]:
    unknown = sorted(name for name, _ in options if name not in _DRIVER_OPTIONS)
    if unknown:
        raise ConfigurationError(
            f"connection parameters that capture cannot pass on: {', '.join(unknown)}",
            detail=f"known are {', '.join(sorted(_DRIVER_OPTIONS))}",
            hint="remove them from the source's Postgres address, then headwater doctor",
        )
    return {_DRIVER_OPTIONS[name]: value for name, value in options}
