"""A plan evaluated as a whole, in one DuckDB statement: the front end's own oracle, without stages and state."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import pyarrow as pa

from cdc.events import TableName
from views.plan import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    Project,
    Scan,
    SemiJoin,
    TopK,
    UnionAll,
    Window,
)
from views.sql.duck import prepare, quoted, to_duckdb


def connection() -> duckdb.DuckDBPyConnection:
    return prepare(duckdb.connect(config={"threads": 1}))


def evaluate(con: duckdb.DuckDBPyConnection, root: Node, tables: Mapping[TableName, pa.Table]) -> pa.Table:
    for name, table in tables.items():
        con.register(f"{name.schema}_{name.name}", table)
    return con.sql(statement(root)).to_arrow_table()


def statement(node: Node) -> str:
    match node:
        case Scan():
            columns = ", ".join(
                f"{quoted(column)} AS {quoted(name)}" for column, name in zip(node.columns, node.names, strict=True)
            )
            return f"SELECT {columns} FROM {node.table.schema}_{node.table.name}"
        case Filter():
            return f"SELECT * FROM ({statement(node.input)}) WHERE {to_duckdb(node.predicate)}"
        case Project():
            return f"SELECT {_named(node.columns)} FROM ({statement(node.input)})"
        case Aggregate():
            by = f" GROUP BY {', '.join(to_duckdb(value) for _, value in node.groups)}" if node.groups else ""
            return f"SELECT {_named((*node.groups, *node.aggregates))} FROM ({statement(node.input)}){by}"
        case Distinct():
            return f"SELECT DISTINCT * FROM ({statement(node.input)})"
        case UnionAll():
            return " UNION ALL ".join(f"({statement(branch)})" for branch in node.branches)
        case TopK():
            per = f"PARTITION BY {', '.join(map(to_duckdb, node.partition))} " if node.partition else ""
            rank = f"row_number() OVER ({per}ORDER BY {', '.join(map(to_duckdb, node.order))})"
            return (
                f"SELECT * FROM ({statement(node.input)}) "
                f"QUALIFY {rank} > {node.offset} AND {rank} <= {node.offset + node.limit}"
            )
        case Window():
            return f"SELECT *, {_named(node.columns)} FROM ({statement(node.input)})"
        case Join():
            left, right = statement(node.left), statement(node.right)
            return f"SELECT * FROM ({left}) {node.kind} JOIN ({right}) ON {_condition(node)}"
        case SemiJoin():
            return _semi_join(node)
    raise AssertionError(node)


def _named(columns: tuple[tuple[str, object], ...]) -> str:
    return ", ".join(f"{to_duckdb(value)} AS {quoted(name)}" for name, value in columns)


def _condition(node: Join | SemiJoin) -> str:
    parts = [f"{to_duckdb(a)} = {to_duckdb(b)}" for a, b in zip(node.left_keys, node.right_keys, strict=True)]
    if node.residual is not None:
        parts.append(to_duckdb(node.residual))
    return " AND ".join(parts) or "true"


def _semi_join(node: SemiJoin) -> str:
    left, right = statement(node.left), statement(node.right)
    word = "NOT " if node.kind == "anti" else ""
    if node.null_aware:
        return (
            f"SELECT * FROM ({left}) WHERE {to_duckdb(node.left_keys[0])} "
            f"NOT IN (SELECT {to_duckdb(node.right_keys[0])} FROM ({right}))"
        )
    return f"SELECT * FROM ({left}) WHERE {word}EXISTS (SELECT 1 FROM ({right}) WHERE {_condition(node)})"
