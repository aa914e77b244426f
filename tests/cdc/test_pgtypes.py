"""Values: what the real Debezium wrote of every type equals what Postgres says of it, and the readers by themselves."""

from __future__ import annotations

import math
import pickle
import struct
from base64 import b64encode
from datetime import date
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.events import UNCHANGED, Op, TableName
from cdc.pgtypes import (
    Date,
    Interval,
    PgType,
    Time,
    Timestamp,
    TimestampTz,
    TypeSpec,
    full_identity_reason,
    instants,
    literals,
    pg_type,
    unsupported_reason,
)
from tests.cdc import golden_files, zoo


def same(found: object, wanted: object) -> bool:
    """Equality by value and type, where NaN is itself and -0.0 is not 0.0."""
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(found, dict) and isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(same(found[k], wanted[k]) for k in found)
    if isinstance(found, float) and isinstance(wanted, float):
        return repr(found) == repr(wanted)
    if isinstance(found, Decimal) and isinstance(wanted, Decimal):
        return str(found) == str(wanted)
    return type(found) is type(wanted) and found == wanted


def scalar(type_: str, kind: str = "b") -> PgType:
    return pg_type(TypeSpec(type_, type_, kind))


def geometry(kind: str, code: int, points: list[tuple[float, float]], **extensions: str) -> dict[str, object]:
    """As Debezium has it: well-known binary, of a line string (2) or of a polygon's one ring (3)."""
    counts = (len(points),) if code == 2 else (1, len(points))
    numbers = [number for point in points for number in point]
    wkb = struct.pack(f"<BI{len(counts)}I{len(numbers)}d", 1, code, *counts, *numbers)
    return {"wkb": b64encode(wkb).decode(), "srid": None, "extensions": {"type": kind, **extensions}}


@pytest.mark.parametrize("specimen", zoo.SPECIMENS, ids=lambda s: s.name)
def test_the_log_says_of_every_value_what_postgres_says(specimen: zoo.Specimen) -> None:
    table = golden_files.catalog().table(TableName.parse(specimen.table))
    kind = table.by_name["v"].type
    texts = golden_files.expected()[specimen.table]
    found = {event.after["id"]: event for event in golden_files.events() if event.table == table.name and event.after}
    assert found.keys() == texts.keys()
    for row_id, event in found.items():
        text = texts[row_id]
        wanted = None if text is None else kind.from_text(text)
        assert same(table.decode(event.after or {})["v"], wanted), (row_id, event.after, text)
        assert event.op is (Op.READ if row_id < zoo.STREAMED_FROM else Op.INSERT)


@pytest.mark.parametrize("specimen", zoo.SPECIMENS, ids=lambda s: s.name)
def test_every_value_goes_into_arrow_and_comes_out_again(specimen: zoo.Specimen) -> None:
    kind = golden_files.catalog().table(TableName.parse(specimen.table)).by_name["v"].type
    texts = [text for text in golden_files.expected()[specimen.table].values() if text is not None]
    values = [kind.from_text(text) for text in texts]
    if specimen.name in ("numeric_12_2", "dom_numeric", "nested"):
        with pytest.raises(ValueError, match="cannot hold NaN"):
            kind.to_arrow(next(value for value in values if "NaN" in str(value)))
        values = [value for value in values if "NaN" not in str(value)]
    array = pa.array([kind.to_arrow(value) for value in values] + [None], kind.arrow)
    array.validate(full=True)
    assert array.null_count == 1
    if pa.types.is_temporal(kind.arrow):
        integers = array.cast(pa.int32() if pa.types.is_date32(kind.arrow) else pa.int64())
        assert integers.to_pylist()[:-1] == [int(value) for value in values]  # type: ignore[call-overload]


@pytest.mark.parametrize("specimen", zoo.BIG, ids=lambda s: s.name)
def test_an_unchanged_large_value_is_recognised(specimen: zoo.Specimen) -> None:
    table = golden_files.catalog().table(TableName.parse(specimen.big_table))
    read, update = (event for event in golden_files.events() if event.table == table.name)
    text = golden_files.expected()[specimen.big_table][1]
    assert text is not None
    assert same(table.decode(read.after or {})["v"], table.by_name["v"].type.from_text(text))
    assert table.decode(update.after or {}) == {"id": 1, "n": 1, "v": UNCHANGED}
    assert full_identity_reason(table.by_name["v"].type) is None


@pytest.mark.parametrize("specimen", zoo.BLIND, ids=lambda s: s.name)
def test_with_full_identity_an_unchanged_value_comes_whole(specimen: zoo.Specimen) -> None:
    table = golden_files.catalog().table(TableName.parse(specimen.big_table))
    _, update = (event for event in golden_files.events() if event.table == table.name)
    text = golden_files.expected()[specimen.big_table][1]
    assert text is not None
    wanted = table.by_name["v"].type.from_text(text)
    assert same(table.decode(update.after or {})["v"], wanted)
    assert same(table.decode_before(update.before or {})["v"], wanted)
    assert full_identity_reason(table.by_name["v"].type)


