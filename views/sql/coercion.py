"""Which types meet, and what they become: Postgres' rules for implicit casts, common types and arithmetic. Pure.

A numeric's scale is worked out here, as Postgres works it out value by value, so that it is known before a row is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Final

from sqlglot import exp

from views import sqltypes as t
from views.refusals import Reason, refusal
from views.sql.literals import literal_of
from views.sql.typed import any_nullable, nullable, type_of, typed
from views.sqltypes import NUMERIC_DIGITS_MAX, Family, SqlType

_INTEGER_RANK: Final = {"smallint": 0, "integer": 1, "bigint": 2}
_INTEGER_DIGITS: Final = {"smallint": 5, "integer": 10, "bigint": 19}
_INSTANT_RANK: Final = {Family.DATE: 0, Family.TIMESTAMP: 1, Family.TIMESTAMPTZ: 2}
_NUMBERS: Final = (Family.INTEGER, Family.NUMERIC, Family.FLOAT)


def digits_and_scale(type_: SqlType) -> tuple[int, int]:
    """Of an integer or a numeric that has one."""
    if type_.family is Family.INTEGER:
        return _INTEGER_DIGITS[type_.name], 0
    assert type_.precision is not None
    assert type_.scale is not None
    return type_.precision, type_.scale


def is_number(type_: SqlType) -> bool:
    return type_.family in _NUMBERS


def common(types: Sequence[SqlType], at: exp.Expression) -> SqlType:
    """The type of CASE, COALESCE, UNION, = and the like. Raises ViewRefused where Postgres has none either."""
    known = [type_ for type_ in types if type_.family is not Family.UNKNOWN]
    if not known:
        return t.TEXT
    first = known[0]
    if all(type_ == first for type_ in known):
        return first
    families = {type_.family for type_ in known}
    if families <= set(_NUMBERS):
        return _common_number(known, at)
    if families == {Family.TEXT}:
        return t.VARCHAR if first.name == "character varying" else t.TEXT
    if families <= _INSTANT_RANK.keys():
        return max(known, key=lambda type_: _INSTANT_RANK[type_.family])
    if len({t.without_modifier(type_) for type_ in known}) == 1:
        return t.without_modifier(first)
    other = next(type_ for type_ in known if type_ != first)
    raise refusal(
        Reason.TYPE_MISMATCH,
        f"{first} and {other} have no type in common",
        at,
        hint=f"cast one of them, such as (…)::{first}",
    )


def _common_number(known: Sequence[SqlType], at: exp.Expression) -> SqlType:
    families = {type_.family for type_ in known}
    if Family.FLOAT in families:
        return t.REAL if all(type_ == t.REAL for type_ in known) else t.DOUBLE
    if families == {Family.INTEGER}:
        return max(known, key=lambda type_: _INTEGER_RANK[type_.name])
    if any(type_.has_no_scale for type_ in known):
        return t.NUMERIC
    pairs = [digits_and_scale(type_) for type_ in known]
    scale = max(s for _, s in pairs)
    varies = any(s != scale for _, s in pairs) or any(type_.scale_varies for type_ in known)
    return numeric_result(max(d - s for d, s in pairs) + scale, scale, at, scale_varies=varies)


def numeric_result(digits: int, scale: int, at: exp.Expression, *, scale_varies: bool = False) -> SqlType:
    if scale > NUMERIC_DIGITS_MAX:
        raise refusal(
            Reason.NO_SCALE,
            f"a numeric with {scale} digits after the point",
            at,
            detail=f"at most {NUMERIC_DIGITS_MAX} digits are computed with",
            hint="round or cast an operand, such as (…)::numeric(12,2)",
        )
    return t.numeric(max(digits, scale, 1), scale, scale_varies=scale_varies)


def coerced(expression: exp.Expression, target: SqlType) -> exp.Expression:
    """The same value in the target's type, which must be one that Postgres casts to by itself."""
    have = type_of(expression)
    if have == target:
        return expression
    if have.family is Family.UNKNOWN:
        return literal_of(expression, target)
    if have.family is target.family is Family.TEXT:
        return typed(expression, target, nullable=nullable(expression))
    return cast(expression, target)


def cast(expression: exp.Expression, target: SqlType) -> exp.Cast:
    to = exp.DataType.build(exp.DType.USERDEFINED, kind=target.postgres)
    return typed(exp.Cast(this=expression, to=to), target, nullable=nullable(expression))


def to_common(expressions: Sequence[exp.Expression], at: exp.Expression) -> tuple[list[exp.Expression], SqlType]:
    type_ = common([type_of(expression) for expression in expressions], at)
    return [coerced(expression, type_) for expression in expressions], type_


def can_become(have: SqlType, want: SqlType) -> bool:
    """By an implicit cast, as the argument of a function."""
    if have.family is Family.UNKNOWN or have == want:
        return True
    if have.family is want.family:
        if have.family is Family.INTEGER:
            return _INTEGER_RANK[have.name] <= _INTEGER_RANK[want.name]
        return have.family in (Family.TEXT, Family.NUMERIC, Family.FLOAT)
    if is_number(have) and is_number(want):
        return _NUMBERS.index(have.family) < _NUMBERS.index(want.family)
    if have.family in _INSTANT_RANK and want.family in _INSTANT_RANK:
        return _INSTANT_RANK[have.family] <= _INSTANT_RANK[want.family]
    return have.family in (Family.ENUM, Family.UUID) and False


def arithmetic(operator: type[exp.Expression], left: SqlType, right: SqlType, at: exp.Expression) -> SqlType:
    """The type of + - * / % over two numbers."""
    if Family.FLOAT in (left.family, right.family):
        return t.REAL if left == right == t.REAL else t.DOUBLE
    if left.family is right.family is Family.INTEGER:
        return max(left, right, key=lambda type_: _INTEGER_RANK[type_.name])
    for side in (left, right):
        if side.has_no_scale:
            refuse_without_scale(at, side)
    if operator is exp.Div:
        return t.NUMERIC
    (d1, s1), (d2, s2) = digits_and_scale(left), digits_and_scale(right)
    varies = left.scale_varies or right.scale_varies
    if operator is exp.Mul:
        return numeric_result(d1 + d2, s1 + s2, at, scale_varies=varies)
    scale = max(s1, s2)
    return numeric_result(max(d1 - s1, d2 - s2) + 1 + scale, scale, at, scale_varies=varies)


def refuse_without_scale(at: exp.Expression, type_: SqlType) -> None:
    raise refusal(
        Reason.NO_SCALE,
        "a numeric without a scale cannot be computed with",
        at,
        detail=f"{at.sql('postgres')[:80]} is a {type_}: Postgres decides its digits value by value",
        hint="round(…, 2), or cast it first: (…)::numeric(12,2)",
    )


def number_literal(text: str) -> tuple[SqlType, str]:
    """Type and plain digits of a literal, as Postgres reads it. Raises InvalidOperation for what is none."""
    value = Decimal(text)
    if value == value.to_integral_value() and "." not in text and "e" not in text.lower():
        for type_, bits in ((t.INTEGER, 32), (t.BIGINT, 64)):
            if abs(value) < 2 ** (bits - 1):
                return type_, text
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise InvalidOperation(text)
    scale = max(0, -exponent)
    whole = max(len(digits) + exponent, 1)
    if whole + scale > NUMERIC_DIGITS_MAX:
        raise InvalidOperation(text)
    return t.numeric(whole + scale, scale), format(value, "f")


def strict(expressions: Sequence[exp.Expression]) -> bool:
    """Nullable if an argument is: true of nearly all functions and operators."""
    return any_nullable(expressions)
