"""The engine of delivery: claims what is due, runs attempts side by side, settles each. One turn on one screen.

    claim (store) ▶ endpoints take turns ▶ attempt (channel, with a deadline) ▶ decide ▶ settle (store)

At least once: a verdict that could not be written is an attempt that is made again when its lease runs out, with the
same id. An endpoint that fails is held in the store, for every engine; nobody waits behind it. What the store raises
ends `run`: whoever started it starts it again.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from alerts.channels.channel import Channel, Outcome, Refused, Retry
from alerts.clock import Clock, system_clock
from alerts.delivery.breaker import BreakerRule
from alerts.delivery.endpoint import Claimed, Endpoint
from alerts.delivery.endpoints import DeliveryLimits, Endpoints, Started
from alerts.delivery.store import Claim, Delivery, DeliveryStore
from alerts.delivery.verdict import Dead, Disabled, Verdict, decide
from cdc.failpoints import reached

FAILURES_MIN: Final = 6
"""Of one delivery, until it may switch its endpoint off: by the schedule they take seven hours at least."""


@dataclass(slots=True)
class Engine:
    store: DeliveryStore
    channels: Mapping[str, Channel]
    limits: DeliveryLimits = field(default_factory=DeliveryLimits)
    rule: BreakerRule = field(default_factory=BreakerRule)
    clock: Clock = system_clock
    draw: Callable[[], float] = random.random
    endpoints: Endpoints = field(init=False)
    _attempts: set[asyncio.Task[None]] = field(default_factory=set, repr=False)
    _woken: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    _failure: BaseException | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.endpoints = Endpoints(self.limits)

    async def run(self, stopping: asyncio.Event) -> None:
        """Until it is told to stop. Raises what the store raised."""
        try:
            while not stopping.is_set():
                began_s = time.monotonic()
                claimed = await self.turn()
                took_s = time.monotonic() - began_s
                if not claimed:
                    await self._rest()
                # A store that is slow to answer is asked less often: at most half of its time is ours.
                await asyncio.sleep(max(self.limits.claim_interval_s, took_s))
        finally:
            await self.drain()

    def wake(self) -> None:
        """Something came due: look at once."""
        self._woken.set()

    async def turn(self) -> int:
        """Claims what is due and starts what may start; how many were claimed or given back."""
        if self._failure is not None:
            raise self._failure
        self._woken.clear()  # before the look, so that whatever comes during it is looked for again
        claimed = await self._claim()
        self._start()
        parked = self.endpoints.park(self.clock())
        if parked:
            await self.store.release(parked)
        return claimed + len(parked)

    async def run_until_idle(self) -> None:
        """Until nothing is due and nothing runs: for a bounded piece of work."""
        while await self.turn() or self._attempts:
            if self._attempts:
                await asyncio.wait(self._attempts, return_when=asyncio.FIRST_COMPLETED)

    async def drain(self) -> None:
        """Lets what runs end within its time, and gives back what waits."""
        waiting = self.endpoints.give_up_all_waiting()
        if self._attempts:
            _, late = await asyncio.wait(self._attempts, timeout=self.limits.drain_s)
            for attempt in late:
                attempt.cancel()  # nobody knows what became of it: its lease runs out, and it is made again
            await asyncio.gather(*late, return_exceptions=True)
        await self.store.release(waiting)

    async def _claim(self) -> int:
        if self.endpoints.room <= 0:
            return 0
        now = self.clock()
        until = now + timedelta(seconds=self.limits.lease_s)
        each_max = self.limits.endpoint_attempts_max
        found = await self.store.claim(Claim(now, until, self.endpoints.room, each_max, self.endpoints.busy))
        if found:
            reached("claimed")
        self.endpoints.add(found, now, until)
        return len(found)

    def _start(self) -> None:
        for started in self.endpoints.startable(self.clock()):
            attempt = asyncio.create_task(self._attempt(started))
            self._attempts.add(attempt)
            attempt.add_done_callback(self._ended)

    def _ended(self, attempt: asyncio.Task[None]) -> None:
        self._attempts.discard(attempt)
        if not attempt.cancelled() and attempt.exception() is not None:
            self._failure = attempt.exception()
        self._start()
        self._woken.set()

    async def _rest(self) -> None:
        """Until something may have changed. A stop is noticed within poll_s."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.limits.poll_s):
                await self._woken.wait()

    async def _attempt(self, started: Started) -> None:
        try:
            if started.claimed.until - self.clock() < timedelta(seconds=self.limits.attempt_s):
                return  # it waited here for too long: by the time it ends, somebody else may have it
            if await self._is_withdrawn(started.claimed):
                return
            await self._tried(started.endpoint, started.claimed.delivery)
        finally:
            self.endpoints.ended(started)

    async def _is_withdrawn(self, claimed: Claimed) -> bool:
        waited_s = (self.clock() - claimed.at).total_seconds()
        return waited_s > self.limits.unasked_s and not await self.store.is_open(claimed.delivery.id)

    async def _tried(self, endpoint: Endpoint, delivery: Delivery) -> None:
        if delivery.expires_at is not None and delivery.expires_at <= self.clock():
            await self.store.settle(delivery.id, Dead("it expired before it could be delivered"), self.clock())
            return
        outcome = await self._outcome(delivery)
        reached("attempted")
        now = self.clock()
        failed_for = self._failed_for(delivery, now)
        verdict: Verdict = decide(outcome, delivery.attempts + 1, now, self.draw(), failed_for)
        endpoint.learn(outcome, now, self.rule)
        await self.store.settle(delivery.id, verdict, now)
        reached("settled")
        if isinstance(verdict, Disabled):
            self.endpoints.give_up_waiting(endpoint)  # the store has disposed of them
        else:
            await self._leave_alone(endpoint, outcome)

    def _failed_for(self, delivery: Delivery, now: datetime) -> timedelta | None:
        """Since its endpoint failed first, if that is too long ago, and this delivery has seen much of it: one failure
        then and one now say nothing of the time between. Where many wait, few are tried often, but they wait for long.
        """
        limit_s = self.limits.failing_s_max.get(delivery.target.channel)
        if limit_s is None or delivery.failing_since is None:
            return None
        limit, found = timedelta(seconds=limit_s), now - delivery.failing_since
        has_seen = delivery.attempts + 1 >= FAILURES_MIN or now - delivery.notification.created_at >= limit
        return found if found >= limit and has_seen else None

    async def _outcome(self, delivery: Delivery) -> Outcome:
        channel = self.channels.get(delivery.target.channel)
        if channel is None:
            return Refused(f"there is no channel {delivery.target.channel}")
        try:
            async with asyncio.timeout(self.limits.attempt_s):
                return await channel.deliver(delivery.notification, delivery.target)
        except TimeoutError:
            return Retry(f"no answer within {self.limits.attempt_s:g} s")
        except Exception as error:  # a fault of ours must not end the delivery of everything else
            return Retry(f"the channel failed: {type(error).__name__}: {error}")

    async def _leave_alone(self, endpoint: Endpoint, outcome: Outcome) -> None:
        """An endpoint that asked for patience, or keeps failing, is held; what waits for it goes back to the store."""
        if not isinstance(outcome, Retry):
            return
        now = self.clock()
        asked = now + timedelta(seconds=outcome.after_s) if outcome.after_s else None
        times = [at for at in (asked, endpoint.open_until(now)) if at is not None]
        if times:
            await self.store.hold(endpoint.id, max(times), outcome.reason)
            await self.store.release(self.endpoints.give_up_waiting(endpoint))
