"""Notifications, targets and a clock for the tests of channels and delivery."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from alerts.channels.channel import Target
from alerts.channels.signature import new_secret
from alerts.notification import Event, Item, MatchedSearch, Notification

SECRET = new_secret()
BEGAN_AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class ManualClock:
    """Stands still until it is moved."""

    at: datetime = BEGAN_AT
    moved: list[float] = field(default_factory=list)

    def __call__(self) -> datetime:
        return self.at

    def advance(self, seconds: float) -> None:
        self.moved.append(seconds)
        self.at += timedelta(seconds=seconds)


def item(number: int = 7, event: Event = Event.ENTERED) -> Item:
    after = {"id": number, "title": f"Garden flat {number}", "price": 450_000}
    searches = (MatchedSearch("s1", "Under half a million", "price 450000 ≤ 500000"),)
    return Item("listing_card", {"id": number}, event, after, None, searches)


def notification(id_: str = "msg_1", sequence: int = 1, *items: Item, owner: str = "ada") -> Notification:
    url = f"https://headwater.example/unsubscribe/{id_}token"
    return Notification(id_, owner, sequence, BEGAN_AT, items or (item(),), url)


def hook(url: str, id_: str = "endpoint-1", secrets: tuple[str, ...] = (SECRET,)) -> Target:
    return Target(id_, "webhook", url, secrets)


async def until(check: Callable[[], bool], timeout_s: float = 10.0) -> None:
    """Waits for a condition, with a deadline."""
    async with asyncio.timeout(timeout_s):
        while not check():
            await asyncio.sleep(0.002)
