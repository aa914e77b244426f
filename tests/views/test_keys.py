"""Keys: equal in Postgres means equal bytes, the bytes sort as the values, and no key is the beginning of another."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc.errors import ViewError
from cdc.pgtypes.scalars import INTERVAL_ARROW
from views.keys import KEY_BYTES_MAX, KeyCodec, KeyType, common, shards_of

INTEGERS = st.integers(-(2**63), 2**63 - 1)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**8), max_value=10**8)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)


def encode(kind: KeyType, *values: Any) -> list[bytes]:
    return KeyCodec((kind,)).encode([pa.array(values, kind.arrow)], len(values))


def ordered(kind: KeyType, one: Any, two: Any) -> int:
    a, b = encode(kind, one, two)
    assert a == b or not b.startswith(a)
    return (a > b) - (a < b)


def sign(one: Any, two: Any) -> int:
    return (one > two) - (one < two)


@settings(deadline=None)
@given(INTEGERS, INTEGERS)
def test_integers(one: int, two: int) -> None:
    assert ordered(KeyType(pa.int64()), one, two) == sign(one, two)


@settings(deadline=None)
@given(st.floats(), st.floats())
def test_floats(one: float, two: float) -> None:
    """One zero; one NaN, which is greater than all."""
    a, b = ((math.isnan(value), 0.0 if math.isnan(value) else value) for value in (one, two))
    assert ordered(KeyType(pa.float64()), one, two) == sign(a, b)


@settings(deadline=None)
@given(DECIMALS, DECIMALS)
def test_decimals(one: Decimal, two: Decimal) -> None:
    assert ordered(KeyType(pa.decimal128(12, 2)), one, two) == sign(one, two)


@settings(deadline=None)
@given(st.decimals(allow_nan=False), st.decimals(allow_nan=False))
def test_numerics_without_scale(one: Decimal, two: Decimal) -> None:
    assert ordered(KeyType(pa.string(), "numeric"), str(one), str(two)) == sign(one, two)


@pytest.mark.parametrize(("one", "two"), [("1.0", "1.00"), ("1E+2", "100"), ("-0", "0.000"), ("NaN", "NaN")])
def test_numerics_that_are_one(one: str, two: str) -> None:
    assert ordered(KeyType(pa.string(), "numeric"), one, two) == 0


def test_numeric_nan_is_greater_than_infinity() -> None:
    assert ordered(KeyType(pa.string(), "numeric"), "Infinity", "NaN") < 0


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_texts_in_the_order_of_their_bytes(one: str, two: str) -> None:
    assert ordered(KeyType(pa.string()), one, two) == sign(one.encode(), two.encode())


@settings(deadline=None)
@given(st.binary(max_size=6), st.binary(max_size=6))
def test_bytes_with_zeros(one: bytes, two: bytes) -> None:
    assert ordered(KeyType(pa.binary()), one, two) == sign(one, two)


@settings(deadline=None)
@given(st.lists(st.none() | TEXTS, max_size=3), st.lists(st.none() | TEXTS, max_size=3))
def test_arrays(one: list[str | None], two: list[str | None]) -> None:
    a, b = ([(item is None, (item or "").encode()) for item in items] for items in (one, two))
    assert ordered(KeyType(pa.list_(pa.string())), one, two) == sign(a, b)


@settings(deadline=None)
@given(st.tuples(st.none() | TEXTS, st.none() | INTEGERS), st.tuples(st.none() | TEXTS, st.none() | INTEGERS))
def test_several_columns_and_nulls(one: tuple[Any, ...], two: tuple[Any, ...]) -> None:
    columns = [pa.array([one[0], two[0]], pa.string()), pa.array([one[1], two[1]], pa.int64())]
    a, b = KeyCodec((KeyType(pa.string()), KeyType(pa.int64()))).encode(columns, 2)
    assert (a == b) == (one == two)
    assert a == b or not b.startswith(a)


def test_null_is_last() -> None:
    assert ordered(KeyType(pa.int64()), 2**63 - 1, None) < 0


def test_intervals_as_postgres_compares_them() -> None:
    kind = KeyType(INTERVAL_ARROW)
    month, days = ({"months": m, "days": d, "micros": 0} for m, d in ((1, 0), (0, 30)))
    hours = {"months": 0, "days": 29, "micros": 24 * 3600 * 10**6}
    assert len(set(encode(kind, month, days, hours))) == 1
    assert ordered(kind, {**days, "micros": -1}, month) < 0


def test_jsonb_by_value() -> None:
    kind = KeyType(pa.string(), "jsonb")
    one, two, other = encode(kind, '{"a": 1.0, "b": [1]}', '{"b": [1.00], "a": 1}', '{"a": "1", "b": [1]}')
    assert one == two != other


def test_blanks_and_case_of_text_types() -> None:
    assert ordered(KeyType(pa.string(), "character(5)"), "a  ", "a    ") == 0
    assert ordered(KeyType(pa.string(), "citext"), "Ab", "aB") == 0
    assert ordered(KeyType(pa.string(), "text"), "a ", "a") != 0


@pytest.mark.parametrize(
    ("left", "one", "right", "two"),
    [
        (KeyType(pa.int32()), 5, KeyType(pa.int64()), 5),
        (KeyType(pa.int32()), 5, KeyType(pa.decimal128(10, 2)), Decimal("5.00")),
        (KeyType(pa.decimal128(10, 2)), Decimal("5.10"), KeyType(pa.decimal128(6, 4)), Decimal("5.1000")),
        (KeyType(pa.int64()), 5, KeyType(pa.float64()), 5.0),
        (KeyType(pa.string(), "numeric"), "5.0", KeyType(pa.int64()), 5),
    ],
)
def test_types_that_are_compared(left: KeyType, one: Any, right: KeyType, two: Any) -> None:
    kind = common(left, right)
    codec = KeyCodec((kind,))
    assert codec.encode([pa.array([one], left.arrow)], 1) == codec.encode([pa.array([two], right.arrow)], 1)


def test_types_that_are_not() -> None:
    with pytest.raises(ViewError, match="cannot be compared"):
        common(KeyType(pa.bool_(), "boolean"), KeyType(pa.string(), "text"))


def test_long_keys_are_hashed_and_told_apart() -> None:
    one, two, short = encode(KeyType(pa.string()), "x" * 600, "x" * 601, "x")
    assert one != two
    assert max(map(len, (one, two, short))) <= KEY_BYTES_MAX
    assert not one.startswith(short)


def test_shards_are_fixed_for_ever() -> None:
    assert shards_of([b"", b"a", b"b", b"c"], 4) == [0, 3, 1, 3]
