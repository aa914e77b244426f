"""How far rebuilds are, how fast they go, and why they do not: as they are looked at again and again."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

import msgspec

from views.rebuild import Rebuild
from views.sinks.lane import Lane

LATELY_S: Final = 60.0
STEP_S: Final = 1.0
"""It is noted so often."""


@dataclass
class Rates:
    """Over the last minute, and without the time for which it stood still."""

    clock: Callable[[], float] = time.monotonic
    _noted: dict[str, deque[tuple[float, int]]] = field(default_factory=dict, init=False)
    _looked_at: dict[str, float] = field(default_factory=dict, init=False)

    def worked_s(self, name: str) -> float:
        """Since the last look; 0 at the first, and after it stood still."""
        now = self.clock()
        before = self._looked_at.get(name, now)
        self._looked_at[name] = now
        return now - before

    def per_s(self, name: str, done: int) -> float | None:
        """None as long as nobody can tell."""
        now = self.clock()
        noted = self._noted.setdefault(name, deque())
        if not noted or now - noted[-1][0] >= STEP_S:
            noted.append((now, done))
        while now - noted[0][0] > LATELY_S:
            noted.popleft()
        since, before = noted[0]
        return (done - before) / (now - since) if now - since >= STEP_S else None

    def stands(self, name: str) -> None:
        self._noted.pop(name, None)
        self._looked_at.pop(name, None)


@dataclass
class RebuildProgress:
    rows: Callable[[str], int]
    """Of a view, as readers are given it."""
    rates: Rates = field(default_factory=Rates)
    _read: WeakKeyDictionary[Lane, int] = field(default_factory=WeakKeyDictionary, init=False)
    """By who fills a generation: how much he had read when that was last looked at."""
    _rows: dict[str, int] = field(default_factory=dict, init=False)

    def filled(self, rebuild: Rebuild, lane: Lane, reason: str) -> Rebuild:
        """In records that were read, not in offsets: of a topic that was compacted most of those are empty."""
        read = lane.read
        done = rebuild.done + read - self._read.get(lane, 0)
        if rebuild.id not in self._rows:
            self._rows[rebuild.id] = self.rows(rebuild.view)
        left = lane.left(max(0, self._rows[rebuild.id] - done))
        self._read[lane] = read
        filled_s = rebuild.filled_s + self.rates.worked_s(rebuild.id)
        return self.noted(msgspec.structs.replace(rebuild, filled=done, filled_s=filled_s), done, done + left, reason)

    def noted(self, rebuild: Rebuild, done: int, total: int, reason: str) -> Rebuild:
        rate = self.rates.per_s(f"{rebuild.id} {rebuild.stage}", done)
        if rate is None and not (rate := rebuild.rows_per_s):
            took_s = time.time() - rebuild.began.get(rebuild.stage, rebuild.asked_at_s)
            rate = done / took_s if took_s > 0 else 0.0
        return msgspec.structs.replace(rebuild, done=done, total=total, rows_per_s=rate, reason=reason)

    def standing(self, rebuild: Rebuild, reason: str) -> Rebuild:
        """It does not go on, or nobody can say how far it is."""
        self.rates.stands(rebuild.id)
        self.rates.stands(f"{rebuild.id} {rebuild.stage}")
        return msgspec.structs.replace(rebuild, reason=reason)
