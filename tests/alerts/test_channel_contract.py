"""One suite over every channel: what delivery relies on, whatever carries the notification."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import pytest

from alerts.channels.channel import Channel, Delivered, Target, TargetRefused
from alerts.channels.feed import Feed, FeedHub
from alerts.channels.mail import Mail
from alerts.channels.mail_message import Sender
from alerts.channels.mail_server import MailServer
from alerts.channels.public_addresses import AddressPolicy, Opening
from alerts.channels.topic import Topic
from alerts.channels.webhook import Webhook
from headwater.demo.mail_catcher import MailCatcher
from headwater.demo.webhook_catcher import WebhookCatcher
from tests.alerts.samples import SECRET, notification
from tests.alerts.test_feed import Inbox
from tests.alerts.test_topic import Producer


@dataclass
class Place:
    channel: Channel
    target: Target
    ids: Callable[[], list[str]]
    """Of what arrived, in order."""
    bad_address: str | None = None


@asynccontextmanager
async def webhook() -> AsyncIterator[Place]:
    async with WebhookCatcher(SECRET) as catcher:
        channel = Webhook(AddressPolicy(openings=(Opening.parse(f"127.0.0.1:{catcher.port}"),)))
        target = Target("e", "webhook", catcher.url, (SECRET,))
        yield Place(channel, target, lambda: [each.id for each in catcher.caught], "ftp://hooks.example/")


@asynccontextmanager
async def mail() -> AsyncIterator[Place]:
    async with MailCatcher() as catcher:
        channel = Mail(MailServer("127.0.0.1", catcher.port, "none"), Sender("us@headwater.example"))

        def ids() -> list[str]:
            return [str(each.mail["Message-ID"]).strip("<>").partition("@")[0] for each in catcher.caught]

        yield Place(channel, Target("e", "email", "ada@example.org"), ids, "ada@example.org, eve@example.org")


@asynccontextmanager
async def feed() -> AsyncIterator[Place]:
    woken: list[str] = []

    class Noting(FeedHub):
        def wake_from_thread(self, owner: str) -> None:
            woken.append("msg_1" if owner == "ada" else "?")

    yield Place(Feed(Noting(Inbox().read)), Target("e", "feed", ""), lambda: woken)


@asynccontextmanager
async def topic() -> AsyncIterator[Place]:
    given = Producer()
    ids = lambda: [dict(record["headers"])["id"].decode() for record in given.written]  # noqa: E731
    yield Place(Topic(given, "shop.alerts"), Target("e", "kafka", ""), ids)


PLACES = [webhook, mail, feed, topic]
Opened = Callable[[], AbstractAsyncContextManager[Place]]


@pytest.mark.parametrize("opened", PLACES, ids=lambda opened: opened.__name__)
class TestEveryChannel:
    def test_the_same_id_at_every_attempt(self, opened: Opened) -> None:
        async def run() -> None:
            async with opened() as place:
                place.channel.check(place.target)
                for _ in range(2):
                    assert await place.channel.deliver(notification(), place.target) == Delivered()
                await place.channel.close()
                assert place.ids() == ["msg_1", "msg_1"]

        asyncio.run(run())

    def test_many_side_by_side(self, opened: Opened) -> None:
        async def run() -> None:
            async with opened() as place:
                attempts = (place.channel.deliver(notification(), place.target) for _ in range(20))
                assert await asyncio.gather(*attempts) == [Delivered()] * 20
                await place.channel.close()

        asyncio.run(run())

    def test_it_has_the_name_that_targets_use(self, opened: Opened) -> None:
        async def run() -> None:
            async with opened() as place:
                assert place.channel.name == place.target.channel
                await place.channel.close()

        asyncio.run(run())

    def test_a_bad_address_is_refused_when_it_is_saved(self, opened: Opened) -> None:
        async def run() -> None:
            async with opened() as place:
                if place.bad_address is not None:
                    with pytest.raises(TargetRefused):
                        place.channel.check(Target("e", place.channel.name, place.bad_address, (SECRET,)))
                assert place.ids() == []

        asyncio.run(run())

    def test_cancelled_at_once(self, opened: Opened) -> None:
        """And used again as if nothing had been."""

        async def run() -> None:
            async with opened() as place:
                attempt = asyncio.create_task(place.channel.deliver(notification(), place.target))
                await asyncio.sleep(0)
                attempt.cancel()
                await asyncio.gather(attempt, return_exceptions=True)
                assert await place.channel.deliver(notification(), place.target) == Delivered()
                await place.channel.close()

        asyncio.run(run())
