"""The compiled part: rows as numbers against the programs of one segment. No Python object is touched.

For each delta, before and after: the row's tokens ▶ the lists that are filed under their combinations ▶ each program in
them. A program's worth has three values: met, not met, or for the evaluator to decide.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from alerts.matcher.compiled import compiled
from alerts.matcher.filing import mixed
from alerts.matcher.table import find
from alerts.matcher.tokens import tokens_of
from alerts.matcher.worth import NO, YES, Place, worth_of

FOUND, DOUBTFUL, CANDIDATES, MARKED, IS_FULL = 0, 1, 2, 3, 4
COUNTS: Final = 5


class Filed(NamedTuple):
    """A segment's programs, and how rows find them."""

    dims: Any
    """Kind, probe or level or scale, level of a band."""
    shapes: Any
    """Combinations of up to three dims, -1 for none."""
    edges: Any
    edge_starts: Any
    """Of bands, by scale."""
    slots: Any
    keys: Any
    list_starts: Any
    words: Any
    floats: Any
    """The same words, read as floats."""


class Scratch(NamedTuple):
    """Kept between calls. `present` and `marks` are zero, and left so."""

    present: Any
    """By term: whether the row has it."""
    marks: Any
    """By query: 1 met before, 2 after."""
    touched: Any
    """Queries that are marked."""
    sure: Any
    unsure: Any
    """Delta, query, 1 before | 2 after."""
    counts: Any


@compiled
def _scan(list_: int, delta: int, side: int, place: Any, rows: Any, filed: Any, scratch: Any) -> None:
    """Every program of one list on one row."""
    words, counts = filed.words, scratch.counts
    at, end = filed.list_starts[list_], filed.list_starts[list_ + 1]
    candidates = 0
    while at < end:
        head = words[at]
        past = at + 1 + (head & 0xFFFF)
        candidates += 1
        worth = worth_of(words, filed.floats, at + 1, past, scratch.present, rows, place)
        at = past
        if worth == NO:
            continue
        query = head >> 32
        if worth == YES and (head >> 16) & 1 == 0:
            if scratch.marks[query] == 0:
                scratch.touched[counts[MARKED]] = query
                counts[MARKED] += 1
            scratch.marks[query] |= np.uint8(1 << side)
        elif counts[DOUBTFUL] < len(scratch.unsure):
            told = scratch.unsure[counts[DOUBTFUL]]
            told[0], told[1], told[2] = delta, query, 1 << side
            counts[DOUBTFUL] += 1
        else:
            counts[IS_FULL] = 1
    counts[CANDIDATES] += candidates


@compiled
def _look(delta: int, side: int, place: Any, rows: Any, filed: Any, scratch: Any, tokens: Any, starts: Any) -> None:
    """Every combination of one row's tokens that programs are filed under."""
    for shape in range(len(filed.shapes)):
        one, two, three = filed.shapes[shape, 0], filed.shapes[shape, 1], filed.shapes[shape, 2]
        seed = mixed(np.uint64(0), np.uint64(shape))
        for a in range(starts[one] if one >= 0 else 0, starts[one + 1] if one >= 0 else 1):
            key_a = mixed(seed, np.uint64(tokens[a])) if one >= 0 else seed
            for b in range(starts[two] if two >= 0 else 0, starts[two + 1] if two >= 0 else 1):
                key_b = mixed(key_a, np.uint64(tokens[b])) if two >= 0 else key_a
                for c in range(starts[three] if three >= 0 else 0, starts[three + 1] if three >= 0 else 1):
                    key = mixed(key_b, np.uint64(tokens[c])) if three >= 0 else key_b
                    list_ = find(filed.slots, filed.keys, key)
                    if list_ >= 0:
                        _scan(list_, delta, side, place, rows, filed, scratch)


@compiled
def _row(delta: int, side: int, rows: Any, filed: Any, scratch: Any, tokens: Any, starts: Any) -> None:
    row = 2 * delta + side
    first, last = rows.term_starts[row * rows.probes], rows.term_starts[(row + 1) * rows.probes]
    for at in range(first, last):
        scratch.present[rows.terms[at]] = 1
    lat, lon = rows.points[2 * row], rows.points[2 * row + 1]
    north, east = np.radians(lat), np.radians(lon)
    place = Place(row, lat, lon, np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north))
    tokens_of(row, rows, filed.dims, filed.edges, filed.edge_starts, tokens, starts)
    _look(delta, side, place, rows, filed, scratch, tokens, starts)
    for at in range(first, last):
        scratch.present[rows.terms[at]] = 0


@compiled
def matched(first: int, there: Any, rows: Any, filed: Any, scratch: Any) -> int:
    """From delta `first` on; rows 2n and 2n + 1 are before and after of delta n.

    Fills `sure` and `unsure`, counts, and returns the delta to go on with: one that did not fit is begun again.
    """
    counts = scratch.counts
    counts[:] = 0
    tokens = np.empty(len(rows.terms) + (len(rows.codes) + 2) * (len(filed.dims) + 1), np.int64)
    starts = np.zeros(len(filed.dims) + 1, np.int64)
    for delta in range(first, len(there) // 2):
        began = counts[DOUBTFUL]
        counts[MARKED] = 0
        for side in range(2):
            if there[2 * delta + side] != 0:
                _row(delta, side, rows, filed, scratch, tokens, starts)
        if counts[FOUND] + counts[MARKED] > len(scratch.sure):
            counts[IS_FULL] = 1
        for each in range(counts[MARKED]):
            query = scratch.touched[each]
            if counts[IS_FULL] == 0:
                told = scratch.sure[counts[FOUND]]
                told[0], told[1], told[2] = delta, query, scratch.marks[query]
                counts[FOUND] += 1
            scratch.marks[query] = 0
        if counts[IS_FULL] != 0:
            counts[DOUBTFUL] = began
            return delta
    return len(there) // 2
