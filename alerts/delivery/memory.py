"""The store in memory: the twin of the one in Postgres, with the same rules. It forgets when the process ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from alerts.delivery.store import Claim, Delivery
from alerts.delivery.verdict import Again, Dead, Disabled, Sent, Verdict


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """Nobody wants it any more."""


@dataclass(slots=True)
class Kept:
    delivery: Delivery
    due_at: datetime
    leased_until: datetime | None = None
    verdict: Sent | Dead | Withdrawn | None = None
    settled_at: datetime | None = None

    def is_free(self, now: datetime) -> bool:
        return self.verdict is None and self.due_at <= now and (self.leased_until is None or self.leased_until <= now)


@dataclass(slots=True)
class MemoryStore:
    kept: dict[str, Kept] = field(default_factory=dict)
    open: dict[str, Kept] = field(default_factory=dict)
    """Of those, the ones that are not settled."""
    unwanted: set[str] = field(default_factory=set)
    """Deliveries whose searches have ended, or whose target wants nothing any more."""
    disabled: dict[str, str] = field(default_factory=dict)
    """Endpoints, with the reason."""
    held: dict[str, datetime] = field(default_factory=dict)
    failing: dict[str, datetime] = field(default_factory=dict)
    """Endpoints, since when."""
    verdicts: list[tuple[str, Verdict]] = field(default_factory=list)
    """Everything that was settled, in order."""

    def add(self, delivery: Delivery, due_at: datetime) -> None:
        """Idempotent: a delivery that is known stays as it is. A dead letter for an endpoint that is switched off."""
        if delivery.id in self.kept:
            return
        kept = self.kept[delivery.id] = self.open[delivery.id] = Kept(delivery, due_at)
        if delivery.target.id in self.disabled:
            self._end(kept, Dead(self.disabled[delivery.target.id]), due_at)

    async def claim(self, claim: Claim) -> Sequence[Delivery]:
        found: list[Delivery] = []
        taken: Counter[str] = Counter()
        for kept in sorted(self.open.values(), key=lambda kept: kept.due_at):
            endpoint = kept.delivery.target.id
            if not kept.is_free(claim.now) or taken[endpoint] >= claim.per_endpoint_max:
                continue
            if endpoint in claim.skipping or self._is_off(endpoint, claim.now):
                continue
            if kept.delivery.id in self.unwanted:
                self._end(kept, Withdrawn(), claim.now)
                continue
            if len(found) == claim.deliveries_max:
                break
            kept.leased_until = claim.until
            taken[endpoint] += 1
            found.append(replace(kept.delivery, failing_since=self.failing.get(endpoint)))
        return found

    def _is_off(self, endpoint: str, now: datetime) -> bool:
        return endpoint in self.disabled or (endpoint in self.held and now < self.held[endpoint])

    async def is_open(self, delivery: str) -> bool:
        return delivery in self.open and delivery not in self.unwanted

    async def settle(self, delivery: str, verdict: Verdict, now: datetime) -> None:
        kept = self.kept[delivery]
        if kept.verdict is not None:
            return
        self.verdicts.append((delivery, verdict))
        kept.leased_until = None
        kept.delivery = replace(kept.delivery, attempts=kept.delivery.attempts + 1)
        endpoint = kept.delivery.target.id
        if isinstance(verdict, Sent):
            self.failing.pop(endpoint, None)
        if isinstance(verdict, Again):
            kept.due_at = verdict.at
            self.failing.setdefault(endpoint, now)
        elif isinstance(verdict, Disabled):
            self._disable(endpoint, verdict.reason, now)
        else:
            self._end(kept, verdict, now)

    def _end(self, kept: Kept, verdict: Sent | Dead | Withdrawn, now: datetime) -> None:
        kept.verdict, kept.settled_at, kept.leased_until = verdict, now, None
        del self.open[kept.delivery.id]

    def _disable(self, endpoint: str, reason: str, now: datetime) -> None:
        self.disabled[endpoint] = reason
        for kept in list(self.open.values()):
            if kept.delivery.target.id == endpoint:
                self._end(kept, Dead(reason), now)

    async def release(self, deliveries: Collection[str]) -> None:
        for id_ in deliveries:
            self.kept[id_].leased_until = None

    async def hold(self, endpoint: str, until: datetime, reason: str) -> None:
        self.held[endpoint] = max(until, self.held.get(endpoint, until))

    def dead(self) -> list[Kept]:
        """The newest first."""
        letters = [kept for kept in self.kept.values() if isinstance(kept.verdict, Dead)]
        return sorted(letters, key=lambda kept: kept.settled_at or kept.due_at, reverse=True)

    def replay(self, delivery: str, now: datetime) -> bool:
        """A dead letter is due again, with all its attempts before it; its endpoint is switched on."""
        kept = self.kept.get(delivery)
        if kept is None or not isinstance(kept.verdict, Dead):
            return False
        kept.verdict, kept.settled_at, kept.due_at = None, None, now
        self.open[delivery] = kept
        kept.delivery = replace(kept.delivery, attempts=0)
        endpoint = kept.delivery.target.id
        for known in (self.disabled, self.held, self.failing):
            known.pop(endpoint, None)
        return True
