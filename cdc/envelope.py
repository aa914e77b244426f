"""Turns a record of `<source>.changes` into an Entry: the first thing that happens to bytes from the log. Pure.

What Debezium writes, found by trial (tests/cdc/golden):

- A transaction is BEGIN, its rows, END, all in line; empty transactions do not appear. BEGIN and END are named xid:lsn,
  and only END's LSN is the commit's.
- A changed key is two records, a delete of the old key and an insert of the new one, with the same LSN and consecutive
  orders (`is_key_change`). The insert may carry UNCHANGED values: they are those of the deleted row.
- The before of a delete has, without REPLICA IDENTITY FULL, only the key; the rest is made up (NULL, or an empty value
  where the column is NOT NULL). Catalog.decode_before knows which is which.
- Rows of an incremental snapshot stand inside the transaction of the signal that closes their window, but have no xid
  and no order, and END does not count them.
- TRUNCATE is one record a table, without key and rows. A logical message is a record too; one that is not transactional
  stands between transactions.
- An unchanged large (TOASTed) value is a placeholder in the clothes of its type: text, [text], base64, bytes as
  integers, an hstore of it, the UUID made from it. All are recognised here, without knowing the type.

`parse` never raises: bytes that are not an event become a DeadLetter with the reason.
"""

from __future__ import annotations

import hashlib
import uuid
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec

from cdc.connector import PLACEHOLDER
from cdc.events import UNCHANGED, Begin, ChangeEvent, DeadLetter, End, Entry, Op, Record, Row, Snapshot, TableName
from cdc.position import Lsn

