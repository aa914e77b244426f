"""Whether to try again, and after how long. Any read may be repeated: only patience limits it. Pure but for dice."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cdc.errors import HeadwaterError
from headwater.client.failures import ApiError, TimedOut, TooMany, Unavailable, Unreachable


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long. A Retry-After beyond `pause_s_max` is not waited for: the error comes at once."""

    tries_max: int = 4
    """In a row, the first included; for a feed since it last brought something."""
    pause_s_first: float = 0.2
    """Doubled after each failure, and shortened at random by up to a half so that many do not come back at once."""
    pause_s_max: float = 5.0


FEED_PATIENCE: Final = Patience(tries_max=20, pause_s_first=0.5, pause_s_max=10.0)
"""Some two minutes: longer than a server takes to start again."""


def passes_by(error: HeadwaterError) -> bool:
    """A read that failed so is worth another try. Not one that timed out: it has had its time."""
    return isinstance(error, TooMany | Unavailable | Unreachable) and not isinstance(error, TimedOut)


def feed_passes_by(error: HeadwaterError) -> bool:
    """A feed is there for hours: it outlives whatever is not its own fault."""
    return isinstance(error, TooMany | Unreachable) or (isinstance(error, ApiError) and error.status >= 500)


class Tries:
    """Of one read, or of one feed."""

    def __init__(self, patience: Patience, passes: Callable[[HeadwaterError], bool] = passes_by) -> None:
        self._patience, self._passes = patience, passes
        self._failed = 0

    def worked(self) -> None:
        self._failed = 0

    def pause_s(self, error: HeadwaterError) -> float:
        """How long to wait before the next try. Raises the error when there is to be none."""
        self._failed += 1
        asked_s = error.retry_after_s if isinstance(error, ApiError) else None
        is_over = self._failed >= self._patience.tries_max or (asked_s or 0.0) > self._patience.pause_s_max
        if is_over or not self._passes(error):
            raise error
        return self._backoff_s() if asked_s is None else asked_s

    def _backoff_s(self) -> float:
        full_s = min(self._patience.pause_s_first * 2.0 ** (self._failed - 1), self._patience.pause_s_max)
        return full_s * random.uniform(0.5, 1.0)
