"""What the change log says, once parsed: values only, produced by envelope.py and read by everything downstream.

In the log's order a transaction is Begin, its ChangeEvents, End; snapshot rows stand outside transactions; bytes that
are none of these are a DeadLetter, in their place, so that nothing vanishes silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum
from typing import Final, TypeAlias

from cdc.position import Lsn, Position

Row: TypeAlias = Mapping[str, object]


class Op(StrEnum):
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    TRUNCATE = "truncate"
    READ = "read"
    """A row as a snapshot found it."""
    MESSAGE = "message"
    """A logical decoding message (pg_logical_emit_message)."""


class Unchanged(Enum):
    """Stands for a large value that the update did not touch and Postgres therefore did not log (TOAST)."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged.UNCHANGED


class Snapshot(StrEnum):
    """Where a row stands in a snapshot."""

    FIRST = "first"
    """The initial snapshot begins with this row: once in an era (capture.py sees to that)."""
    WITHIN = "within"
    LAST = "last"
    """The initial snapshot ends with this row."""
    INCREMENTAL = "incremental"
    """Read by an incremental snapshot, inside the running log."""


@dataclass(frozen=True, order=True, slots=True)
class TableName:
    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @classmethod
    def parse(cls, text: str) -> TableName:
        schema, _, name = text.rpartition(".")
        return cls(schema or "public", name)


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the topic, as bytes."""

    position: Position
    written_at_ms: int
    """When Kafka Connect produced it."""
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class ChangeEvent:
    position: Position
    op: Op
    table: TableName
    before: Row | None
    after: Row | None
    lsn: Lsn
    xid: int | None
    """None for snapshot rows."""
    event_at: datetime
    """When the transaction committed at the source (for snapshot rows: when they were read)."""
    captured_at: datetime
    """When Debezium handled it."""
    key: Row | None = None
    snapshot: Snapshot | None = None
    order: int | None = None
    """The event's number within its transaction, from 1."""
    message: bytes | None = field(default=None)
    """The content of an Op.MESSAGE; its prefix is in the table's name."""


@dataclass(frozen=True, slots=True)
class Begin:
    position: Position
    transaction: str
    """xid:lsn, as Debezium names a transaction."""
    at: datetime


@dataclass(frozen=True, slots=True)
class End:
    position: Position
    transaction: str
    commit_lsn: Lsn
    at: datetime
    events: int
    events_per_table: Mapping[TableName, int]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be parsed, with all that is needed to look into it and to replay it."""

    position: Position
    key: bytes | None
    value: bytes | None
    error: str


Entry: TypeAlias = ChangeEvent | Begin | End | DeadLetter
