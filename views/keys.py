"""Keys of arrangements: values as bytes such that equal in Postgres means equal bytes, and bytes sort as the values do.

    NULL               02, after everything else; a value begins with 01
    numbers            big-endian with the sign flipped; floats with one zero and one NaN, which is greater than all
    numeric (text)     sign, exponent, digits: 1.0 and 1.00 are one, NaN is greater than infinity
    text, bytea        the bytes (collation C), ended by 00, and a 00 inside written 00 FF
    interval           its length as Postgres compares it: a month is 30 days, a day 24 hours
    jsonb              its text with keys in order and numbers normalised; equal where Postgres says so, but not ordered
    arrays, rows       their elements; an end sorts before any element

Every key is self-delimiting, so none is the beginning of another: all entries under a key share it as their prefix.
LMDB takes no more than 511 bytes: longer ones are replaced by a hash that no plain key begins like.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from hashlib import blake2b
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.errors import ViewError
from cdc.pgtypes.instants import MICROS_PER_DAY
from views.columns import (
    Bytes,
    Flags,
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

KEY_BYTES_MAX: Final = 511 - 40
"""What an arrangement may use of LMDB's 511; the rest is for what it appends."""
_HASHED: Final = b"\xff"
_HASH_BYTES: Final = 32
_PRESENT, _NULL, _END = b"\x01", b"\x02", b"\x00"
_DIGITS_MAX: Final = 38
_DAYS_PER_MONTH: Final = 30


@dataclass(frozen=True, slots=True)
class KeyType:
    """What is compared: the Arrow type, and Postgres' name for it where its text form alone does not tell equality."""

    arrow: pa.DataType
    postgres: str = ""

    @property
    def rule(self) -> str:
        """Of the types that travel as text, those whose equality is not that of their text."""
        if not pa.types.is_string(self.arrow):
            return ""
        name = self.postgres.partition("(")[0].strip()
        return {"bpchar": "character"}.get(name, name) if name in _TEXT_RULES or name == "bpchar" else ""


@dataclass(frozen=True, slots=True)
class KeyCodec:
    types: tuple[KeyType, ...]
    key_bytes_max: int | None = KEY_BYTES_MAX

    def encode(self, columns: Sequence[pa.Array | pa.ChunkedArray], count: int) -> list[bytes]:
        """The keys of `count` rows, within the limit."""
        if not self.types:
            return [b""] * count
        pairs = zip(columns, self.types, strict=True)
        keys = byte_strings(joined([_piece(_as(plain(column), kind), kind) for column, kind in pairs]))
        return keys if self.key_bytes_max is None else bounded(keys, self.key_bytes_max)


def any_null(columns: Sequence[pa.Array | pa.ChunkedArray], count: int) -> Flags:
    """Where a key has a NULL in it: such a key equals nothing in a join."""
    found = np.zeros(count, np.bool_)
    for column in columns:
        found |= nulls(plain(column))
    return found


def bounded(keys: list[bytes], key_bytes_max: int = KEY_BYTES_MAX) -> list[bytes]:
    if max(map(len, keys), default=0) <= key_bytes_max:
        return keys
    return [k if len(k) <= key_bytes_max else _HASHED + blake2b(k, digest_size=_HASH_BYTES).digest() for k in keys]


def shards_of(keys: Iterable[bytes], shards: int) -> list[int]:
    """The shard that each key lives on; the same on every machine and in every version."""
    return [zlib.crc32(key) % shards for key in keys]


