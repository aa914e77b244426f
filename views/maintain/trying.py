"""What could not be done now is tried again, ever less often."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

PAUSE_S: Final = 2.0
"""After the first failure; twice as long after each further one."""
PAUSE_S_MAX: Final = 60.0


@dataclass(frozen=True)
class _Failed:
    times: int
    since: float
    until: float
    """When it is tried again."""


class Tries:
    """By what is tried. In memory: who starts anew tries at once."""

    def __init__(self) -> None:
        self._failed: dict[str, _Failed] = {}

    def is_due(self, what: str) -> bool:
        known = self._failed.get(what)
        return known is None or time.monotonic() >= known.until

    def failed(self, what: str) -> tuple[int, float]:
        """How often in a row, and for how many seconds already."""
        now, known = time.monotonic(), self._failed.get(what)
        times, since = (known.times + 1, known.since) if known else (1, now)
        pause_s = min(PAUSE_S * 2 ** min(times - 1, 10), PAUSE_S_MAX)
        self._failed[what] = _Failed(times, since, now + pause_s)
        return times, now - since

    def forget(self, what: str) -> None:
        """It was done, or nobody wants it."""
        self._failed.pop(what, None)
