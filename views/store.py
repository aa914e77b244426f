"""A view as it is now, by key: the last stage of every view, and what its topic is written from.

    the view's delta ─▶ for each key that changed: the key, the row as it was, the row as it is; all as JSON

Its own memory says what a row was, so a change is exact whatever the order in which its parts arrive, and the view can
be read by key. A key that two rows share is refused: then it is none. A delta of any size is taken in bounded memory:
beyond some chunks it is gathered on disk, inside the epoch's transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import pyarrow as pa

from cdc.errors import ViewError
from views.arrangement import Arrangement, Entries, Output, Writing
from views.arrangement.tables import row_hash
from views.columns import byte_strings
from views.json_rows import json_rows
from views.keys import KEY_BYTES_MAX, KeyCodec, KeyType, shards_of
from views.plan import Field
from views.zset import WEIGHT, consolidate

ROWS_IN_MEMORY_MAX: Final = 100_000
ROWS_PER_CHUNK: Final = 20_000
SCHEMA: Final = pa.schema([("key", pa.binary()), ("before", pa.binary()), ("after", pa.binary())])
_ROWS, _PENDING = "rows", "pending"
_SUFFIX_BYTES: Final = 16
_LENGTH_BYTES: Final = 4


class _Row(NamedTuple):
    """A row of the view with how often it comes (negative: goes)."""

    key_json: bytes
    json: bytes
    weight: int


@dataclass(frozen=True)
class ViewStore:
    view: str
    fields: tuple[Field, ...]
    key: tuple[str, ...]

    tables = (_ROWS, _PENDING)

    @property
    def identity(self) -> str:
        columns = ", ".join(f"{field.name} {field.type}" for field in self.fields)
        return f"view {self.view} ({columns}) key ({', '.join(self.key)})"

    @cached_property
    def key_fields(self) -> tuple[Field, ...]:
        named = {field.name: field for field in self.fields}
        return tuple(named[name] for name in self.key)

    @cached_property
    def codec(self) -> KeyCodec:
        types = tuple(KeyType(field.type.arrow, field.type.postgres) for field in self.key_fields)
        return KeyCodec(types, KEY_BYTES_MAX)

    def keys(self, delta: pa.Table) -> list[bytes]:
        return self.codec.encode([delta[name] for name in self.key], delta.num_rows)

    def shards(self, delta: pa.Table, shards: int) -> list[int]:
        return shards_of(self.keys(delta), shards)

    def run(self, epoch: int, deltas: Iterable[pa.Table], arrangement: Arrangement) -> Output:
        """What changed, in chunks of SCHEMA. `deltas` is one delta in pieces, and can be read again."""
        return arrangement.step(epoch, lambda writing: self._work(writing, deltas))

    def _work(self, writing: Writing, deltas: Iterable[pa.Table]) -> Iterator[pa.Table]:
        rows, pending = writing.entries(_ROWS), writing.entries(_PENDING)
        held: dict[bytes, dict[bytes, _Row]] = {}
        count, is_spilled = 0, False
        for delta in deltas:
            self._add(held, delta)
            count += delta.num_rows
            if count > ROWS_IN_MEMORY_MAX:
                _spill(pending, held)
                held, count, is_spilled = {}, 0, True
        if is_spilled:
            _spill(pending, held)
        for part in _parts(_gathered(pending) if is_spilled else held.items()):
            yield self._changed(rows, part)
        if is_spilled:
            pending.clear()

    def _add(self, held: dict[bytes, dict[bytes, _Row]], delta: pa.Table) -> None:
        delta = consolidate(delta)
        json = byte_strings(json_rows(self.fields, delta))
        key_json = byte_strings(json_rows(self.key_fields, delta))
        for key, named, row, weight in zip(self.keys(delta), key_json, json, delta[WEIGHT].to_pylist(), strict=True):
            under = held.setdefault(key, {})
            known = under.get(row)
            under[row] = _Row(named, row, weight + (known.weight if known else 0))

    def _changed(self, rows: Entries, part: Mapping[bytes, list[_Row]]) -> pa.Table:
        stored = rows.read(part)
        found: list[tuple[bytes, bytes | None, bytes | None]] = []
        writes: list[tuple[bytes, bytes]] = []
        gone: list[bytes] = []
        for key, changed in part.items():
            before = stored.get(key)
            after = self._after(before, changed)
            if after == before:
                continue
            found.append((changed[0].key_json, before, after))
            if after is None:
                gone.append(key)
            else:
                writes.append((key, after))
        rows.delete(gone)
        rows.write(writes)
        columns = zip(*found, strict=True) if found else ([], [], [])
        return pa.Table.from_arrays([pa.array(column, pa.binary()) for column in columns], schema=SCHEMA)

    def _after(self, before: bytes | None, changed: list[_Row]) -> bytes | None:
        counts = {row.json: row.weight for row in changed}
        if before is not None:
            counts[before] = counts.get(before, 0) + 1
        left = [row for row, count in counts.items() if count]
        if any(counts[row] < 0 for row in left):
            raise ViewError(
                f"a row of {self.view} goes that was never there",
                detail=changed[0].key_json.decode(),
                hint=f"headwater verify {self.view} --repair",
            )
        if len(left) > 1 or any(counts[row] > 1 for row in left):
            raise ViewError(
                f"two rows of {self.view} have the same key",
                detail=changed[0].key_json.decode(),
                hint=f"name columns that tell its rows apart: CREATE MATERIALIZED VIEW {self.view} WITH (key = '…')",
            )
        return left[0] if left else None


def _spill(pending: Entries, held: Mapping[bytes, Mapping[bytes, _Row]]) -> None:
    """Adds the rows to those gathered on disk: under the key and the row's hash, its weight, its key and itself."""
    named = {key + row_hash(json): row for key, under in held.items() for json, row in under.items()}
    known = pending.read(named)
    writes = []
    for entry, row in named.items():
        weight = row.weight + (_unpacked(known[entry]).weight if entry in known else 0)
        length = len(row.key_json).to_bytes(_LENGTH_BYTES, "little")
        writes.append((entry, weight.to_bytes(8, "little", signed=True) + length + row.key_json + row.json))
    pending.write(writes)


def _unpacked(value: bytes) -> _Row:
    length = int.from_bytes(value[8 : 8 + _LENGTH_BYTES], "little")
    begin = 8 + _LENGTH_BYTES
    weight = int.from_bytes(value[:8], "little", signed=True)
    return _Row(value[begin : begin + length], value[begin + length :], weight)


def _gathered(pending: Entries) -> Iterator[tuple[bytes, dict[bytes, _Row]]]:
    """Key by key: the rows of one stand together, because keys are prefix-free."""
    last: bytes | None = None
    under: dict[bytes, _Row] = {}
    for entry, value in pending.all():
        key, row = entry[:-_SUFFIX_BYTES], _unpacked(value)
        if key != last and last is not None:
            yield last, under
            under = {}
        last = key
        under[row.json] = row
    if last is not None:
        yield last, under


def _parts(keys: Iterable[tuple[bytes, Mapping[bytes, _Row]]]) -> Iterator[dict[bytes, list[_Row]]]:
    part: dict[bytes, list[_Row]] = {}
    for key, under in keys:
        if changed := [row for row in under.values() if row.weight]:
            part[key] = changed
        if len(part) >= ROWS_PER_CHUNK:
            yield part
            part = {}
    if part:
        yield part
