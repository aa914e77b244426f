"""The store of deliveries in the source database, schema headwater: the real one; memory.py is its twin.

Claims skip what another engine has locked, so several engines never make one attempt twice at once. What is settled
stays settled: a verdict that comes after its lease ran out finds the delivery in another state, and changes nothing. A
message that cannot be read becomes a dead letter when it is claimed, and stops nobody else's; one that nobody wants any
more is withdrawn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec
import psycopg
from psycopg import AsyncConnection

from alerts.channels.channel import Target
from alerts.delivery.store import Claim, Delivery
from alerts.delivery.turns import AGAIN, CLAIM, HOLD, RELEASE, TURNS
from alerts.delivery.verdict import REASON_CHARACTERS_MAX, Again, Dead, Disabled, Sent, Verdict
from alerts.delivery.wanted import CLOSED, TO_SEND
from alerts.notification_json import restored
from cdc.addresses import PostgresAddress
from cdc.errors import DecodeError, SourceError

_OPEN: Final = f"""
    select 1 from headwater.deliveries d join headwater.notifications n on n.id = d.notification_id
    where d.id = %s and d.state = 'pending' and {TO_SEND}
"""
_SENT: Final = """
    update headwater.deliveries d set state = 'delivered', attempts = attempts + 1, claimed_until = null,
        delivered_at = s.at, settled_at = s.at
    from unnest(%s::bigint[], %s::timestamptz[]) s (id, at) where d.id = s.id and d.state = 'pending'
"""
_RECOVERED: Final = """
    update headwater.endpoints e set failing_since = null
    from headwater.deliveries d
    where d.id = any(%s) and (e.owner, e.channel, e.target) = (d.owner, d.channel, d.target)
        and e.failing_since is not null
"""
_DEAD: Final = """
    update headwater.deliveries set state = 'dead', attempts = attempts + 1, claimed_until = null,
        last_error = %(reason)s, settled_at = %(now)s
    where id = %(id)s and state = 'pending'
"""
# A mail address that does not exist is nobody's any more; a URL that is gone is gone for its owner.
_DISABLE: Final = """
    with off as (
        update headwater.endpoints e set disabled_reason = %(reason)s, due_at = null
        from headwater.deliveries d
        where d.id = %(id)s and d.state = 'pending' and (e.owner, e.channel, e.target) = (d.owner, d.channel, d.target)
        returning e.owner, e.channel, e.target
    ), closed as (
        insert into headwater.suppressions (channel, target, reason, detail)
        select channel, target, 'bounced', %(reason)s from off where channel = 'email' on conflict do nothing
    )
    update headwater.deliveries d set state = 'dead', attempts = attempts + (id = %(id)s)::integer,
        settled_at = %(now)s, claimed_until = null, last_error = %(reason)s
    from off where (d.owner, d.channel, d.target) = (off.owner, off.channel, off.target) and d.state = 'pending'
"""
# What was made due while the endpoint's lock was waited for: only a statement after that one sees it.
_DISPOSE: Final = """
    update headwater.deliveries d set state = 'dead', settled_at = %(now)s, claimed_until = null,
        last_error = %(reason)s
    from headwater.endpoints e join headwater.deliveries tried using (owner, channel, target)
    where tried.id = %(id)s and e.disabled_reason is not null
        and (d.owner, d.channel, d.target) = (e.owner, e.channel, e.target) and d.state = 'pending'
"""
# A bounce closes the address to everybody: what other owners would send there is withdrawn, too.
_WITHDRAW_CLOSED: Final = f"""
    update headwater.deliveries d set state = 'suppressed', claimed_until = null, settled_at = %(now)s,
        last_error = 'withdrawn: its target wants nothing any more'
    from headwater.deliveries tried
    where tried.id = %(id)s and (d.channel, d.target) = (tried.channel, tried.target) and d.state = 'pending'
        and {CLOSED}
"""
_WITHDRAW: Final = f"""
    update headwater.deliveries d set state = 'suppressed', claimed_until = null, settled_at = %(now)s,
        last_error = 'withdrawn: ' || case when {CLOSED} then 'its target wants nothing any more'
            else 'its searches have ended' end
    from headwater.notifications n
    where d.id = any(%(ids)s) and n.id = d.notification_id and d.state = 'pending' and not {TO_SEND}
