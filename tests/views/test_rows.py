"""Rows: what goes in comes out, the same values are the same bytes, and what Postgres prints apart stays apart."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc.pgtypes.scalars import INTERVAL_ARROW
from views import rows as rows_module
from views.rows import RowCodec
from views.zset import WEIGHT, consolidate, diff, negate, union

TEXTS = st.text(max_size=20)
PAIRS = pa.struct([("n", pa.int32()), ("t", pa.string())])
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "flag": (pa.bool_(), st.booleans()),
    "small": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "big": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "price": (pa.decimal128(12, 2), st.decimals(-(10**9), 10**9, places=2)),
    "wide": (pa.decimal256(60, 0), st.integers(-(10**50), 10**50).map(Decimal)),
    "score": (pa.float64(), st.floats(allow_nan=False)),
    "text": (pa.string(), TEXTS),
    "bytes": (pa.binary(), st.binary(max_size=20)),
    "at": (pa.timestamp("us", "UTC"), st.integers(0, 10**15)),
    "lasts": (INTERVAL_ARROW, st.fixed_dictionaries({n: st.integers(-9, 9) for n in ("months", "days", "micros")})),
    "tags": (pa.list_(pa.string()), st.lists(st.none() | TEXTS, max_size=3)),
    "nested": (
        pa.list_(pa.list_(pa.int32())),
        st.lists(st.none() | st.lists(st.integers(0, 9), max_size=2), max_size=2),
    ),
    "pair": (PAIRS, st.fixed_dictionaries({"n": st.none() | st.integers(0, 9), "t": st.none() | TEXTS})),
    "pairs": (pa.list_(PAIRS), st.lists(st.fixed_dictionaries({"n": st.none(), "t": TEXTS}), max_size=2)),
    "store": (pa.map_(pa.string(), pa.string()), st.lists(st.tuples(TEXTS, st.none() | TEXTS), max_size=2)),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])
some_rows = st.lists(st.tuples(*(st.none() | values for _, values in COLUMNS.values())), max_size=6)


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    return pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


@settings(deadline=None)
@given(some_rows)
def test_what_goes_in_comes_out(rows: list[tuple[Any, ...]]) -> None:
    whole, codec = table(rows), RowCodec(SCHEMA)
    encoded = codec.encode(whole)
    decoded = codec.decode(encoded)
    decoded.validate(full=True)
    assert decoded.equals(whole)
    backwards = codec.decode(encoded[::-1])
    assert backwards.equals(whole.take(pa.array(range(len(rows)), pa.int64())[::-1]))
    assert codec.encode(backwards) == encoded[::-1]


@settings(deadline=None)
@given(some_rows, st.integers(0, 3))
def test_slices_and_chunks_are_the_same_rows(rows: list[tuple[Any, ...]], start: int) -> None:
    whole, codec = table(rows), RowCodec(SCHEMA)
    encoded = codec.encode(whole)
    assert codec.encode(whole.slice(start)) == encoded[start:]
    assert codec.encode(pa.concat_tables([whole.slice(0, start), whole.slice(start)])) == encoded


def test_rows_of_many_bytes_are_decoded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "DECODED_BYTES_MAX", 100)
    whole = pa.table({"a": ["x" * 60, "y", "z" * 150, None, "w"]})
    codec = RowCodec(whole.schema)
    assert codec.decode(codec.encode(whole)).equals(whole)


def test_what_is_printed_apart_stays_apart() -> None:
    floats, numerics = pa.table({"a": [0.0, -0.0, math.nan, -math.nan]}), pa.table({"a": ["1.0", "1.00"]})
    zero, minus, nan, other = RowCodec(floats.schema).encode(floats)
    assert zero != minus
    assert nan == other
    assert len(set(RowCodec(numerics.schema).encode(numerics))) == 2


def delta(*changes: tuple[Any, int]) -> pa.Table:
    return pa.table(
        {"a": pa.array([v for v, _ in changes], pa.float64()), WEIGHT: pa.array([w for _, w in changes], pa.int64())}
    )


def test_consolidate_keeps_minus_zero() -> None:
    assert consolidate(delta((0.0, -1), (-0.0, 1))).num_rows == 2
    assert consolidate(delta((1.0, 1), (2.0, 3), (1.0, -1), (None, 0), (2.0, -1))).to_pylist() == [
        {"a": 2.0, WEIGHT: 2}
    ]


def test_diff_leads_from_the_old_to_the_new() -> None:
    old, new = delta((1.0, 2), (2.0, 1)), delta((1.0, 1), (3.0, 1))
    found = diff(new, old)
    assert sorted((row["a"], row[WEIGHT]) for row in found.to_pylist()) == [(1.0, -1), (2.0, -1), (3.0, 1)]
    assert not consolidate(union([old, found, negate(new)])).num_rows
