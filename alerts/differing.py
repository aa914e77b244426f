"""Whether a row differs in what somebody watches, as Postgres has it: true is not 1, also inside a json value, 1.0 is
1.00, and NaN is NaN. What is matched, previewed and named as the reason is asked here alone. Pure."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from math import isnan
from typing import Any

from search.index import Row


def differs(columns: Collection[str], before: Row, after: Row) -> bool:
    """In one of the columns; in any, where none is named."""
    names = columns or after
    for name in names:
        one, other = before.get(name), after.get(name)
        if one != other and not (_is_nan(one) and _is_nan(other)):
            return True
    # Documents are walked through only where nothing else has said it.
    return not all(_is_of_one_kind(before.get(name), after.get(name)) for name in names)


def is_same(one: object, other: object) -> bool:
    return not differs((), {"": one}, {"": other})


def _is_of_one_kind(one: Any, other: Any) -> bool:
    """Of values that Python calls equal: it takes true for 1."""
    kind = type(one)
    if kind is dict:
        return all(_is_of_one_kind(inner, other[name]) for name, inner in one.items())
    if kind is list:
        return all(map(_is_of_one_kind, one, other))
    return (kind is bool) is (type(other) is bool)


def _is_nan(value: object) -> bool:
    return isinstance(value, Decimal | float) and isnan(value)
