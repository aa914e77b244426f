"""The contract of a channel: one attempt to bring one notification to one target, and what became of it.

A channel never retries, queues or remembers: that is delivery's (alerts/delivery). It never raises for what the target
does; an exception is a fault of ours, and delivery treats it as an attempt that failed.

    Delivered   the target has it
    Retry       not now: try again by the schedule, and not before `after_s` when the target said so
    Gone        the target wants nothing any more: disable it, and drop what is queued for it
    Refused     this will never work as it is: to the dead letters, for a person to look at and replay
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from alerts.notification import Notification
from cdc.errors import HeadwaterError


@dataclass(frozen=True, slots=True)
class Delivered:
    pass


@dataclass(frozen=True, slots=True)
class Retry:
    reason: str
    after_s: float | None = None
    """What the target asked for; None leaves it to the schedule."""


@dataclass(frozen=True, slots=True)
class Gone:
    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    reason: str


Outcome = Delivered | Retry | Gone | Refused


@dataclass(frozen=True, slots=True)
class Target:
    """Where an owner wants to be told."""

    id: str
    """Of the endpoint: what is queued, limited and cut off together."""
    channel: str
    address: str
    """A URL, a mail address: what the channel makes of it."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What the channel signs with; the newest first, older ones while they are being replaced."""


class TargetRefused(HeadwaterError):
    """An address that this channel will not deliver to, said when it is saved."""


class Channel(Protocol):
    @property
    def name(self) -> str:
        """As subscriptions name it."""

    def check(self, target: Target) -> None:
        """Raises TargetRefused. Asks nobody: what only the network knows is found out when delivering."""

    async def deliver(self, notification: Notification, target: Target) -> Outcome:
        """One attempt. Safe to cancel, and to call again with the same notification."""

    async def close(self) -> None:
        """Ends its connections."""
