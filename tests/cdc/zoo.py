"""Every Postgres type a user has, with its tricky values, as SQL: the animals that decoding must know.

Each specimen is a table `zoo.t_<name>` (id int primary key, v TYPE). A value's id says how it got there: rows below
STREAMED_FROM are there before capture starts (a snapshot reads them), the same values from STREAMED_FROM on are
inserted afterwards (the log carries them). Value number i of a specimen has the ids i and STREAMED_FROM + i.

BIG and BLIND are large values that an update leaves alone (`zoo.b_<name>`); zoo_story.py is what happens to a few
ordinary tables. REFUSED are types that preflight must not let through: no table is made of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.cdc.zoo_story import STORY, STORY_BEFORE, STORY_SCHEMA, STORY_TABLES

SCHEMA: Final = "zoo"
STREAMED_FROM: Final = 1000


@dataclass(frozen=True, slots=True)
class Specimen:
    name: str
    type: str
    values: tuple[str, ...] = ()
    """SQL expressions; NULL is added to all."""
    streamed: tuple[str, ...] = ()
    """Further values, which come through the log but not through a snapshot."""

    @property
    def table(self) -> str:
        return f"{SCHEMA}.t_{self.name}"

    @property
    def big_table(self) -> str:
        return f"{SCHEMA}.b_{self.name}"

    def inserts(self, first_id: int) -> list[str]:
        values = (*self.values, "null", *(self.streamed if first_id else ()))
        return [
            f"insert into {self.table} (id, v) values ({first_id + i}, ({value})::{self.type})"
            for i, value in enumerate(values)
        ]


def _s(name: str, type_: str, *values: str, streamed: tuple[str, ...] = ()) -> Specimen:
    return Specimen(name, type_, values, streamed)


NUMBERS: Final = (
    _s("smallint", "smallint", "-32768", "32767", "0"),
    _s("integer", "integer", "-2147483648", "2147483647"),
    _s("bigint", "bigint", "-9223372036854775808", "9223372036854775807", "9007199254740993"),
    _s("oid", "oid", "0", "4294967295"),
    _s("numeric", "numeric", "'NaN'", "'Infinity'", "'-Infinity'", "1e30", "1.10", "-0.000001234500", "0",
       "repeat('9', 60)||'.'||repeat('1', 40)", "1e-20"),
    _s("numeric_12_2", "numeric(12,2)", "1234567890.12", "-0.01", "'NaN'", "100", "0"),
    _s("numeric_38_0", "numeric(38,0)", "repeat('9', 38)", "-1"),
    _s("numeric_neg", "numeric(5,-2)", "1234500", "-100"),
    _s("numeric_60_10", "numeric(60,10)", "repeat('9', 50)||'.'||repeat('8', 10)"),
    _s("real", "real", "'NaN'", "'Infinity'", "'-Infinity'", "0.1", "1.17549435e-38", "3.4028235e38", "'-0'",
       "16777217"),
    _s("double", "double precision", "'NaN'", "'Infinity'", "'-Infinity'", "0.1", "5e-324", "1.7976931348623157e308",
       "'-0'", "1e22", "0.30000000000000004"),
    _s("money", "money", "12.34", "-92233720368547758.08", "92233720368547758.07", "0"),
    _s("boolean", "boolean", "true", "false"),
)  # fmt: skip

TEXTS: Final = (
    _s("text", "text", "''", "'plain'", "E'tab\\t nl\\n quote\" back\\\\slash'", "'žluťoučký 🐴 ﷽'", "'null'",
       "E'\\x01'"),
    _s("varchar_5", "varchar(5)", "'a  '", "'žluť'"),
    _s("char_5", "char(5)", "'ab'", "''", "'žluť'"),
    _s("onechar", '"char"', "'x'"),
    _s("name", "name", "'pg_class'"),
    _s("citext", "public.citext", "'MiXed'"),
    _s("bytea", "bytea", "'\\x'", "'\\x00ff10'", "'\\xdeadbeef'"),
    _s("uuid", "uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'00000000-0000-0000-0000-000000000000'"),
    _s("json", "json", "'{\"b\": 1,  \"a\": [1.0, null, \"x\"], \"a\": 2}'", "'null'", "'\"s\"'", "'1e400'"),
    _s("jsonb", "jsonb", "'{\"b\": 1, \"a\": [1.10, null, \"x\"]}'", "'null'", "'12345678901234567890.123'", "'\"\"'"),
    _s("xml", "xml", "'<a b=\"c\">d</a>'", "'<x/>'"),
    _s("enum", "zoo.mood", "'sad'", "'very happy'", "'it''s \"q\", ok'"),
    _s("inet", "inet", "'192.168.0.1'", "'10.0.0.0/8'", "'2001:db8::1/64'"),
    _s("cidr", "cidr", "'10.0.0.0/8'", "'2001:db8::/32'"),
    _s("macaddr", "macaddr", "'08:00:2b:01:02:03'"),
    _s("macaddr8", "macaddr8", "'08:00:2b:01:02:03:04:05'"),
    _s("bit_1", "bit(1)", "B'1'", "B'0'"),
    _s("bit_8", "bit(8)", "B'10000001'", "B'00000000'", "B'00000111'"),
    _s("bit_70", "bit(70)", "repeat('10', 35)"),
    _s("hstore", "public.hstore", "'a=>1, \"b c\"=>NULL, \"q\"=>\"x\\\"y\"'", "''", "'\"null\"=>\"NULL\"'"),
    _s("tsvector", "tsvector", "'a:1A fat:2B,4C cat:5D'", "'just words'", "'\"it''''s\"'"),
    _s("tsquery", "tsquery", "'fat & (rat | cat)'"),
    _s("ltree", "public.ltree", "'Top.Science.Astronomy'"),
    _s("pg_lsn", "pg_lsn", "'16/B374D848'"),
    _s("jsonpath", "jsonpath", "'$.a[*] ? (@ > 1)'"),
    _s("xid8", "xid8", "'123456789012'"),
    _s("tid", "tid", "'(3,4)'"),
    _s("regclass", "regclass", "'pg_class'"),
    _s("txid_snapshot", "pg_snapshot", "'10:20:10,14,15'"),
)  # fmt: skip

TIMES: Final = (
    _s("date", "date", "'2024-02-29'", "'infinity'", "'-infinity'", "'12345-06-07'", "'5874897-12-31'", "'1900-01-01'",
       streamed=("'0044-03-15 BC'", "'4713-01-01 BC'", "'0001-01-01'", "'1582-10-10'")),
    _s("timestamp", "timestamp", "'2024-02-29 12:34:56.789012'", "'infinity'", "'-infinity'",
       "'0044-03-15 10:00:00 BC'", "'4713-01-01 00:00 BC'", "'12345-06-07 08:09:10.000001'",
       "'294246-12-31 23:59:59.999999'", "'1582-10-10 01:02:03'", "'1969-12-31 23:59:59.999999'",
       "'2024-01-01 00:00:00'"),
    _s("timestamp_3", "timestamp(3)", "'2024-02-29 12:34:56.789'", "'infinity'"),
    _s("timestamp_0", "timestamp(0)", "'2024-02-29 12:34:56'"),
    _s("timestamptz", "timestamptz", "'2024-02-29 12:34:56.789012+05:30'", "'infinity'", "'-infinity'",
       "'0044-03-15 10:00:00+00 BC'", "'4713-01-01 00:00+00 BC'", "'12345-06-07 08:09:10.000001+00'",
       "'294246-12-31 23:59:59.999999+00'", "'1582-10-10 01:02:03+00'", "'2024-01-01 00:00:00+00'",
       "'2024-03-31 02:30:00 Europe/Prague'", "'1900-01-01 00:00+00'"),
    _s("timestamptz_3", "timestamptz(3)", "'2024-02-29 12:34:56.789+00'", "'-infinity'"),
    _s("time", "time", "'00:00'", "'23:59:59.999999'", "'24:00:00'", "'12:34:56'", "'12:00:00.1'"),
    _s("time_0", "time(0)", "'12:34:56'", "'24:00'"),
    _s("time_3", "time(3)", "'12:34:56.789'"),
    _s("interval", "interval", "'1 year 2 mons 3 days 04:05:06.789012'", "'-1 day +00:00:01'", "'0'", "'1 mon -1 day'",
       "'178000000 years'", "'100000:00:00.000001'", "'-0.5 sec'", "'14 mons'", "'365 days'", "'36:00:00'"),
)  # fmt: skip

SHAPES: Final = (
    _s("point", "point", "'(1.5,-2)'", "'(0.1,1e300)'", "'(NaN,Infinity)'", "'(-0,-Infinity)'"),
    _s("line", "line", "'{1,2,3}'", "'{-0.1,1e15,-1e-300}'", "'{1,NaN,Infinity}'"),
    _s("lseg", "lseg", "'[(1,2),(3,4)]'", "'[(0.1,-0),(NaN,-Infinity)]'", "'[(1,2),(1,2)]'"),
    _s("box", "box", "'(3,4),(1,2)'", "'(1,4),(3,2)'", "'(1e300,Infinity),(-0.1,-Infinity)'", "'(NaN,1),(2,NaN)'",
       "'(1,2),(1,2)'"),
    _s("path", "path", "'((1,2),(3,4))'", "'[(1,2),(3,4)]'", "'((1,2),(3,4),(1,2))'", "'[(1,2),(3,4),(1,2)]'",
       "'((1,2))'", "'[(-0.1,1e300)]'", "'((NaN,Infinity),(-Infinity,-0))'"),
    _s("circle", "circle", "'<(1,2),3>'", "'<(-0.1,1e300),0>'", "'<(NaN,Infinity),Infinity>'", "'<(0,0),NaN>'"),
)  # fmt: skip

RANGES: Final = (
    _s("int4range", "int4range", "'[1,5)'", "'empty'", "'(,5)'", "'(,)'"),
    _s("int8range", "int8range", "'[1,9223372036854775807)'", "'[5,)'"),
    _s("numrange", "numrange", "'(1.10,2.200]'", "'[-Infinity,NaN]'"),
    _s("tsrange", "tsrange", "'[2024-01-01 00:00,2024-01-02 12:00:00.5)'", "'[-infinity,infinity]'"),
    _s("tstzrange", "tstzrange", "'[2024-01-01 00:00+00,2024-01-02 00:00+05:30)'", "'(,infinity)'"),
    _s("daterange", "daterange", "'[2024-01-01,2024-02-01)'"),
    _s("int4multirange", "int4multirange", "'{[1,3),[5,8)}'", "'{}'"),
    _s("tstzmultirange", "tstzmultirange", "'{[2024-01-01 00:00+00,2024-01-02 00:00+00)}'"),
    _s("textrange", "zoo.textrange", "'[\"a,b\",\"c\\\"d\")'"),
)  # fmt: skip

COMPOSITES: Final = (
    _s("composite", "zoo.pair", "row(1, 'a,b \"q\" (x)')", "row(null, '')", "row(-5, null)"),
    _s("nested", "zoo.nest", "row(row(1, 'in'), array[1,2], '2024-01-01 00:00+00', 1.50)",
       "row(null, '{}', 'infinity', 'NaN')"),
    _s("dom_int", "zoo.positive", "1", "2147483647"),
    _s("dom_text", "zoo.label", "'abc'"),
    _s("dom_numeric", "zoo.price", "12.30", "'NaN'"),
    _s("dom_dom", "zoo.small_label", "'abc'"),
    _s("dom_array", "zoo.tags", "array['a','b,c',null]", "'{}'"),
    _s("dom_timestamptz", "zoo.stamp", "'2024-01-01 10:00+02'", "'infinity'"),
    _s("dom_composite", "zoo.pair_dom", "row(1,'x')"),
    _s("dom_bytea", "zoo.blob_dom", "'\\x00ff'"),
    _s("dom_json", "zoo.json_dom", "'{\"a\":1}'"),
    _s("dom_uuid", "zoo.uuid_dom", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"),
    _s("dom_bit", "zoo.bit_dom", "B'10000001'"),
    _s("dom_path", "zoo.path_dom", "'[(1,2),(3,4)]'"),
    _s("dom_box", "zoo.box_dom", "'(3,4),(1,2)'"),
)  # fmt: skip

ARRAYS: Final = (
    _s("a_smallint", "smallint[]", "'{1,NULL,-3}'", "'{}'"),
    _s("a_int", "int[]", "'{1,NULL,-3}'", "'{}'", "'[0:1]={7,8}'"),
    _s("a_bigint", "bigint[]", "'{9223372036854775807,NULL}'"),
    _s("a_oid", "oid[]", "'{1,4294967295}'"),
    _s("a_numeric", "numeric[]", "'{1.10,NULL,1e20}'"),
    _s("a_numeric_12_2", "numeric(12,2)[]", "'{1.10,NULL}'"),
    _s("a_real", "real[]", "'{0.1,NaN,Infinity,NULL}'"),
    _s("a_double", "double precision[]", "'{0.1,NaN,-Infinity,NULL}'"),
    _s("a_boolean", "boolean[]", "'{t,f,NULL}'"),
    _s("a_text", "text[]", "array['', 'a,b', '\"q\"', 'NULL', null, '\\b{}']", "'{}'"),
    _s("a_varchar", "varchar(5)[]", "array['a', null]"),
    _s("a_char", "char(3)[]", "array['a', null]"),
    _s("a_citext", "public.citext[]", "array['MiX', null]::public.citext[]"),
    _s("a_bytea", "bytea[]", "array['\\x00ff'::bytea, null, '\\x']"),
    _s("a_uuid", "uuid[]", "array['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', null]::uuid[]"),
    _s("a_json", "json[]", "array['{\"a\": 1}', null]::json[]"),
    _s("a_jsonb", "jsonb[]", "array['{\"a\": 1}', null]::jsonb[]"),
    _s("a_enum", "zoo.mood[]", "array['sad', 'it''s \"q\", ok']::zoo.mood[]", "'{}'"),
    _s("a_inet", "inet[]", "array['10.0.0.1', null]::inet[]"),
    _s("a_cidr", "cidr[]", "array['10.0.0.0/8', null]::cidr[]"),
    _s("a_macaddr", "macaddr[]", "array['08:00:2b:01:02:03', null]::macaddr[]"),
    _s("a_date", "date[]", "'{2024-02-29,infinity,NULL}'"),
    _s("a_timestamp", "timestamp[]", "'{2024-02-29 12:34:56.789012,NULL}'", "'{infinity,-infinity}'"),
    _s("a_timestamptz", "timestamptz[]", "'{2024-02-29 12:34:56.789012+05:30,NULL}'", "'{infinity,-infinity}'"),
    _s("a_int4range", "int4range[]", "array['[1,5)', null]::int4range[]"),
    _s("a_tstzrange", "tstzrange[]", "array['[2024-01-01 00:00+00,)', null]::tstzrange[]"),
    _s("a_hstore", "public.hstore[]", "array['a=>1', null]::public.hstore[]"),
)  # fmt: skip

REFUSED: Final = (
    _s("varbit", "varbit"),
    _s("varbit_10", "varbit(10)"),
    _s("timetz", "timetz"),
    _s("int2vector", "int2vector"),
    _s("polygon", "polygon"),
    _s("a_money", "money[]"),
    _s("a_name", "name[]"),
    _s("a_xml", "xml[]"),
    _s("a_bit", "bit(3)[]"),
    _s("a_varbit", "varbit[]"),
    _s("a_time", "time[]"),
    _s("a_timetz", "timetz[]"),
    _s("a_interval", "interval[]"),
    _s("a_point", "point[]"),
    _s("a_box", "box[]"),
    _s("a_path", "path[]"),
    _s("a_polygon", "polygon[]"),
    _s("a_int4multirange", "int4multirange[]"),
    _s("a_composite", "zoo.pair[]"),
    _s("a_dom_int", "zoo.positive[]"),
    _s("a_dom_text", "zoo.label[]"),
    _s("a_ltree", "public.ltree[]"),
    _s("a_tsvector", "tsvector[]"),
    _s("a_pg_lsn", "pg_lsn[]"),
)

SPECIMENS: Final = (*NUMBERS, *TEXTS, *TIMES, *SHAPES, *RANGES, *COMPOSITES, *ARRAYS)

TYPES: Final = """
create extension if not exists citext schema public;
create extension if not exists hstore schema public;
create extension if not exists ltree schema public;
drop schema if exists zoo cascade;
create schema zoo;
create type zoo.mood as enum ('sad', 'ok', 'very happy', 'it''s "q", ok');
create type zoo.pair as (n int, label text);
create type zoo.nest as (p zoo.pair, ns int[], at timestamptz, price numeric(10,2));
create type zoo.textrange as range (subtype = text);
create domain zoo.positive as int check (value > 0);
create domain zoo.label as text;
create domain zoo.small_label as zoo.label check (length(value) < 10);
create domain zoo.price as numeric(12,2);
create domain zoo.tags as text[];
create domain zoo.stamp as timestamptz;
create domain zoo.pair_dom as zoo.pair;
create domain zoo.blob_dom as bytea;
create domain zoo.json_dom as jsonb;
create domain zoo.uuid_dom as uuid;
create domain zoo.bit_dom as bit(8);
create domain zoo.path_dom as path;
create domain zoo.box_dom as box;
"""

BIG: Final = (
    _s("text", "text", "repeat('x', 3000)"),
    _s("varchar", "varchar", "repeat('x', 3000)"),
    _s("char_3000", "char(3000)", "repeat('x', 3000)"),
    _s("citext", "public.citext", "repeat('x', 3000)"),
    _s("bytea", "bytea", "decode(repeat('ab', 3000), 'hex')"),
    _s("json", "json", "to_json(repeat('x', 3000))"),
    _s("jsonb", "jsonb", "to_jsonb(repeat('x', 3000))"),
    _s("xml", "xml", "'<a>'||repeat('x', 3000)||'</a>'"),
    _s("numeric", "numeric", "repeat('7', 5000)"),
    _s("hstore", "public.hstore", "public.hstore('k', repeat('x', 3000))"),
    _s("tsvector", "tsvector", "(select string_agg('w'||i, ' ') from generate_series(1, 700) i)"),
    _s("ltree", "public.ltree", "(select string_agg('w'||i, '.') from generate_series(1, 700) i)"),
    _s("composite", "zoo.pair", "row(1, repeat('x', 3000))"),
    _s("textrange", "zoo.textrange", "zoo.textrange(repeat('a', 2000), repeat('b', 2000))"),
    _s("numrange", "numrange", "numrange(repeat('7', 3000)::numeric, repeat('8', 3000)::numeric)"),
    _s("int4multirange", "int4multirange", "(select range_agg(int4range(i*3, i*3+1)) from generate_series(1, 700) i)"),
    _s("dom_text", "zoo.label", "repeat('x', 3000)"),
    _s("dom_bytea", "zoo.blob_dom", "decode(repeat('ab', 3000), 'hex')"),
    _s("dom_json", "zoo.json_dom", "to_jsonb(repeat('x', 3000))"),
    _s("jsonpath", "jsonpath", "'$.\"'||repeat('x', 3000)||'\"'"),
    _s("a_text", "text[]", "(select array_agg('t'||i) from generate_series(1, 700) i)"),
    _s("a_varchar", "varchar[]", "(select array_agg('t'||i) from generate_series(1, 700) i)"),
    _s("a_char", "char(5)[]", "(select array_agg('t'||i) from generate_series(1, 700) i)"),
    _s("a_int", "int[]", "(select array_agg(i) from generate_series(1, 800) i)"),
    _s("a_bigint", "bigint[]", "(select array_agg(i) from generate_series(1, 400) i)"),
    _s("a_uuid", "uuid[]", "(select array_agg(md5(i::text)::uuid) from generate_series(1, 200) i)"),
    _s("a_date", "date[]", "(select array_agg('2024-01-01'::date + i) from generate_series(1, 800) i)"),
    _s("a_json", "json[]", "(select array_agg(to_json(i)) from generate_series(1, 500) i)"),
    _s("a_jsonb", "jsonb[]", "(select array_agg(to_jsonb(i)) from generate_series(1, 400) i)"),
    _s("a_bytea", "bytea[]", "(select array_agg('\\xab'::bytea) from generate_series(1, 400) i)"),
)  # fmt: skip

BLIND: Final = (
    _s("bit", "bit(24000)", "repeat('10', 12000)"),
    _s("path", "path", "'['||(select string_agg('('||i||',1)', ',') from generate_series(1, 200) i)||']'"),
    _s("dom_path", "zoo.path_dom", "'('||(select string_agg('('||i||',1)', ',') from generate_series(1, 200) i)||')'"),
    _s("dom_array", "zoo.tags", "(select array_agg('t'||i) from generate_series(1, 700) i)"),
    _s("a_citext", "public.citext[]", "(select array_agg('t'||i) from generate_series(1, 700) i)"),
    _s("a_smallint", "smallint[]", "(select array_agg(i) from generate_series(1, 1500) i)"),
    _s("a_oid", "oid[]", "(select array_agg(i::oid) from generate_series(1, 800) i)"),
    _s("a_numeric", "numeric[]", "(select array_agg(i::numeric) from generate_series(1, 400) i)"),
    _s("a_real", "real[]", "(select array_agg(i::real) from generate_series(1, 800) i)"),
    _s("a_double", "double precision[]", "(select array_agg(i::float8) from generate_series(1, 400) i)"),
    _s("a_boolean", "boolean[]", "(select array_agg(true) from generate_series(1, 3000) i)"),
    _s("a_timestamp", "timestamp[]", "(select array_agg('2024-01-01'::timestamp) from generate_series(1, 400) i)"),
    _s("a_timestamptz", "timestamptz[]",
       "(select array_agg('2024-01-01 00:00+00'::timestamptz) from generate_series(1, 400) i)"),
    _s("a_enum", "zoo.mood[]", "(select array_agg('sad'::zoo.mood) from generate_series(1, 800) i)"),
    _s("a_inet", "inet[]", "(select array_agg('10.0.0.1'::inet) from generate_series(1, 250) i)"),
    _s("a_int4range", "int4range[]", "(select array_agg(int4range(1, i)) from generate_series(1, 200) i)"),
    _s("a_hstore", "public.hstore[]", "(select array_agg('a=>1'::public.hstore) from generate_series(1, 150) i)"),
    _s("a_macaddr", "macaddr[]", "(select array_agg('08:00:2b:01:02:03'::macaddr) from generate_series(1, 500) i)"),
)  # fmt: skip
"""Here Debezium fails at an unchanged value, unless the table has REPLICA IDENTITY FULL."""


def create_sql() -> list[str]:
    """Makes types and tables anew. The publication comes after: dropping a schema takes it out of one."""
    tables = [f"create table {s.table} (id int primary key, v {s.type})" for s in SPECIMENS]
    for s in (*BIG, *BLIND):
        tables.append(f"create table {s.big_table} (id int primary key, n int, v {s.type})")
        tables.append(f"alter table {s.big_table} alter v set storage external")
    tables += [f"alter table {s.big_table} replica identity full" for s in BLIND]
    return [TYPES, *tables, STORY_SCHEMA]


def before_sql() -> list[str]:
    """What a snapshot finds."""
    values = [statement for s in SPECIMENS for statement in s.inserts(0)]
    big = [f"insert into {s.big_table} values (1, 0, ({s.values[0]})::{s.type})" for s in (*BIG, *BLIND)]
    return [*values, *big, *STORY_BEFORE]


def streamed() -> list[tuple[str, tuple[str, ...]]]:
    """What happens after it: transactions, each with a name."""
    values = [(s.name, tuple(s.inserts(STREAMED_FROM))) for s in SPECIMENS]
    big = [(f"big {s.name}", (f"update {s.big_table} set n = n + 1",)) for s in (*BIG, *BLIND)]
    return [*values, *big, *STORY]


def tables() -> list[tuple[str, str]]:
    """Schema and name of all."""
    named = [*(s.table for s in SPECIMENS), *(s.big_table for s in (*BIG, *BLIND))]
    return [(SCHEMA, name.removeprefix(f"{SCHEMA}.")) for name in named] + [(SCHEMA, name) for name in STORY_TABLES]
