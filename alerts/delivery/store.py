"""What delivery needs of a store, and nothing more. memory.py is the twin for tests and for trying things out.

A claim is a lease. Who crashes loses it when it runs out, and the delivery is made again, with the same id: at least
once. A settled delivery stays settled: a late verdict of an attempt whose lease ran out changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from alerts.channels.channel import Target
from alerts.delivery.verdict import Verdict
from alerts.notification import Notification


@dataclass(frozen=True, slots=True)
class Delivery:
    """One notification on its way to one endpoint."""

    id: str
    target: Target
    notification: Notification
    attempts: int = 0
    """Made and failed."""
    expires_at: datetime | None = None
    """After that nobody wants it any more: to the dead letters, untried."""
    failing_since: datetime | None = None
    """The endpoint's first failure since its last success."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What to claim: the longest due first, and of each endpoint only some: nobody's backlog hides the others."""

    now: datetime
    until: datetime
    """When the lease runs out."""
    deliveries_max: int
    per_endpoint_max: int
    skipping: Collection[str] = ()
    """Endpoints that have enough to do."""


class DeliveryStore(Protocol):
    async def claim(self, claim: Claim) -> Sequence[Delivery]:
        """Due, not settled, leased by nobody, of endpoints neither disabled nor held. Atomic: never to two at once.
        What nobody wants any more is withdrawn instead."""

    async def is_open(self, delivery: str) -> bool:
        """Whether it still waits to be delivered: nobody has settled or withdrawn it meanwhile, or ended
        its searches."""

    async def settle(self, delivery: str, verdict: Verdict, now: datetime) -> None:
        """After an attempt. Counts it, unless the delivery was settled meanwhile; ends the lease."""

    async def release(self, deliveries: Collection[str]) -> None:
        """Gives claims back untried: they are due as before."""

    async def hold(self, endpoint: str, until: datetime, reason: str) -> None:
        """Nothing of the endpoint is claimed before; a longer hold stays."""
