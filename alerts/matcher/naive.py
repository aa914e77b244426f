"""The oracle: the evaluator on every subscription. Slow, and what the matcher must agree with."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

import numpy as np

from alerts.matcher.events import AFTER, BEFORE, Change, Matches, event_bits
from alerts.subscription import Entry
from search import evaluate
from search.index import IndexDefinition
from search.query import Query, resolve


class Evaluator:
    """Subscriptions, each on one change at a time."""

    def __init__(self, definition: IndexDefinition) -> None:
        self._definition = definition
        self._entries: dict[int, Entry] = {}
        self._compiled: dict[int, tuple[Query, evaluate.Predicate]] = {}

    def put(self, entry: Entry) -> None:
        self.remove(entry.id)
        self._entries[entry.id] = entry

    def remove(self, subscription: int) -> None:
        self._entries.pop(subscription, None)
        self._compiled.pop(subscription, None)

    def events(self, change: Change, now: datetime, only: Collection[int] | None = None) -> Iterator[tuple[int, int]]:
        """Of all of them, or of those that are there of some: the events of the change that each watches."""
        before, after = change
        for number in self._entries if only is None else self._entries.keys() & only:
            holds = self._holds(number, now)
            sides = BEFORE * (before is not None and holds(before)) | AFTER * (after is not None and holds(after))
            bits = event_bits(self._entries[number].watched, change, sides, self._definition) if sides else 0
            if bits:
                yield number, bits

    def _holds(self, number: int, now: datetime) -> evaluate.Predicate:
        query = resolve(self._entries[number].query, now)
        known = self._compiled.get(number)
        if known is None or known[0] != query:
            known = self._compiled[number] = query, evaluate.compile(query, self._definition)
        return known[1]


class Naive(Evaluator):
    """As the matcher is asked."""

    def match(self, changes: Sequence[Change], now: datetime) -> Matches:
        found = [(delta, id_, bits) for delta, change in enumerate(changes) for id_, bits in self.events(change, now)]
        delta, ids, events = zip(*found, strict=True) if found else ((), (), ())
        return Matches(np.array(delta, np.int32), np.array(ids, np.int64), np.array(events, np.uint8))
