"""How hard work in the background may go at it: as long as what readers see stays fresh enough.

Work comes in pieces; after each it rests. While what readers see is behind by more than the bound the share of the time
that is worked is halved, and grows slowly once it is not. A piece takes a few seconds at most, by how fast the last one
was, and pieces shrink with the share: whoever waits for one waits shortly.

The bound is what was asked for, or less: half as much again as readers were behind when the work began.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

SHARE_MIN: Final = 0.05
SHARE_FIRST: Final = 0.5
GROWTH: Final = 1.2
REST_S_MAX: Final = 10.0
PIECE_S: Final = 10.0
"""Of work that nobody is late for: beginning and ending a piece takes about half a second."""
PIECE_RECORDS_MIN: Final = 2_000
PIECE_RECORDS_MAX: Final = 300_000
RECORDS_PER_S_FIRST: Final = 10_000.0
IDLE_S: Final = 20.0
"""After so long without any, work begins anew."""
LATER_THAN_USUAL: Final = 1.5
LAG_MS_MIN: Final = 750.0
"""Nobody minds so little, however fresh everything was before."""


@dataclass
class Pace:
    """Safe to share between those who work."""

    lag_ms: Callable[[], float]
    """Of what readers see, lately."""
    lag_ms_max: float
    share: float = SHARE_FIRST
    records_per_s: float = RECORDS_PER_S_FIRST
    """Of the last piece that was no mere remainder."""
    clock: Callable[[], float] = time.monotonic
    _bound_ms: float = field(init=False)
    _worked_at: float = field(init=False)
    """Until when somebody works, or rests from it."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self._bound_ms, self._worked_at = self.lag_ms_max, float("-inf")

    def rest(self, worked_s: float, records: int = 0) -> float:
        """How long to rest after a piece of so many records that took so long. Some work has no records to count."""
        is_late = self.lag_ms() > self._bound_ms
        with self._lock:
            if records >= PIECE_RECORDS_MIN and worked_s > 0:
                self.records_per_s = records / worked_s
            self.share = max(SHARE_MIN, self.share / 2) if is_late else min(1.0, self.share * GROWTH)
            rest_s = min(REST_S_MAX, worked_s * (1 / self.share - 1))
            self._worked_at = max(self._worked_at, self.clock() + rest_s)
            return rest_s

    def piece(self) -> int:
        """How many records the next piece may have."""
        if self.clock() - self._worked_at > IDLE_S:
            self._begin(self.lag_ms())
        with self._lock:
            self._worked_at = max(self._worked_at, self.clock() + PIECE_S)
        records = self.records_per_s * PIECE_S * self.share**3
        return max(PIECE_RECORDS_MIN, min(PIECE_RECORDS_MAX, round(records)))

    def _begin(self, usual_ms: float) -> None:
        with self._lock:
            self.share, self.records_per_s = SHARE_FIRST, RECORDS_PER_S_FIRST
            self._bound_ms = min(self.lag_ms_max, max(LAG_MS_MIN, LATER_THAN_USUAL * usual_ms))
