"""Every accepted function and operator gives in DuckDB what it gives in Postgres: for generated rows, value by value, NULLs
and errors included. Where Postgres fails for a row, we must fail; where we fail alone, the expression says so here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from psycopg import sql

from cdc.events import TableName
from tests.views.sql.oracle import catalog_and_rows, expected, found, planned, postgres_types
from views.sql import ViewPlan
from views.sql.functions import RULES
from views.sql.functions.table import OVERLOADS

TABLE = "samples"
EXAMPLES, ROWS = 3, 20
COLUMNS = {
    "id": "integer primary key",
    "i": "integer",
    "k": "integer",
    "sm": "smallint",
    "bi": "bigint",
    "small": "integer not null",
    "n": "numeric(12,2)",
    "m": "numeric(8,3)",
    "w": "numeric",
    "z": "numeric(38,0)",
    "f": "double precision",
    "r": "real",
    "b": "boolean",
    "c": "boolean",
    "s": "text",
    "u": "text",
    "v": "varchar(8)",
    "ch": "char(4)",
    "digits": "text",
    "isoday": "text",
    "d": "date",
    "e": "date",
    "ts": "timestamp",
    "tz": "timestamptz",
    "t0": "time",
    "iv": "interval",
    "j": "json",
    "jb": "jsonb",
    "a": "integer[]",
    "ta": "text[]",
    "uid": "uuid",
    "by": "bytea",
}

EXPRESSIONS = """
i + k | i - k | i * k | i / k | i % k | -i | sm + sm | sm * sm | sm + i | bi + i | bi * 2 | i + 1 | 7 / small | -7 % small
n + m | n - m | n * m | n % m | n + i | n * i | m * m | n * n | n / m | n / 3 | 1 / n | i / n | bi / m | 10 / 4.0 | z + 1
-n | +n | n + 0.5 | n * 1.10 | f + f | f * 2 | f - i | f / 3 | f / f | r + r | r * r | r + f | n + f | i * r | -f
i < k | i <= bi | n > m | n = i | f <> n | s < u | s = u | s >= 'a' | b = c | b < c | d < e | d = ts | ts < tz | iv > iv
iv = interval '1 month' | iv < interval '3 days' | uid = uid | uid < uid | by = by | a = a | ta <> ta | d > '2020-02-29'
i between -5 and 5 | i not between k and 9 | n in (1, 2.50, i) | s in ('a', 'B', '') | s not in ('a', u) | i = any(a) | 'a' = any(ta)
i <> all(a) | i is null | i is not null | b is true | b is not false | b is unknown | i is distinct from k | s is not distinct from u
b and c | b or c | not b | i > 0 and 10 / i > 1 | i = 0 or 10 / i > 1 | (i, k) = (1, 2) | (i, k) in ((1, 2), (0, 0))
s like 'a%' | s like '%\\%%' | s like '_' | s like u | s not like '%b%' | s ilike 'A%' | s ilike u | s like 'a!%' escape '!' | v like 'a%'
s || u | s || i | s || n | s || b | s || f | 'x' || d | ts || '' | tz || '' | s || null | v || ch | iv || ''
coalesce(i, k, 0) | coalesce(n, 0) | coalesce(n, m) | coalesce(s, 'x') | nullif(i, k) | nullif(s, '') | greatest(i, k) | least(n, m, i)
greatest(s, u) | least(d, e) | greatest(ts, tz) | coalesce(w, 1) | coalesce(n / m, 0)
case when i > 0 then 'p' when i < 0 then 'n' end | case i when 1 then n else 0 end | case when b then i else bi end
case when b then s else v end | case when k = 0 then 0 else i / k end
lower(s) | upper(s) | length(s) | char_length(s) | octet_length(s) | bit_length(s) | character_length(u) | octet_length(by) | length(by)
substring(s from 2) | substring(s from 2 for 3) | substring(s, small) | substring(s, small, 2) | substr(s, small, 4) | substr(s, 2)
strpos(s, u) | position('b' in s) | replace(s, 'a', 'xy') | replace(s, u, '') | translate(s, 'ab', 'x') | reverse(s) | repeat(s, small)
left(s, small) | right(s, small) | left(s, 2) | right(s, -1) | lpad(s, 5) | rpad(s, 4, 'xy') | lpad(s, small, u) | rpad(s, small) | lpad(s, 3, 'é')
btrim(s) | btrim(s, 'ab') | ltrim(s) | rtrim(s, u) | trim(s) | trim(both 'a' from s) | trim(leading from s) | ltrim(s, 'a') | rtrim(s)
split_part(s, 'a', 1) | split_part(s, 'b', 2) | split_part(s, u, small) | starts_with(s, u) | ascii(s) | md5(s) | concat(s, i, n, null) | concat_ws('-', s, u, i)
abs(i) | abs(n) | abs(f) | sign(i) | sign(n) | sign(f) | round(n) | round(m, 1) | round(n, 4) | round(f) | round(i, 2) | round(n / m, 2) | round(w, 2)
trunc(n) | trunc(m, 1) | trunc(n, 5) | trunc(f) | ceil(n) | ceil(f) | ceiling(m) | floor(n) | floor(f) | floor(i) | mod(i, k) | mod(n, m) | mod(bi, small)
sqrt(f) | sqrt(i) | degrees(f) | make_date(2020, 2, small) | isfinite(d) | isfinite(ts) | isfinite(tz)
d + 1 | d - small | 3 + d | d - e | d + interval '1 month' | d - interval '1 day 02:30' | ts + iv | ts - iv | tz + iv | tz - interval '1 month'
ts - ts | ts - (d + interval '1 hour') | tz - tz | tz - ts | iv + iv | iv - interval '1 day' | d + iv | iv + ts
date_trunc('hour', ts) | date_trunc('day', tz) | date_trunc('week', ts) | date_trunc('month', d) | date_trunc('quarter', tz) | date_trunc('year', ts)
date_trunc('second', ts) | date_trunc('milliseconds', tz) | date_trunc('minute', tz) | date_trunc('day', tz, 'Europe/Berlin') | date_trunc('microseconds', ts)
extract(year from d) | extract(month from ts) | extract(day from tz) | extract(dow from d) | extract(isodow from ts) | extract(doy from d) | extract(week from ts)
extract(quarter from tz) | extract(isoyear from d) | extract(hour from ts) | extract(minute from tz) | extract(second from ts) | extract(epoch from tz) | extract(epoch from d)
extract(epoch from ts) | extract(epoch from iv) | extract(second from iv) | extract(hour from iv) | extract(day from iv) | extract(minute from iv)
date_part('epoch', tz) | date_part('year', d) | date_part('second', ts) | date_part('epoch', iv) | extract(epoch from ts - ts)
tz at time zone 'Europe/Berlin' | ts at time zone 'America/New_York' | tz at time zone 'UTC' | timezone('Asia/Tokyo', tz)
i::text | n::text | f::text | r::text | b::text | d::text | ts::text | tz::text | t0::text | iv::text | uid::text | by::text | j::text | jb::text | v::text | ch::text
i::bigint | bi::integer | bi::smallint | i::smallint | i::numeric | i::numeric(12,2) | i::double precision | i::real | i::boolean | b::integer | n::integer | n::numeric(8,1) | m::bigint
n::numeric(5,0) | n::double precision | m::real | f::integer | f::bigint | f::numeric(20,3) | r::numeric(20,3) | f::real | r::double precision | n::numeric | w::numeric(20,4) | w::double precision
w::text | w::integer | (n / m)::numeric(20,2) | (n / m)::double precision | digits::integer | digits::bigint | digits::numeric(20,2) | digits::double precision | digits::numeric | digits::boolean
isoday::date | isoday::timestamp | isoday::timestamptz | uid::text::uuid | s::varchar(2) | v::varchar(4) | j::jsonb | jb::json | j::text::jsonb
d::timestamp | d::timestamptz | ts::date | ts::timestamptz | ts::time | tz::timestamp | tz::date | tz::time | f::numeric | '12'::integer + i | '2020-01-31'::date + small
interval '1 day 2 hours' + iv | interval '90 minutes' = iv | timestamptz '2024-01-01 12:00+02' - tz | date '2024-02-29' - d | '1 mon 2 days'::interval + ts
j -> 'a' | j ->> 'a' | jb -> 'a' | jb ->> 'a' | jb -> 'b' ->> 0 | jb -> 'b' -> 1 | jb -> 'b' -> -1 | jb #>> '{a,b}' | jb #> '{a}' | jb ->> 'b' | jb ? 'a' | jb ->> s | n / m > 1.5 | w = 1 | w < n | n / m is distinct from w | w <> 2.345
json_typeof(j) | jsonb_typeof(jb) | jsonb_typeof(jb -> 'b') | jsonb_array_length('[1,[2]]'::jsonb) | json_array_length('[1,[2]]'::json)
json_build_object('i', i, 'n', n, 's', s, 'b', b, 'f', f, 'r', r) | json_build_object('d', d, 'ts', ts, 'tz', tz, 'u', uid, 'nul', null, 'j', j, 'jb', jb)
jsonb_build_object('s', s, 'bb', n, 'a', f, 'ccc', tz, 'a', i) | jsonb_build_object('j', j, 'arr', a, 'ta', ta) | json_build_object('a', a, 'ta', ta, 'w', w, 'q', n / m)
json_build_object('c', coalesce(n, 0), 'k', case when b then n else 1 end, 'iv', iv, 't', t0, 'by', by, 'v', v) | json_build_array(i, s, null, n) | jsonb_build_array(i, s)
json_build_object() | json_build_array() | to_json(s) | to_json(n) | to_json(a) | to_jsonb(f) | to_jsonb(s) | to_jsonb(ta) | to_json(b) | to_json(tz)
array[i, k] | array[s, 'x'] | a || k | a || a | k || a | ta || s | ta || array['z'] | a[1] | ta[2] | array_length(a, 1) | cardinality(ta) | a @> array[1] | array[1] <@ a | a && array[1, 2]
array_append(a, i) | array_prepend(i, a) | array_cat(ta, ta) | array_remove(a, 1) | array_remove(a, i) | array_to_string(a, ',') | array_to_string(ta, '-', '?') | array_to_string(ta, '')
'{1,2}'::integer[] || a | array_length('{}'::text[], 1)
"""
AGGREGATES = """
count(*) | count(s) | count(distinct s) | count(distinct n) | sum(i) | sum(sm) | sum(bi) | sum(n) | sum(m) | sum(distinct small + 1) | sum(n) filter (where b)
avg(i) | avg(sm) | avg(bi) | avg(n) | avg(m) | avg(z) | avg(distinct n) | round(avg(n), 3) | avg(n)::numeric(20,1) | avg(i) > 3 | sum(n) / count(*) | sum(i) / nullif(count(k), 0)
min(i) | max(n) | min(s) | max(ts) | min(tz) | max(d) | min(uid::text) | max(t0) | min(v) | max(m) filter (where i > 0)
bool_and(b) | bool_or(c) | every(b) | bool_or(b) filter (where c)
array_agg(i order by id) | array_agg(s order by s desc, id) | array_agg(n order by n nulls first, id) | array_agg(distinct k) | array_agg(b order by id) filter (where b)
string_agg(s, ',' order by id) | string_agg(u, '' order by u desc) | string_agg(distinct u, '-') | string_agg(s, '; ' order by id desc) filter (where b)
json_agg(i order by id) | json_agg(s order by id) | json_agg(n order by id desc) | jsonb_agg(s order by id) | json_agg(json_build_object('i', i, 's', s) order by id)
jsonb_agg(jsonb_build_object('i', i, 'tz', tz) order by id) | json_agg(a order by id) | json_agg(j order by id) | jsonb_agg(j order by id) | json_agg(f order by id) filter (where f > 0)
json_object_agg(coalesce(s, 'x') || id, n order by id) | jsonb_object_agg('k' || id, jb order by id) | coalesce(json_agg(i order by id) filter (where i > 99), '[]')
coalesce(sum(n), 0) | coalesce(max(s), '') || count(*) | json_build_object('n', count(*), 'total', coalesce(sum(n), 0), 'average', round(avg(n), 2))
"""
AGGREGATED = [part.strip() for line in AGGREGATES.strip().splitlines() for part in line.split(" | ")]
LISTED = [part.strip() for line in EXPRESSIONS.strip().splitlines() for part in line.split(" | ")]

TEXTS = st.text(alphabet="aAbBéßñ中😀 %_\\'\"-1\n\t", max_size=7)
INTEGERS = st.one_of(st.integers(-5, 5), st.integers(-(2**31), 2**31 - 1))
FLOATS = st.one_of(
    st.integers(-9, 9).map(float),
    st.floats(-1e6, 1e6).map(lambda x: round(x, 3)),
    st.floats(width=64, min_value=-1e150, max_value=1e150),
    st.sampled_from(
        [float("nan"), float("inf"), float("-inf"), 0.5, 2.5, -0.0, 1e15, 1e16, 1e-5, 123456789012345680.0]
    ),
)
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "aa", "é"]), inner, max_size=3)
    ),
    max_leaves=5,
)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values, values, values)


def decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    whole = 10**digits - 1
    return st.one_of(st.integers(-300, 300), st.integers(-whole, whole)).map(lambda v: Decimal(v).scaleb(-scale))


def jsons() -> st.SearchStrategy[str]:
    plain = JSONS.map(lambda value: json.dumps({"a": value, "b": [1, 1.50, value]}, ensure_ascii=False))
    odd = st.sampled_from(
        ['{"a": 1.00, "b": [1, 2.50, {"c": null}]}', '{"a":{"b":"x\\n"},"a": 2e3}', "[]", '"s"', "1.10", '{ "b" : [] }']
    )
    return plain | odd


ROW = st.fixed_dictionaries(
    {
        "i": maybe(INTEGERS),
        "k": maybe(INTEGERS),
        "sm": maybe(st.integers(-(2**15), 2**15 - 1)),
        "bi": maybe(st.integers(-9, 9) | st.integers(-(2**63), 2**63 - 1)),
        "small": st.integers(-3, 4),
        "n": maybe(decimals(12, 2)),
        "m": maybe(decimals(8, 3)),
        "z": maybe(st.integers(-(10**30), 10**30)),
        "w": maybe(st.sampled_from(["1", "1.0", "2.345", "-2.5", "0.000", "123456789.123456789"])),
        "f": maybe(FLOATS),
        "r": maybe(st.floats(width=32, min_value=-(2.0**100), max_value=2.0**100)),
        "b": maybe(st.booleans()),
        "c": maybe(st.booleans()),
        "s": maybe(TEXTS),
        "u": maybe(st.text("ab", max_size=2)),
        "v": maybe(TEXTS),
        "ch": maybe(st.text("ab ", max_size=4)),
        "digits": maybe(
            st.sampled_from(
                ["1", " 12 ", "-7", "+3", "1.5", "2.675", "1e3", "t", "no", "x", "", "99999999999", ".5", "NaN"]
            )
        ),
        "isoday": maybe(
            st.sampled_from(
                ["2024-02-29", "2023-02-29", "2024-01-01 10:20", "2024-01-01T10:20:30.5", "2024-01-01 10:00:00+02", "x"]
            )
        ),
        "d": maybe(MOMENTS.map(lambda m: m.date())),
        "e": maybe(st.dates(date(2020, 1, 1), date(2024, 12, 31))),
        "ts": maybe(MOMENTS),
        "tz": maybe(MOMENTS.map(lambda m: m.replace(tzinfo=UTC))),
        "t0": maybe(st.times()),
        "iv": maybe(
            st.builds(
                lambda m, d, us: f"{m} months {d} days {us} microseconds",
                *(st.integers(-30, 30), st.integers(-60, 60), st.integers(-(10**12), 10**12)),
            )
        ),
        "j": maybe(jsons()),
        "jb": maybe(jsons()),
        "a": maybe(st.lists(maybe(st.integers(-2, 3)), max_size=4)),
        "ta": maybe(st.lists(maybe(st.text("ab,", max_size=2)), max_size=3)),
        "uid": maybe(st.uuids()),
        "by": maybe(st.binary(max_size=4)),
    }
)


@pytest.fixture(scope="module")
def samples(database: psycopg.Connection) -> Iterator[psycopg.Connection]:
    columns = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
    database.execute(f"create table {TABLE} ({columns})")
    yield database
    database.execute(f"drop table {TABLE}")


def fill(conn: psycopg.Connection, rows: list[dict[str, Any]]) -> None:
    conn.execute(f"truncate {TABLE}")
    names = sql.SQL(", ").join(map(sql.Identifier, COLUMNS))
    marks = sql.SQL(", ").join(sql.Placeholder() * len(COLUMNS))
    statement = sql.SQL("insert into {} ({}) values ({})").format(sql.Identifier(TABLE), names, marks)
    for number, row in enumerate(rows):
        values = {**row, "id": number, "v": row["v"] and row["v"][:8]}
        conn.execute(statement, [values[name] for name in COLUMNS])


Outcome = Any


def asked(expression: str, where: str = "") -> str:
    if expression in AGGREGATED:
        return f"SELECT small AS id, {expression} AS value FROM {TABLE}{where} GROUP BY small"
    return f"SELECT id, {expression} AS value FROM {TABLE}{where}"


def both(
    conn: psycopg.Connection, con: duckdb.DuckDBPyConnection, query: str, plan: ViewPlan, rows: Any
) -> tuple[Outcome, Outcome]:
    """Our rows and Postgres', or the text of an error."""
    try:
        theirs: Outcome = expected(conn, query, plan.root.fields)
    except psycopg.Error as error:
        theirs = f"error: {error}"
    try:
        ours: Outcome = found(con, plan, rows)
    except duckdb.Error as error:
        ours = f"error: {error}"
    return ours, theirs