"""
DEADLOCKS_MAX: Final = 3
"""Of one statement in a row; each is whole by itself, and made again."""


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
    _connecting: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False)
    _claims: AsyncConnection[Any] | None = field(default=None, init=False, repr=False)
    _claiming: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False)

    async def claim(self, claim: Claim) -> Sequence[Delivery]:
        """On a connection of its own: it is a transaction, and verdicts do not wait for it."""
        given = {"now": claim.now, "until": claim.until, "per_endpoint": claim.per_endpoint_max}
        given |= {"most": claim.deliveries_max}
        async with self._claiming:
            try:
                self._claims = self._claims or await self._connected()
                async with self._claims.transaction():
                    skipped = _columns(map(_parts, claim.skipping))
                    turns = await (await self._claims.execute(TURNS, given | skipped)).fetchall()
                    rows = (
                        await (await self._claims.execute(CLAIM, given | _columns(turns))).fetchall() if turns else []
                    )
            except psycopg.OperationalError as error:
                self._claims = None
                raise _lost(error) from error
        await self._withdraw([number for is_wanted, number, *_ in rows if not is_wanted], claim.now)
        return [found for is_wanted, *row in rows if is_wanted and (found := await self._readable(row, claim.now))]

    async def _withdraw(self, unwanted: list[int], now: datetime) -> None:
        if unwanted:
            await self._asked(_WITHDRAW, {"ids": unwanted, "now": now})

    async def _readable(self, row: Sequence[Any], now: datetime) -> Delivery | None:
        try:
            return _delivery(row)
        except DecodeError as error:
            await self.settle(str(row[0]), Dead(error.summary[:REASON_CHARACTERS_MAX]), now)
            return None

    async def is_open(self, delivery: str) -> bool:
        return bool(await self._asked(_OPEN, [int(delivery)]))

    async def settle(self, delivery: str, verdict: Verdict, now: datetime) -> None:
        if isinstance(verdict, Sent):
            await self._settle_sent(int(delivery), now)
        elif isinstance(verdict, Again):
            given = {"id": int(delivery), "at": verdict.at, "reason": verdict.reason, "now": now}
            await self._asked(AGAIN, given)
        elif isinstance(verdict, Disabled):
            given = {"id": int(delivery), "now": now, "reason": verdict.reason}
            await self._asked(_DISABLE, given)
            await self._asked(_DISPOSE, given)
            await self._asked(_WITHDRAW_CLOSED, given)
        else:
            await self._asked(_DEAD, {"id": int(delivery), "now": now, "reason": verdict.reason})

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
            await self._asked(_RECOVERED, [batch.ids])
            batch.is_written = True

    async def release(self, deliveries: Collection[str]) -> None:
        if deliveries:
            await self._asked(RELEASE, {"ids": [int(number) for number in deliveries]})

    async def hold(self, endpoint: str, until: datetime, reason: str) -> None:
        owner, channel, target = _parts(endpoint)
        given = {"owner": owner, "channel": channel, "target": target, "until": until, "reason": reason}
        await self._asked(HOLD, given)

    async def close(self) -> None:
        for conn in (self._conn, self._claims):
            if conn is not None:
                await conn.close()
        self._conn = self._claims = None

    async def _asked(self, statement: str, given: object) -> list[tuple[Any, ...]]:
        """Each statement is a transaction."""
        conn: AsyncConnection[Any] | None = None
        try:
            conn = await self._shared()
            for _ in range(DEADLOCKS_MAX):
                with suppress(psycopg.errors.DeadlockDetected):
                    return await _answered(conn, statement, given)
            return await _answered(conn, statement, given)
        except psycopg.OperationalError as error:
            if self._conn is conn:  # else another has connected anew meanwhile
                self._conn = None
            raise _lost(error) from error

    async def _shared(self) -> AsyncConnection[Any]:
        """One, however many verdicts come at once: as many connections as verdicts are more than Postgres admits."""
        async with self._connecting:
            if self._conn is None or self._conn.closed:
                self._conn = await self._connected()
            return self._conn

    async def _connected(self) -> AsyncConnection[Any]:
        conn = await AsyncConnection.connect(self.address.conninfo(), autocommit=True)
        # A verdict that is lost when Postgres crashes is an attempt made again, under the same id.
        await conn.execute("set synchronous_commit = off")
        return conn


async def _answered(conn: AsyncConnection[Any], statement: str, given: object) -> list[tuple[Any, ...]]:
    cursor = await conn.execute(statement, given)  # type: ignore[call-overload]
    return await cursor.fetchall() if cursor.description else []


def _lost(error: psycopg.OperationalError) -> SourceError:
    return SourceError("lost the source database while delivering", detail=str(error).strip(), hint="headwater doctor")


def _columns(endpoints: Iterable[tuple[Any, ...]]) -> dict[str, list[str]]:
    owners, channels, targets = zip(*found, strict=True) if (found := list(endpoints)) else ((), (), ())
    return {"owners": list(owners), "channels": list(channels), "targets": list(targets)}


def endpoint_of(owner: str, channel: str, target: str) -> str:
    return msgspec.json.encode([owner, channel, target]).decode()


def _parts(endpoint: str) -> tuple[str, str, str]:
    return msgspec.json.decode(endpoint, type=tuple[str, str, str])


def _delivery(row: Sequence[Any]) -> Delivery:
    number, owner, channel, target, body, attempts, secrets, failing_since, expires_at = row
    to = Target(endpoint_of(owner, channel, target), channel, target, tuple(secrets))
    return Delivery(str(number), to, restored(body.encode()), attempts, expires_at, failing_since)