def common(left: KeyType, right: KeyType) -> KeyType:
    """The type in which Postgres compares the two. Raises ViewError where there is none."""
    one, two = plain_type(left.arrow), plain_type(right.arrow)
    if one == two and left.rule == right.rule:
        return left
    if left.rule == "numeric" or right.rule == "numeric":
        return KeyType(pa.string(), "numeric")
    if pa.types.is_integer(one) and pa.types.is_integer(two):
        return KeyType(pa.int64())
    if _is_number(one) and _is_number(two):
        if pa.types.is_floating(one) or pa.types.is_floating(two):
            return KeyType(pa.float64())
        return KeyType(pa.decimal256(76, max(_scale(one), _scale(two))))
    if pa.types.is_string(one) and pa.types.is_string(two):
        return KeyType(pa.string(), left.postgres if left.rule else right.postgres)
    if pa.types.is_date(one) and pa.types.is_timestamp(two):
        return right
    if pa.types.is_timestamp(one) and pa.types.is_date(two):
        return left
    raise ViewError(
        f"a {left.postgres or one} and a {right.postgres or two} cannot be compared as keys",
        detail="no type holds the values of both",
        hint="cast one side of the join's condition, then headwater plan",
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _scale(kind: pa.DataType) -> int:
    return kind.scale if pa.types.is_decimal(kind) else 0


def _as(array: pa.Array, kind: KeyType) -> pa.Array:
    wanted = plain_type(kind.arrow)
    return array if array.type == wanted else pc.cast(array, wanted)


def _piece(array: pa.Array, kind: KeyType) -> pa.Array:
    """One column's part of the keys."""
    arrow = array.type
    if kind.rule:
        return _by_value(array, _TEXT_RULES[kind.rule])
    if pa.types.is_string(arrow) or pa.types.is_binary(arrow):
        return _text(array)
    if pa.types.is_list(arrow) or pa.types.is_map(arrow):
        return _list(array)
    if pa.types.is_struct(arrow):
        return _struct(array, arrow)
    if pa.types.is_interval(arrow):
        return _by_value(array, _length_of_month_day_nano)
    if pa.types.is_null(arrow):
        return pa.array([_NULL] * len(array), pa.binary())
    return _fixed(array)


def _fixed(array: pa.Array) -> pa.Array:
    ordered = _big_endian(array)
    missing = nulls(array)
    matrix = np.empty((len(array), ordered.shape[1] + 1), np.uint8)
    matrix[:, 0] = np.where(missing, _NULL[0], _PRESENT[0])
    matrix[:, 1:] = ordered
    matrix[missing, 1:] = 0
    return binaries(matrix)


def _big_endian(array: pa.Array) -> Bytes:
    kind = array.type
    if pa.types.is_boolean(kind):
        return raw(array, 1)
    if pa.types.is_floating(kind):
        return _float_bytes(array)
    if pa.types.is_decimal(kind):
        array = array if pa.types.is_decimal256(kind) else pc.cast(array, pa.decimal128(_DIGITS_MAX, kind.scale))
        ordered = raw(array, 32 if pa.types.is_decimal256(kind) else 16)[:, ::-1].copy()
    elif pa.types.is_fixed_size_binary(kind):
        return raw(array, kind.byte_width)
    else:
        ordered = raw(_as_int64(array), 8)[:, ::-1].copy()
    ordered[:, 0] ^= 0x80
    return ordered


def _as_int64(array: pa.Array) -> pa.Array:
    if pa.types.is_integer(array.type):
        return pc.cast(array, pa.int64())
    if array.type.bit_width == 32:
        return pc.cast(array.view(pa.int32()), pa.int64())
    return array.view(pa.int64())


def _float_bytes(array: pa.Array) -> Bytes:
    values = pc.cast(array, pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0  # -0.0 + 0.0 is 0.0
    values = np.where(np.isnan(values), np.nan, values)
    bits = values.view(np.uint64)
    negative = bits >> np.uint64(63) == 1
    flipped = np.where(negative & ~np.isnan(values), ~bits, bits | np.uint64(1 << 63))
    return flipped.astype(">u8").view(np.uint8).reshape(len(array), 8)


def _text(array: pa.Array) -> pa.Array:
    content = array.cast(pa.binary())
    if pc.any(pc.match_substring(content, _END)).as_py():
        content = pc.replace_substring(content, _END, b"\x00\xff")
    ended = pc.binary_join_element_wise(_PRESENT, content, _END, b"")
    return ended.fill_null(_NULL) if ended.null_count else ended


def _list(array: pa.Array) -> pa.Array:
    array = as_list(array)
    counts = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    items = plain(array.flatten())
    parts = joined_lists(counts, _piece(items, KeyType(items.type)))
    ended = pc.binary_join_element_wise(_PRESENT, parts, _END, b"")
    return pc.if_else(array.is_null(), pa.scalar(_NULL, pa.binary()), ended)


def _struct(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if [field.name for field in kind] == ["months", "days", "micros"]:
        return _by_value(array, _length_of_interval)
    fields = [plain(field) for field in array.flatten()]
    parts = joined([pa.array([_PRESENT] * len(array), pa.binary()), *(_piece(f, KeyType(f.type)) for f in fields)])
    return pc.if_else(array.is_null(), pa.scalar(_NULL, pa.binary()), parts)


def _by_value(array: pa.Array, rule: Callable[[Any], bytes]) -> pa.Array:
    values = array.to_pylist()
    return pa.array([_NULL if value is None else _PRESENT + rule(value) for value in values], pa.binary())


def _numeric(text: str) -> bytes:
    value = Decimal(text)
    if value.is_nan():
        return b"\x05"
    if value.is_infinite():
        return b"\x04" if value > 0 else b"\x00"
    if not value:
        return b"\x02"
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    written = "".join(map(str, digits)).lstrip("0")
    magnitude = (len(written) + exponent + 2**31).to_bytes(4, "big") + written.rstrip("0").encode() + _END
    return b"\x03" + magnitude if value > 0 else b"\x01" + bytes(byte ^ 0xFF for byte in magnitude)


def _length_of_interval(value: dict[str, int]) -> bytes:
    days = value["months"] * _DAYS_PER_MONTH + value["days"]
    return (days * MICROS_PER_DAY + value["micros"] + 2**127).to_bytes(16, "big")


def _length_of_month_day_nano(value: Any) -> bytes:
    return _length_of_interval({"months": value[0], "days": value[1], "micros": value[2] // 1000})


def _jsonb(text: str) -> bytes:
    def number(digits: str) -> dict[str, str]:
        return {"": _numeric(digits).hex()}

    def fields(pairs: list[tuple[str, Any]]) -> list[Any]:
        return [0, *sorted(pairs, key=itemgetter(0))]

    parsed = json.loads(text, parse_float=number, parse_int=number, object_pairs_hook=fields)
    return json.dumps(parsed, ensure_ascii=False, separators=(",", ":")).encode() + _END


_TEXT_RULES: Final[dict[str, Callable[[str], bytes]]] = {
    "numeric": _numeric,
    "jsonb": _jsonb,
    "character": lambda text: text.rstrip(" ").encode() + _END,
    "citext": lambda text: text.lower().encode() + _END,
}
