"""Rows as bytes in an arrangement: compact, canonical (the same values are the same bytes), and made column by column.

    bitmap of NULLs | fixed-width values, little-endian | u32 length of each other value | those values

An array is its length, the lengths of its elements and the elements; elements and composites are rows themselves.
Unlike keys, rows keep what Postgres prints apart though it compares equal (-0.0 and 0.0, 1.0 and 1.00): a row that
leaves a multiset must be the one that came. All of it is numpy and Arrow: no value becomes a Python object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from views.columns import (
    Bytes,
    Flags,
    Ints,
    as_list,
    binaries,
    byte_strings,
    joined,
    joined_lists,
    nulls,
    plain,
    plain_type,
    raw,
)

DECODED_BYTES_MAX: Final = 1 << 30
"""Bytes of rows that are decoded at once: Arrow's views have 31 bits."""
_VIEW_INLINE_MAX: Final = 12
_U32: Final = np.dtype("<u4")


@dataclass(frozen=True)
class RowCodec:
    schema: pa.Schema

    @cached_property
    def _layout(self) -> _Layout:
        return _Layout([plain_type(kind) for kind in self.schema.types])

    def encode(self, table: pa.Table) -> list[bytes]:
        return byte_strings(self.encoded(table))

    def encoded(self, table: pa.Table) -> pa.Array:
        """The same, still in Arrow."""
        return self._layout.encode([plain(column) for column in table.columns], table.num_rows)

    def decode(self, rows: Sequence[bytes]) -> pa.Table:
        """The inverse, in the same order."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        pieces = [self._decode(rows[a:b], lengths[a:b]) for a, b in _pieces(lengths)]
        return pa.concat_tables(pieces) if pieces else self.schema.empty_table()

    def _decode(self, rows: Sequence[bytes], lengths: Ints) -> pa.Table:
        data = np.frombuffer(b"".join(rows), np.uint8)
        columns = self._layout.decode(data, np.cumsum(lengths) - lengths)
        arrays = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(columns, self.schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)


class _Layout:
    """Where each column stands in a row."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._types = types
        self._bitmap = (len(types) + 7) // 8
        self._starts: list[int] = []
        at = self._bitmap
        for kind in types:
            self._starts.append(at)
            width = _width(kind)
            at += _U32.itemsize if width is None else width
        self._head = at

    def encode(self, columns: Sequence[pa.Array], count: int) -> pa.Array:
        head = np.zeros((count, self._head), np.uint8)
        tails: list[pa.Array] = []
        for place, (column, start) in enumerate(zip(columns, self._starts, strict=True)):
            missing = nulls(column)
            head[:, place >> 3] |= missing.astype(np.uint8) << np.uint8(place & 7)
            width = _width(column.type)
            if width is None:
                tail = _variable(column)
                values = _lengths(tail).astype(_U32).view(np.uint8).reshape(count, _U32.itemsize)
                tails.append(tail)
            else:
                values = raw(_canonical(column), width)
            head[:, start : start + values.shape[1]] = values
            if width is not None:
                head[missing, start : start + width] = 0
        return joined([binaries(head), *tails])

    def decode(self, data: Bytes, at: Ints) -> list[pa.Array]:
        """The columns of the rows that begin at the places given."""
        if not len(at):
            return [pa.array([], kind) for kind in self._types]
        head = (
            np.lib.stride_tricks.sliding_window_view(data, self._head)[at]
            if self._head
            else np.zeros((len(at), 0), np.uint8)
        )
        columns: list[pa.Array] = []
        at = at + self._head
        for place, (kind, start) in enumerate(zip(self._types, self._starts, strict=True)):
            missing = (head[:, place >> 3] >> np.uint8(place & 7) & 1).astype(np.bool_)
            width = _width(kind)
            if width is not None:
                columns.append(_from_raw(kind, np.ascontiguousarray(head[:, start : start + width]), missing))
                continue
            lengths = _u32(head, start)
            columns.append(_from_variable(kind, data, at, lengths, missing))
            at = at + lengths
        return columns


def _width(kind: pa.DataType) -> int | None:
    """In bytes; None for those that differ from value to value."""
    if pa.types.is_boolean(kind):
        return 1
    if pa.types.is_null(kind):
        return 0
    if pa.types.is_nested(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind):
        return None
    return int(kind.bit_width) // 8


def _canonical(column: pa.Array) -> pa.Array:
    """One NaN, so that a row with NaN is found again."""
    if not pa.types.is_floating(column.type) or not pc.any(pc.is_nan(column)).as_py():
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), column)


def _variable(column: pa.Array) -> pa.Array:
    """Each value as bytes, NULLs empty."""
    kind = column.type
    if pa.types.is_struct(kind):
        parts = [plain(part) for part in column.flatten()]
        values = _Layout([part.type for part in parts]).encode(parts, len(column))
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        values = _lists(column)
    else:
        values = column.cast(pa.binary())
    return values.fill_null(b"") if values.null_count else values


