"""How hard work in the background may go at it: as long as what readers see stays fresh enough.

Work comes in pieces; after each it rests. While what readers see is later than the bound, the share of the time that is
worked shrinks, and grows again once it is not. The bound is what was asked for, or less: twice of what is usual, as it
is seen at the ends of rests that were long beside the work before them.

Who is late may be so without us. That is known when a rest of the longest kind ends and they still are: then, for a
while, only what makes it worse counts, and work goes on half of the time. It never stops: a fifth of the time is worked
at the least, in pieces so long that beginning and ending one (half a second) is the smaller part.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Final

SHARE_MIN: Final = 0.2
SHARE_FIRST: Final = 0.5
"""Also what is worked at most while readers are late for other reasons."""
SHRINKING: Final = 0.7
GROWTH: Final = 1.2
REST_S_MAX: Final = 10.0
PIECE_S: Final = 10.0
"""Of work that nobody is late for."""
PIECE_S_MIN: Final = 2.0
PIECE_RECORDS_MIN: Final = 2_000
PIECE_RECORDS_MAX: Final = 300_000
RECORDS_PER_S_FIRST: Final = 10_000.0
IDLE_S: Final = 20.0
"""After so long without any, work begins anew."""
LATER_THAN_USUAL: Final = 2.0
LATER_THAN_BEFORE: Final = 1.25
"""By so much readers who are late anyway have to become later for the work to be why."""
ANYWAY_S: Final = 60.0
"""So long it is believed that they are."""
LAG_MS_MIN: Final = 750.0
"""Nobody minds so little, however fresh everything was before."""
ALONE: Final = 2.0
"""What is usual is seen at the end of rests that were so many times as long as the work before them."""
LOOK_S_MIN: Final = 1.0
BEFORE_S: Final = 60.0
"""Of so long before the work begins it is asked how late readers were."""
SEEN_MAX: Final = 15


@dataclass
class Pace:
    """Of one kind of work. Safe to share between those who do it."""

    lag_ms: Callable[[float], float]
    """Of what readers see, within the last so many seconds."""
    lag_ms_max: float
    share: float = SHARE_FIRST
    records_per_s: float = RECORDS_PER_S_FIRST
    """Of the last piece that was no mere remainder."""
    clock: Callable[[], float] = time.monotonic
    _seen: deque[float] = field(default_factory=lambda: deque(maxlen=SEEN_MAX), init=False, repr=False)
    """How late readers were while nobody worked."""
    _before_ms: float = field(default=0.0, init=False)
    """The same when the last piece began."""
    _anyway_until: float = field(default=float("-inf"), init=False)
    _late_ms: float = field(default=0.0, init=False)
    """How late they were for the last piece; 0 if that was not too late."""
    _rest: tuple[int, float, float] | None = field(default=None, init=False)
    """Whose rest was the last to begin, what he had worked, how long he was to rest; None if anybody works since."""
    _worked_at: float = field(default=float("-inf"), init=False)
    """Until when somebody works, or rests from it."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def bound_ms(self) -> float:
        usual = median(self._seen) if self._seen else self.lag_ms_max
        return min(self.lag_ms_max, max(LAG_MS_MIN, LATER_THAN_USUAL * usual))

    def held_back(self) -> str:
        """Why it goes slower than it could, for people; empty while it does not."""
        with self._lock:
            if not self._late_ms or self.clock() - self._worked_at > IDLE_S:
                return ""
            behind, most = self._late_ms / 1000, self.bound_ms / 1000
        return f"gives way to readers: {behind:.1f} s behind, at most {most:.1f} s"

    def begin(self) -> None:
        """A piece begins now."""
        if self.clock() - self._worked_at > IDLE_S:
            self._begin_anew(self.lag_ms(BEFORE_S))
        with self._lock:
            rest, self._rest = self._rest, None
        # While others work nobody knows how late readers are without them.
        worked_s, rested_s = rest[1:] if rest is not None and rest[0] == threading.get_ident() else (0.0, 0.0)
        lag_ms = self.lag_ms(max(LOOK_S_MIN, rested_s / 2))
        with self._lock:
            self._before_ms = lag_ms
            if rested_s >= max(ALONE * worked_s, LOOK_S_MIN):
                self._seen.append(lag_ms)
            if rested_s and rested_s >= _rest_s(worked_s, SHARE_MIN) and lag_ms > self.bound_ms:
                self._anyway_until = self.clock() + ANYWAY_S
            self._worked_at = max(self._worked_at, self.clock() + PIECE_S)

    def piece(self) -> int:
        """How many records the one that begins now may have."""
        self.begin()
        records = self.records_per_s * max(PIECE_S_MIN, PIECE_S * self.share**2)
        return max(PIECE_RECORDS_MIN, min(PIECE_RECORDS_MAX, round(records)))

    def rest(self, worked_s: float, records: int = 0) -> float:
        """How long to rest after a piece of so many records that took so long. Some work has no records to count."""
        lag_ms = self.lag_ms(max(LOOK_S_MIN, worked_s))
        with self._lock:
            if records >= PIECE_RECORDS_MIN and worked_s > 0:
                self.records_per_s = records / worked_s
            self.share = self._share(lag_ms)
            rest_s = _rest_s(worked_s, self.share)
            self._rest = threading.get_ident(), worked_s, rest_s
            self._worked_at = max(self._worked_at, self.clock() + rest_s)
            return rest_s

    def _share(self, lag_ms: float) -> float:
        is_late = lag_ms > self.bound_ms
        self._late_ms = lag_ms if is_late else 0.0
        if not is_late:
            return min(1.0, self.share * GROWTH)
        if self.clock() < self._anyway_until and lag_ms <= LATER_THAN_BEFORE * self._before_ms:
            return min(SHARE_FIRST, self.share * GROWTH)
        return max(SHARE_MIN, self.share * SHRINKING)

    def _begin_anew(self, usual_ms: float) -> None:
        with self._lock:
            self.share, self.records_per_s = SHARE_FIRST, RECORDS_PER_S_FIRST
            self._seen.extend([usual_ms] * SEEN_MAX)  # others count when they are more
            self._anyway_until, self._late_ms, self._rest = float("-inf"), 0.0, None


def _rest_s(worked_s: float, share: float) -> float:
    return min(REST_S_MAX, worked_s * (1 / share - 1))
