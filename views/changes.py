"""From a view's delta to what its topic carries: for each key, the row as it was and as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cdc.errors import ViewError
from cdc.pgtypes import Date, Timestamp, TimestampTz
from views.columns import plain
from views.keys import KeyCodec, KeyType
from views.plan import Field
from views.zset import WEIGHT


@dataclass(frozen=True, slots=True)
class Delta:
    """One key of a view: `before` is None where it had no row, `after` where it has none."""

    view: str
    key: tuple[object, ...]
    before: Mapping[str, object] | None
    after: Mapping[str, object] | None


def changes(view: str, fields: Sequence[Field], key: Sequence[str], delta: pa.Table) -> list[Delta]:
    """The changes of a view by key, in the order of their first appearance in a consolidated delta.

    Raises ViewError where two rows share a key: then the key is none.
    """
    named = {field.name: field for field in fields}
    codec = KeyCodec(tuple(KeyType(named[name].type.arrow, named[name].type.postgres) for name in key))
    keys = codec.encode([delta[name] for name in key], delta.num_rows)
    columns = {name: python_values(delta[name]) for name in named}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    sides: dict[bytes, list[dict[str, object] | None]] = {}
    for at, row, weight in zip(keys, rows, delta[WEIGHT].to_pylist(), strict=True):
        side = sides.setdefault(at, [None, None])
        place = 1 if weight > 0 else 0
        if abs(weight) != 1 or side[place] is not None:
            raise _shared(view, {name: row[name] for name in key})
        side[place] = row
    found = []
    for before, after in sides.values():
        known = after or before or {}
        found.append(Delta(view, tuple(known[name] for name in key), before, after))
    return found


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """As cdc.pgtypes has them: Python's own dates end in the year 9999 and have no infinity."""
    array = plain(column)
    kind = array.type
    if pa.types.is_date32(kind):
        return [None if value is None else Date(value) for value in array.view(pa.int32()).to_pylist()]
    if pa.types.is_timestamp(kind):
        wrap = Timestamp if kind.tz is None else TimestampTz
        return [None if value is None else wrap(value) for value in array.view(pa.int64()).to_pylist()]
    if pa.types.is_list(kind):
        items = python_values(array.flatten())
        lengths = pa.compute.list_value_length(array).to_pylist()
        at = 0
        lists: list[list[Any] | None] = []
        for length in lengths:
            lists.append(None if length is None else items[at : at + length])
            at += length or 0
        return lists
    found: list[Any] = array.to_pylist()
    return found


def _shared(view: str, key: Mapping[str, object]) -> ViewError:
    return ViewError(
        f"two rows of {view} have the same key",
        detail=", ".join(f"{name} = {value!r}" for name, value in key.items()),
        hint=f"name columns that tell its rows apart: CREATE MATERIALIZED VIEW {view} WITH (key = '…')",
    )
