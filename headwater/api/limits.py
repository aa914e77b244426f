"""How often one caller may ask: a bucket of tokens each, refilled steadily. Pure but for the clock it is given."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from headwater.api.problems import TooMany

CALLERS_MAX: Final = 10_000


class RateLimit:
    def __init__(self, per_s: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s, self._burst, self._clock = per_s, burst, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> None:
        """Raises TooMany, which says when to come again."""
        now = self._clock()
        left, at = self._left.pop(caller, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_s)
        self._left[caller] = (max(left - 1, left if left < 1 else 0), now)
        if len(self._left) > CALLERS_MAX:
            self._left.popitem(last=False)
        if left < 1:
            error = TooMany(
                "too many requests", detail=f"at most {self._per_s:g} a second", hint="wait as Retry-After says"
            )
            error.retry_after_s = (1 - left) / self._per_s
            raise error
