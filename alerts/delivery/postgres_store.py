"""The store of deliveries in the source database, schema headwater: the real one; memory.py is its twin.

Claims skip what another engine has locked, so several engines never make one attempt twice at once. What is settled
stays settled: a verdict that comes after its lease ran out finds the delivery in another state, and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec
import psycopg
from psycopg import AsyncConnection

from alerts.channels.channel import Target
from alerts.delivery.store import Claim, DeadLetter, Delivery
from alerts.delivery.verdict import Again, Disabled, Sent, Verdict
from alerts.notification_json import restored
from cdc.addresses import PostgresAddress
from cdc.errors import SourceError

_SELECTED: Final = """
    select d.id, n.owner, d.channel, d.target, n.body::text, d.attempts, coalesce(e.secrets, '{}'), d.last_error,
        d.settled_at
    from headwater.deliveries d
        join headwater.notifications n on n.id = d.notification_id
        left join headwater.endpoints e on (e.owner, e.channel, e.target) = (n.owner, d.channel, d.target)
"""
_CLAIM: Final = f"""
    with due as (
        select d.id,
            row_number() over (partition by n.owner, d.channel, d.target order by d.next_attempt_at, d.id) as place
        from headwater.deliveries d
            join headwater.notifications n on n.id = d.notification_id
            left join headwater.endpoints e on (e.owner, e.channel, e.target) = (n.owner, d.channel, d.target)
        where d.state = 'pending' and d.next_attempt_at <= %(now)s
            and (d.claimed_until is null or d.claimed_until <= %(now)s)
            and e.disabled_reason is null and (e.held_until is null or e.held_until <= %(now)s)
            and (n.owner, d.channel, d.target) not in (
                select * from unnest(%(owners)s::text[], %(channels)s::text[], %(targets)s::text[]))
    ), free as (
        select id from headwater.deliveries
        where id in (select id from due where place <= %(per_endpoint)s)
            and state = 'pending' and (claimed_until is null or claimed_until <= %(now)s)
        order by next_attempt_at, id limit %(most)s
        for update skip locked
    ), claimed as (
        update headwater.deliveries set claimed_until = %(until)s where id in (select id from free) returning id
    )
    {_SELECTED} where d.id in (select id from claimed) order by d.next_attempt_at, d.id
"""
_SENT: Final = """
    update headwater.deliveries d set state = 'delivered', attempts = attempts + 1, claimed_until = null,
        delivered_at = s.at, settled_at = s.at
    from unnest(%s::bigint[], %s::timestamptz[]) s (id, at) where d.id = s.id and d.state = 'pending'
"""
_AGAIN: Final = """
    update headwater.deliveries set attempts = attempts + 1, claimed_until = null, next_attempt_at = %(at)s,
        last_error = %(reason)s
    where id = %(id)s and state = 'pending'
"""
_DEAD: Final = """
    update headwater.deliveries set state = 'dead', attempts = attempts + 1, claimed_until = null,
        last_error = %(reason)s, settled_at = %(now)s
    where id = %(id)s and state = 'pending'
    returning (select owner from headwater.notifications n where n.id = notification_id), channel, target
"""
_DISABLE: Final = """
    insert into headwater.endpoints (owner, channel, target, disabled_reason) values (%s, %s, %s, %s)
    on conflict (owner, channel, target) do update set disabled_reason = excluded.disabled_reason
"""
_SUPPRESS: Final = """
    insert into headwater.suppressions (channel, target, reason, detail) values ('email', %s, 'bounced', %s)
    on conflict do nothing
"""
_DISPOSE: Final = """
    update headwater.deliveries d set state = 'dead', claimed_until = null, last_error = %s, settled_at = %s
    from headwater.notifications n
    where n.id = d.notification_id and (n.owner, d.channel, d.target) = (%s, %s, %s) and d.state = 'pending'
"""
_RELEASE: Final = "update headwater.deliveries set claimed_until = null where id = any(%s) and state = 'pending'"
_HOLD: Final = """
    insert into headwater.endpoints (owner, channel, target, held_until, held_reason) values (%s, %s, %s, %s, %s)
    on conflict (owner, channel, target) do update
        set held_until = greatest(endpoints.held_until, excluded.held_until), held_reason = excluded.held_reason
"""
_LETTERS: Final = f"{_SELECTED} where d.state = 'dead' order by d.settled_at desc limit %s"
_REPLAY: Final = """
    update headwater.deliveries set state = 'pending', attempts = 0, next_attempt_at = %s, settled_at = null
    where id = %s and state = 'dead'