LONG_NAMES = {"varbit": "bit varying", "timetz": "time with time zone", "time": "time without time zone"}


@pytest.mark.parametrize("specimen", zoo.REFUSED, ids=lambda s: s.name)
def test_what_debezium_cannot_carry_is_refused(specimen: zoo.Specimen) -> None:
    base, _, brackets = specimen.type.partition("[")
    name, parenthesis, rest = base.partition("(")
    base = LONG_NAMES.get(name, name) + parenthesis + rest
    kind = {"zoo.pair": "c", "int4multirange": "m"}.get(base, "b")
    resolved = {"zoo.positive": "integer", "zoo.label": "text"}.get(base, base)
    spec = TypeSpec(base + ("[]" if brackets else ""), resolved, kind, dims=1 if brackets else 0)
    assert unsupported_reason(spec)
    assert "." in specimen.type or unsupported_reason(spec.type)


@pytest.mark.parametrize("specimen", zoo.SPECIMENS, ids=lambda s: s.name)
def test_what_debezium_carries_is_not_refused(specimen: zoo.Specimen) -> None:
    kind = golden_files.catalog().table(TableName.parse(specimen.table)).by_name["v"].type
    assert unsupported_reason(kind) is None
    assert unsupported_reason(kind.spec.type) is None


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (scalar("smallint"), "-32768", -32768),
        (scalar("numeric(12,2)"), "1.50", Decimal("1.50")),
        (scalar("numeric"), "-Infinity", Decimal("-Infinity")),
        (scalar("real"), "0.1", 0.10000000149011612),
        (scalar("double precision"), "-Infinity", -math.inf),
        (scalar("money"), "-$1,234.50", Decimal("-1234.50")),
        (scalar("boolean"), "t", True),
        (scalar("bytea"), "\\x00ff", b"\x00\xff"),
        (scalar("uuid"), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")),
        (scalar("date"), "1970-01-02", Date(1)),
        (scalar("date"), "0001-01-01 BC", Date(-719528)),
        (scalar("timestamp without time zone"), "1969-12-31 23:59:59.5", Timestamp(-500_000)),
        (scalar("timestamp with time zone"), "1970-01-01 00:00:00-01:30", TimestampTz(5_400_000_000)),
        (scalar("timestamp with time zone"), "infinity", TimestampTz(2**63 - 1)),
        (scalar("time without time zone"), "24:00:00", Time(86_400_000_000)),
        (scalar("interval"), "-1 years -2 mons +3 days -04:05:06.5", Interval(-14, 3, -14_706_500_000)),
        (scalar("public.hstore"), '"a"=>"x\\"y", "b"=>NULL', {"a": 'x"y', "b": None}),
        (scalar("inet"), "10.0.0.1/32", "10.0.0.1"),
        (pg_type(TypeSpec("text[]", "text", dims=1)), '{a,NULL,"NULL","b\\"c",""}', ["a", None, "NULL", 'b"c', ""]),
        (pg_type(TypeSpec("integer[]", "integer", dims=1)), "[0:1][1:2]={{1,2},{3,NULL}}", [[1, 2], [3, None]]),
    ],
    ids=str,
)
def test_postgres_text(kind: PgType, text: str, value: object) -> None:
    assert same(kind.from_text(text), value)


