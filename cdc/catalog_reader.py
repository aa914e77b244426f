"""Reads the catalog of the source as it is now, from pg_catalog itself: for preflight, tests, and sources that are not
migrated. The same shape as a row of headwater.catalog, so `Table.parse` makes the tables of both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

from cdc.catalog import Catalog, Table
from cdc.errors import SourceError
from cdc.events import TableName

_TABLES: Final = """
    select c.oid::bigint as relation, n.nspname as schema_name, c.relname as table_name,
        c.relreplident::text as replica_identity,
        coalesce((
            select array_agg(a.attname::text order by k.place)
            from pg_index i cross join unnest(i.indkey::smallint[]) with ordinality k (attnum, place)
            join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
            where i.indrelid = c.oid and k.place <= i.indnkeyatts
                and case c.relreplident when 'i' then i.indisreplident else i.indisprimary end), '{}') as key_columns
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    join unnest(%s::text[], %s::text[]) t (schema, name) on t.schema = n.nspname and t.name = c.relname
    where c.relkind in ('r', 'p')
"""
# A type is followed through domains to what they are made of, and through arrays to their elements. The modifier of an
# array belongs to its elements; a domain brings its own.
_COLUMNS: Final = """
    with recursive attribute as (
        select attrelid, attnum, attname, attnotnull, attgenerated, atttypid, atttypmod
        from pg_attribute where attrelid = any(%s::oid[]) and attnum > 0 and not attisdropped
    ), walk (attrelid, attnum, id, modifier, dims, depth) as (
        select attrelid, attnum, atttypid, atttypmod, 0, 0 from attribute
        union all
        select w.attrelid, w.attnum,
            case t.typtype when 'd' then t.typbasetype else t.typelem end,
            case t.typtype when 'd' then t.typtypmod else w.modifier end,
            case t.typtype when 'd' then w.dims else 1 end, w.depth + 1
        from walk w join pg_type t on t.oid = w.id
        where t.typtype = 'd' or exists (select from pg_type e where e.oid = t.typelem and e.typarray = t.oid)
    ), base as (
        select distinct on (attrelid, attnum) * from walk order by attrelid, attnum, depth desc
    )
    select a.attrelid::bigint as relation, a.attname as name, a.attnotnull as not_null,
        a.attgenerated::text as generated,
        format_type(a.atttypid, a.atttypmod) as type, format_type(b.id, b.modifier) as base, t.typtype::text as kind,
        b.dims, t.typrelid::bigint as composite
    from attribute a join base b using (attrelid, attnum) join pg_type t on t.oid = b.id
    order by a.attrelid, a.attnum
"""


def load(conn: psycopg.Connection, tables: Iterable[TableName]) -> Catalog:
    """The tables as they are in the connection's transaction. Raises SourceError if one is not there."""
    wanted = list(tables)
    found = Catalog.of(Table.parse(row) for row in describe(conn, wanted))
    if missing := set(wanted) - set(found.by_name):
        names = ", ".join(sorted(map(str, missing)))
        raise SourceError(f"no such table: {names}", detail="not in pg_class", hint="headwater doctor")
    return found


def describe(conn: psycopg.Connection, tables: Iterable[TableName]) -> list[dict[str, Any]]:
    """The same as rows of headwater.catalog."""
    wanted = list(tables)
    with conn.transaction(), conn.cursor(row_factory=dict_row) as cursor:
        # So that names outside pg_catalog are printed with their schema, whatever the session's path.
        cursor.execute("set local search_path = pg_catalog, pg_temp")
        rows = cursor.execute(_TABLES, [[t.schema for t in wanted], [t.name for t in wanted]]).fetchall()
        columns = _columns(cursor, [row["relation"] for row in rows])
    return [{**row, "columns": columns.get(row["relation"], [])} for row in rows]


def _columns(cursor: psycopg.Cursor[dict[str, Any]], relations: list[int]) -> dict[int, list[dict[str, Any]]]:
    """The columns of each relation, those of composite types inside included."""
    if not relations:
        return {}
    described: dict[int, list[dict[str, Any]]] = {}
    for column in cursor.execute(_COLUMNS, [relations]).fetchall():
        described.setdefault(column.pop("relation"), []).append(column)
    composites = sorted({c["composite"] for columns in described.values() for c in columns if c["kind"] == "c"})
    fields = _columns(cursor, composites)
    for column in (c for columns in described.values() for c in columns):
        if column["kind"] == "c":
            column["fields"] = fields[column["composite"]]
    return described
