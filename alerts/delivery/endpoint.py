"""What delivery knows of one endpoint: what waits for it here, what runs, and whether it can be trusted. No I/O.

An endpoint is proven by a success and failing by a failure. One that is not proven gets one attempt at a time, and all
of its standing together only a part of all attempts: however many hang, the proven ones go on. A proven one that begins
to hang gets no more attempts beside the ones that it has.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto

from alerts.channels.channel import Delivered, Outcome, Retry
from alerts.delivery.breaker import Breaker, BreakerRule, State
from alerts.delivery.store import Delivery


class Standing(Enum):
    PROVEN = auto()
    UNTRIED = auto()
    FAILING = auto()


@dataclass(frozen=True, slots=True)
class Claimed:
    delivery: Delivery
    at: datetime
    until: datetime


@dataclass(slots=True)
class Endpoint:
    id: str
    channel: str = ""
    waiting: deque[Claimed] = field(default_factory=deque)
    began: list[datetime] = field(default_factory=list)
    """When each attempt that runs began, the first of them first."""
    standing: Standing = Standing.UNTRIED
    breaker: Breaker = field(default_factory=Breaker)

    @property
    def running(self) -> int:
        return len(self.began)

    @property
    def is_idle(self) -> bool:
        return not self.waiting and not self.running

    @property
    def is_forgettable(self) -> bool:
        """Nothing is lost with it but that it is proven."""
        return self.is_idle and self.breaker == Breaker()

    def is_slow(self, now: datetime, slow_s: float) -> bool:
        """It hangs, or may: whatever it was before."""
        return bool(self.began) and now - self.began[0] >= timedelta(seconds=slow_s)

    def may_start(self, running_max: int, now: datetime, slow_s: float) -> bool:
        if not self.running:
            return bool(self.waiting)
        is_trusted = self.standing is Standing.PROVEN and not self.is_slow(now, slow_s)
        return bool(self.waiting) and is_trusted and self.running < running_max

    def learn(self, outcome: Outcome, now: datetime, rule: BreakerRule) -> None:
        """What we refuse ourselves says nothing about the endpoint."""
        if isinstance(outcome, Delivered):
            self.standing, self.breaker = Standing.PROVEN, self.breaker.succeeded()
        elif isinstance(outcome, Retry):
            self.standing, self.breaker = Standing.FAILING, self.breaker.failed(now, rule)

    def open_until(self, now: datetime) -> datetime | None:
        """Until when it is to be left alone; None when it is not."""
        return self.breaker.until if self.breaker.state(now) is State.OPEN else None

    def give_up_waiting(self) -> list[str]:
        ids = [claimed.delivery.id for claimed in self.waiting]
        self.waiting.clear()
        return ids
