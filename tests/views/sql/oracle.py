"""Postgres as the oracle: the same SQL there and in DuckDB, over the same rows, compared by value and by type."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import duckdb
import psycopg
import pyarrow as pa

from cdc.catalog import Catalog
from cdc.catalog_reader import load
from cdc.events import TableName
from cdc.pgtypes import TypeSpec, pg_type
from tests.views.sql.evaluate import evaluate
from views.definition import parse
from views.plan import Field
from views.sql import ViewPlan, plan_view
from views.sqltypes import Family

FLOAT_DIGITS = 12
"""A sum of floats depends on the order of its rows, which nobody has decided."""


def planned(sql: str, catalog: Catalog) -> ViewPlan:
    (definition,) = parse(f"CREATE MATERIALIZED VIEW tried AS {sql}")
    return plan_view(definition, catalog)


def catalog_and_rows(conn: psycopg.Connection, tables: Sequence[str]) -> tuple[Catalog, dict[TableName, pa.Table]]:
    names = [TableName("public", name) for name in tables]
    catalog = load(conn, names)
    return catalog, {name: arrow_rows(conn, catalog, name) for name in names}


def arrow_rows(conn: psycopg.Connection, catalog: Catalog, name: TableName) -> pa.Table:
    """As the mirror would have them: from Postgres' text through cdc's types."""
    table = catalog.table(name)
    shown = ", ".join(f'"{column.name}"::text' for column in table.columns)
    rows = conn.execute(f'select {shown} from "{name.name}"').fetchall()
    arrays = []
    for place, column in enumerate(table.columns):
        read = column.type
        values = [None if row[place] is None else read.to_arrow(read.from_text(row[place])) for row in rows]
        arrays.append(pa.array(values, read.arrow))
    return pa.table(arrays, names=[column.name for column in table.columns])


def expected(conn: psycopg.Connection, sql: str, fields: Sequence[Field]) -> list[tuple[Any, ...]]:
    """Postgres' rows, in the form in which Arrow gives ours."""
    shown = ", ".join(f'"{field.name}"::text' for field in fields)
    rows = conn.execute(f"select {shown} from ({sql}) expected").fetchall()
    return sorted((tuple(_read(f, v) for f, v in zip(fields, row, strict=True)) for row in rows), key=repr)


def _read(field: Field, text: str | None) -> Any:
    if text is None:
        return None
    if field.type.family is Family.NUMERIC:
        return normal(field, Decimal(text))
    if field.type.family is Family.ENUM:
        return text
    read = pg_type(_spec(field.type.postgres))
    return normal(field, pa.array([read.to_arrow(read.from_text(text))], read.arrow).to_pylist()[0])


def _spec(name: str) -> TypeSpec:
    return TypeSpec(name, name.removesuffix("[]"), dims=name.count("[]"))


def normal(field: Field, value: Any) -> Any:
    """Numerics with their zeros, unless their scale varies; NaN equal to itself."""
    if field.type.family is Family.NUMERIC and value is not None:
        number = Decimal(value)
        if field.type.scale_varies:
            return str(number.normalize() + 0)
        return str(abs(number) if number == 0 else number)
    if isinstance(value, list):
        return [str(item) if isinstance(item, Decimal) else item for item in value]
    if isinstance(value, float):
        return f"{value + 0.0:.{FLOAT_DIGITS}g}"
    return value


def found(con: duckdb.DuckDBPyConnection, plan: ViewPlan, rows: dict[TableName, pa.Table]) -> list[tuple[Any, ...]]:
    table = evaluate(con, plan.root, rows)
    check_types(plan, table)
    columns = [[normal(f, v) for v in table.column(n).to_pylist()] for n, f in enumerate(plan.root.fields)]
    return sorted(zip(*columns, strict=True), key=repr)


def check_types(plan: ViewPlan, table: pa.Table) -> None:
    for field, column in zip(plan.root.fields, table.schema, strict=True):
        assert column.type == field.type.arrow, f"{field.name}: planned {field.type.arrow}, evaluated {column.type}"


def postgres_types(conn: psycopg.Connection, sql: str) -> list[str]:
    """Of the result's columns, without modifiers."""
    cursor = conn.execute(f"select * from ({sql}) described limit 0")
    oids = [column.type_code for column in cursor.description or ()]
    return [conn.execute("select format_type(%s, null)", [oid]).fetchone()[0] for oid in oids]  # type: ignore[index]


def check_same(conn: psycopg.Connection, con: duckdb.DuckDBPyConnection, sql: str, tables: Sequence[str]) -> ViewPlan:
    """The view's rows and types are those of Postgres."""
    catalog, rows = catalog_and_rows(conn, tables)
    plan = planned(sql, catalog)
    assert [f.type.name.removeprefix("public.") for f in plan.root.fields] == postgres_types(conn, sql)
    ours, theirs = found(con, plan, rows), expected(conn, sql, plan.root.fields)
    assert [row for row in ours if row not in theirs] == [row for row in theirs if row not in ours]
    assert ours == theirs
    return plan
