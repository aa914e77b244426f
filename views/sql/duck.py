"""From a bound expression to DuckDB's words, such that the value is the one Postgres has.

`to_duckdb` gives a column in the form in which Arrow carries it; inside an expression intervals are DuckDB's own. It
takes all that a plan has: scalar expressions, aggregates (with DISTINCT, ORDER BY and FILTER), window functions and
the terms of an order. `prepare` makes a connection ready: every connection that evaluates a plan must have been.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import duckdb
from duckdb.func import SPECIAL
from sqlglot import exp

from cdc.pgtypes.instants import parse_time
from views import sqltypes as t
from views.sql import casts, duck_values
from views.sql.duck_aggregates import AGGREGATES, render_aggregate, render_window
from views.sql.functions import RULES
from views.sql.typed import has_type, type_of
from views.sqltypes import Family, SqlType

ESCAPE: Final = "\\"


def to_duckdb(expression: exp.Expression) -> str:
    """In the form in which the column is carried."""
    sql = render(expression)
    if (
        isinstance(expression, exp.Column)
        or not has_type(expression)
        or type_of(expression).family is not Family.INTERVAL
    ):
        return sql if not isinstance(expression, exp.Column) else quoted(expression.name)
    months, days, micros = casts.interval_fields(sql)
    packed = f"struct_pack(months := {months}, days := {days}, micros := {micros})"
    return f"CASE WHEN {sql} IS NULL THEN NULL ELSE {packed} END"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def render(expression: exp.Expression) -> str:
    """Inside a larger expression."""
    if type(expression) in AGGREGATES or isinstance(expression, exp.Filter):
        return render_aggregate(expression, render)
    if isinstance(expression, exp.Anonymous) and expression.name in AGGREGATES:
        return render_aggregate(expression, render)
    return _RENDERERS[type(expression)](expression)


def _column(node: exp.Expression) -> str:
    name = quoted(node.name)
    if type_of(node).family is Family.INTERVAL:
        return f"(to_months({name}.months) + to_days({name}.days) + to_microseconds({name}.micros))"
    return name


def _literal(node: exp.Expression) -> str:
    type_ = type_of(node)
    if not has_type(node) and not node.args.get("is_string"):
        return node.name
    return literal(node.name, type_)


def literal(text: str, type_: SqlType) -> str:
    match type_.family:
        case Family.TEXT | Family.UNKNOWN | Family.UUID | Family.JSON | Family.ENUM | Family.OTHER:
            return _string(text)
        case Family.BOOLEAN:
            return text
        case Family.TIME:
            return f"CAST({int(parse_time(text))} AS BIGINT)"
        case Family.INTERVAL:
            months, _, days, _, micros, _ = text.split()
            return f"(to_months({months}) + to_days({days}) + to_microseconds(CAST({micros} AS BIGINT)))"
        case Family.BYTES:
            return f"unhex({_string(text[2:])})"
        case Family.ARRAY:
            items = [None if item is None else literal(item, type_.element) for item in json.loads(text)]
            return f"CAST([{', '.join(item or 'NULL' for item in items)}] AS {type_.duckdb})"
        case Family.NUMERIC if type_.scale is None:
            return _string(text)
        case Family.INTEGER:
            return f"CAST({text} AS {type_.duckdb})"
    return f"CAST({_string(text)} AS {type_.duckdb})"


def _string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _null(node: exp.Expression) -> str:
    type_ = type_of(node)
    if type_.family is Family.INTERVAL:
        return "CAST(NULL AS INTERVAL)"
    return f"CAST(NULL AS {type_.duckdb})" if has_type(node) else "NULL"


def _boolean(node: exp.Expression) -> str:
    return "true" if node.this else "false"


def _cast(node: exp.Expression) -> str:
    return casts.render(render(node.this), type_of(node.this), type_of(node))


def _infix(operator: str) -> Callable[[exp.Expression], str]:
    return lambda node: f"({render(node.this)} {operator} {render(node.expression)})"


def _arithmetic(operator: str) -> Callable[[exp.Expression], str]:
    def spelled(node: exp.Expression) -> str:
        left, right, type_ = render(node.this), render(node.expression), type_of(node)
        if type_.family is Family.NUMERIC:
            # Two short decimals multiply within 18 digits, and overflow there, unless one of them is wide.
            wide = f"DECIMAL({t.NUMERIC_DIGITS_MAX},{type_of(node.this).scale or 0})"
            left = f"CAST({left} AS {wide})" if operator == "*" and (type_.precision or 0) > 18 else left
        if type_.family is Family.TIMESTAMPTZ:
            left, right = (_at_utc(side, node_) for side, node_ in ((left, node.this), (right, node.expression)))
            return f"(({left} {operator} {right}) AT TIME ZONE 'UTC')"
        if type_.family is Family.TIMESTAMP:
            left, right = (_at_midnight(side, node_) for side, node_ in ((left, node.this), (right, node.expression)))
        if type_.family in (Family.INTERVAL, Family.TIMESTAMP):
            return f"({left} {operator} {right})"
        return f"CAST({left} {operator} {right} AS {type_.duckdb})"

    return spelled


def _modulo(node: exp.Expression) -> str:
    """The least integer % -1 is 0, though the quotient overflows."""
    plain = _arithmetic("%")(node)
    if type_of(node).family is not Family.INTEGER:
        return plain
    left, right = render(node.this), render(node.expression)
    return f"CASE WHEN {right} = -1 THEN {left} - {left} ELSE {plain} END"


def _at_utc(sql: str, node: exp.Expression) -> str:
    """DuckDB adds to an instant by the calendar in another order than Postgres."""
    return f"({sql} AT TIME ZONE 'UTC')" if type_of(node).family is Family.TIMESTAMPTZ else sql


def _at_midnight(sql: str, node: exp.Expression) -> str:
    return f"CAST({sql} AS TIMESTAMP)" if type_of(node).family is Family.DATE else sql


def _divided(node: exp.Expression) -> str:
    left, right, type_ = render(node.this), render(node.expression), type_of(node)
    match type_.family:
        case Family.INTEGER:
            return f"CAST({left} // {right} AS {type_.duckdb})"
        case Family.NUMERIC:
            return f"hw_quotient(CAST({left} AS VARCHAR), CAST({right} AS VARCHAR))"
    return f"CASE WHEN {right} = 0 THEN error('division by zero') ELSE {left} / {right} END"


def _both(node: exp.Expression) -> str:
    """A right side that can fail is looked at only where the left side is not already false."""
    left, right = render(node.this), render(node.expression)
    if _can_fail(node.expression):
        return f"CASE WHEN ({left}) IS FALSE THEN FALSE ELSE ({left} AND {right}) END"
    return f"({left} AND {right})"


def _either(node: exp.Expression) -> str:
    left, right = render(node.this), render(node.expression)
    if _can_fail(node.expression):
        return f"CASE WHEN ({left}) IS TRUE THEN TRUE ELSE ({left} OR {right}) END"
    return f"({left} OR {right})"


def _can_fail(node: exp.Expression) -> bool:
    return node.find(exp.Div, exp.Mod, exp.Cast, exp.Anonymous) is not None


def _is(node: exp.Expression) -> str:
    word = {exp.Null: "NULL", exp.Boolean: "TRUE" if node.expression.this else "FALSE"}[type(node.expression)]
    return f"(({render(node.this)}) IS {word})"


def _like(node: exp.Expression) -> str:
    return f"({render(node.this)} LIKE {render(node.expression)} ESCAPE '{ESCAPE}')"


def _escape(node: exp.Expression) -> str:
    like = node.this
    return f"({render(like.this)} LIKE {render(like.expression)} ESCAPE {render(node.expression)})"


def _in(node: exp.Expression) -> str:
    return f"({render(node.this)} IN ({', '.join(map(render, node.expressions))}))"


def _any(node: exp.Expression) -> str:
    """In Postgres' threefold logic: unknown when not found and something there is NULL."""
    value, array = render(node.this), render(node.expression.this)
    return (
        f"CASE WHEN {array} IS NULL THEN NULL WHEN len({array}) = 0 THEN FALSE WHEN {value} IS NULL THEN NULL "
        f"WHEN list_contains({array}, {value}) THEN TRUE "
        f"WHEN len(list_filter({array}, lambda x: x IS NULL)) > 0 THEN NULL ELSE FALSE END"
    )


