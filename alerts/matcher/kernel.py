"""The compiled part: rows as numbers against the programs of one segment. No Python object is touched.

For each delta: the tokens of its rows before and after ▶ the lists that are filed under their combinations ▶ each
program in them, on both rows at once. A program's worth has three values: met, not met, or for the evaluator to decide.

Looked up are all combinations of a delta together: each asks for its memory long before it is needed.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from alerts.matcher.compiled import borrowing, prefetch
from alerts.matcher.events import BOTH
from alerts.matcher.filing import mixed
from alerts.matcher.table import find, home
from alerts.matcher.tokens import tokens_of
from alerts.matcher.workspace import CANDIDATES, DOUBTFUL, FOUND, IS_FULL, MARKED, To
from alerts.matcher.worth import Pair, worth_of

LINE_WORDS: Final = 8
"""Of a line of memory."""
AHEAD_WORDS: Final = 64
"""Of each list: so many are asked for ahead; the processor sees by itself that the rest will be needed."""


@borrowing
def _tell(delta: int, query: int, sure: int, unsure: int, scratch: Any) -> None:
    counts = scratch.counts
    if sure:
        if scratch.marks[query] == 0:
            scratch.touched[counts[MARKED]] = query
            counts[MARKED] += 1
        scratch.marks[query] |= np.uint8(sure)
    for side in range(2):
        if unsure >> side & 1:
            if counts[DOUBTFUL] < len(scratch.unsure):
                told = scratch.unsure[counts[DOUBTFUL]]
                told[0], told[1], told[2] = delta, query, 1 << side
                counts[DOUBTFUL] += 1
            else:
                counts[IS_FULL] = 1


@borrowing
def _scan(at: int, end: int, sides: int, to: Any) -> None:
    """Every program of one list."""
    words, floats, present = to.filed.words, to.filed.floats, to.room.present
    candidates = 0
    while at < end:
        head = words[at]
        past = at + 1 + (head & 0xFFFF)
        candidates += 1
        worth = worth_of(words, floats, at + 1, past, present, to.rows, sides, to.pair)
        at = past
        if worth:
            sure, unsure = worth & BOTH, worth >> 2
            if (head >> 16) & 1:
                sure, unsure = 0, sure | unsure
            _tell(to.delta, head >> 32, sure, unsure, to.scratch)
    to.scratch.counts[CANDIDATES] += 2 * candidates if sides == BOTH else candidates


@borrowing
def _ask(words: Any, start: int, end: int) -> None:
    for at in range(start, end, LINE_WORDS):
        prefetch(words, at)


@borrowing
def _scan_all(to: Any) -> None:
    """Every list that is found under what is to be looked up; afterwards nothing is."""
    words, spans, sides, found = to.filed.words, to.room.spans, to.room.sides, 0
    for each in range(to.room.keyed[0]):
        start = find(to.filed.table, to.room.keys[each])
        if start >= 0:
            prefetch(words, start)
            spans[found, 0] = start
            sides[found] = sides[each]
            found += 1
    for each in range(found):
        start = spans[each, 0]
        spans[each, 0], spans[each, 1] = start + 1, start + 1 + words[start]
        _ask(words, start + LINE_WORDS, min(spans[each, 1], start + AHEAD_WORDS))
    for each in range(found):
        _scan(spans[each, 0], spans[each, 1], sides[each], to)
    to.room.keyed[0] = 0


@borrowing
def _look(shape: int, side: int, sides: int, to: Any) -> None:
    """By every combination of one row's tokens in this shape."""
    filed, room = to.filed, to.room
    one, two, three = filed.shapes[shape, 0], filed.shapes[shape, 1], filed.shapes[shape, 2]
    of, starts, keyed = room.tokens[side], room.starts[side], room.keyed
    seed = mixed(np.uint64(0), np.uint64(shape))
    for a in range(starts[one] if one >= 0 else 0, starts[one + 1] if one >= 0 else 1):
        key_a = mixed(seed, np.uint64(of[a])) if one >= 0 else seed
        for b in range(starts[two] if two >= 0 else 0, starts[two + 1] if two >= 0 else 1):
            key_b = mixed(key_a, np.uint64(of[b])) if two >= 0 else key_a
            for c in range(starts[three] if three >= 0 else 0, starts[three + 1] if three >= 0 else 1):
                key = mixed(key_b, np.uint64(of[c])) if three >= 0 else key_b
                if keyed[0] == len(room.keys):
                    _scan_all(to)
                prefetch(filed.table, 2 * home(filed.table, key))
                room.keys[keyed[0]] = key
                room.sides[keyed[0]] = sides
                keyed[0] += 1


