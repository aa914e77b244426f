"""How hard work in the background may go at it: as long as what readers see stays fresh enough.

Work comes in pieces; after each it rests. While the live views are behind by more than the bound the share of the time
that is worked is halved, and grows slowly once they are not.
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