def _equal(node: exp.Expression) -> str:
    return _any(node) if isinstance(node.expression, exp.Any) else _compared("=")(node)


def _compared(operator: str) -> Callable[[exp.Expression], str]:
    return lambda node: f"({_sortable(node.this)} {operator} {_sortable(node.expression)})"


def _sortable(node: exp.Expression) -> str:
    """What sorts as the value does: a numeric without a scale is a text."""
    return f"hw_numeric_key({render(node)})" if type_of(node).has_no_scale else render(node)


def _case(node: exp.Expression) -> str:
    whens = " ".join(f"WHEN {render(i.this)} THEN {render(i.args['true'])}" for i in node.args["ifs"])
    default = node.args.get("default")
    return f"CASE {whens} ELSE {render(default) if default is not None else 'NULL'} END"


def _call(node: exp.Expression) -> str:
    assert isinstance(node, exp.Anonymous)
    return RULES[node.name].render(node, render)


def _ordered(node: exp.Expression) -> str:
    direction = "DESC" if node.args.get("desc") else "ASC"
    return f"{_sortable(node.this)} {direction} NULLS {'FIRST' if node.args.get('nulls_first') else 'LAST'}"


_RENDERERS: Final[dict[type[exp.Expression], Callable[[exp.Expression], str]]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Null: _null,
    exp.Boolean: _boolean,
    exp.Cast: _cast,
    exp.Paren: lambda node: f"({render(node.this)})",
    exp.Neg: lambda node: f"(- {render(node.this)})",
    exp.Not: lambda node: f"(NOT {render(node.this)})",
    exp.Add: _arithmetic("+"),
    exp.Sub: _arithmetic("-"),
    exp.Mul: _arithmetic("*"),
    exp.Mod: _modulo,
    exp.Div: _divided,
    exp.DPipe: _infix("||"),
    exp.EQ: _equal,
    exp.NEQ: _compared("<>"),
    exp.LT: _compared("<"),
    exp.LTE: _compared("<="),
    exp.GT: _compared(">"),
    exp.GTE: _compared(">="),
    exp.NullSafeEQ: _compared("IS NOT DISTINCT FROM"),
    exp.NullSafeNEQ: _compared("IS DISTINCT FROM"),
    exp.And: _both,
    exp.Or: _either,
    exp.Is: _is,
    exp.Like: _like,
    exp.Escape: _escape,
    exp.In: _in,
    exp.Case: _case,
    exp.Anonymous: _call,
    exp.Ordered: _ordered,
    exp.Window: lambda node: render_window(node, render),
}