@borrowing
def _look_all(sides: int, to: Any) -> None:
    """Where both rows have the same tokens, they are looked up together."""
    shapes, is_same = to.filed.shapes, to.room.is_same
    for shape in range(len(shapes)):
        is_shared = sides == BOTH
        for place in range(3):
            is_shared &= shapes[shape, place] < 0 or is_same[shapes[shape, place]]
        if is_shared:
            _look(shape, 1, BOTH, to)
        else:
            for side in range(2):
                if sides >> side & 1:
                    _look(shape, side, 1 << side, to)
    _scan_all(to)


@borrowing
def _place(first: int, rows: Any, made: Any) -> None:
    for side in range(2):
        lat, lon = rows.points[2 * (first + side)], rows.points[2 * (first + side) + 1]
        north, east = np.radians(lat), np.radians(lon)
        made[side, 0], made[side, 1], made[side, 2] = lat, lon, np.cos(north) * np.cos(east)
        made[side, 3], made[side, 4] = np.cos(north) * np.sin(east), np.sin(north)


@borrowing
def _compare(room: Any) -> None:
    """Which dimensions say the same of both rows."""
    of, starts = room.tokens, room.starts
    for dim in range(len(room.is_same)):
        count = starts[0, dim + 1] - starts[0, dim]
        is_same = count == starts[1, dim + 1] - starts[1, dim]
        for each in range(count if is_same else 0):
            is_same &= of[0, starts[0, dim] + each] == of[1, starts[1, dim] + each]
        room.is_same[dim] = is_same


@borrowing
def _mark(row: int, bits: Any, rows: Any, present: Any) -> None:
    for at in range(rows.term_starts[row * rows.probes], rows.term_starts[(row + 1) * rows.probes]):
        present[rows.terms[at]] |= bits


@borrowing
def _unmark(row: int, rows: Any, present: Any) -> None:
    for at in range(rows.term_starts[row * rows.probes], rows.term_starts[(row + 1) * rows.probes]):
        present[rows.terms[at]] = 0


@borrowing
def _one(delta: int, sides: int, rows: Any, filed: Any, scratch: Any, room: Any) -> None:
    """One delta: what both rows have, then where that leads to."""
    for side in range(2):
        if sides >> side & 1:
            row = 2 * delta + side
            _mark(row, np.uint8(1 << side), rows, room.present)
            tokens_of(row, rows, filed.dims, filed.edges, filed.edge_starts, room.tokens[side], room.starts[side])
    if sides == BOTH:
        _compare(room)
    points = room.points
    _place(2 * delta, rows, points)
    is_still = points[0, 0] == points[1, 0] and points[0, 1] == points[1, 1]
    _look_all(sides, To(delta, Pair(2 * delta, points, is_still), rows, filed, scratch, room))
    for side in range(2):
        if sides >> side & 1:
            _unmark(2 * delta + side, rows, room.present)


@borrowing
def _settle(delta: int, scratch: Any) -> None:
    """What is marked is told, unless there is no room for it, and no longer marked."""
    counts = scratch.counts
    if counts[FOUND] + counts[MARKED] > len(scratch.sure):
        counts[IS_FULL] = 1
    for each in range(counts[MARKED]):
        query = scratch.touched[each]
        if counts[IS_FULL] == 0:
            told = scratch.sure[counts[FOUND]]
            told[0], told[1], told[2] = delta, query, scratch.marks[query]
            counts[FOUND] += 1
        scratch.marks[query] = 0
    counts[MARKED] = 0


@borrowing
def matched(first: int, there: Any, rows: Any, filed: Any, scratch: Any, room: Any) -> int:
    """From delta `first` on; rows 2n and 2n + 1 are before and after of delta n.

    Fills `sure` and `unsure`, counts, and returns the delta to go on with: one that did not fit is begun again.
    """
    counts = scratch.counts
    counts[:] = 0
    for delta in range(first, len(there) // 2):
        began = counts[DOUBTFUL]
        _one(delta, there[2 * delta] | there[2 * delta + 1] << 1, rows, filed, scratch, room)
        _settle(delta, scratch)
        if counts[IS_FULL] != 0:
            counts[DOUBTFUL] = began
            return delta
    return len(there) // 2
