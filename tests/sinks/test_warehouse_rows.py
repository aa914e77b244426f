"""From a view's JSON to the warehouse's columns and back: what comes out is what row_to_json printed."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.errors import ConfigurationError
from cdc.pgtypes.instants import DATE_MAX, DATE_MIN, TIMESTAMP_MAX, TIMESTAMP_MIN
from tests.sinks.places import mark
from views.json_rows import json_rows
from views.plan import Field
from views.sinks.sink import Change, ViewShape
from views.sinks.warehouse_folders import folder_name, named_in
from views.sinks.warehouse_rows import RowParser
from views.sinks.warehouse_types import GONE, LSN, POSITION, VERSION, Layout, decoded_name, encoded_name
from views.sqltypes import NUMERIC, Family, SqlType, array_of, named, numeric

TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=12)
_DATES = st.integers(DATE_MIN, DATE_MAX) | st.sampled_from([2**31 - 1, -(2**31 - 1)]) | st.integers(0, 20_000)
_INSTANTS = st.integers(TIMESTAMP_MIN, TIMESTAMP_MAX) | st.sampled_from([2**63 - 1, 1 - 2**63]) | st.integers(0, 2**50)
_REALS = st.floats(width=32)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "real": _REALS,
    "double precision": st.floats(),
    "text": TEXTS,
    "uuid": st.uuids().map(str),
    "bytea": st.binary(max_size=8),
    "date": _DATES,
    "timestamp without time zone": _INSTANTS,
    "timestamp with time zone": _INSTANTS,
    "time without time zone": st.integers(0, 86_400_000_000),
    "jsonb": st.sampled_from(['{"a": 1.10}', '[1, null, "x"]', '"text"', "1e400", "true", '{"b": "\\u0041"}']),
    "interval": st.fixed_dictionaries({k: st.integers(-999, 999) for k in ("months", "days", "micros")}),
}
PRICE = numeric(38, 4)
PRICES = st.decimals(Decimal(-(10**34) + 1), Decimal(10**34 - 1), places=4)
DIGITS = st.decimals(allow_infinity=False, allow_nan=False).map(lambda d: f"{d:f}") | st.sampled_from(
    ["NaN", "Infinity"]
)
KINDS: list[tuple[SqlType, st.SearchStrategy[Any]]] = [
    *((named(name), values) for name, values in VALUES.items()),
    (PRICE, PRICES),
    (NUMERIC, DIGITS),
]


def array_for(kind: SqlType, values: list[Any]) -> pa.Array:
    """Instants are drawn as numbers: Python's own end in the year 9999."""
    if kind.family in (Family.DATE, Family.TIMESTAMP, Family.TIMESTAMPTZ):
        return pa.array(values, pa.int32() if kind.family is Family.DATE else pa.int64()).view(kind.arrow)
    return pa.array(values, kind.arrow)


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[Field], pa.Table]:
    count = draw(st.integers(1, 4))
    fields, arrays = [Field("id", named("bigint"))], [pa.array(range(count), pa.int64())]
    for number, (kind, values) in enumerate(draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))):
        flat = array_for(kind, draw(st.lists(st.none() | values, min_size=count, max_size=count)))
        listed = draw(st.booleans())
        fields.append(Field(f"c {number}", array_of(kind) if listed else kind))
        ends = pa.array(range(count + 1), pa.int32())
        arrays.append(pa.ListArray.from_arrays(ends, flat) if listed else flat)
    return fields, pa.table(dict(zip([field.name for field in fields], arrays, strict=True)))


def parser(*fields: Field, **options: str) -> RowParser:
    return RowParser(Layout.of(ViewShape("source", "items", fields, ("id",), options)))


@given(columns())
def test_what_is_stored_prints_as_it_came(drawn: tuple[list[Field], pa.Table]) -> None:
    fields, table = drawn
    given_rows = json_rows(fields, table).to_pylist()
    held = parser(*fields)
    changes = [Change(b'{"id":%d}' % n, row, n) for n, row in enumerate(given_rows)]
    stored, refused = held.parse(changes, [mark(9)])
    assert refused == []
    again = [Field(column.name, column.stored) for column in held.layout.columns]
    printed = json_rows(again, stored).to_pylist()
    assert [row.replace(b"%20", b" ") for row in printed] == given_rows


def test_types_are_what_a_reader_expects() -> None:
    wanted = {
        "numeric(12,2)": pa.decimal128(12, 2),
        "numeric": pa.string(),
        "timestamp with time zone": pa.timestamp("us", "UTC"),
        "timestamp without time zone": pa.timestamp("us"),
        "date": pa.date32(),
        "uuid": pa.string(),
        "bytea": pa.binary(),
        "jsonb": pa.string(),
        "interval": pa.string(),
        "integer[]": pa.list_(pa.int32()),
    }
    fields = [Field("id", named("bigint")), *(Field(name, named(name)) for name in wanted)]
    schema = parser(*fields).layout.current
    assert {name: schema.field(encoded_name(name)).type for name in wanted} == wanted