def prepare(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Time zone, errors where Postgres has them, and what Python computes. Once a connection."""
    connection.execute("SET TimeZone = 'UTC'")
    for name, function, arguments, result in _FUNCTIONS:
        connection.create_function(name, _strict(function), [*arguments], result, null_handling=SPECIAL)
    return connection


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """NULL of NULL. DuckDB would see to that itself, but then it takes no NULL as a result either."""

    @wraps(function)
    def of_values(*values: object) -> Any:
        return None if None in values else function(*values)

    return of_values


VARCHAR, INTEGER, BIGINT, BOOLEAN = "VARCHAR", "INTEGER", "BIGINT", "BOOLEAN"
_FUNCTIONS: Final[tuple[tuple[str, Callable[..., Any], list[str], str], ...]] = (
    ("hw_numeric", duck_values.numeric_text, [VARCHAR], VARCHAR),
    ("hw_numeric_key", duck_values.numeric_key, [VARCHAR], VARCHAR),
    ("hw_quotient", duck_values.numeric_quotient, [VARCHAR, VARCHAR], VARCHAR),
    ("hw_interval", duck_values.interval_text, [INTEGER, INTEGER, BIGINT], VARCHAR),
    ("hw_float", duck_values.float_text, ["DOUBLE", INTEGER], VARCHAR),
    ("hw_json", duck_values.checked_json, [VARCHAR], VARCHAR),
    ("hw_jsonb", duck_values.jsonb_text, [VARCHAR], VARCHAR),
    ("hw_json_string", duck_values.json_string, [VARCHAR], VARCHAR),
    ("hw_json_field", duck_values.json_field, [VARCHAR, VARCHAR], VARCHAR),
    ("hw_json_element", duck_values.json_element, [VARCHAR, BIGINT], VARCHAR),
    ("hw_json_unquoted", duck_values.json_unquoted, [VARCHAR], VARCHAR),
    ("hw_json_has", duck_values.json_has, [VARCHAR, VARCHAR], BOOLEAN),
    ("hw_json_kind", duck_values.json_kind, [VARCHAR], VARCHAR),
    ("hw_json_length", duck_values.json_length, [VARCHAR], INTEGER),
)
