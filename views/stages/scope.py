"""From a plan's expressions to DuckDB's SQL: columns are called by number, so that no name can clash.

DuckDB folds the case of names, Postgres does not, and a plan's names may have any letters: inside a statement the
columns of an input are c0, c1, … (or l0, r0, … for the two sides of a join), and results o0, o1, ….
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from views.evaluate import duckdb_sql, evaluate
from views.keys import KeyType
from views.plan import Field, Node
from views.zset import conform, delta_schema, row_schema


@dataclass(frozen=True)
class Scope:
    """What the columns of an expression are called in a statement."""

    names: Mapping[str, str]

    @classmethod
    def of(cls, fields: Iterable[Field], prefix: str = "c") -> Scope:
        return cls({field.name: f"{prefix}{place}" for place, field in enumerate(fields)})

    def __or__(self, other: Scope) -> Scope:
        return Scope({**self.names, **other.names})

    def sql(self, expression: exp.Expression) -> str:
        renamed = expression.copy()
        for column in list(renamed.find_all(exp.Column)):
            column.set("this", exp.to_identifier(self.names.get(column.name, column.name), quoted=True))
        return duckdb_sql(renamed)

    def order(self, ordered: exp.Ordered) -> str:
        direction = "DESC" if ordered.args.get("desc") else "ASC"
        return f"{self.sql(ordered.this)} {direction} NULLS {'FIRST' if nulls_first(ordered) else 'LAST'}"


def nulls_first(ordered: exp.Ordered) -> bool:
    """Postgres puts NULLs first where the order descends, unless told otherwise."""
    stated = ordered.args.get("nulls_first")
    return bool(ordered.args.get("desc")) if stated is None else bool(stated)


def numbered(table: pa.Table, prefix: str = "c") -> pa.Table:
    """A delta or rows of one, with the names that a Scope gives; the weight keeps its own."""
    places = range(table.num_columns)
    names = [
        name if name.startswith("__") else f"{prefix}{n}" for n, name in zip(places, table.column_names, strict=True)
    ]
    return table.rename_columns(names)


def typed(fields: Sequence[Field], expressions: Sequence[str]) -> list[str]:
    """The select list of a node's results."""
    pairs = zip(fields, expressions, strict=True)
    return [f"CAST({sql} AS {field.type.duckdb}) AS o{place}" for place, (field, sql) in enumerate(pairs)]


def result(node: Node, table: pa.Table) -> pa.Table:
    """A statement's result as a delta of the node."""
    return conform(table, delta_schema(node.fields))


def key_types(expressions: Sequence[exp.Expression], fields: Sequence[Field]) -> tuple[KeyType, ...]:
    """A column has the type that the plan says; of anything else DuckDB says what it gives."""
    known = {field.name: field.type for field in fields}
    scope = Scope.of(fields)
    empty = numbered(row_schema(fields).empty_table())
    found = []
    for expression in expressions:
        if isinstance(expression, exp.Column):
            kind = known[expression.name]
            found.append(KeyType(kind.arrow, kind.postgres))
        else:
            found.append(KeyType(evaluate(f"SELECT {scope.sql(expression)} FROM d", {"d": empty}).schema.types[0]))
    return tuple(found)
