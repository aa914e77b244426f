"""The circuit breaker of one endpoint: after some failures in a row it is left alone for a while. Pure.

closed ── failures_max failures in a row ──▶ open ── until ──▶ half open ── a success ──▶ closed
                                              ▲                    │
                                              └── a failure: twice as long
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class BreakerRule:
    failures_max: int = 3
    """In a row, until it opens."""
    open_s: float = 30.0
    open_s_max: float = 900.0


class State(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half open"
    """One attempt at a time may try whether it is back."""


@dataclass(frozen=True, slots=True)
class Breaker:
    failures: int = 0
    """In a row, up to now."""
    opened: int = 0
    """How often in a row it opened without a success in between."""
    until: datetime | None = None

    def state(self, now: datetime) -> State:
        if self.until is None:
            return State.CLOSED
        return State.OPEN if now < self.until else State.HALF_OPEN

    def succeeded(self) -> Breaker:
        return Breaker()

    def failed(self, now: datetime, rule: BreakerRule) -> Breaker:
        """One more failure. One that began before it opened, and ends while it is open, changes nothing."""
        if self.state(now) is State.OPEN:
            return self
        failures = self.failures + 1
        if self.until is None and failures < rule.failures_max:
            return Breaker(failures, self.opened, None)
        return Breaker(failures, self.opened + 1, now + timedelta(seconds=self._open_s(rule)))

    def _open_s(self, rule: BreakerRule) -> float:
        doublings = min(self.opened, 30)  # beyond any sensible limit, and no overflow
        return float(min(rule.open_s * 2**doublings, rule.open_s_max))
