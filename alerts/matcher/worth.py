"""One program on a delta's two rows at once: met, not met, or for the evaluator to decide. Compiled."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from alerts.matcher.compiled import borrowing
from alerts.matcher.events import AFTER, BEFORE, BOTH
from alerts.matcher.programs import (
    ANY_TERM,
    BETWEEN_ROUGH,
    BETWEEN_SMALL,
    INSIDE,
    LONG_MAX,
    LONG_MIN,
    SMALL_MAX,
    SMALL_MIN,
    TERM,
    WITHIN,
)  # fmt: skip

_PERHAPS: Final = 2
"""How far the bits that are for the evaluator lie beyond those that are met."""
_RELATIVE: Final = 1e-9
_ABSOLUTE: Final = 1e-14
"""Rounding of a chord, in units of the sphere's radius: what lies that close to a circle is for the evaluator."""


class Pair(NamedTuple):
    """The rows before and after."""

    first: Any
    """The number of the row before; the one after follows it."""
    points: Any
    """For each row latitude, longitude, and the point on a sphere of radius 1: NaN without."""
    is_still: Any
    """Both have the same point."""


@borrowing
def _between(row: Any, scale: Any, low: Any, high: Any, rows: Any) -> int:
    cell = row * rows.scales + scale
    for at in range(rows.code_starts[cell], rows.code_starts[cell + 1]):
        if low <= rows.codes[at] <= high:
            return 1
    return 0


@borrowing
def _both_between(sides: Any, pair: Any, scale: Any, low: Any, high: Any, rows: Any) -> int:
    found = 0
    if sides & BEFORE and _between(pair.first, scale, low, high, rows):
        found = BEFORE
    if sides & AFTER and _between(pair.first + 1, scale, low, high, rows):
        found |= AFTER
    return found


@borrowing
def _between_rough(sides: Any, pair: Any, scale: Any, low: Any, high: Any, rows: Any) -> int:
    """At the ends, equal codes say nothing."""
    within = _both_between(sides, pair, scale, low, high, rows)
    if low >= high:
        return within << _PERHAPS
    sure = _both_between(sides, pair, scale, low + 1, high - 1, rows)
    return sure | (within & ~sure) << _PERHAPS


@borrowing
def _within(at: Any, floats: Any, point: Any) -> int:
    if np.isnan(point[0]):
        return 0
    dx, dy, dz = floats[at] - point[2], floats[at + 1] - point[3], floats[at + 2] - point[4]
    chord2, wanted = dx * dx + dy * dy + dz * dz, floats[at + 3]
    margin = wanted * _RELATIVE + np.sqrt(wanted) * _ABSOLUTE
    if chord2 < wanted - margin:
        return 1
    return 1 << _PERHAPS if chord2 <= wanted + margin else 0


@borrowing
def _inside(at: Any, floats: Any, point: Any) -> int:
    lat, lon = point[0], point[1]
    north, west, south, east = floats[at], floats[at + 1], floats[at + 2], floats[at + 3]
    if np.isnan(lat) or not south <= lat <= north:
        return 0
    is_east, is_west = lon >= west, lon <= east
    if west <= east:
        return 1 if is_east and is_west else 0
    return 1 if is_east or is_west else 0


@borrowing
def _placed(operation: Any, at: Any, floats: Any, sides: Any, pair: Any) -> int:
    """In a circle or a box: once for both rows where they have one point."""
    found = 0
    for side in range(2):
        if sides >> side & 1:
            point = pair.points[side]
            worth = _within(at, floats, point) if operation == WITHIN else _inside(at, floats, point)
            if pair.is_still:
                return worth * BOTH
            found |= worth << side
    return found


@borrowing
def _rarer(operation: Any, operand: Any, at: Any, words: Any, present: Any, rows: Any, sides: Any, pair: Any) -> Any:
    """The worth of a literal of the less common sorts, and where the next one begins."""
    if operation == ANY_TERM:
        found = 0
        for each in range(at, at + operand):
            found |= present[words[each]]
        return found, at + operand
    if operation == BETWEEN_ROUGH:
        return _between_rough(sides, pair, operand, words[at], words[at + 1], rows), at + 2
    return _both_between(sides, pair, operand, words[at], words[at + 1], rows), at + 2


@borrowing
def worth_of(words: Any, floats: Any, at: Any, end: Any, present: Any, rows: Any, sides: Any, pair: Any) -> int:
    """The bits of those rows of `sides` that surely meet it, and shifted by two of those for the evaluator to decide.

    Ends at the literal that none of them meets.
    """
    possible, sure = int(sides), int(sides)
    while at < end:
        word = words[at]
        operation, is_negated, operand = word & 0xFF, (word >> 8) & 1, word >> 16
        at += 1
        if operation == TERM:
            found = int(present[operand])
        elif operation == BETWEEN_SMALL:
            low, high = words[at] >> 32, (words[at] << 32) >> 32
            low = LONG_MIN if low == SMALL_MIN else low
            high = LONG_MAX if high == SMALL_MAX else high
            found = _both_between(possible, pair, operand, low, high, rows)
            at += 1
        elif operation in (WITHIN, INSIDE):
            found = _placed(operation, at, floats, possible, pair)
            at += 4
        else:
            found, at = _rarer(operation, operand, at, words, present, rows, possible, pair)
        perhaps = found >> _PERHAPS
        if is_negated:
            found = ~(found | perhaps)
        possible &= found | perhaps
        if possible == 0:
            return 0
        sure &= found
    return sure | (possible & ~sure) << _PERHAPS
