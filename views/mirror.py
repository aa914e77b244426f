"""A captured table as it is now, kept from its change events: the first stage of every view.

    ChangeEvents of one table, in the log's order ─▶ the table's delta: -1 for rows as they were, +1 as they are

Only the net effect of an epoch comes out. With a key, the mirror holds one row a key, and its own memory, not the log,
says what a row was: updates need no old row, large values that an update left alone (UNCHANGED) are filled in, a row
that is read again or inserted twice takes the place of itself. Without a key (REPLICA IDENTITY FULL) it holds a
multiset. Events at or before the last position applied are ignored. Only the columns that views use are kept, and the
key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.catalog import FULL, Column, Table
from cdc.errors import DecodeError, StateError
from cdc.events import UNCHANGED, ChangeEvent, Op, Row
from cdc.position import Position
from views.arrangement import Arrangement, Entries, Output, Writing
from views.arrangement.environment import REPAIR
from views.keys import KeyCodec, KeyType
from views.rows import RowCodec
from views.zset import WEIGHT, consolidate, weighted

ROWS_PER_CHUNK: Final = 65_536
ROWS, _APPLIED = "rows", "applied"
_POSITION: Final = b"position"


@dataclass(frozen=True, slots=True)
class _Version:
    """A row as an event has it. Values that it left alone are those of the row stored under `base`."""

    values: dict[str, object]
    base: bytes | None


@dataclass(frozen=True)
class Mirror:
    """One table's."""

    table: Table
    columns: frozenset[str]
    """Those that views use."""
    gone: frozenset[str] = frozenset()
    """Of those, the ones that the table no longer has: only views that are paused use them."""

    tables = (ROWS, _APPLIED)

    @cached_property
    def kept(self) -> tuple[Column, ...]:
        wanted = self.columns | set(self.table.key)
        return tuple(column for column in self.table.columns if column.name in wanted)

    @cached_property
    def identity(self) -> str:
        """What its state holds: another shape of the table has another."""
        columns = ", ".join(f"{column.name} {column.type}" for column in self.kept)
        return f"{self.table.relation} ({columns}) key ({', '.join(self.table.key)})"

    @cached_property
    def codec(self) -> RowCodec:
        return RowCodec(pa.schema([(column.name, column.type.arrow) for column in self.kept]))

    @cached_property
    def schema(self) -> pa.Schema:
        return self.codec.schema.append(pa.field(WEIGHT, pa.int64()))

    def apply(self, epoch: int, events: Sequence[ChangeEvent], arrangement: Arrangement) -> pa.Table:
        return self.run(epoch, events, arrangement).table(self.schema)

    def run(self, epoch: int, events: Sequence[ChangeEvent], arrangement: Arrangement) -> Output:
        """The table's delta, in chunks. The events must be this table's, in order of position."""
        return arrangement.step(epoch, lambda writing: self.work(writing, events))

    def work(self, writing: Writing, events: Sequence[ChangeEvent]) -> Iterator[pa.Table]:
        """The same inside a transaction that is under way."""
        applied = writing.entries(_APPLIED)
        stored = applied.read([_POSITION]).get(_POSITION)
        last = None if stored is None else Position.parse(stored.decode())
        fresh = _fresh(events, last)
        if not fresh:
            return
        yield from (
            _Keyed(self, writing.entries(ROWS)).work(fresh) if self.table.key else self._multiset(writing, fresh)
        )
        applied.write([(_POSITION, str(fresh[-1].position).encode())])

    def take(self, writing: Writing, other: Mirror, stored: Writing) -> Iterator[pa.Table]:
        """Begins with the rows that another mirror of the table holds, which keeps these columns and maybe more."""
        for keys, rows, counts in other._held(stored):
            kept = other.codec.decode(rows).select(self.codec.schema.names)
            encoded = self.codec.encode(kept)
            if self.table.key:
                writing.entries(ROWS).write(zip(keys, encoded, strict=True))
            else:
                multiset = writing.multiset(ROWS)
                multiset.write(multiset.changes(keys, encoded, counts))
            yield consolidate(weighted(kept, np.array(counts, np.int64)))
        writing.entries(_APPLIED).write(stored.entries(_APPLIED).read([_POSITION]).items())

    def _held(self, stored: Writing) -> Iterator[tuple[list[bytes], list[bytes], list[int]]]:
        """Everything, in chunks: keys, rows, how often each is there."""
        if not self.table.key:
            for chunk in stored.multiset(ROWS).everything(ROWS_PER_CHUNK):
                yield [b""] * len(chunk.rows), chunk.rows, chunk.counts
            return
        entries = stored.entries(ROWS).all()
        while held := _some(entries, ROWS_PER_CHUNK):
            yield [key for key, _ in held], [row for _, row in held], [1] * len(held)

    def _multiset(self, writing: Writing, events: Sequence[ChangeEvent]) -> Iterator[pa.Table]:
        rows = writing.multiset(ROWS)
        values: list[dict[str, object]] = []
        weights: list[int] = []
        for event in events:
            if event.op is Op.TRUNCATE:
                values, weights = [], []
                for chunk in rows.everything(ROWS_PER_CHUNK):
                    gone = [-count for count in chunk.counts]
                    yield weighted(self.codec.decode(chunk.rows), np.array(gone, np.int64))
                    rows.write(rows.changes([b""] * len(gone), chunk.rows, gone))
            for image, weight in ((event.before, -1), (event.after, 1)):
                if image is not None and event.op is not Op.TRUNCATE:
                    values.append(self.image(image))
                    weights.append(weight)
        delta = consolidate(weighted(self.arrow(values), np.array(weights, np.int64)))
        encoded = self.codec.encode(delta.drop_columns([WEIGHT]))
        rows.write(rows.changes([b""] * len(encoded), encoded, delta[WEIGHT].to_pylist()))
        yield delta

    @cached_property
    def _readers(self) -> tuple[tuple[str, bool], ...]:
        return tuple((c.name, c.may_be_absent or c.name in self.gone) for c in self.kept)

    def image(self, row: Row) -> dict[str, object]:
        """The kept columns of a row as it was written, typed. Columns that no view uses are not looked at."""
        try:
            part = {name: row[name] for name, may_be_absent in self._readers if name in row or not may_be_absent}
        except KeyError as error:
            raise DecodeError(
                f"a row of {self.table.name} has no column {error}",
                detail=f"it has {', '.join(sorted(row))}",
                hint="select headwater.refresh_catalog()",
            ) from None
        return self.table.decode_key(part)

    def old_image(self, row: Row) -> dict[str, object]:
        return self.image(row) if self.table.replica_identity == FULL else self.table.decode_before(row)

    def arrow(self, rows: Sequence[dict[str, object]]) -> pa.Table:
        """The kept columns of decoded rows; what an event left alone is NULL."""
        arrays = [self._array(column, [row.get(column.name) for row in rows]) for column in self.kept]
        return pa.Table.from_arrays(arrays, schema=self.codec.schema)

    def _array(self, column: Column, values: list[object]) -> pa.Array:
        convert = column.type.into_arrow
        try:
            if convert is not None:
                values = [v if v is None or v is UNCHANGED else convert(v) for v in values]
            return pa.array([None if v is UNCHANGED else v for v in values], column.type.arrow)
        except (ValueError, pa.ArrowException) as error:
            raise DecodeError(
                f"a value of {self.table.name}.{column.name} cannot be kept",
                detail=f"{column.type}: {error}",
                hint=f"headwater log tail --table {self.table.name}",
            ) from error

    def keys(self, rows: Sequence[dict[str, object]]) -> list[bytes]:
        columns = [self.table.by_name[name] for name in self.table.key]
        codec = KeyCodec(tuple(KeyType(column.type.arrow, column.type.spec.base) for column in columns))
        arrays = [self._array(column, [row[column.name] for row in rows]) for column in columns]
        return codec.encode(arrays, len(rows))


