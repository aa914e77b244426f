"""Values that have an order, as 64-bit whole numbers in the same order.

Exact for numbers of a known scale, floats and instants: equal codes are equal values. Rough for texts and numbers of
any size: a smaller code is a smaller value, but equal codes say nothing; such rows are judged by the evaluator itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from math import ceil, floor
from typing import Any, Final, NamedTuple

from search.encoding import LONG_MAX, LONG_MIN, scaled, scaled_bound
from search.index import Column, IndexDefinition, Row
from search.json_paths import at_path, leaf_form
from search.kinds import RULES, Kind, float_form
from search.query import Range

_WHOLE: Final = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
_PREFIX_BYTES: Final = 8


class Scale(NamedTuple):
    """A question whose answer is a set of codes."""

    field: str
    sort: str = ""
    """Inside a json document: n for numbers, s for texts."""


class Bounds(NamedTuple):
    low: int
    high: int
    """Both included. Nothing lies between when low is greater."""
    is_exact: bool


def scale_of(query: Range, definition: IndexDefinition) -> Scale:
    if not definition.target(query.field).path:
        return Scale(query.field)
    return Scale(query.field, leaf_form(query.low if query.low is not None else query.high)[0])  # type: ignore[arg-type]


def coder(scale: Scale, definition: IndexDefinition) -> Callable[[Row], Sequence[int]]:
    """What a row has there."""
    target = definition.target(scale.field)
    column, path = target.column, target.path
    if path:
        made = _number if scale.sort == "n" else _text
        return lambda row: [
            made(form[1]) for form in map(leaf_form, at_path(row.get(column.name), path)) if form[0] == scale.sort
        ]
    from_row, code = RULES[column.kind].from_row, _code(column)
    return lambda row: [code(from_row(value)) for value in column.values(row)]


def bounds(query: Range, definition: IndexDefinition) -> Bounds:
    """`query` is checked and resolved."""
    target = definition.target(query.field)
    column = target.column
    if target.path:
        made = _number if scale_of(query, definition).sort == "n" else _text
        return _rough(query, lambda value: made(leaf_form(value)[1]))
    if column.kind is Kind.INTEGER or column.scale is not None:
        return _whole_bounds(query, column)
    if column.kind is Kind.FLOAT or column.kind in _WHOLE:
        code = _code(column)
        low = LONG_MIN if query.low is None else code(query.low) + query.low_open
        high = LONG_MAX if query.high is None else code(query.high) - query.high_open
        return _within(low, high)
    return _rough(query, _code(column))


def _code(column: Column) -> Callable[[Any], int]:
    scale = column.scale
    if column.kind is Kind.DECIMAL:
        return _decimal if scale is None else lambda value: scaled(value, scale)
    if column.kind is Kind.FLOAT:
        return float_form
    if column.kind is Kind.INTEGER or column.kind in _WHOLE:
        return lambda value: max(LONG_MIN, min(int(value), LONG_MAX))
    form = RULES[column.kind].form
    return lambda value: _text(form(value))


def _decimal(value: Decimal) -> int:
    return float_form(float(value))


def _number(form: tuple[bool, Any]) -> int:
    """Of search.kinds.decimal_form."""
    return float_form(float("nan") if form[0] else float(Decimal(form[1])))


def _text(text: str) -> int:
    """Code points are ordered as their UTF-8 is."""
    beginning = text[:_PREFIX_BYTES].encode("utf-8", "surrogatepass")[:_PREFIX_BYTES]
    return int.from_bytes(beginning.ljust(_PREFIX_BYTES, b"\0"), "big") + LONG_MIN


def _rough(query: Range, code: Callable[[Any], int]) -> Bounds:
    low = LONG_MIN if query.low is None else code(query.low)
    high = LONG_MAX if query.high is None else code(query.high)
    return Bounds(low, high, is_exact=False)


def _whole_bounds(query: Range, column: Column) -> Bounds:
    """Ends between two whole numbers move to the next one inside."""
    low, high = LONG_MIN, LONG_MAX
    if query.low is not None:
        low = _whole(column, query.low, up=True)
        low += query.low_open and low == _whole(column, query.low, up=False)
    if query.high is not None:
        high = _whole(column, query.high, up=False)
        high -= query.high_open and high == _whole(column, query.high, up=True)
    return _within(low, high)


def _within(low: int, high: int) -> Bounds:
    if low > high or low > LONG_MAX or high < LONG_MIN:
        return Bounds(LONG_MAX, LONG_MIN, is_exact=True)
    return Bounds(max(low, LONG_MIN), min(high, LONG_MAX), is_exact=True)


def _whole(column: Column, value: Any, *, up: bool) -> int:
    if column.scale is not None:
        return scaled_bound(value, column.scale, up=up)
    if isinstance(value, Decimal) and not value.is_finite():
        return LONG_MAX + 1 if value > 0 else LONG_MIN - 1
    whole: int = ceil(value) if up else floor(value)
    return max(LONG_MIN - 1, min(whole, LONG_MAX + 1))
