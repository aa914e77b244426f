"""Where each view stands, as Kafka said it last: asked once for everybody who looks, and never awaited for long.

A Kafka that is away takes 10 s to say so. Nobody who looks holds a thread for that: they get what was known, told to be
old, and Kafka is asked again later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from cdc.errors import HeadwaterError
from views.maintain.publisher import Frontier

KNOWN_S: Final = 5.0
FAILED_S: Final = 30.0
"""Until Kafka is asked again after it failed."""
WAIT_S_MAX: Final = 3.0
"""From the moment it was asked, for all who look meanwhile together."""


@dataclass(frozen=True, slots=True)
class Known:
    frontiers: dict[str, Frontier]
    at: datetime | None = None
    """When Kafka said so; None: never."""
    problem: str = ""
    """Why it is old."""


class KnownFrontiers:
    def __init__(self, ask: Callable[[], dict[str, Frontier]]) -> None:
        self._ask = ask
        self._ended = threading.Condition()
        self._known = Known({})
        self._asked_at, self._ask_at, self._is_asking = 0.0, 0.0, False

    def look(self) -> Known:
        with self._ended:
            if not self._is_asking and time.monotonic() >= self._ask_at:
                self._is_asking, self._asked_at = True, time.monotonic()
                threading.Thread(target=self._asked, name="frontiers", daemon=True).start()
            if self._known.problem:  # it was away: who looks does not wait to hear whether it still is
                return self._known
            left_s = self._asked_at + WAIT_S_MAX - time.monotonic()
            if self._ended.wait_for(lambda: not self._is_asking, max(0.0, left_s)):
                return self._known
            return replace(self._known, problem="Kafka has not answered yet")

    def _asked(self) -> None:
        found, pause_s = replace(self._known, problem="where the views stand could not be read"), FAILED_S
        try:
            found, pause_s = Known(self._ask(), datetime.now(UTC)), KNOWN_S
        except HeadwaterError as error:
            found = replace(self._known, problem=error.fact)
        finally:
            with self._ended:
                self._known, self._is_asking, self._ask_at = found, False, time.monotonic() + pause_s
                self._ended.notify_all()
