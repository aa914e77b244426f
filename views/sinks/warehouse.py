"""The warehouse: a view as Delta tables, for SQL and for looking back.

    <folder>/<source>/<view>/g<generation>/history   every version of every row: append only
    <folder>/<source>/<view>/g<generation>/current   the row of each key, merged: the newest version wins
    <folder>/<source>/<view>/live                    the generation that readers use

A history row has `_version` (offset in the view's topic), `_gone`, and the commit it came with: `_position`, `_lsn`,
`_committed_at`. A version is valid until the next one of its key begins; readers compute that
(headwater/warehouse_sql.py). The history is written first, then the current rows; each commit carries the mark, and the
mark that counts is the current table's. Deletions stay in the history, so a stale upsert finds them however late it
comes. Current rows that were lost are made again from the history; a history that others wrote to is filled anew.

What fills a history is the view's topic, which has every version for a day only. So a history says from which version
on it is whole (wholeness.py), and a generation takes over what the one before it knew (`inherit`).

A generation has one shape: a view with other columns is a new generation. All of it runs in whatever process it is
called from, with delta-rs: no JVM. The folder is a local one, or mounted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from cdc.archive_delta import DeltaFolder, Snapshot, quoted, remove_folder
from cdc.errors import SinkError, SinkUnavailable
from views.json_rows import json_rows
from views.plan import Field
from views.sinks.sink import Change, GoneKeys, HistorySink, Mark, Refused, Sink, SinkKind, ViewShape, fingerprint
from views.sinks.warehouse_bequest import Bequest, bequest
from views.sinks.warehouse_folders import CURRENT, HISTORY, live_generation, point_to, view_folder
from views.sinks.warehouse_merge import merge_of, restored, taken
from views.sinks.warehouse_notes import (
    Note,
    from_version,
    known_before,
    note_of,
    published,
    read_so_far,
    silent_stretches,
    together,
)
from views.sinks.warehouse_rows import RowParser
from views.sinks.warehouse_types import GONE, VERSION, Layout, decoded_name
from views.sinks.wholeness import read_on

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

VERSIONS_PER_DELETE: Final = 1_000
KEY_PROPERTY: Final = "headwater.key"
"""The key's columns, as JSON, in the properties of both tables: what readers need to order versions."""


@dataclass(frozen=True)
class Upkeep:
    """When a table's small files are put together, and when files that no reader needs any more are removed."""

    small_files_max: int = 40
    vacuum_every_s: float = 3600.0
    retain_hours: int = 1
    """A reader that began longer ago may miss files. Looking back goes by the history, not by Delta's versions."""


@dataclass(frozen=True)
class WarehouseKind(SinkKind):
    folder: str
    interval_s: float = 10.0
    upkeep: Upkeep = Upkeep()

    name = "warehouse"
    rows_per_apply_max = 100_000

    def open(self, shape: ViewShape, generation: int) -> WarehouseSink:
        return WarehouseSink(shape, view_folder(self.folder, shape.source, shape.view), generation, self.upkeep)

    def made_for(self, shape: ViewShape) -> str:
        return fingerprint(Layout.of(shape).partition_by)

    def current(self, source: str, view: str) -> int | None:
        return live_generation(view_folder(self.folder, source, view))

    def switch(self, source: str, view: str, generation: int | None) -> None:
        point_to(view_folder(self.folder, source, view), generation)


