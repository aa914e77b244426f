"""The web feed: every notification once and in order, however often a listener comes back."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

import pytest

from alerts.channels.channel import Delivered, Target
from alerts.channels.feed import OWNER_LISTENERS_MAX, Feed, FeedHub, TooManyListeners
from alerts.notification import Notification
from tests.alerts.samples import notification, until


@dataclass
class Inbox:
    """Some at a time, as the real one."""

    kept: list[Notification] = field(default_factory=list)
    looks: int = 0
    empty_looks: int = 0

    def add(self, owner: str = "ada") -> Notification:
        number = len(self.kept) + 1
        self.kept.append(notification(f"msg_{number}", number, owner=owner))
        return self.kept[-1]

    async def read(self, owner: str, after: int) -> Sequence[Notification]:
        self.looks += 1
        found = [each for each in self.kept if each.owner == owner and each.sequence > after][:2]
        self.empty_looks += not found
        return found


async def take(events: AsyncGenerator[bytes, None], count: int) -> list[bytes]:
    async with asyncio.timeout(10):
        return [await anext(events) for _ in range(count)]


def ids(events: list[bytes]) -> list[int]:
    return [int(event.split(b"\n")[0].removeprefix(b"id: ")) for event in events if event.startswith(b"id: ")]


def test_everything_since_the_last_one_seen() -> None:
    inbox = Inbox()
    for owner in ("ada", "eve", "ada", "ada", "ada"):
        inbox.add(owner)

    async def run() -> None:
        hub = FeedHub(inbox.read)
        first = hub.events("ada", 0)
        assert ids(await take(first, 5)) == [1, 3, 4, 5]
        await first.aclose()
        again = hub.events("ada", 3)
        events = await take(again, 3)
        assert ids(events) == [4, 5]
        data = json.loads(events[1].split(b"data: ")[1])
        assert data["data"]["id"] == "msg_4"
        await again.aclose()
        assert hub.listeners == 0

    asyncio.run(run())


def test_a_delivery_wakes_whoever_listens() -> None:
    inbox = Inbox()

    async def run() -> None:
        hub = FeedHub(inbox.read, look_s=3_600.0)
        listening = [hub.events(owner, 0) for owner in ("ada", "ada", "eve")]
        assert all([await take(each, 1) for each in listening])
        coming = [asyncio.create_task(take(each, 1)) for each in listening]
        await until(lambda: inbox.looks == 3)
        assert await Feed(hub).deliver(inbox.add(), Target("e", "feed", "")) == Delivered()
        assert ids((await coming[0]) + (await coming[1])) == [1, 1]
        assert not coming[2].done()
        coming[2].cancel()
        await asyncio.gather(coming[2], return_exceptions=True)

    asyncio.run(run())


def test_from_another_thread() -> None:
    inbox = Inbox()

    async def run() -> None:
        hub = FeedHub(inbox.read, look_s=3_600.0)
        events = hub.events("ada", 0)
        await take(events, 1)
        coming = asyncio.create_task(take(events, 1))
        await until(lambda: inbox.looks == 1)
        inbox.add()
        thread = threading.Thread(target=hub.wake_from_thread, args=("ada",))
        thread.start()
        assert ids(await coming) == [1]
        thread.join()

    asyncio.run(run())


def test_what_came_during_the_look_is_not_missed() -> None:
    """Written after the inbox was read and before the listener waits."""
    inbox = Inbox()

    async def run() -> None:
        async def late(owner: str, after: int) -> Sequence[Notification]:
            found = await inbox.read(owner, after)
            if inbox.looks == 1:
                inbox.add()
                hub.wake(owner)
            return found

        hub = FeedHub(late, look_s=3_600.0)
        events = hub.events("ada", 0)
        assert ids(await take(events, 2)) == [1]
        await events.aclose()

    asyncio.run(run())


def test_without_being_woken_it_looks_from_time_to_time() -> None:
    inbox = Inbox()

    async def run() -> None:
        events = FeedHub(inbox.read, look_s=0.01).events("ada", 0)
        assert await take(events, 2) == [b"retry: 1000\n\n", b": nothing new\n\n"]
        inbox.add()
        assert ids(await take(events, 1)) == [1]
        await events.aclose()

    asyncio.run(run())


def test_one_owner_cannot_take_all_places() -> None:
    async def run() -> None:
        hub = FeedHub(Inbox().read)
        listening = [hub.events("ada", 0) for _ in range(OWNER_LISTENERS_MAX)]
        for each in listening:
            await take(each, 1)
        with pytest.raises(TooManyListeners):
            await take(hub.events("ada", 0), 1)
        await take(hub.events("eve", 0), 1)
        await listening[0].aclose()
        await take(hub.events("ada", 0), 1)

    asyncio.run(run())


def test_whoever_has_everything_waits() -> None:
    """And does not look again and again after it was woken once."""
    inbox = Inbox()

    async def run() -> None:
        hub = FeedHub(inbox.read, look_s=3_600.0)
        events = hub.events("ada", 0)
        await take(events, 1)
        inbox.add()
        coming = asyncio.create_task(take(events, 2))
        await until(lambda: inbox.empty_looks == 1)
        hub.wake("ada")
        await until(lambda: inbox.empty_looks == 2)
        for _ in range(50):
            await asyncio.sleep(0)
        assert inbox.empty_looks == 2
        inbox.add()
        hub.wake("ada")
        assert ids(await coming) == [1, 2]

    asyncio.run(run())
