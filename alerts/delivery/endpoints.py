"""All endpoints that delivery deals with now: whose turn it is, within the limits. No I/O.

Bounded: what is claimed, what runs, and what is remembered each have a limit. When all that may be claimed is claimed,
endpoints that cannot start anything are parked: what waits for them goes back to the store, and others are claimed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from alerts.channels.channel import Target
from alerts.delivery.endpoint import Claimed, Endpoint, Standing
from alerts.delivery.store import Delivery


@dataclass(frozen=True, slots=True)
class DeliveryLimits:
    attempts_max: int = 400
    """That run at once: each has a socket."""
    untried_attempts_max: int = 200
    """Of those, to endpoints that were not tried yet."""
    failing_attempts_max: int = 50
    """Of those, to endpoints whose last attempt failed."""
    endpoint_attempts_max: int = 4
    """That run at once to one endpoint, and that wait for it here. More than one only while less than half of all
    attempts run: proven endpoints that begin to hang together, as when their host does, leave room for the others."""
    claimed_max: int = 2_000
    """Running and waiting here; the rest waits in the store. More than all that untried and failing ones can have."""
    attempt_s: float = 30.0
    """An attempt is given up after it, whatever the channel does."""
    lease_s: float = 300.0
    slow_s: float = 1.0
    """An endpoint whose attempt has run for longer gets no other beside it."""
    unasked_s: float = 1.0
    """What waited here for longer is looked at again before it is tried: somebody may have withdrawn it."""
    poll_s: float = 0.5
    """How often to look for what came due, when nothing else happens."""
    claim_interval_s: float = 0.02
    """At least between two looks: each is a statement in the store."""
    failing_s_max: Mapping[str, float] = field(default_factory=dict)
    """By channel: an endpoint without a success for longer, while one delivery was tried again and again, or waited for
    as long, is switched off."""
    drain_s: float = 20.0
    """For what runs when it is told to stop."""
    channel_attempts_max: Mapping[str, int] = field(default_factory=dict)
    """That run at once over a channel which has only so many ways out: who waits for one waits here, where it counts
    neither as an attempt nor against its deadline."""

    def of(self, standing: Standing) -> int:
        """Attempts to endpoints of that standing, at once."""
        return {
            Standing.PROVEN: self.attempts_max,
            Standing.UNTRIED: self.untried_attempts_max,
            Standing.FAILING: self.failing_attempts_max,
        }[standing]


ENDPOINTS_KNOWN_MAX: Final = 50_000
TURNS_KEPT: Final = 4
"""Of a channel that is full, for each of its ways out, so many endpoints keep their place when others are parked."""


@dataclass(slots=True)
class Started:
    """An attempt that runs, and what it was counted as."""

    endpoint: Endpoint
    claimed: Claimed
    standing: Standing
    at: datetime


@dataclass(slots=True)
class Endpoints:
    limits: DeliveryLimits
    known: dict[str, Endpoint] = field(default_factory=dict)
    waiting: dict[str, Endpoint] = field(default_factory=dict)
    """Those for which something waits, in the order of their turns."""
    parked: set[str] = field(default_factory=set)
    running: Counter[Standing] = field(default_factory=Counter)
    running_over: Counter[str] = field(default_factory=Counter)
    """By channel."""
    waiting_deliveries: int = 0

    @property
    def room(self) -> int:
        return self.limits.claimed_max - self.running.total() - self.waiting_deliveries

    @property
    def busy(self) -> frozenset[str]:
        """Of which nothing more is to be claimed."""
        return frozenset(self.waiting) | self.parked

    def add(self, deliveries: Iterable[Delivery], at: datetime, until: datetime) -> None:
        for delivery in deliveries:
            endpoint = self._known(delivery.target)
            endpoint.waiting.append(Claimed(delivery, at, until))
            self.waiting.setdefault(endpoint.id, endpoint)
            self.waiting_deliveries += 1

    def _known(self, target: Target) -> Endpoint:
        id_ = target.id
        if id_ not in self.known and len(self.known) >= ENDPOINTS_KNOWN_MAX:
            forgettable = next((each.id for each in self.known.values() if each.is_forgettable), None)
            if forgettable is not None:
                del self.known[forgettable]
        return self.known.setdefault(id_, Endpoint(id_, target.channel))

    def startable(self, now: datetime) -> Iterator[Started]:
        """What may start now, one an endpoint and turn, so that each gets its share. Each counts as running at once."""
        progress = True
        while progress:
            progress = False
            for endpoint in list(self.waiting.values()):
                may_start = endpoint.may_start(self.limits.endpoint_attempts_max, now, self.limits.slow_s)
                if may_start and self._has_slot(endpoint):
                    progress = True
                    yield self._started(endpoint, now)

    def _has_slot(self, endpoint: Endpoint) -> bool:
        if self._is_crowded(endpoint.channel):
            return False
        has_place = self.running[endpoint.standing] < self.limits.of(endpoint.standing)
        most = self.limits.attempts_max // (2 if endpoint.running else 1)
        return has_place and self.running.total() < most

    def _is_crowded(self, channel: str) -> bool:
        most = self.limits.channel_attempts_max.get(channel)
        return most is not None and self.running_over[channel] >= most

    def _is_stuck(self, endpoint: Endpoint, now: datetime) -> bool:
        """Not for the moment, as when all slots are taken by attempts that end soon, but by those that may hang."""
        if endpoint.running:
            return endpoint.standing is Standing.PROVEN and endpoint.is_slow(now, self.limits.slow_s)
        standing = endpoint.standing
        return standing is not Standing.PROVEN and self.running[standing] >= self.limits.of(standing)

    def _started(self, endpoint: Endpoint, now: datetime) -> Started:
        claimed = endpoint.waiting.popleft()
        del self.waiting[endpoint.id]
        if endpoint.waiting:
            self.waiting[endpoint.id] = endpoint  # behind the others
        endpoint.began.append(now)
        self.running[endpoint.standing] += 1
        self.running_over[endpoint.channel] += 1
        self.waiting_deliveries -= 1
        return Started(endpoint, claimed, endpoint.standing, now)

    def ended(self, started: Started) -> None:
        started.endpoint.began.remove(started.at)
        self.parked.discard(started.endpoint.id)
        self.running[started.standing] -= 1
        self.running_over[started.endpoint.channel] -= 1
        channel = started.endpoint.channel
        if channel in self.limits.channel_attempts_max:
            is_slot = all(each.channel != channel for each in self.waiting.values())
        else:
            is_slot = started.standing is not Standing.PROVEN
        if is_slot:
            self.parked.clear()  # somebody of those may start again

    def park(self, now: datetime) -> list[str]:
        """What to give back to the store so that others can be claimed; nothing while there is room."""
        if self.room > 0:
            return []
        full = [each for each in self.waiting.values() if self._is_stuck(each, now)]
        full += [each for each in self._crowd() if each not in full]
        self.parked |= {each.id for each in full}
        return [id_ for each in full for id_ in self.give_up_waiting(each)]

    def _crowd(self) -> Iterator[Endpoint]:
        """Endpoints of channels with few ways out, but for those whose turn comes soon."""
        before = Counter[str]()
        for each in self.waiting.values():
            most = self.limits.channel_attempts_max.get(each.channel)
            before[each.channel] += 1
            if most is not None and before[each.channel] > most * TURNS_KEPT and self._is_crowded(each.channel):
                yield each

    def give_up_waiting(self, endpoint: Endpoint) -> list[str]:
        ids = endpoint.give_up_waiting()
        self.waiting.pop(endpoint.id, None)
        self.waiting_deliveries -= len(ids)
        return ids

    def give_up_all_waiting(self) -> list[str]:
        return [id_ for each in list(self.waiting.values()) for id_ in self.give_up_waiting(each)]
