"""Plans and rows for the tests of the engine, written by hand: the SQL front end has no part in them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import sqlglot
from hypothesis import strategies as st
from sqlglot import exp

from cdc.catalog import Catalog
from cdc.events import TableName
from views import sqltypes
from views.arrangement import Arrangement
from views.plan import (
    Aggregate,
    Distinct,
    Field,
    Join,
    JoinKind,
    Node,
    Scan,
    SemiJoin,
    SemiJoinKind,
    TopK,
    Window,
)
from views.sql.expressions import Binder
from views.sql.scope import Scope as NameScope
from views.sql.scope import Source
from views.sql.type_names import TypeNames
from views.sql.typed import column
from views.sqltypes import SqlType
from views.stages import Stage
from views.zset import WEIGHT, consolidate, delta_schema, union

INT, BIGINT, TEXT, DOUBLE = sqltypes.INTEGER, sqltypes.BIGINT, sqltypes.TEXT, sqltypes.DOUBLE
BOOLEAN, NUMERIC = sqltypes.BOOLEAN, sqltypes.NUMERIC
MONEY, TOTAL, INTS = sqltypes.named("numeric(12,2)"), sqltypes.numeric(38, 2), sqltypes.named("integer[]")


def scan(alias: str) -> Scan:
    fields = (
        Field(f"{alias}.id", INT),
        Field(f"{alias}.k", BIGINT),
        Field(f"{alias}.city", TEXT),
        Field(f"{alias}.price", MONEY),
        Field(f"{alias}.score", DOUBLE),
    )
    return Scan(fields, TableName("public", alias), alias, ("id", "k", "city", "price", "score"))


LEFT, RIGHT = scan("l"), scan("r")


BINDER = Binder(
    NameScope(
        tuple(Source(s.alias, {n: column(f) for n, f in zip(s.columns, s.fields, strict=True)}) for s in (LEFT, RIGHT))
    ),
    TypeNames(Catalog()),
    "a test",
    aggregates=True,
    windows=True,
)


def sql(text: str) -> exp.Expression:
    """Columns are written l.k and r.k."""
    return BINDER.bind(sqlglot.parse_one(text, read="postgres"))


def ordered(text: str) -> tuple[exp.Ordered, ...]:
    select = sqlglot.parse_one(f"select 1 order by {text}", read="postgres")
    terms = select.args["order"].expressions
    return tuple(
        exp.Ordered(
            this=BINDER.bind(t.this), desc=bool(t.args.get("desc")), nulls_first=bool(t.args.get("nulls_first"))
        )
        for t in terms
    )


def join(kind: JoinKind, keys: tuple[str, ...] = ("k",), residual: str | None = None) -> Join:
    return Join(
        fields=(*LEFT.fields, *RIGHT.fields),
        left=LEFT,
        right=RIGHT,
        left_keys=tuple(sql(f"l.{key}") for key in keys),
        right_keys=tuple(sql(f"r.{key}") for key in keys),
        residual=sql(residual) if residual else None,
        kind=kind,
    )


def semi(kind: SemiJoinKind, residual: str | None = None, *, null_aware: bool = False) -> SemiJoin:
    return SemiJoin(
        LEFT.fields, LEFT, RIGHT, (sql("l.k"),), (sql("r.k"),), sql(residual) if residual else None, kind, null_aware
    )


def aggregate(groups: dict[str, tuple[SqlType, str]], aggregates: dict[str, tuple[SqlType, str]]) -> Aggregate:
    both = {**groups, **aggregates}
    return Aggregate(
        tuple(Field(name, kind) for name, (kind, _) in both.items()),
        LEFT,
        tuple((name, sql(text)) for name, (_, text) in groups.items()),
        tuple((name, sql(text)) for name, (_, text) in aggregates.items()),
    )


COUNTS = {
    "n": (BIGINT, "count(*)"),
    "scored": (BIGINT, "count(l.score)"),
    "total": (TOTAL, "sum(l.price)"),
    "ids": (BIGINT, "sum(l.id) + 1"),
    "average": (NUMERIC, "avg(l.price)"),
    "all": (BOOLEAN, "bool_and(l.id > 1)"),
    "some": (BOOLEAN, "bool_or(l.price > 2)"),
    "cities": (BIGINT, "count(distinct l.city)"),
    "scores": (BIGINT, "count(distinct l.score) filter (where l.id > 1)"),
    "dear": (TOTAL, "sum(l.price) filter (where l.price > 2)"),
}
ENDS = {
    "least": (INT, "min(l.id)"),
    "most": (MONEY, "max(l.price)"),
    "n": (BIGINT, "count(*)"),
    "best": (DOUBLE, "max(l.score) filter (where l.id > 1)"),
}
LISTS = {
    "ids": (INTS, "array_agg(l.id order by l.id)"),
    "cities": (BIGINT, "count(distinct l.city)"),
    "first": (TEXT, "min(l.city)"),
    "score": (DOUBLE, "sum(l.score)"),
}
BY_CITY = {"city": (TEXT, "l.city")}
BY_PARITY = {"parity": (BIGINT, "l.k % 2"), "city": (TEXT, "l.city")}

NODES: dict[str, Node] = {
    **{f"{kind} join": join(kind) for kind in JoinKind},
    **{f"{kind} join on two": join(kind, ("k", "city")) for kind in JoinKind},
    **{f"{kind} join with more": join(kind, residual="l.id < r.id") for kind in JoinKind},
    "cross join": join(JoinKind.INNER, ()),
    "left cross join": join(JoinKind.LEFT, ()),
    "semi join": semi(SemiJoinKind.SEMI),
    "anti join": semi(SemiJoinKind.ANTI),
    "semi join with more": semi(SemiJoinKind.SEMI, "l.id < r.id"),
    "anti join with more": semi(SemiJoinKind.ANTI, "l.id < r.id"),
    "not in": semi(SemiJoinKind.ANTI, null_aware=True),
    "counts by city": aggregate(BY_CITY, COUNTS),
    "counts by expression": aggregate(BY_PARITY, COUNTS),
    "counts of all": aggregate({}, COUNTS),
    "ends by city": aggregate(BY_CITY, ENDS),
    "ends of all": aggregate({}, ENDS),
    "ends by score": aggregate({"score": (DOUBLE, "l.score")}, ENDS),
    "lists by city": aggregate(BY_CITY, LISTS),
    "lists of all": aggregate({}, LISTS),
    "groups alone": aggregate(BY_PARITY, {}),
    "distinct": Distinct(LEFT.fields, LEFT),
    "top overall": TopK(LEFT.fields, LEFT, (), ordered("l.price desc, l.id"), 2),
    "top by city": TopK(LEFT.fields, LEFT, (sql("l.city"),), ordered("l.score nulls first, l.id desc"), 2, 1),
    "top by text": TopK(LEFT.fields, LEFT, (), ordered("l.city desc, l.id"), 3),
    "window": Window(
        (*LEFT.fields, Field("n", BIGINT), Field("sum", TOTAL)),
        LEFT,
        (sql("l.city"),),
        (
            ("n", sql("row_number() over (partition by l.city order by l.id, l.k, l.price, l.score)")),
            ("sum", sql("sum(l.price) over (partition by l.city)")),
        ),
    ),
}

LONG = "x" * 600
rows = st.tuples(
    st.integers(1, 4),
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([None, "", "a", "b", LONG, LONG + "y"]),
    st.sampled_from([None, Decimal("1.00"), Decimal("2.50"), Decimal("-3.25")]),
    st.sampled_from([None, 0.5, -1.5, 2.0]),
)


def delta(node: Scan, changes: list[tuple[tuple[object, ...], int]]) -> pa.Table:
    schema = delta_schema(node.fields)
    columns = list(zip(*((*row, weight) for row, weight in changes), strict=True)) or [()] * len(schema)
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def open_state(folder: Path, stage: Stage) -> Arrangement:
    return Arrangement.open(folder, stage.tables, durable=False)


def integrated(deltas: list[pa.Table], schema: pa.Schema) -> dict[tuple[str, ...], int]:
    """The rows that are there after all the deltas, with how often."""
    whole = consolidate(union([schema.empty_table(), *deltas]))
    return {
        tuple(map(repr, (row[name] for name in schema.names if name != WEIGHT))): row[WEIGHT]
        for row in whole.to_pylist()
    }