def compare(
    conn: psycopg.Connection, con: duckdb.DuckDBPyConnection, expression: str, catalog: Any, tables: Any
) -> str | None:
    """What differs; row by row if one of the rows fails."""
    plan = planned(asked(expression), catalog)
    ours, theirs = both(conn, con, asked(expression), plan, tables)
    if ours == theirs and not isinstance(ours, str):
        return None
    name = TableName("public", TABLE)
    table = tables[name]
    for place, number in enumerate(table.column("id").to_pylist()):
        query = asked(expression, f" where id = {number}")
        ours, theirs = both(conn, con, query, plan, {name: table.slice(place, 1)})
        if (isinstance(theirs, str) and isinstance(ours, str)) or _is_known(ours, theirs):
            continue
        if ours != theirs:
            return f"{expression}: ours {ours}, Postgres {theirs}, of {table.slice(place, 1).to_pylist()}"
    return None


def _is_known(ours: Outcome, theirs: Outcome) -> bool:
    """A float that overflows is infinite, or 0, and no error; a numeric with a scale that is NaN is an error."""
    if isinstance(theirs, str):
        return ": overflow" in theirs or ": underflow" in theirs
    return isinstance(ours, str) and theirs[0][1] == "NaN"


@pytest.mark.stack
def test_same_values(samples: psycopg.Connection, duck: duckdb.DuckDBPyConnection) -> None:
    @seed(4)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(ROW, min_size=ROWS, max_size=ROWS))
    def check(rows: list[dict[str, Any]]) -> None:
        fill(samples, rows)
        catalog, tables = catalog_and_rows(samples, [TABLE])
        differences = [compare(samples, duck, expression, catalog, tables) for expression in [*LISTED, *AGGREGATED]]
        assert [difference for difference in differences if difference] == []

    check()


@pytest.mark.stack
@pytest.mark.parametrize("expression", [*LISTED, *AGGREGATED])
def test_same_type(expression: str, samples: psycopg.Connection) -> None:
    catalog, _ = catalog_and_rows(samples, [TABLE])
    query = asked(expression)
    assert [f.type.name for f in planned(query, catalog).root.fields] == postgres_types(samples, query)


def test_every_function_is_compared() -> None:
    """A function that is on the list and in no expression here has never been tried."""
    spelled_otherwise = {
        "array",
        "array_subscript",
        "whole_row",
        "row_to_json",
        "arraycontains",
        "arrayoverlap",
        "jsonb_exists",
    }
    operators = {
        f"{kind}_{what}{suffix}"
        for kind in ("json", "jsonb")
        for what in ("object_field", "array_element")
        for suffix in ("", "_text")
    }
    tried = {word for expression in LISTED for word in RULES if f"{word}(" in expression}
    assert set(RULES) - tried - spelled_otherwise - operators == set()
    assert set(OVERLOADS) <= set(RULES)
