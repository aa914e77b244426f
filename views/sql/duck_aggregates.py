"""Aggregates and window functions in DuckDB's words. Their types are Postgres': a sum of integers is a bigint, one of
bigints a numeric, an average a numeric with the digits that Postgres gives a quotient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from sqlglot import exp

from views.sql.casts import interval_fields
from views.sql.functions.documents import WHOLE_ROW, json_of
from views.sql.typed import type_of
from views.sqltypes import Family

Render: TypeAlias = Callable[[exp.Expression], str]

AGGREGATES: Final[frozenset[object]] = frozenset(
    {
        *(exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.LogicalAnd, exp.LogicalOr, exp.ArrayAgg),
        *("string_agg", "json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg"),
    }
)
"""Nodes of sqlglot, and names of exp.Anonymous."""


def render_aggregate(node: exp.Expression, render: Render) -> str:
    """With its DISTINCT, ORDER BY and FILTER."""
    condition = f" FILTER (WHERE {render(node.expression.this)})" if isinstance(node, exp.Filter) else ""
    call = node.this if isinstance(node, exp.Filter) else node
    return _spelled(call, condition, render)


def _spelled(call: exp.Expression, condition: str, render: Render, over: str = "") -> str:
    argument = call.expressions[0] if isinstance(call, exp.Anonymous) else call.this
    value, prefix, order = _unwrapped(argument, render)
    tail = condition + over
    type_ = type_of(call)
    match call:
        case exp.Count():
            shown = "*" if isinstance(value, exp.Star) or value is None else render(value)
            return f"count({prefix}{shown}){tail}"
        case exp.Sum():
            return f"CAST(sum({prefix}{render(value)}){tail} AS {_held(type_.duckdb, call)})"
        case exp.Avg():
            return _average(call, value, prefix, tail, render)
        case exp.Min() | exp.Max():
            return f"{'min' if isinstance(call, exp.Min) else 'max'}({render(value)}){tail}"
        case exp.LogicalAnd() | exp.LogicalOr():
            return f"bool_{'and' if isinstance(call, exp.LogicalAnd) else 'or'}({render(value)}){tail}"
        case exp.ArrayAgg():
            return f"list({prefix}{_stored(value, render)}{order}){tail}"
    return _joined(call, value, prefix, order, tail, render)


def _held(duckdb: str, call: exp.Expression) -> str:
    return "INTERVAL" if type_of(call).family is Family.INTERVAL else duckdb


def _average(call: exp.Expression, value: exp.Expression, prefix: str, tail: str, render: Render) -> str:
    inner = render(value)
    if type_of(call).family is Family.FLOAT:
        return f"avg({prefix}CAST({inner} AS DOUBLE)){tail}"
    total = f"CAST(sum({prefix}{inner}){tail} AS VARCHAR)"
    return f"hw_quotient({total}, CAST(nullif(count({prefix}{inner}){tail}, 0) AS VARCHAR))"


def _stored(value: exp.Expression, render: Render) -> str:
    """Elements are carried, not computed with."""
    if type_of(value).family is not Family.INTERVAL:
        return render(value)
    months, days, micros = interval_fields(render(value))
    return f"struct_pack(months := {months}, days := {days}, micros := {micros})"


def _joined(call: exp.Expression, value: exp.Expression, prefix: str, order: str, tail: str, render: Render) -> str:
    name = call.name
    if name == "string_agg":
        return f"string_agg({prefix}{render(value)}, {render(call.expressions[1])}{order}){tail}"
    binary = name.startswith("jsonb")
    if name in ("json_agg", "jsonb_agg"):
        shown = json_of(value, render, binary=binary)
        is_row = isinstance(value, exp.Anonymous) and value.name == WHOLE_ROW
        if type_of(value).family is Family.ARRAY and not binary:
            # Each array is on a line of its own, but the first, and a NULL is not.
            lined = f"CASE WHEN {render(value)} IS NULL THEN 'null' ELSE chr(10) || ' ' || {shown} END"
            items = f"string_agg({prefix}{lined}, ', '{order}){tail}"
            return f"('[' || regexp_replace({items}, '^' || chr(10) || ' ', '') || ']')"
        separator = "', ' || chr(10) || ' '" if is_row and not binary else "', '"
        return f"('[' || string_agg({prefix}{shown}, {separator}{order}){tail} || ']')"
    key = f"CAST(to_json({render(value)}) AS VARCHAR)"
    pair = f"{key} || ' : ' || {json_of(call.expressions[1], render, binary=False)}"
    text = f"('{{ ' || string_agg({pair}, ', '{order}){tail} || ' }}')"
    return f"hw_jsonb({text})" if binary else text


def _unwrapped(argument: exp.Expression | None, render: Render) -> tuple[exp.Expression, str, str]:
    """The value, "DISTINCT " or nothing, and " ORDER BY …" or nothing."""
    order = ""
    inner: exp.Expression = argument if argument is not None else exp.Star()
    if isinstance(inner, exp.Order):
        order = f" ORDER BY {', '.join(map(render, inner.expressions))}"
        inner = inner.this
    if isinstance(inner, exp.Distinct):
        return inner.expressions[0], "DISTINCT ", order
    return inner, "", order


def render_window(node: exp.Expression, render: Render) -> str:
    """A function, its partition, order and frame."""
    parts = []
    if partition := node.args.get("partition_by"):
        parts.append(f"PARTITION BY {', '.join(map(render, partition))}")
    if order := node.args.get("order"):
        parts.append(f"ORDER BY {', '.join(map(render, order.expressions))}")
    if spec := node.args.get("spec"):
        parts.append(_frame(spec))
    over = f" OVER ({' '.join(parts)})"
    function = node.this
    condition = ""
    if isinstance(function, exp.Filter):
        condition = f" FILTER (WHERE {render(function.expression.this)})"
        function = function.this
    if type(function) in AGGREGATES:
        return _spelled(function, condition, render, over)
    name = _WINDOW_NAMES.get(type(function), function.name)
    arguments = [a for a in (function.this, *(function.args.get(k) for k in ("offset", "default"))) if a is not None]
    if isinstance(function, exp.Anonymous):
        arguments = function.expressions
    value = f"{name}({', '.join(render(a) for a in arguments if isinstance(a, exp.Expression))}){over}"
    return f"CAST({value} AS {type_of(node).duckdb})"


_WINDOW_NAMES: Final = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
    exp.Lag: "lag",
    exp.Lead: "lead",
    exp.FirstValue: "first_value",
    exp.LastValue: "last_value",
}


def _frame(spec: exp.Expression) -> str:
    def bound(side: str) -> str:
        value, direction = spec.args.get(side), spec.args.get(f"{side}_side") or ""
        shown = value.name if isinstance(value, exp.Expression) else value
        return f"{shown} {direction}".strip()

    end = bound("end") if spec.args.get("end") else "CURRENT ROW"
    return f"{spec.args['kind']} BETWEEN {bound('start')} AND {end}"
