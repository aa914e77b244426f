"""Arrow columns as the row and key codecs want them: one chunk, plain types, raw bytes through numpy. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
Ints: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

_NO_SEPARATOR: Final = pa.scalar(b"", pa.binary())


def plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array, without dictionaries, extension types and 64-bit offsets."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # no chunk, or too many bytes for one
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    wanted = plain_type(array.type)
    return array if array.type == wanted else pc.cast(array, wanted)


def plain_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, plain_type(field.type)) for field in kind])
    return kind


def as_list(array: pa.Array) -> pa.Array:
    """A map as the list of pairs that it is; a list as itself."""
    if not pa.types.is_map(array.type):
        return array
    whole = array.take(pa.array(np.arange(len(array)))) if array.offset else array
    pairs = pa.StructArray.from_arrays([whole.keys, whole.items], ["key", "value"])
    return pa.ListArray.from_arrays(whole.offsets, pairs, mask=whole.is_null())


def nulls(array: pa.Array) -> Flags:
    if array.null_count == 0:
        return np.zeros(len(array), np.bool_)
    found: Flags = array.is_null().to_numpy(zero_copy_only=False)
    return found


def raw(array: pa.Array, width: int) -> Bytes:
    """The values of a fixed-width column, a row of bytes each; what stands at a NULL is not defined."""
    if pa.types.is_boolean(array.type):
        array = pc.cast(array, pa.uint8())
    buffer = array.buffers()[1] if width else None
    if buffer is None:
        return np.zeros((len(array), width), np.uint8)
    flat: Bytes = np.frombuffer(buffer, np.uint8, len(array) * width, array.offset * width)
    return flat.reshape(len(array), width)


def binaries(matrix: Bytes) -> pa.Array:
    """Every row of bytes as one value."""
    count, width = matrix.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    data = pa.py_buffer(np.ascontiguousarray(matrix))
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), data])


def joined(pieces: Sequence[pa.Array]) -> pa.Array:
    """The pieces of each row, one after the other."""
    if len(pieces) == 1:
        return pieces[0]
    return pc.binary_join_element_wise(*pieces, _NO_SEPARATOR)


def joined_lists(counts: Ints, items: pa.Array) -> pa.Array:
    """The items, put together by groups of so many."""
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), items), _NO_SEPARATOR)


def byte_strings(array: pa.Array) -> list[bytes]:
    """A binary column without NULLs as Python's bytes; several times faster than to_pylist."""
    if len(array) == 0:
        return []
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4).tolist()
    content = data.to_pybytes() if data is not None else b""
    return [content[start:end] for start, end in pairwise(ends)]
