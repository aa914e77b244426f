"""Functions over numbers: their scale follows from the argument's, and halves round away from zero in numerics and to
the even in floats, as in Postgres. Functions of libm other than the square root are left out: their last digit differs.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from views import sqltypes as t
from views.sql.coercion import (
    arithmetic,
    coerced,
    digits_and_scale,
    is_number,
    numeric_result,
    refuse_without_scale,
    strict,
)
from views.sql.functions.rule import Arguments, Render, Rule, constant_integer, template, wrong_arguments
from views.sql.typed import call, type_of, typed
from views.sqltypes import Family, SqlType


def _abs(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    (value,) = _numbers(name, arguments, at, 1)
    type_ = t.without_modifier(type_of(value))
    if type_.has_no_scale:
        refuse_without_scale(value, type_)
    return call(name, [value], type_, nullable=strict([value]))


def _sign(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    (value,) = _numbers(name, arguments, at, 1)
    if type_of(value).has_no_scale:
        refuse_without_scale(value, type_of(value))
    if type_of(value).family is Family.NUMERIC:
        return call(name, [value], t.numeric(1, 0), nullable=strict([value]))
    return call(name, [coerced(value, t.DOUBLE)], t.DOUBLE, nullable=strict([value]))


def _rounded(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    """round, trunc, ceil, floor: over a numeric, to a scale that is written; over all else, as doubles."""
    if len(arguments) == 2 and name in ("round", "trunc"):
        return _to_scale(name, arguments, at)
    (value,) = _numbers(name, arguments, at, 1)
    type_ = type_of(value)
    if type_.family is not Family.NUMERIC:
        return call(name, [coerced(value, t.DOUBLE)], t.DOUBLE, nullable=strict([value]))
    return call(name, [value], _whole(type_, value, name), nullable=strict([value]))


def _whole(type_: SqlType, value: exp.Expression, name: str) -> SqlType:
    if type_.has_no_scale:
        if name != "round":
            refuse_without_scale(value, type_)
        return t.numeric(t.NUMERIC_DIGITS_MAX, 0)
    digits, scale = digits_and_scale(type_)
    return numeric_result(digits - scale + 1, 0, value)


def _to_scale(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    value, scale = arguments[0], constant_integer(arguments[1])
    type_ = type_of(value)
    if type_.family is Family.INTEGER:
        value = coerced(value, t.numeric(*digits_and_scale(type_)))
        type_ = type_of(value)
    if type_.family is not Family.NUMERIC or scale is None or scale < 0:
        raise wrong_arguments(
            name, arguments, at, f"{name}(numeric, scale) with a scale that is written and not negative"
        )
    if type_.has_no_scale:
        if name == "trunc":
            refuse_without_scale(value, type_)
        digits = t.NUMERIC_DIGITS_MAX
    else:
        had, before = digits_and_scale(type_)
        digits = had - before + 1 + scale
    return call(name, [value, arguments[1]], numeric_result(digits, scale, at), nullable=strict([value]))


def _mod(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    """The operator under another name."""
    left, right = _numbers(name, arguments, at, 2)
    if Family.FLOAT in (type_of(left).family, type_of(right).family):
        raise wrong_arguments(name, arguments, at, "mod(integer, integer)", "mod(numeric, numeric)")
    type_ = arithmetic(exp.Mod, type_of(left), type_of(right), at)
    rest = exp.Mod(this=coerced(left, type_), expression=coerced(right, type_))
    return typed(rest, type_, nullable=strict([left, right]))


def _numbers(name: str, arguments: Arguments, at: exp.Expression, count: int) -> Arguments:
    if len(arguments) != count or not all(is_number(type_of(argument)) for argument in arguments):
        raise wrong_arguments(name, arguments, at, f"{name} of {count} number{'s' if count > 1 else ''}")
    return arguments


def _render_rounded(node: exp.Anonymous, render: Render) -> str:
    value = render(node.expressions[0])
    type_ = type_of(node)
    name = {"ceiling": "ceil"}.get(node.name, node.name)
    if type_.family is Family.FLOAT:
        return f"round_even({value}, 0)" if name == "round" else f"{name}({value})"
    if name == "round":
        return f"CAST({value} AS {type_.duckdb})"
    if len(node.expressions) == 1:
        return f"CAST({name}({value}) AS {type_.duckdb})"
    scale, had = type_.scale or 0, type_of(node.expressions[0]).scale or 0
    cut = f"trunc({value}, {scale})" if scale < had else value
    return f"CAST({cut} AS {type_.duckdb})"


RULES: Final = {
    "abs": Rule(_abs, template("abs({0})")),
    "sign": Rule(_sign, template("CAST(sign({0}) AS {type})")),
    **dict.fromkeys(("round", "trunc", "ceil", "ceiling", "floor"), Rule(_rounded, _render_rounded)),
    "mod": Rule(_mod, template("CAST({0} % {1} AS {type})")),
}
