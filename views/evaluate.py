"""DuckDB as the evaluator of expressions over Arrow: one connection a thread, no state, the same answer every time.

Tables are given by name and are gone afterwards. One DuckDB thread, so rows keep their order: Spark, or whoever runs
the stages, brings the parallelism.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

import duckdb
import pyarrow as pa
from sqlglot import exp

from cdc.errors import ViewError
from views.sql.duck import prepare, to_duckdb

_SETTINGS: Final = {
    "threads": "1",
    "TimeZone": "UTC",
    "default_null_order": "nulls_last_on_asc_first_on_desc",  # as Postgres
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "enable_external_access": "false",
}
_local: Final = threading.local()


def evaluate(sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The result of one SELECT. Raises ViewError for what the values do not allow, such as a division by zero."""
    connection = _connection()
    for name, table in tables.items():
        connection.register(name, table)
    try:
        return connection.sql(sql).to_arrow_table()
    except duckdb.Error as error:
        raise ViewError(
            "an expression of a view failed",
            detail=f"{type(error).__name__}: {error}",
            hint="headwater explain VIEW",
        ) from error
    finally:
        for name in tables:
            connection.unregister(name)


def duckdb_sql(expression: exp.Expression) -> str:
    """An expression with Postgres' meaning, as DuckDB writes it."""
    return to_duckdb(expression)


def _connection() -> duckdb.DuckDBPyConnection:
    found = getattr(_local, "connection", None)
    if isinstance(found, duckdb.DuckDBPyConnection):
        return found
    opened = prepare(duckdb.connect(":memory:"))
    for name, value in _SETTINGS.items():
        opened.execute(f"set {name} = '{value}'")
    _local.connection = opened
    return opened
