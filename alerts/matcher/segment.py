"""Some subscriptions, matched together: arrays that never change, and which of their owners are still there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from alerts.matcher.draft import Arrays
from alerts.matcher.events import Change, Matches
from alerts.matcher.kernel import matched
from alerts.matcher.rows import Rows
from alerts.matcher.telling import Owners, Teller
from alerts.matcher.workspace import CANDIDATES, DOUBTFUL, FOUND, Filed, Room, Scratch
from alerts.subscription import Entry, Watched
from search import evaluate
from search.index import IndexDefinition
from search.query import Query, resolve

PREDICATES_MAX: Final = 10_000
"""Queries kept ready for the evaluator."""

_FILED: Final = ("dims", "shapes", "edges", "edge_starts", "table", "words")


class Segment:
    def __init__(
        self, definition: IndexDefinition, arrays: Arrays, watched: Sequence[Watched], query: Callable[[int], Query]
    ) -> None:
        arrays = {name: _fixed(array) for name, array in arrays.items()}
        self._definition, self._arrays, self._watched, self._query = definition, arrays, watched, query
        self.alive = np.ones(len(arrays["owner_ids"]), bool)
        owners = Owners(arrays["owner_starts"], arrays["owner_ids"], arrays["owner_watched"], self.alive)
        self._teller = Teller(owners, watched, definition)
        self.dead = 0
        self._filed = Filed(**{name: arrays[name] for name in _FILED}, floats=arrays["words"].view(np.float64))
        queries = len(arrays["owner_starts"]) - 1
        self._scratch = Scratch.of(queries)
        self._predicates: dict[int, evaluate.Predicate] = {}
        self.candidates = 0
        """Programs looked at so far."""

    def __len__(self) -> int:
        return len(self.alive) - self.dead

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays.values())

    def remove(self, subscription: int) -> bool:
        """Whether it was there."""
        ids, places = self._arrays["ids_sorted"], self._arrays["ids_places"]
        at = int(np.searchsorted(ids, subscription))
        if at == len(ids) or ids[at] != subscription or not self.alive[places[at]]:
            return False
        self.alive[places[at]] = False
        self.dead += 1
        return True

    def entries(self) -> Iterator[Entry]:
        """Those that are still there."""
        starts, ids, watched = (self._arrays[name] for name in ("owner_starts", "owner_ids", "owner_watched"))
        for number in range(len(starts) - 1):
            places = [at for at in range(int(starts[number]), int(starts[number + 1])) if self.alive[at]]
            if places:
                query = self._query(number)
                yield from (Entry(int(ids[at]), query, self._watched[watched[at]]) for at in places)

    def match(self, changes: Sequence[Change], rows: Rows, present: npt.NDArray[np.uint8], now: datetime) -> Matches:
        """`present` is zero for every term of the lexicon, and is left so."""
        parts, first, numbers = [], 0, rows.numbers()
        dims = len(self._filed.dims)
        room = Room.of(present, dims, len(rows.terms) + (len(rows.codes) + 2) * (dims + 1))
        while first < len(changes):
            following = matched(first, rows.there, numbers, self._filed, self._scratch, room)
            if following == first:
                self._scratch = self._scratch.grown()
                continue
            found, doubtful, candidates = (int(self._scratch.counts[each]) for each in (FOUND, DOUBTFUL, CANDIDATES))
            self.candidates += candidates
            sure = self._scratch.sure[:found]
            if doubtful:
                sure = self._decided(sure, self._scratch.unsure[:doubtful], changes, now)
            parts.append(self._teller.told(sure, changes))
            first = following
        return Matches.together(parts)

    def _decided(
        self, sure: npt.NDArray[np.int32], unsure: npt.NDArray[np.int32], changes: Sequence[Change], now: datetime
    ) -> npt.NDArray[np.int32]:
        """With what the evaluator says of the doubtful ones; each delta and query once."""
        met = [
            (delta, query, side)
            for delta, query, side in np.unique(unsure, axis=0).tolist()
            if self._holds(query, changes[delta][side - 1], now)
        ]
        every = np.concatenate([sure, np.array(met, np.int32).reshape(-1, 3)])
        pairs, places = np.unique(every[:, 0].astype(np.int64) << 32 | every[:, 1], return_inverse=True)
        sides = np.zeros(len(pairs), np.int32)
        np.bitwise_or.at(sides, places, every[:, 2])
        return np.stack([(pairs >> 32).astype(np.int32), (pairs & 0xFFFF_FFFF).astype(np.int32), sides], axis=1)

    def _holds(self, query: int, row: Any, now: datetime) -> bool:
        kept = self._predicates.get(query)
        if kept is None:
            asked = self._query(query)
            resolved = resolve(asked, now)
            predicate = evaluate.compile(resolved, self._definition)
            if resolved != asked:  # it means something else at the next moment
                return predicate(row)
            if len(self._predicates) >= PREDICATES_MAX:
                self._predicates.clear()
            kept = self._predicates[query] = predicate
        return kept(row)


def _fixed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Mapped or in memory, the same to compiled code: it is compiled once for both."""
    made = array.view(np.ndarray)
    made.flags.writeable = False
    return made
