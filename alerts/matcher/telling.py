"""From queries that were met to subscriptions that are told: every owner of a query, if it watches such an event.

Compiled but for one thing: whether a row changed in what is watched, or by how much, is asked of `events.event_bits`,
once for each delta, kind of watching and sides, however many subscriptions share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from alerts.matcher.compiled import borrowing, prefetch
from alerts.matcher.events import AFTER, Change, Matches, event_bits
from alerts.subscription import Event, Watched
from search.index import IndexDefinition

_SIDES: Final = 4
_AHEAD: Final = 16
"""Memory is asked for so many steps before it is needed."""
_CASES_MAX: Final = 1 << 20
"""Deltas are told in pieces that have no more cases, of delta, kind of watching and sides."""


class Owners(NamedTuple):
    """A segment's subscriptions, by query."""

    starts: Any
    ids: Any
    watched: Any
    alive: Any


class Teller:
    def __init__(self, owners: Owners, watched: Sequence[Watched], definition: IndexDefinition) -> None:
        self._owners, self._watched, self._definition = owners, watched, definition
        self._plain = np.array([_plain(each) for each in watched], np.uint8).reshape(-1, _SIDES)
        self._by_row = np.array([bool(each.changed or each.dropped or each.rose) for each in watched], bool)

    def told(self, met: npt.NDArray[np.int32], changes: Sequence[Change]) -> Matches:
        """`met` are delta, query and sides, by delta."""
        at_once = max(1, _CASES_MAX // (_SIDES * max(1, len(self._watched))))
        if len(changes) <= at_once:
            return self._piece(met, 0, changes)
        firsts = range(0, len(changes), at_once)
        ends = np.searchsorted(met[:, 0], [first + at_once for first in firsts])
        return Matches.together(
            [
                self._piece(met[start:end], first, changes[first : first + at_once])
                for first, start, end in zip(firsts, [0, *ends[:-1]], ends, strict=True)
            ]
        )

    def _piece(self, met: npt.NDArray[np.int32], first: int, changes: Sequence[Change]) -> Matches:
        owners, count = self._owners, len(self._watched)
        room = _owned(met, owners)
        places, cases = np.empty(room, np.int32), np.empty(room, np.int32)
        is_asked = np.zeros(len(changes) * count * _SIDES, np.uint8)
        there = _spread(met, first, count, owners, places, cases, is_asked)
        bits = np.tile(self._plain.reshape(-1), len(changes))
        for case in np.flatnonzero(is_asked).tolist():
            delta, watched, sides = case // _SIDES // count, case // _SIDES % count, case % _SIDES
            if self._by_row[watched] and sides & AFTER:
                bits[case] = event_bits(self._watched[watched], changes[delta], sides, self._definition)
        made = Matches(np.empty(there, np.int32), np.empty(there, np.int64), np.empty(there, np.uint8))
        told = _gather(there, first, count, owners, places, cases, bits, made.delta, made.subscription, made.event)
        return Matches(made.delta[:told], made.subscription[:told], made.event[:told])


def _plain(watched: Watched) -> tuple[int, int, int, int]:
    """By sides: what can be told without a look at the row."""
    return 0, int(Event.LEFT) * watched.left, int(Event.ENTERED) * watched.entered, 0


@borrowing
def _owned(met: Any, owners: Any) -> int:
    total = 0
    for number in range(len(met)):
        query = met[number, 1]
        total += owners.starts[query + 1] - owners.starts[query]
    return total


@borrowing
def _spread(met: Any, first: Any, count: Any, owners: Any, places: Any, cases: Any, is_asked: Any) -> int:
    """Each owner's place and case, those who are gone left out; which cases there are; and how many owners."""
    made, last = 0, len(met) - 1
    for number in range(len(met)):
        prefetch(owners.starts, met[min(number + 2 * _AHEAD, last), 1])
        soon = owners.starts[met[min(number + _AHEAD, last), 1]]
        prefetch(owners.alive, soon)
        prefetch(owners.watched, soon)
        delta, query, sides = met[number, 0] - first, met[number, 1], met[number, 2]
        for place in range(owners.starts[query], owners.starts[query + 1]):
            if owners.alive[place]:
                case = (delta * count + owners.watched[place]) * _SIDES + sides
                places[made], cases[made] = place, case
                is_asked[case] = 1
                made += 1
    return made


@borrowing
def _gather(
    there: Any,
    first: Any,
    count: Any,
    owners: Any,
    places: Any,
    cases: Any,
    bits: Any,
    delta: Any,
    ids: Any,
    event: Any,
) -> int:
    """Those whose case is something that they watch."""
    told = 0
    for number in range(there):
        prefetch(owners.ids, places[min(number + _AHEAD, there - 1)])
        case = cases[number]
        if bits[case]:
            delta[told], ids[told], event[told] = (
                first + case // _SIDES // count,
                owners.ids[places[number]],
                bits[case],
            )
            told += 1
    return told