class WarehouseSink(HistorySink):
    def __init__(self, shape: ViewShape, folder: Path, generation: int, upkeep: Upkeep) -> None:
        self._shape, self._layout, self._upkeep = shape, Layout.of(shape), upkeep
        self._folder = folder / f"g{generation}"
        self._parser = RowParser(self._layout)
        self._history, self._current = DeltaFolder(self._folder / HISTORY), DeltaFolder(self._folder / CURRENT)
        self._known: tuple[str, str] | None = None
        """The ids of the tables that were last seen: who empties a place makes others."""
        self._vacuumed_at = time.monotonic()

    def prepare(self) -> None:
        """Makes the tables; current rows that were lost are restored from the history."""
        if not _is_good(self._history.look()):
            self._history.create(*self._made(self._layout.history, **{"delta.appendOnly": "true"}))
            self._current.remove()
        self._require_shape(self._history, self._layout.history)
        if not _is_good(self._current.look()):
            self._current.create(*self._made(self._layout.current))
            self._restore()
        self._require_shape(self._current, self._layout.current)
        self._known = None

    def mark(self) -> Mark | None:
        past, now = self._history.look(), self._current.look()
        self._known = None
        if past is None or now is None or not (_is_good(past) and _is_good(now)):
            return None
        self._known = past.id, now.id
        note = note_of(now.last)
        is_complete = known_before(note_of(past.last)) >= known_before(note)
        return note.mark if note is not None and is_complete else None

    def apply(self, changes: Sequence[Change], mark: Mark, steps: Sequence[Mark] = ()) -> list[Refused]:
        """With `steps` a version in the history has the commit that it came with, without them that of the batch's
        end."""
        past, now = self._required()
        batch, refused = self._parser.parse(changes, [*steps, mark])
        before = note_of(past.last)
        known = known_before(before)
        append, merge = taken(self._layout, batch, known, lambda: _dataset(past))
        read = read_so_far(before, note_of(now.last), mark)
        silent = silent_stretches(changes, read.next_offset, mark.next_offset)
        news = [told for told in published(changes, [*steps, mark]) if told[0] >= read.next_offset]
        read = read_on(read, sorted(news), mark.next_offset, time.time_ns() // 1000)
        note = Note(
            mark,
            max(known, pc.max(append[VERSION]).as_py() + 1) if append.num_rows else known,
            read.whole_from,
            max(read.told_at_us, mark.published_at_us),
            before.inherited_from if before is not None else None,
            together(before.silent if before is not None else (), silent),
        )
        if append.num_rows or before is None or before.whole_from != note.whole_from:
            past.append(append, note)
        self._keep(now, merge, note)
        return refused

    def inherit(self, other: Sink) -> Iterator[int]:
        while isinstance(other, WarehouseSink):
            past, theirs = self._looked(self._history), other._history.look()
            note, known = note_of(past.last), note_of(theirs.last if theirs is not None else None)
            if note is None or known is None or theirs is None or not self._can_inherit(other, theirs, known, note):
                return
            until = note.is_whole_from if note.inherited_from is None else note.inherited_from
            found = bequest(self._layout, _dataset(past), _dataset(theirs), until)
            if found is None and (note.inherited_from is not None or known.is_whole_from >= note.is_whole_from):
                return
            found = found or Bequest(self._layout.history.empty_table(), until, is_last=True)
            whole_from = known.is_whole_from if found.is_last else max(found.start, known.is_whole_from)
            whole_from = min(note.is_whole_from, whole_from)
            taken_over = msgspec.structs.replace(
                note,
                whole_from=whole_from,
                inherited_from=found.start,
                silent=together(from_version(note.silent, note.is_whole_from), known.silent),
            )
            past.append(found.rows, taken_over)
            yield found.rows.num_rows

    def _can_inherit(self, other: WarehouseSink, theirs: Snapshot, known: Note, note: Note) -> bool:
        """It is of the same shape, and knows everything up to what is here."""
        names = (known.mark.topic_id, known.mark.since), (note.mark.topic_id, note.mark.since)
        is_same = names[0] == names[1] and _columns(theirs) == _columns(self._looked(self._history))
        mark = other.mark()
        return is_same and _is_good(theirs) and mark is not None and mark.next_offset >= note.is_whole_from

    def rows(self) -> Iterator[bytes]:
        fields = [Field(column.name, column.stored) for column in self._layout.columns]
        named = [decoded_name(field.name) for field in fields]
        original = [Field(name, field.type) for name, field in zip(named, fields, strict=True)]
        for batch in self._batches(self._readable(), [field.name for field in fields]):
            yield from json_rows(original, pa.Table.from_batches([batch]).rename_columns(named)).to_pylist()

    def read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Files whose least and greatest key leave no room for them are not opened, unless the key is text."""
        if not keys:
            return {}
        wanted, changes = set(keys), [Change(key, None, number) for number, key in enumerate(keys)]
        asked, _ = self._parser.parse(changes, [Mark("", 0)])
        fields = [Field(column.field.name, column.stored) for column in self._layout.columns]
        columns, among = [column.name for column in self._layout.columns], _among(self._layout.key, asked)
        table = self._readable()
        # delta-rs gives the least and greatest text of a file as string views, which Arrow cannot compare.
        is_text = any(_is_text(asked.schema.field(name).type) for name in self._layout.key)
        batches = self._batches(table, columns, None if is_text else among)
        empty = pa.schema([table.schema.field(name) for name in columns]).empty_table()
        found = pa.concat_tables([empty, *(pa.Table.from_batches([batch]).filter(among) for batch in batches)])
        rows = json_rows(fields, found.rename_columns([field.name for field in fields])).to_pylist()
        return {key: row for row in rows if (key := self._key_of(row)) in wanted}

    def _readable(self) -> Dataset:
        """The current rows, which are of another shape while a changed view's next generation is filled."""
        found = _dataset(self._looked(self._current))
        lacking = {column.name for column in self._layout.columns} - set(found.schema.names)
        if lacking:
            raise self._lost(f"it does not hold {', '.join(sorted(lacking))} yet")
        return found

    def _batches(
        self, table: Dataset, columns: list[str], among: pc.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Readers may have gone over to another generation, and this one may go, while it is read."""
        try:
            yield from table.to_batches(columns=columns, filter=among)
        except FileNotFoundError as error:
            raise self._lost(str(error)) from error

    def _key_of(self, row: bytes) -> bytes:
        values = msgspec.json.decode(row, type=dict[str, msgspec.Raw])
        return msgspec.json.encode({name: values[name] for name in self._shape.key})

    def remembered(self, gone: GoneKeys, is_theirs: Callable[[bytes], bool]) -> int:
        return len(self._versions(gone, is_theirs))

    def forget(self, gone: GoneKeys, is_theirs: Callable[[bytes], bool]) -> int:
        """Versions leave the history with their files, and the current rows' old files go. A reader that is under way
        may miss them."""
        found = self._versions(gone, is_theirs)
        for start in range(0, len(found), VERSIONS_PER_DELETE):
            part = ", ".join(map(str, found[start : start + VERSIONS_PER_DELETE]))
            self._history.erase(f"{quoted(VERSION)} IN ({part})")
        if found:
            self._current.purge()
        return len(found)

    def _versions(self, gone: GoneKeys, is_theirs: Callable[[bytes], bool]) -> list[int]:
        """All of the keys; of others those that are theirs, but not the newest: that is what the view says today."""
        versions, theirs = list[int](), dict[int, bytes]()
        newest: dict[bytes, int] = {}
        fields = [Field(column.field.name, column.stored) for column in self._layout.columns]
        names = [column.name for column in self._layout.columns]
        found = self._history.look()
        for batch in _dataset(found).to_batches(columns=[*names, VERSION]) if found is not None else ():
            table = pa.Table.from_batches([batch])
            rows = json_rows(fields, table.select(names).rename_columns([field.name for field in fields])).to_pylist()
            for row, version in zip(rows, table[VERSION].to_pylist(), strict=True):
                key = self._key_of(row)
                newest[key] = max(version, newest.get(key, -1))
                if key in gone:
                    versions.append(version)
                elif is_theirs(row):
                    theirs[version] = key
        return sorted([*versions, *(version for version, key in theirs.items() if newest[key] != version)])

    def drop(self) -> None:
        remove_folder(self._folder)

    def close(self) -> None: ...

    def tend(self) -> None:
        for table in (self._history, self._current):
            if self._looked(table).small_files() > self._upkeep.small_files_max:
                self._looked(table).compact()
        if time.monotonic() - self._vacuumed_at >= self._upkeep.vacuum_every_s:
            self.vacuum()

    def vacuum(self) -> None:
        """Removes files that merges and compaction have left behind, once they are older than the retention."""
        for table in (self._history, self._current):
            self._looked(table).vacuum()
        self._vacuumed_at = time.monotonic()

    def _keep(self, now: Snapshot, rows: pa.Table, note: Note) -> None:
        """The current rows, and with them the mark."""
        if rows.num_rows and now.table.file_uris():
            now.merge(rows, merge_of(self._layout, rows), note)
        else:
            now.append(rows.filter(pc.invert(rows[GONE])).drop_columns([GONE]), note)

    def _restore(self) -> None:
        past, now = self._looked(self._history), self._looked(self._current)
        note = note_of(past.last)
        if note is not None:
            rows = restored(self._layout, _dataset(past))
            now.append(pa.RecordBatchReader.from_batches(self._layout.current, rows), note)

    def _required(self) -> tuple[Snapshot, Snapshot]:
        """Both tables, as they were left: what was emptied must not claim what it lost."""
        past, now = self._looked(self._history), self._looked(self._current)
        known = past.id, now.id
        if not (past.is_ours and now.is_ours) or self._known not in (None, known):
            raise self._lost("somebody else has written to it, or made it anew")
        self._known = known
        return past, now

    def _looked(self, folder: DeltaFolder) -> Snapshot:
        found = folder.look()
        if found is None:
            raise self._lost(f"nothing in {folder.path}")
        return found

    def _lost(self, detail: str) -> SinkUnavailable:
        return SinkUnavailable(
            f"the warehouse has lost {self._shape.view}", detail=detail, hint="headwater status: it is filled again"
        )

    def _made(self, schema: pa.Schema, **properties: str) -> tuple[pa.Schema, dict[str, str], tuple[str, ...]]:
        given = {
            KEY_PROPERTY: msgspec.json.encode(self._layout.key).decode(),
            "delta.dataSkippingStatsColumns": ",".join(f"`{name}`" for name in self._layout.skipped_by()),
            "delta.deletedFileRetentionDuration": f"interval {self._upkeep.retain_hours} hours",
            "delta.logRetentionDuration": f"interval {self._upkeep.retain_hours} hours",
            **properties,
        }
        return schema, given, self._layout.partition_by

    def _require_shape(self, folder: DeltaFolder, wanted: pa.Schema) -> None:
        table = folder.open()
        found = pa.schema(table.schema().to_arrow()) if table is not None else pa.schema([])
        if [(field.name, str(field.type)) for field in found] != [(f.name, str(f.type)) for f in _listed(wanted)]:
            raise SinkError(
                f"the warehouse holds {self._shape.view} in another shape",
                detail=f"in {folder.path}",
                hint="a view with other columns is a new generation",
            )


def _among(columns: Sequence[str], keys: pa.Table) -> pc.Expression | None:
    """Rows that may have one of the keys: each column by itself, so there may be others."""
    found: pc.Expression | None = None
    for name in columns:
        values = keys[name].combine_chunks()
        one = pc.field(name).isin(values.drop_null())
        one = one | pc.field(name).is_null() if values.null_count else one
        found = one if found is None else found & one
    return found


def _is_text(kind: pa.DataType) -> bool:
    plain = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(plain or kind in (pa.string_view(), pa.binary_view()))


def _is_good(found: Snapshot | None) -> bool:
    return found is not None and found.is_ours and found.is_whole


def _dataset(found: Snapshot) -> Dataset:
    return found.table.to_pyarrow_dataset(schema=pa.schema(found.table.schema().to_arrow()))


def _columns(found: Snapshot) -> list[tuple[str, str]]:
    return [(field.name, str(field.type)) for field in pa.schema(found.table.schema().to_arrow())]


def _listed(schema: pa.Schema) -> list[pa.Field]:
    from deltalake import Schema

    return list(pa.schema(Schema.from_arrow(schema).to_arrow()))