_OPS: Final = {
    "c": Op.INSERT,
    "u": Op.UPDATE,
    "d": Op.DELETE,
    "t": Op.TRUNCATE,
    "r": Op.READ,
    "m": Op.MESSAGE,
}
_SNAPSHOTS: Final = {
    "last": Snapshot.LAST,
    "incremental": Snapshot.INCREMENTAL,
    "true": Snapshot.WITHIN,
    "first": Snapshot.FIRST,
    "first_in_data_collection": Snapshot.WITHIN,
    "last_in_data_collection": Snapshot.WITHIN,
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MESSAGES: Final = "io.debezium."
"""How END names what is not a table: by a Java class."""

_MARKER: Final = b'{"status":'
_END: Final = b'{"status":"END"'
_READ: Final = b'"op":"r"'
_SOURCE: Final = b',"source":{'
_SCHEMA: Final = b'"schema":"'
_AFTER_TABLE: Final = b',"txId":'
_SNAPSHOT: Final = b'"snapshot":"'
_INCREMENTAL: Final = b'incremental"'
_TAIL_BYTES: Final = 160
"""The op and the three times after it, the last part of a row's record, are shorter than this."""


def _uuid_of(name: bytes) -> str:
    """The UUID that Java makes from a name: MD5 with the bits of version 3, without a namespace."""
    return str(uuid.UUID(bytes=hashlib.md5(name, usedforsecurity=False).digest(), version=3))


_PLACEHOLDER: Final = PLACEHOLDER.encode()
_PLACEHOLDER_BASE64: Final = b64encode(_PLACEHOLDER).decode()
_PLACEHOLDER_UUID: Final = _uuid_of(_PLACEHOLDER)
_PLACEHOLDER_INTS: Final = list(_PLACEHOLDER)
_PLACEHOLDER_TEXTS: Final = frozenset(
    {PLACEHOLDER, _PLACEHOLDER_BASE64, _PLACEHOLDER_UUID, f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}'}
)
_TRACES: Final = (
    _PLACEHOLDER,
    _PLACEHOLDER_BASE64.encode(),
    _PLACEHOLDER_UUID.encode(),
    ",".join(map(str, _PLACEHOLDER_INTS)).encode(),
)
"""One of these is in the bytes of every record that has an unchanged value."""


class _Source(msgspec.Struct):
    schema: str
    table: str
    ts_ms: int
    ts_us: int | None = None
    lsn: int | None = None
    sequence: str | None = None
    txId: int | None = None
    snapshot: str | None = None


class _Transaction(msgspec.Struct):
    id: str
    total_order: int


class _Message(msgspec.Struct):
    prefix: str
    content: str


class _Change(msgspec.Struct):
    op: str
    source: _Source
    ts_ms: int
    ts_us: int | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    transaction: _Transaction | None = None
    message: _Message | None = None


class _Count(msgspec.Struct):
    data_collection: str
    event_count: int


class _Marker(msgspec.Struct):
    status: str
    id: str
    ts_ms: int
    event_count: int | None = None
    data_collections: list[_Count] | None = None


_decode_change: Final = msgspec.json.Decoder(_Change).decode
_decode_marker: Final = msgspec.json.Decoder(_Marker).decode
_decode_sequence: Final = msgspec.json.Decoder(list[str | None]).decode
_decode_key: Final = msgspec.json.Decoder(dict[str, Any] | None).decode


def parse(record: Record) -> Entry:
    """What the record says; a DeadLetter if it says nothing that Debezium would."""
    try:
        if record.value is None:
            raise ValueError("no value")
        if record.value.startswith(_MARKER):
            return _marker(record, _decode_marker(record.value))
        return _change(record, record.value, _decode_change(record.value))
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        return DeadLetter(record.position, record.key, record.value, f"{type(error).__name__}: {error}")


def is_boundary(value: bytes) -> bool:
    """Whether whole transactions, and no other, lie before the end of this record: it is an END marker or a row of the
    initial snapshot. Exact for what Debezium writes, without parsing: a user's data stands before `source`, which
    is followed by fixed fields only, and inside strings quotes are escaped."""
    if value.startswith(_END):
        return True
    if value.find(_READ, -_TAIL_BYTES if len(value) > _TAIL_BYTES else 0) < 0:
        return False
    source = value.rfind(_SOURCE)
    snapshot = value.find(_SNAPSHOT, source) if source >= 0 else -1
    return snapshot >= 0 and not value.startswith(_INCREMENTAL, snapshot + len(_SNAPSHOT))


def table_of(value: bytes) -> TableName | None:
    """The table of a row's record, without parsing it, as exact as `is_boundary`; None for anything else."""
    source = value.rfind(_SOURCE)
    start = value.find(_SCHEMA, source) if source >= 0 else -1
    end = value.find(_AFTER_TABLE, start) if start >= 0 else -1
    return None if end < 0 else _table_named(value[start:end])


@lru_cache(maxsize=4096)
def _table_named(text: bytes) -> TableName | None:
    """From `"schema":"…","table":"…"`."""
    try:
        named = msgspec.json.decode(b"{" + text + b"}", type=dict[str, str])
        return TableName(named["schema"], named["table"]) if named["table"] else None
    except (msgspec.MsgspecError, KeyError):
        return None


def is_key_change(delete: ChangeEvent, insert: ChangeEvent) -> bool:
    """Whether the two, next to each other in the log, are one update that changed its row's key."""
    return (
        delete.op is Op.DELETE
        and insert.op is Op.INSERT
        and (delete.table, delete.xid, delete.lsn) == (insert.table, insert.xid, insert.lsn)
        and delete.order is not None
        and insert.order == delete.order + 1
    )


def _change(record: Record, value: bytes, change: _Change) -> ChangeEvent:
    source = change.source
    op = _OPS.get(change.op)
    if op is None:
        raise ValueError(f"unknown op {change.op!r}")
    snapshot = _snapshot(op, source.snapshot)
    table, message = TableName(source.schema, source.table), None
    if op is Op.MESSAGE:
        table, message = _message(change)
    before, after = _rows(op, change)
    return ChangeEvent(
        position=record.position,
        op=op,
        table=table,
        before=before,
        after=_with_unchanged(after) if after and _may_be_unchanged(value) else after,
        lsn=_lsn(source),
        xid=None if snapshot else source.txId,
        event_at=_at(source.ts_us, source.ts_ms),
        captured_at=_at(change.ts_us, change.ts_ms),
        key=None if op is Op.MESSAGE or record.key is None else _decode_key(record.key),
        snapshot=snapshot,
        order=change.transaction.total_order if change.transaction else None,
        message=message,
    )


def _may_be_unchanged(value: bytes) -> bool:
    """Asked of every record: written out, because a loop costs as much as the parsing."""
    text, base64, uuid_, ints = _TRACES
    return text in value or base64 in value or uuid_ in value or ints in value


def _snapshot(op: Op, place: str | None) -> Snapshot | None:
    snapshot = None if place in (None, "false") else _SNAPSHOTS.get(place or "")
    if (snapshot is None) == (op is Op.READ) or (snapshot is None and place not in (None, "false")):
        raise ValueError(f"{op} of a row whose place in a snapshot is {place!r}")
    return snapshot


def _lsn(source: _Source) -> Lsn:
    """A row of an incremental snapshot has none of its own, but says how far the log had been read."""
    if source.lsn is not None:
        return Lsn(source.lsn)
    read_to = [lsn for lsn in _decode_sequence(source.sequence or "[]") if lsn is not None]
    if not read_to:
        raise ValueError("no LSN")
    return Lsn(int(read_to[-1]))


def _rows(op: Op, change: _Change) -> tuple[Row | None, Row | None]:
    needs_before = op is Op.DELETE
    needs_after = op in (Op.INSERT, Op.UPDATE, Op.READ)
    if (needs_before and change.before is None) or (needs_after and change.after is None):
        raise ValueError(f"{op} without its row")
    return change.before, change.after


def _message(change: _Change) -> tuple[TableName, bytes]:
    if change.message is None:
        raise ValueError("a message without content")
    return TableName("", change.message.prefix), b64decode(change.message.content, validate=True)


def _marker(record: Record, marker: _Marker) -> Begin | End:
    at = _at(None, marker.ts_ms)
    if marker.status == "BEGIN":
        return Begin(record.position, marker.id, at)
    if marker.status != "END":
        raise ValueError(f"unknown status {marker.status!r}")
    xid, _, lsn = marker.id.partition(":")
    if not (xid.isdecimal() and lsn.isdecimal() and lsn.isascii()):
        raise ValueError(f"not a transaction's name: {marker.id!r}")
    if marker.event_count is None:
        raise ValueError("END without its count")
    counts = {
        _table(count.data_collection): count.event_count
        for count in marker.data_collections or ()
        if not count.data_collection.startswith(_MESSAGES)
    }
    return End(record.position, marker.id, Lsn(int(lsn)), at, marker.event_count, counts)


def _table(collection: str) -> TableName:
    """Unquoted, so a dot in a name could be any of them: schemas have them least."""
    schema, _, name = collection.partition(".")
    return TableName(schema, name)


def _with_unchanged(row: Row) -> Row:
    return {name: UNCHANGED if _is_unchanged(value) else value for name, value in row.items()}


def _is_unchanged(value: object) -> bool:
    if isinstance(value, str):
        return value in _PLACEHOLDER_TEXTS
    if isinstance(value, list) and value:
        return value == _PLACEHOLDER_INTS or (len(value) == 1 and _is_unchanged(value[0]))
    return False


def _at(micros: int | None, millis: int) -> datetime:
    return _EPOCH + timedelta(microseconds=millis * 1000 if micros is None else micros)
