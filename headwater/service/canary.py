"""The canary of a running service: ticked at the source, followed to the end of the log, and missed when it is late.

What is missing from the log is a gap for ever (cdc/canary.py). What is only late may still come: it is told as late,
and as a failure only where capture could have brought it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

import psycopg

from cdc.addresses import PostgresAddress
from cdc.canary import CanaryCheck, Proven
from cdc.errors import SourceError
from cdc.findings import Finding, Level
from cdc.postgres import connect

INTERVAL_S: Final = 10.0
STANDING_INTERVAL_S: Final = 1.0
"""While capture does not run: what could be lost then has a number in it, and costs nobody an epoch."""
LATE_WARN_S: Final = 60.0
LATE_FAIL_S: Final = 300.0
TICKS_MAX: Final = 1_000


@dataclass
class Canary:
    postgres: PostgresAddress
    check: CanaryCheck
    ticked_at: float = float("-inf")
    waiting: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=TICKS_MAX))
    """Numbers that were written and not yet seen in the log, and when."""
    held_at: float = float("-inf")
    """When capture was last seen to be held."""

    def tick(self, now: float, *, is_running: bool) -> None:
        """A number more at the source, if it is time. Raises SourceError when it cannot be written."""
        if now - self.ticked_at < (INTERVAL_S if is_running else STANDING_INTERVAL_S):
            return
        try:
            with connect(self.postgres) as conn:
                row = conn.execute("select headwater.tick_canary()").fetchone()
        except psycopg.Error as error:
            raise SourceError(
                "the canary cannot be written", detail=str(error).strip(), hint="headwater doctor"
            ) from error
        self.ticked_at = now
        if row is not None:
            self.waiting.append((row[0], now))

    def look(self) -> Proven:
        """How far the log is whole. Raises LogError when it cannot be read."""
        proven = self.check.look()
        while self.waiting and proven.canary is not None and self.waiting[0][0] <= proven.canary.number:
            self.waiting.popleft()
        return proven

    def late(self, now: float, *, is_held: bool = False) -> list[Finding]:
        """While capture is held, by a person or by its initial snapshot, no number can come: that is no failure, and
        the time in which it has to come begins when that has ended."""
        number, at = self.waiting[0] if self.waiting else (0, now)
        if is_held:
            self.held_at = now
        age_s, due_s = now - at, now - (at if is_held else max(at, self.held_at))
        if due_s < LATE_WARN_S:
            return []
        detail = f"number {number} was committed {age_s:.0f} s ago and is not in the log"
        level: Level = "fail" if due_s >= LATE_FAIL_S and not is_held else "warn"
        return [Finding(level, "canary late", detail, "headwater capture status; headwater logs connect")]
