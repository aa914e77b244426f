"""Where the delivery bench's deliveries come from: the store in memory, or a real Postgres. Either notes when each
delivery was settled as sent, once that is written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from typing import Any, Final, Literal, Protocol

import psycopg

from alerts.channels.channel import Target
from alerts.clock import system_clock
from alerts.delivery.memory import MemoryStore
from alerts.delivery.postgres_store import PostgresStore, endpoint_of
from alerts.delivery.store import Claim, Delivery, DeliveryStore
from alerts.delivery.turns import DUE
from alerts.delivery.verdict import Sent, Verdict
from alerts.notification import Event, Item, MatchedSearch, Notification
from alerts.notification_json import stored
from cdc.addresses import PostgresAddress
from headwater.bench.place import own_stack
from headwater.bench.progress import Progress
from headwater.migrate import migrate
from headwater.settings import Settings

StoreName = Literal["memory", "postgres"]
OWNER: Final = "ada"
_NOTIFICATION: Final = """
    insert into headwater.notifications (id, owner, sequence, channel, target, subscription_ids, first_sequence,
        last_sequence, events, body, unsubscribe_token)
    values (%(notification)s, %(owner)s, %(number)s, %(channel)s, %(target)s, %(searches)s, 1, 1, 1, %(body)s,
        %(notification)s)
"""
_SEARCH: Final = """
    insert into headwater.subscriptions (owner, view, query, events, channel, unsubscribe_token)
    values (%s, 'listing_card', '{}', '{entered}', 'webhook', 'bench')
    on conflict (unsubscribe_token) do update set owner = excluded.owner returning id
"""
_SECRETS: Final = """
    insert into headwater.endpoints (owner, channel, target, secrets) values (%s, 'webhook', %s, %s)
"""


@dataclass
class Timed:
    """A store, and when each delivery was sent and written down as such."""

    inner: DeliveryStore
    sent_at: dict[str, datetime] = field(default_factory=dict)

    async def claim(self, claim: Claim) -> Sequence[Delivery]:
        return await self.inner.claim(claim)

    async def settle(self, delivery: str, verdict: Verdict, now: datetime) -> None:
        await self.inner.settle(delivery, verdict, now)
        if isinstance(verdict, Sent):
            self.sent_at[delivery] = system_clock()

    async def is_open(self, delivery: str) -> bool:
        return await self.inner.is_open(delivery)

    async def release(self, deliveries: Collection[str]) -> None:
        await self.inner.release(deliveries)

    async def hold(self, endpoint: str, until: datetime, reason: str) -> None:
        await self.inner.hold(endpoint, until, reason)


class Supply(Protocol):
    store: Timed

    async def add(self, targets: Sequence[Target]) -> dict[str, datetime]:
        """A delivery to each, due now: when, by its id."""


class InMemory:
    def __init__(self) -> None:
        self._inner, self._numbers = MemoryStore(), count(1)
        self.store = Timed(self._inner)

    async def add(self, targets: Sequence[Target]) -> dict[str, datetime]:
        now, made = system_clock(), dict[str, datetime]()
        for target in targets:
            id_ = str(next(self._numbers))
            self._inner.add(Delivery(id_, target, notification(id_)), now)
            made[id_] = now
        return made


class InPostgres:
    """As a notifier writes them: a transaction for what is due together."""

    def __init__(self, store: PostgresStore, conn: psycopg.AsyncConnection[Any], search: int) -> None:
        self.store, self._conn, self._search, self._numbers = Timed(store), conn, search, count(1)

    async def add(self, targets: Sequence[Target]) -> dict[str, datetime]:
        now, made = system_clock(), dict[str, datetime]()
        async with self._conn.transaction():
            for target in targets:
                number = next(self._numbers)
                body = stored(notification(str(number))).decode()
                given = {"notification": str(number), "number": number, "body": body, "at": now}
                given |= {
                    "searches": [self._search],
                    "owner": OWNER,
                    "channel": target.channel,
                    "target": target.address,
                }
                await self._conn.execute(_NOTIFICATION, given)
                [[id_]] = await (await self._conn.execute(DUE, given)).fetchall()
                made[str(id_)] = now
        return made


@asynccontextmanager
async def supply(address: PostgresAddress | None, targets: Sequence[Target]) -> AsyncIterator[Supply]:
    """In Postgres if there is one, with the endpoints known."""
    if address is None:
        yield InMemory()
        return
    store = PostgresStore(address)
    async with await psycopg.AsyncConnection.connect(address.conninfo(), autocommit=True) as conn:
        for target in targets:
            await conn.execute(_SECRETS, [OWNER, target.address, list(target.secrets)])
        [[search]] = await (await conn.execute(_SEARCH, [OWNER])).fetchall()
        try:
            yield InPostgres(store, conn, search)
        finally:
            await store.close()


@contextmanager
def database(store: str, settings: Settings, progress: Progress) -> Iterator[PostgresAddress | None]:
    """A server of our own, migrated, for the block; None for the store in memory."""
    if store == "memory":
        yield None
        return
    with own_stack(settings, progress, ("postgres",)) as deployment:
        address = replace(deployment.postgres, database="postgres")
        migrate(address)
        yield address


def target(url: str, secret: str) -> Target:
    return Target(endpoint_of(OWNER, "webhook", url), "webhook", url, (secret,))


def notification(id_: str) -> Notification:
    row = {"id": 4711, "title": "Garden flat close to the river", "price": 450_000, "bedrooms": 2, "kind": "flat"}
    item = Item("listing_card", {"id": 4711}, Event.ENTERED, row, None, (MatchedSearch("s1", "Two rooms", "price"),))
    return Notification(id_, OWNER, 1, system_clock(), (item,))