"""


@dataclass
class _Batch:
    """Deliveries that were sent, to be written in one statement."""

    ids: list[int] = field(default_factory=list)
    times: list[datetime] = field(default_factory=list)
    is_written: bool = False


@dataclass
class PostgresStore:
    address: PostgresAddress
    _sent: _Batch = field(default_factory=_Batch, init=False, repr=False)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False)
    _conn: AsyncConnection[Any] | None = field(default=None, init=False, repr=False)

    async def claim(self, claim: Claim) -> Sequence[Delivery]:
        owners, channels, targets = zip(*map(_parts, claim.skipping), strict=True) if claim.skipping else ((), (), ())
        given = {
            "now": claim.now,
            "until": claim.until,
            "per_endpoint": claim.per_endpoint_max,
            "most": claim.deliveries_max,
            "owners": list(owners),
            "channels": list(channels),
            "targets": list(targets),
        }
        return [_delivery(row) for row in await self._asked(_CLAIM, given)]

    async def settle(self, delivery: str, verdict: Verdict, now: datetime) -> None:
        if isinstance(verdict, Sent):
            await self._settle_sent(int(delivery), now)
        elif isinstance(verdict, Again):
            await self._asked(_AGAIN, {"id": int(delivery), "at": verdict.at, "reason": verdict.reason})
        else:
            found = await self._asked(_DEAD, {"id": int(delivery), "now": now, "reason": verdict.reason})
            for endpoint in found if isinstance(verdict, Disabled) else ():
                await self._disable(endpoint, verdict.reason, now)

    async def _settle_sent(self, delivery: int, now: datetime) -> None:
        """Whatever was sent while the statement before was on its way is written with one: most verdicts are these."""
        batch = self._sent
        batch.ids.append(delivery)
        batch.times.append(now)
        async with self._writing:
            if batch.is_written:
                return
            if self._sent is batch:
                self._sent = _Batch()
            await self._asked(_SENT, [batch.ids, batch.times])
            batch.is_written = True

    async def _disable(self, endpoint: tuple[str, str, str], reason: str, now: datetime) -> None:
        """A mail address that does not exist is nobody's any more; a URL that is gone is gone for its owner."""
        await self._asked(_DISABLE, [*endpoint, reason])
        await self._asked(_DISPOSE, [reason, now, *endpoint])
        if endpoint[1] == "email":
            await self._asked(_SUPPRESS, [endpoint[2], reason])

    async def release(self, deliveries: Collection[str]) -> None:
        if deliveries:
            await self._asked(_RELEASE, [[int(number) for number in deliveries]])

    async def hold(self, endpoint: str, until: datetime, reason: str) -> None:
        await self._asked(_HOLD, [*_parts(endpoint), until, reason])

    async def dead(self, deliveries_max: int) -> Sequence[DeadLetter]:
        rows = await self._asked(_LETTERS, [deliveries_max])
        return [DeadLetter(_delivery(row), row[7], row[8]) for row in rows]

    async def replay(self, delivery: str, now: datetime) -> bool:
        return await self._count(_REPLAY, [now, int(delivery)]) == 1

    async def close(self) -> None:
        if self._conn is not None:
            await self._conn.close()
            self._conn = None

    async def _asked(self, statement: str, given: object) -> list[tuple[Any, ...]]:
        cursor = await self._execute(statement, given)
        return await cursor.fetchall() if cursor.description else []

    async def _count(self, statement: str, given: object) -> int:
        return (await self._execute(statement, given)).rowcount

    async def _execute(self, statement: str, given: object) -> psycopg.AsyncCursor[Any]:
        try:
            if self._conn is None or self._conn.closed:
                self._conn = await AsyncConnection.connect(self.address.conninfo(), autocommit=True)
                # A verdict that is lost when Postgres crashes is an attempt made again, under the same id.
                await self._conn.execute("set synchronous_commit = off")
            return await self._conn.execute(statement, given)  # type: ignore[call-overload, no-any-return]
        except psycopg.OperationalError as error:
            self._conn = None
            raise SourceError(
                "lost the source database while delivering", detail=str(error).strip(), hint="headwater doctor"
            ) from error


def endpoint_of(owner: str, channel: str, target: str) -> str:
    return msgspec.json.encode([owner, channel, target]).decode()


def _parts(endpoint: str) -> tuple[str, str, str]:
    return msgspec.json.decode(endpoint, type=tuple[str, str, str])


def _delivery(row: tuple[Any, ...]) -> Delivery:
    number, owner, channel, target, body, attempts, secrets = row[:7]
    to = Target(endpoint_of(owner, channel, target), channel, target, tuple(secrets))
    return Delivery(str(number), to, restored(body.encode()), attempts)
