"""Calls: functions by name, functions with keywords between their arguments, and operators that stand for a function.

All become plain calls under the name that Postgres has for them; what is on no list is refused, and says why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NoReturn

from sqlglot import exp

from views import sqltypes as t
from views.refusals import Reason, refusal
from views.sql.aggregates import AGGREGATE_NAMES
from views.sql.functions import NOT_DETERMINISTIC, RULES, SET_RETURNING
from views.sql.functions.arrays import CONSTRUCTOR, SUBSCRIPT
from views.sql.functions.documents import ROW, WHOLE_ROW
from views.sql.scope import folded
from views.sql.typed import type_of, typed

if TYPE_CHECKING:
    from views.sql.expressions import Binder


def _function(binder: Binder, node: exp.Expression) -> exp.Expression:
    assert isinstance(node, exp.Anonymous)
    name = node.name.lower()
    if name in AGGREGATE_NAMES:
        return binder.aggregate(node)
    if name == "array" and node.expressions and isinstance(node.expressions[0], exp.Query):
        raise refusal(
            Reason.SUBQUERY,
            "ARRAY(SELECT …) is not accepted",
            node,
            hint="(SELECT array_agg(x ORDER BY y) FROM …)",
        )
    if name in ("row_to_json", "to_json", "to_jsonb") and (row := _row(binder, node)) is not None:
        return row
    rule = RULES.get(name)
    if rule is None or name in (SUBSCRIPT, CONSTRUCTOR, WHOLE_ROW, "extract"):
        refuse_function(name, node)
    return rule.bind(name, binder.bind_all(node.expressions), node)


def _row(binder: Binder, node: exp.Anonymous) -> exp.Expression | None:
    """row_to_json(alias): a field a column."""
    argument = node.expressions[0] if len(node.expressions) == 1 else None
    if not isinstance(argument, exp.Column):
        return None
    alias = folded(argument.args["table"]) if isinstance(argument.this, exp.Star) else folded(argument.this)
    source = binder.scope.source(alias)
    if source is None or (not isinstance(argument.this, exp.Star) and argument.args.get("table") is not None):
        return None
    parts = [
        part
        for name, value in source.columns.items()
        for part in (typed(exp.Literal.string(name), t.TEXT, nullable=False), value.copy())
    ]
    function = {"to_jsonb": "jsonb_build_object", WHOLE_ROW: WHOLE_ROW}.get(node.name.lower(), ROW)
    return RULES[function].bind(function, parts, node)


def whole_row(binder: Binder, argument: exp.Expression, *, binary: bool) -> exp.Expression | None:
    """What json_agg(alias) collects."""
    name = "to_jsonb" if binary else WHOLE_ROW
    return _row(binder, exp.Anonymous(this=name, expressions=[argument.copy()]))


def _syntax(name: str, *places: str) -> Callable[[Binder, exp.Expression], exp.Expression]:
    """A function with keywords between its arguments, as the plain call that it stands for."""

    def bind(binder: Binder, node: exp.Expression) -> exp.Expression:
        arguments = [binder.bind(node.args[place]) for place in places if node.args.get(place) is not None]
        return RULES[name].bind(name, arguments, node)

    return bind


def _trim(binder: Binder, node: exp.Expression) -> exp.Expression:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "btrim")
    return _syntax(name, "this", "expression")(binder, node)


def _extract(binder: Binder, node: exp.Expression) -> exp.Expression:
    unit = typed(exp.Literal.string(node.this.name.lower()), t.UNKNOWN, nullable=False)
    return RULES["extract"].bind("extract", [unit, binder.bind(node.expression)], node)


def _array(binder: Binder, node: exp.Expression) -> exp.Expression:
    return RULES[CONSTRUCTOR].bind(CONSTRUCTOR, binder.bind_all(node.expressions), node)


def _bracket(binder: Binder, node: exp.Expression) -> exp.Expression:
    """sqlglot counts from 0."""
    places = node.expressions
    if len(places) != 1 or not isinstance(places[0], exp.Literal) or places[0].is_string:
        raise refusal(Reason.UNSUPPORTED, "an array is read at one written place", node, hint="array[1]")
    place = typed(exp.Literal.number(int(places[0].name) + 1), t.INTEGER, nullable=False)
    return RULES[SUBSCRIPT].bind(SUBSCRIPT, [binder.bind(node.this), place], node)


def _json_extract(binder: Binder, node: exp.Expression) -> exp.Expression:
    document = binder.bind(node.this)
    kind = "jsonb" if type_of(document) == t.JSONB else "json"
    suffix = "_text" if isinstance(node, exp.JSONExtractScalar) else ""
    place = node.expression
    if isinstance(place, exp.JSONPath):
        last = place.expressions[-1]
        if isinstance(last, exp.JSONPathSubscript):
            place = exp.Literal.number(last.this)
        else:
            place = exp.Literal.string(last.this)
    bound = binder.bind(place)
    what = "array_element" if type_of(bound).family is t.Family.INTEGER else "object_field"
    return RULES[f"{kind}_{what}{suffix}"].bind(f"{kind}_{what}{suffix}", [document, bound], node)


def _json_path(binder: Binder, node: exp.Expression) -> exp.Expression:
    """#> and #>> with a path that is written: a step after the other."""
    if not isinstance(node.expression, exp.Literal):
        raise refusal(Reason.UNSUPPORTED, "a path is written out", node, hint="document #>> '{a,b}'")
    steps = [step.strip() for step in node.expression.name.strip("{}").split(",")]
    if not all(step and not step.lstrip("-").isdigit() for step in steps):
        raise refusal(Reason.UNSUPPORTED, "a path of field names only", node, hint="document -> 'a' ->> 0")
    value = binder.bind(node.this)
    kind = "jsonb" if type_of(value) == t.JSONB else "json"
    for number, step in enumerate(steps, 1):
        text = "_text" if number == len(steps) and isinstance(node, exp.JSONBExtractScalar) else ""
        field = typed(exp.Literal.string(step), t.UNKNOWN, nullable=False)
        value = RULES[f"{kind}_object_field{text}"].bind(f"{kind}_object_field{text}", [value, field], node)
    return value


