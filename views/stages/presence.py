"""Whether a key has rows on the other side, before and after an epoch: what outer, semi and anti joins turn on.

Looking it up costs as much as the change, not as much as the key has rows: a key that only loses rows still has one if
more are stored than were taken away.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from views.arrangement import Changed, Multiset


@dataclass(frozen=True)
class Presence:
    old: frozenset[bytes]
    new: frozenset[bytes]

    @classmethod
    def of(cls, multiset: Multiset, changed: Iterable[Changed], keys: Iterable[bytes]) -> Presence:
        """Of the keys given, those that had rows and those that have; before the change is written."""
        gains: set[bytes] = set()
        losses: dict[bytes, int] = {}
        for change in changed:
            if change.new:
                gains.add(change.key)
            elif change.old:
                losses[change.key] = losses.get(change.key, 0) + 1
        wanted = set(keys)
        old = {key for key in wanted if multiset.exceeds(key, 0)}
        new = {key for key in wanted if key in gains or multiset.exceeds(key, losses.get(key, 0))}
        return cls(frozenset(old), frozenset(new))

    def shift(self, key: bytes) -> int:
        """1 if the key came to have rows, -1 if it lost its last one."""
        return (key in self.new) - (key in self.old)