@pytest.mark.parametrize(
    ("kind", "wire"),
    [
        (scalar("smallint"), 32768),
        (scalar("integer"), True),
        (scalar("integer"), "1"),
        (scalar("bigint"), 1.0),
        (scalar("numeric"), "many"),
        (scalar("double precision"), "inf"),
        (scalar("boolean"), 1),
        (scalar("bytea"), "not base64!"),
        (scalar("uuid"), "a0ee"),
        (scalar("date"), -2_440_589),
        (scalar("timestamp without time zone"), -9_223_372_036_853_775_810),
        (scalar("timestamp with time zone"), "+294276-12-31T23:59:59.999999Z"),
        (scalar("timestamp with time zone"), "2023-02-29T00:00:00Z"),
        (scalar("time without time zone"), 86_400_000_001),
        (scalar("interval"), "P"),
        (scalar("bit(3)"), "CA=="),
        (scalar("text"), 5),
        (scalar("point"), {"x": 1.0}),
        (scalar("line"), "{1,2,3}"),
        (scalar("circle"), {"center": {"x": 1.0, "y": 2.0}, "radius": None}),
        (scalar("lseg"), geometry("box", 2, [(1, 2), (3, 4)])),
        (scalar("lseg"), geometry("lseg", 2, [(1, 2), (3, 4), (5, 6)])),
        (scalar("lseg"), geometry("lseg", 3, [(1, 2), (3, 4)])),
        (scalar("box"), geometry("box", 3, [(3, 4), (3, 2), (1, 2), (3, 4)])),
        (scalar("box"), {"wkb": "AQMAAAABAAAA", "extensions": {"type": "box"}}),
        (scalar("path"), geometry("path", 2, [(1, 2)])),
        (scalar("path"), {"wkb": "AQIAAAABAAAA", "extensions": {"type": "path", "closed": "true"}}),
        (scalar("path"), {"wkb": "AQ==", "extensions": {"type": "path", "closed": "true"}}),
        (scalar("path"), {"wkb": "AQIAAAAAAAAA"}),
        (pg_type(TypeSpec("text[]", "text", dims=1)), ["[Ljava.lang.String;@164c5587"]),
        (pg_type(TypeSpec("integer[]", "integer", dims=1)), 5),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_refused(kind: PgType, wire: object) -> None:
    with pytest.raises(ValueError, match=r".+"):
        kind.read(wire)


def test_the_infinities_of_java() -> None:
    """As snapshots, the stream and arrays have them; those of arrays move with the zone of Kafka Connect's clock."""
    date_type, timestamp = scalar("date"), scalar("timestamp without time zone")
    zoned = scalar("timestamp with time zone")
    for wire in (-2_147_472_692, -622_191_234, -622_191_233):
        assert str(date_type.read(wire)) == "infinity"
    for wire in (-2_147_472_691, -625_821_272):
        assert str(date_type.read(wire)) == "-infinity"
    assert str(timestamp.read(9_223_372_036_825_200_000 - 3_600_000_000)) == "infinity"
    assert str(timestamp.read(-9_223_372_036_832_400_000)) == "-infinity"
    assert str(zoned.read("+292269055-12-02T23:00:00.000000Z")) == "-infinity"


def test_ranges_are_in_utc_whatever_the_session() -> None:
    text = '["2024-01-01 01:00:00+01","2024-06-01 00:30:00.5-03:30")'
    assert scalar("tstzrange", "r").read(text) == '["2024-01-01 00:00:00+00","2024-06-01 04:00:00.5+00")'


@given(st.integers(instants.DATE_MIN, instants.DATE_MAX))
def test_days_and_dates_are_inverse(days: int) -> None:
    assert instants.days_of(*instants.civil(days)) == days
    assert instants.parse_date(str(Date(days))) == days


@given(st.dates())
def test_dates_are_those_of_python(day: date) -> None:
    days = (day - date(1970, 1, 1)).days
    assert instants.civil(days) == (day.year, day.month, day.day)
    assert str(Date(days)) == day.isoformat()
    assert Date(days).to_date() == day


@given(st.integers(instants.TIMESTAMP_MIN, instants.TIMESTAMP_MAX))
def test_timestamps_print_and_parse(micros: int) -> None:
    assert instants.parse_timestamp(str(Timestamp(micros))) == micros
    assert instants.parse_timestamptz(str(TimestampTz(micros))) == micros


def _array_text(items: list[str | None]) -> str:
    quoted = ("NULL" if i is None else '"' + i.replace("\\", "\\\\").replace('"', '\\"') + '"' for i in items)
    return "{" + ",".join(quoted) + "}"


@given(st.lists(st.none() | st.text()))
def test_arrays_read_back(items: list[str | None]) -> None:
    assert literals.parse_array(_array_text(items)) == items


@given(st.lists(st.none() | st.text(), min_size=1))
def test_composites_read_back(items: list[str | None]) -> None:
    quoted = ("" if i is None else '"' + i.replace("\\", "\\\\").replace('"', '""') + '"' for i in items)
    assert literals.parse_composite("(" + ",".join(quoted) + ")") == items


@given(st.lists(st.tuples(st.floats(), st.floats()), min_size=1), st.booleans())
def test_paths_come_out_as_postgres_prints_them(points: list[tuple[float, float]], closed: bool) -> None:
    wire = geometry("path", 2, points, closed=str(closed).lower())
    inner = ",".join(f"({literals.float_text(x)},{literals.float_text(y)})" for x, y in points)
    assert scalar("path").read(wire) == (f"({inner})" if closed else f"[{inner}]")


@given(st.floats(allow_nan=False))
def test_floats_print_so_that_they_read_back(value: float) -> None:
    assert float(literals.float_text(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (1e15, "1e+15"), (1234567890123456.5, "1.2345678901234565e+15"), (1e14, "100000000000000")],
)
def test_floats_print_as_in_postgres(value: float, text: str) -> None:
    assert literals.float_text(value) == text


def test_types_travel_to_workers() -> None:
    for table in golden_files.catalog().tables.values():
        for column in table.columns:
            assert pickle.loads(pickle.dumps(column.type)) is column.type