def _pair(name: str, *, swapped: bool = False) -> Callable[[Binder, exp.Expression], exp.Expression]:
    def bind(binder: Binder, node: exp.Expression) -> exp.Expression:
        pair = [binder.bind(node.this), binder.bind(node.expression)]
        return RULES[name].bind(name, pair[::-1] if swapped else pair, node)

    return bind


def _zoned(binder: Binder, node: exp.Expression) -> exp.Expression:
    return RULES["timezone"].bind("timezone", [binder.bind(node.args["zone"]), binder.bind(node.this)], node)


def refuse_function(name: str, node: exp.Expression) -> NoReturn:
    if name in NOT_DETERMINISTIC:
        raise refusal(
            Reason.NOT_DETERMINISTIC,
            f"{name}() gives another value each time",
            node,
            detail="a view follows its tables: nothing would tell it that the value has changed",
            hint=NOT_DETERMINISTIC[name],
        )
    if name in SET_RETURNING:
        raise refusal(
            Reason.SET_RETURNING,
            f"{name}() returns rows, not a value",
            node,
            hint="keep the elements in a table of their own, or carry the array as it is",
        )
    raise refusal(
        Reason.UNKNOWN_FUNCTION,
        f"{name}() is not among the functions that views can compute as Postgres does",
        node,
        hint="a generated column in the table carries any value into a view",
    )


CALLS: Final[dict[type[exp.Expression], Callable[[Binder, exp.Expression], exp.Expression]]] = {
    exp.Anonymous: _function,
    exp.StrPosition: _syntax("strpos", "this", "substr"),
    exp.Substring: _syntax("substring", "this", "start", "length"),
    exp.Trim: _trim,
    exp.Extract: _extract,
    exp.Array: _array,
    exp.Bracket: _bracket,
    exp.JSONExtract: _json_extract,
    exp.JSONExtractScalar: _json_extract,
    exp.JSONBExtract: _json_path,
    exp.JSONBExtractScalar: _json_path,
    exp.ArrayContainsAll: _pair("arraycontains"),
    exp.ArrayContainedBy: _pair("arraycontains", swapped=True),
    exp.ArrayOverlaps: _pair("arrayoverlap"),
    exp.JSONBContainsTopKey: _pair("jsonb_exists"),
    exp.AtTimeZone: _zoned,
}