def test_numbers_never_pass_through_a_float() -> None:
    held = parser(Field("id", named("bigint")), Field("n", PRICE), Field("free", NUMERIC))
    row = b'{"id":1,"n":1234567890123456789012345678901234.5678,"free":0.10000000000000000000000000000000000001}'
    stored, _ = held.parse([Change(b"", row, 1)], [mark(2)])
    assert stored["n"].to_pylist() == [Decimal("1234567890123456789012345678901234.5678")]
    assert stored["free"].to_pylist() == ["0.10000000000000000000000000000000000001"]


def test_the_shortest_real_is_that_real() -> None:
    value = struct.unpack("f", struct.pack("f", 0.1))[0]
    stored, _ = parser(Field("id", named("bigint")), Field("r", named("real"))).parse(
        [Change(b"", b'{"id":1,"r":0.1}', 1)], [mark(2)]
    )
    assert stored["r"].to_pylist() == [value]


@pytest.mark.parametrize(
    "bad",
    [
        b'{"id":2,"small":70000,"price":1}',
        b'{"id":2,"small":1,"price":1.23456}',
        b'{"id":2,"small":1,"price":"NaN"}',
        b'{"id":2,"price":1}',
        b"not json",
    ],
)
def test_a_row_that_does_not_fit_is_refused_alone(bad: bytes) -> None:
    held = parser(Field("id", named("bigint")), Field("small", named("smallint")), Field("price", numeric(8, 2)))
    fine = [Change(b'{"id":%d}' % n, b'{"id":%d,"small":1,"price":1.5}' % n, n) for n in (1, 3)]
    stored, refused = held.parse([fine[0], Change(b'{"id":2}', bad, 2), fine[1]], [mark(4)])
    assert stored["id"].to_pylist() == [1, 3]
    assert [(item.change.version, bool(item.error)) for item in refused] == [(2, True)]


def test_what_no_partition_can_be_named_by_is_refused() -> None:
    fields = Field("id", named("bigint")), Field("label", named("text")), Field("day", named("date"))
    days = ("2026-01-02", "infinity", "-infinity", "4714-11-24 BC", "10000-01-01", "0001-01-01", "9999-12-31")
    rows = [b'{"id":1,"label":"x","day":"%s"}' % day.encode() for day in days]
    rows += [b'{"id":1,"label":"","day":null}', b'{"id":1,"label":null,"day":null}']
    changes = [Change(b'{"id":1}', row, n) for n, row in enumerate(rows)]
    _, refused = parser(*fields, partition_by="label, day").parse(changes, [mark(9)])
    assert sorted(item.change.version for item in refused) == [1, 2, 3, 4, 7]
    assert parser(*fields).parse(changes, [mark(9)])[1] == []


def test_a_row_that_is_gone_keeps_its_key() -> None:
    held = parser(Field("id", named("bigint")), Field("label", named("text")))
    stored, _ = held.parse([Change(b'{"id":7}', None, 3)], [mark(4)])
    assert stored.select(["id", "label", VERSION, GONE]).to_pylist() == [
        {"id": 7, "label": None, VERSION: 3, GONE: True}
    ]


def test_each_version_has_the_commit_of_its_step() -> None:
    steps = [mark(3, era=1, offset=30), mark(5, era=1, offset=50)]
    changes = [Change(b'{"id":1}', None, n) for n in range(2, 7)]
    stored, _ = parser(Field("id", named("bigint"))).parse(changes, steps)
    assert stored[POSITION].to_pylist() == ["1:30", "1:50", "1:50", "1:50", "1:50"]
    assert set(stored[LSN].to_pylist()) == {"0/0"}


@given(TEXTS)
def test_names_are_found_again(name: str) -> None:
    assert decoded_name(encoded_name(name)) == name
    assert not set(encoded_name(name)) & set(" ,;{}()\n\t=`.")


@given(TEXTS | st.sampled_from([".", "..", "@changes", "a~20b", "a%20b"]))
def test_folders_are_found_again(name: str) -> None:
    assert named_in(folder_name(name)) == name
    assert not set(folder_name(name)) & set("%@./"), "what delta-rs misreads, the archive's own, and the way out"


def test_what_cannot_be_kept_is_refused_by_name() -> None:
    key = Field("id", named("bigint"))
    for other in ("_version", "ID"):
        with pytest.raises(ConfigurationError, match="cannot be kept"):
            parser(key, Field(other, named("text")))
    others = Field("label", named("text")), Field("at", named("jsonb[]")), Field("price", numeric(8, 2))
    for name in ("nothing", "at", "price", "id,label,at,price"):
        with pytest.raises(ConfigurationError, match="cannot partition"):
            parser(key, *others, partition_by=name)
    assert parser(key, Field("label", named("text")), partition_by="label").layout.partition_by == ("label",)