class _Keyed:
    """One epoch of a table with a key."""

    def __init__(self, mirror: Mirror, rows: Entries) -> None:
        self._mirror = mirror
        self._rows = rows
        self._now: dict[bytes, _Version | None] = {}
        """What each touched key holds after the events so far."""
        self._is_truncated = False
        self._as_stored: dict[str, object] = dict.fromkeys((column.name for column in mirror.kept), UNCHANGED)

    def work(self, events: Sequence[ChangeEvent]) -> Iterator[pa.Table]:
        olds = self._images(events, is_old=True)
        news = self._images(events, is_old=False)
        stored = self._rows.read({key for key, _ in (*olds.values(), *news.values())})
        deleted: tuple[ChangeEvent, _Version | None] | None = None
        for number, event in enumerate(events):
            if event.op is Op.TRUNCATE:
                self._now, self._is_truncated, deleted = {}, True, None
                continue
            moved = None
            if number in olds:
                key = olds[number][0]
                moved = self._holding(key, stored)
                self._now[key] = None
            if number in news:
                key, values = news[number]
                before = moved or self._holding(key, stored) or self._moved(event, deleted)
                self._now[key] = self._filled(event, values, before)
            deleted = (event, moved) if event.op is Op.DELETE else None
        yield from self._differences(stored)

    def _images(self, events: Sequence[ChangeEvent], *, is_old: bool) -> dict[int, tuple[bytes, dict[str, object]]]:
        """By event the row that goes or comes, with its key. An update has an old one if its key may have changed."""
        table = self._mirror.table
        found: dict[int, dict[str, object]] = {}
        for number, event in enumerate(events):
            image = event.before if is_old else event.after
            if image is None or event.op in (Op.TRUNCATE, Op.MESSAGE):
                continue
            row = self._mirror.old_image(image) if is_old else self._mirror.image(image)
            if all(name in row for name in table.key):
                found[number] = row
        keys = self._mirror.keys(list(found.values()))
        return {number: (key, row) for (number, row), key in zip(found.items(), keys, strict=True)}

    def _holding(self, key: bytes, stored: dict[bytes, bytes]) -> _Version | None:
        if key in self._now:
            return self._now[key]
        if self._is_truncated or key not in stored:
            return None
        return _Version(self._as_stored, key)

    def _moved(self, event: ChangeEvent, deleted: tuple[ChangeEvent, _Version | None] | None) -> _Version | None:
        """A change of key arrives as a delete and an insert of one place in the write-ahead log."""
        if deleted is None or event.op is not Op.INSERT:
            return None
        other, version = deleted
        return version if (other.xid, other.lsn) == (event.xid, event.lsn) else None

    def _filled(self, event: ChangeEvent, values: dict[str, object], before: _Version | None) -> _Version:
        missing = [c.name for c in self._mirror.kept if values.get(c.name) is UNCHANGED]
        if not missing:
            return _Version(values, None)
        if before is None:
            raise StateError(
                f"a large value of {event.table} is not known",
                detail=f"{', '.join(missing)} at {event.position} did not change, and the row before is not there",
                hint=REPAIR,
            )
        return _Version({**values, **{name: before.values.get(name) for name in missing}}, before.base)

    def _differences(self, stored: dict[bytes, bytes]) -> Iterator[pa.Table]:
        mirror = self._mirror
        if self._is_truncated:
            yield from self._emptied()
        gone = [stored[key] for key in self._now if key in stored] if not self._is_truncated else []
        there = [(key, version) for key, version in self._now.items() if version is not None]
        rows = self._completed([version for _, version in there], stored)
        olds = weighted(mirror.codec.decode(gone), -1)
        encoded = mirror.codec.encode(rows)
        self._rows.delete(key for key, version in self._now.items() if version is None)
        self._rows.write((key, row) for (key, _), row in zip(there, encoded, strict=True))
        yield consolidate(pa.concat_tables([olds, weighted(rows, 1)]))

    def _completed(self, versions: Sequence[_Version], stored: dict[bytes, bytes]) -> pa.Table:
        """Rows with the values that were left alone taken from what is stored."""
        rows = self._mirror.arrow([version.values for version in versions])
        bases = list(dict.fromkeys(version.base for version in versions if version.base is not None))
        if not bases:
            return rows
        known = self._mirror.codec.decode([stored[base] for base in bases])
        place = {base: number for number, base in enumerate(bases)}
        at = pa.array([None if v.base is None else place[v.base] for v in versions], pa.int64())
        columns = []
        for column, field in zip(self._mirror.kept, self._mirror.codec.schema, strict=True):
            left_alone = pa.array([version.values.get(column.name) is UNCHANGED for version in versions])
            columns.append(pc.if_else(left_alone, known[field.name].combine_chunks().take(at), rows[field.name]))
        return pa.Table.from_arrays(columns, schema=self._mirror.codec.schema)

    def _emptied(self) -> Iterator[pa.Table]:
        """Everything that is stored, taken out in chunks."""
        while chunk := _some(self._rows.all(), ROWS_PER_CHUNK):
            yield weighted(self._mirror.codec.decode([row for _, row in chunk]), -1)
            self._rows.delete([key for key, _ in chunk])


def _fresh(events: Iterable[ChangeEvent], last: Position | None) -> list[ChangeEvent]:
    """Those beyond the last position; also of an epoch that has an event twice."""
    found: list[ChangeEvent] = []
    for event in events:
        if last is None or event.position > last:
            found.append(event)
            last = event.position
    return found


def _some(entries: Iterable[tuple[bytes, bytes]], limit: int) -> list[tuple[bytes, bytes]]:
    return [entry for _, entry in zip(range(limit), entries, strict=False)]
