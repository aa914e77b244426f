"""The oracle: the evaluator on every subscription. Slow, and what the matcher must agree with."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np

from alerts.matcher.events import AFTER, BEFORE, Change, Matches, event_bits
from alerts.subscription import Entry
from search import evaluate
from search.index import IndexDefinition
from search.query import resolve


class Naive:
    def __init__(self, definition: IndexDefinition) -> None:
        self._definition = definition
        self._entries: dict[int, Entry] = {}

    def put(self, entry: Entry) -> None:
        self._entries[entry.id] = entry

    def remove(self, subscription: int) -> None:
        self._entries.pop(subscription, None)

    def match(self, changes: Sequence[Change], now: datetime) -> Matches:
        found = [
            (delta, entry.id, bits)
            for entry in self._entries.values()
            for delta, bits in self._one(entry, changes, now)
        ]
        delta, ids, events = zip(*found, strict=True) if found else ((), (), ())
        return Matches(np.array(delta, np.int32), np.array(ids, np.int64), np.array(events, np.uint8))

    def _one(self, entry: Entry, changes: Sequence[Change], now: datetime) -> list[tuple[int, int]]:
        holds = evaluate.compile(resolve(entry.query, now), self._definition)
        made = []
        for delta, (before, after) in enumerate(changes):
            sides = BEFORE * (before is not None and holds(before)) | AFTER * (after is not None and holds(after))
            bits = event_bits(entry.watched, (before, after), sides, self._definition) if sides else 0
            if bits:
                made.append((delta, bits))
        return made
