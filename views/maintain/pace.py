"""How hard work in the background may go at it: as long as what readers see stays fresh enough.

Work comes in pieces; after each it rests. While what readers see is behind by more than the bound the share of the time
that is worked is halved, and grows slowly once it is not. Pieces shrink with it: whoever waits for one waits shortly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

SHARE_MIN: Final = 0.05
SHARE_FIRST: Final = 0.5
GROWTH: Final = 1.2
REST_S_MAX: Final = 10.0
PIECE_RECORDS_MIN: Final = 2_000
PIECE_RECORDS_MAX: Final = 100_000


@dataclass
class Pace:
    """Safe to share between those who work."""

    lag_ms: Callable[[], float]
    """Of what readers see, lately."""
    lag_ms_max: float
    share: float = SHARE_FIRST
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def rest(self, worked_s: float) -> float:
        """How long to rest after a piece that took so long."""
        is_late = self.lag_ms() > self.lag_ms_max
        with self._lock:
            self.share = max(SHARE_MIN, self.share / 2) if is_late else min(1.0, self.share * GROWTH)
            return min(REST_S_MAX, worked_s * (1 / self.share - 1))

    def piece(self) -> int:
        """How many records the next piece may have."""
        return max(PIECE_RECORDS_MIN, round(PIECE_RECORDS_MAX * self.share**3))