def _lists(column: pa.Array) -> pa.Array:
    column = as_list(column)
    items = plain(column.flatten())
    counts = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    encoded = _Layout([items.type]).encode([items], len(items))
    lengths = binaries(_lengths(encoded).astype(_U32).view(np.uint8).reshape(len(items), _U32.itemsize))
    heads = binaries(counts.astype(_U32).view(np.uint8).reshape(len(column), _U32.itemsize))
    return joined([heads, joined_lists(counts, lengths), joined_lists(counts, encoded)])


def _lengths(values: pa.Array) -> Ints:
    lengths: Ints = pc.binary_length(values).to_numpy(zero_copy_only=False)
    return lengths


def _u32(head: Bytes, start: int) -> Ints:
    part = np.ascontiguousarray(head[:, start : start + _U32.itemsize])
    return part.view(_U32).reshape(len(head)).astype(np.int64)


def _validity(missing: Flags) -> pa.Buffer | None:
    return pa.py_buffer(np.packbits(~missing, bitorder="little")) if missing.any() else None


def _from_raw(kind: pa.DataType, values: Bytes, missing: Flags) -> pa.Array:
    if pa.types.is_null(kind):
        return pa.nulls(len(values))
    if pa.types.is_boolean(kind):
        bits = pa.py_buffer(np.packbits(values[:, 0].astype(np.bool_), bitorder="little"))
        return pa.Array.from_buffers(kind, len(values), [_validity(missing), bits])
    return pa.Array.from_buffers(kind, len(values), [_validity(missing), pa.py_buffer(values)])


def _from_variable(kind: pa.DataType, data: Bytes, at: Ints, lengths: Ints, missing: Flags) -> pa.Array:
    if pa.types.is_struct(kind):
        return _from_structs(kind, data, at, missing)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return _from_lists(kind, data, at, missing)
    views = np.zeros((len(at), 16), np.uint8)
    views[:, :4] = lengths.astype(np.int32).view(np.uint8).reshape(-1, 4)
    padded = np.concatenate([data, np.zeros(16, np.uint8)])
    begin = np.lib.stride_tricks.sliding_window_view(padded, _VIEW_INLINE_MAX)[at]
    inline = np.minimum(lengths, np.where(lengths > _VIEW_INLINE_MAX, 4, _VIEW_INLINE_MAX))
    views[:, 4:] = np.where(np.arange(_VIEW_INLINE_MAX) < inline[:, None], begin, 0)
    outside = lengths > _VIEW_INLINE_MAX
    views[outside, 12:] = at[outside].astype(np.int32).view(np.uint8).reshape(-1, 4)
    buffers = [_validity(missing), pa.py_buffer(views), pa.py_buffer(padded)]
    return pc.cast(pa.Array.from_buffers(pa.binary_view(), len(at), buffers), pa.binary()).view(kind)


def _from_structs(kind: pa.DataType, data: Bytes, at: Ints, missing: Flags) -> pa.Array:
    present = np.flatnonzero(~missing)
    children = _Layout([field.type for field in kind]).decode(data, at[present])
    whole = _spread(present, len(at))
    fields = [child.take(whole) for child in children]
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=pa.array(missing))


def _spread(present: Ints, count: int) -> pa.Array:
    """For each of `count` rows its place among those present, or NULL."""
    places = np.full(count, -1, np.int64)
    places[present] = np.arange(len(present))
    return pa.array(places, mask=places < 0)


def _from_lists(kind: pa.DataType, data: Bytes, at: Ints, missing: Flags) -> pa.Array:
    counts = np.zeros(len(at), np.int64)
    present = np.flatnonzero(~missing)
    if len(present):
        counts[present] = _u32(np.lib.stride_tricks.sliding_window_view(data, _U32.itemsize)[at[present]], 0)
    offsets = np.zeros(len(at) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    items = _from_items(_item_type(kind), data, at, counts)
    placed = pa.array(offsets, mask=np.append(missing, False)) if missing.any() else pa.array(offsets)
    if pa.types.is_map(kind):
        keys, values = items.flatten()
        return pa.MapArray.from_arrays(placed, keys, values, type=kind)
    return pa.ListArray.from_arrays(placed, items, type=kind)


def _item_type(kind: pa.DataType) -> pa.DataType:
    return pa.struct([("key", kind.key_type), ("value", kind.item_type)]) if pa.types.is_map(kind) else kind.value_type


def _from_items(kind: pa.DataType, data: Bytes, at: Ints, counts: Ints) -> pa.Array:
    """The elements of all lists: after a list's count come its elements' lengths, then the elements."""
    total = int(counts.sum())
    if total == 0:
        return pa.array([], kind)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    within = np.arange(total) - first
    length_at = np.repeat(at + _U32.itemsize, counts) + within * _U32.itemsize
    lengths = _u32(np.lib.stride_tricks.sliding_window_view(data, _U32.itemsize)[length_at], 0)
    before = np.cumsum(lengths) - lengths
    starts = np.repeat(at + _U32.itemsize * (1 + counts), counts) + before - before[first]
    return _Layout([kind]).decode(data, starts)[0]


def _pieces(lengths: Ints) -> list[tuple[int, int]]:
    """Ranges of rows of no more bytes than can be decoded at once."""
    if not len(lengths):
        return []
    group = np.cumsum(lengths) // DECODED_BYTES_MAX
    cuts = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(lengths)]
    return list(pairwise(cuts))
