"""The first step of an epoch: the log's records handed out to the mirrors of the tables, without parsing them.

What they say of the epoch as a whole (the last commit, snapshot rows) is noted on the way, for the frontier.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
import pyarrow as pa

from cdc.catalog import CATALOG_TABLE
from cdc.envelope import parse, table_of
from cdc.events import ChangeEvent, End, Record, Snapshot, TableName
from cdc.position import Position
from cdc.snapshots import SNAPSHOT_END
from views.maintain.nodes import RECORDS

_END: Final = b'{"status":"END"'
_MARKER: Final = b'{"status":'
_LAST: Final = b'"snapshot":"last"'
_READ: Final = b'"op":"r"'
_INCREMENTAL: Final = b'"snapshot":"incremental"'
_NUMBER: Final = re.compile(rb'"after":\{[^{}]*?"number":([0-9]+)')


class Run(msgspec.Struct, frozen=True, array_like=True):
    """Numbers of the source's canary that follow each other in the log, each one more than the last."""

    offset: int
    first: int
    last: int


class Note(msgspec.Struct):
    """What some records of an epoch say of it. Notes add up, in any order."""

    records: int = 0
    events: int = 0
    snapshot_rows: int = 0
    is_last_of_snapshot: bool = False
    marked_offset: int = -1
    """Of the last row of the canary that an incremental snapshot read: what was asked for with it is read before it."""
    last_offset: int = -1
    commit_offset: int = -1
    commit_lsn: int | None = None
    committed_at_us: int | None = None
    oldest_written_at_ms: int | None = None
    canary: list[Run] = []

    def plus(self, other: Note) -> Note:
        later = other if other.commit_offset > self.commit_offset else self
        times = [t for t in (self.oldest_written_at_ms, other.oldest_written_at_ms) if t is not None]
        return Note(
            self.records + other.records,
            self.events + other.events,
            self.snapshot_rows + other.snapshot_rows,
            self.is_last_of_snapshot or other.is_last_of_snapshot,
            max(self.marked_offset, other.marked_offset),
            max(self.last_offset, other.last_offset),
            later.commit_offset,
            later.commit_lsn,
            later.committed_at_us,
            min(times, default=None),
            sorted([*self.canary, *other.canary], key=lambda run: run.offset),
        )

    def add(self, other: Note) -> None:
        """The same in place."""
        total = self.plus(other)
        for name in self.__struct_fields__:
            setattr(self, name, getattr(total, name))


def counted(known: int | None, runs: Iterable[Run]) -> tuple[int | None, str]:
    """The last number of the canary after these, and what is missing before one of them, in words. One that was there
    already comes again where the connector was cut off (cdc/resuming.py)."""
    missing = ""
    for run in runs:
        if known is not None and run.first > known + 1 and not missing:
            missing = f"the canary says {run.first} after {known}, at offset {run.offset}"
        known = run.last if known is None else max(known, run.last)
    return known, missing


def hand_out(
    batches: Iterable[pa.RecordBatch], nodes: Mapping[TableName, int], note: Note
) -> Iterator[tuple[int, pa.Table]]:
    """For each table's node its records; changes of the catalog go to all. The note is filled in on the way."""
    everybody = tuple(nodes.values())
    for batch in batches:
        offsets = batch.column("offset").to_pylist()
        written = batch.column("written_at_ms").to_pylist()
        values = batch.column("value").to_pylist()
        chosen: dict[int, list[int]] = {}
        last: int | None = None
        for row, value in enumerate(values):
            if value is None:
                continue
            if value.startswith(_MARKER):
                last = row if value.startswith(_END) else last
                continue
            table = table_of(value)
            if table is None:
                continue
            note.events += 1
            if table == SNAPSHOT_END and _INCREMENTAL not in value and (found := _NUMBER.search(value)):
                _tell(note.canary, offsets[row], int(found[1]))
            if value.find(_READ, -160) >= 0:
                note.snapshot_rows += 1
                source = value.rfind(b',"source":{')
                note.is_last_of_snapshot |= value.find(_LAST, source) >= 0
                if table == SNAPSHOT_END and value.find(_INCREMENTAL, source) >= 0:
                    note.marked_offset = offsets[row]
                last = row
            for node in everybody if table == CATALOG_TABLE else (nodes[table],) if table in nodes else ():
                chosen.setdefault(node, []).append(row)
        _noted(note, offsets, written, values, last)
        for node, rows in chosen.items():
            yield node, pa.Table.from_batches([batch.select(RECORDS.names)]).take(pa.array(rows))


def _tell(runs: list[Run], offset: int, number: int) -> None:
    last = runs[-1] if runs else None
    if last is not None and number in (last.last, last.last + 1):
        runs[-1] = Run(last.offset, last.first, number)
    else:
        runs.append(Run(offset, number, number))


def _noted(note: Note, offsets: list[int], written: list[int], values: list[bytes | None], last: int | None) -> None:
    if not offsets:
        return
    note.records += len(offsets)
    note.last_offset = max(note.last_offset, offsets[-1])
    oldest = min(written)
    note.oldest_written_at_ms = oldest if note.oldest_written_at_ms is None else min(oldest, note.oldest_written_at_ms)
    if last is None or offsets[last] <= note.commit_offset:
        return
    entry = parse(Record(Position(0, offsets[last]), written[last], None, values[last]))
    if isinstance(entry, End):
        note.commit_offset, note.commit_lsn = offsets[last], entry.commit_lsn.value
        note.committed_at_us = int(entry.at.timestamp() * 1_000_000)
    elif isinstance(entry, ChangeEvent) and entry.snapshot not in (None, Snapshot.INCREMENTAL):
        note.commit_offset, note.commit_lsn = offsets[last], entry.lsn.value
        note.committed_at_us = int(entry.event_at.timestamp() * 1_000_000)
