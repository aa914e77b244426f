"""One program on one row: met, not met, or for the evaluator to decide. Compiled."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from alerts.matcher.compiled import compiled
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

NO, YES, PERHAPS = 0, 1, 2
_RELATIVE: Final = 1e-9
_ABSOLUTE: Final = 1e-14
"""Rounding of a chord, in units of the sphere's radius: what lies that close to a circle is for the evaluator."""


class Place(NamedTuple):
    """A row's number and its point: NaN without."""

    row: Any
    lat: Any
    lon: Any
    x: Any
    y: Any
    z: Any


@compiled
def _between(row: Any, scale: Any, low: Any, high: Any, rows: Any) -> int:
    cell = row * rows.scales + scale
    for at in range(rows.code_starts[cell], rows.code_starts[cell + 1]):
        if low <= rows.codes[at] <= high:
            return YES
    return NO


@compiled
def _between_rough(row: Any, scale: Any, low: Any, high: Any, rows: Any) -> int:
    """At the ends, equal codes say nothing."""
    worth = NO
    cell = row * rows.scales + scale
    for at in range(rows.code_starts[cell], rows.code_starts[cell + 1]):
        if low < rows.codes[at] < high:
            return YES
        if low <= rows.codes[at] <= high:
            worth = PERHAPS
    return worth


@compiled
def _within(at: Any, floats: Any, place: Any) -> int:
    if np.isnan(place.lat):
        return NO
    dx, dy, dz = floats[at] - place.x, floats[at + 1] - place.y, floats[at + 2] - place.z
    chord2, wanted = dx * dx + dy * dy + dz * dz, floats[at + 3]
    margin = wanted * _RELATIVE + np.sqrt(wanted) * _ABSOLUTE
    if chord2 < wanted - margin:
        return YES
    return PERHAPS if chord2 <= wanted + margin else NO


@compiled
def _inside(at: Any, floats: Any, place: Any) -> int:
    north, west, south, east = floats[at], floats[at + 1], floats[at + 2], floats[at + 3]
    if np.isnan(place.lat) or not south <= place.lat <= north:
        return NO
    is_east, is_west = place.lon >= west, place.lon <= east
    if west <= east:
        return YES if is_east and is_west else NO
    return YES if is_east or is_west else NO


@compiled
def _rarer(operation: Any, operand: Any, at: Any, words: Any, floats: Any, present: Any, rows: Any, place: Any) -> Any:
    """The worth of a literal of the less common sorts, and where the next one begins."""
    if operation == ANY_TERM:
        found = NO
        for each in range(at, at + operand):
            found |= present[words[each]]
        return found, at + operand
    if operation == INSIDE:
        return _inside(at, floats, place), at + 4
    if operation == BETWEEN_ROUGH:
        return _between_rough(place.row, operand, words[at], words[at + 1], rows), at + 2
    return _between(place.row, operand, words[at], words[at + 1], rows), at + 2


@compiled
def worth_of(words: Any, floats: Any, at: Any, end: Any, present: Any, rows: Any, place: Any) -> int:
    """NO at the first literal that is not met; PERHAPS when any is for the evaluator."""
    worth = YES
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
            found = _between(place.row, operand, low, high, rows)
            at += 1
        elif operation == WITHIN:
            found = _within(at, floats, place)
            at += 4
        else:
            found, at = _rarer(operation, operand, at, words, floats, present, rows, place)
        if found == PERHAPS:
            worth = PERHAPS
        elif found == is_negated:
            return NO
    return worth
