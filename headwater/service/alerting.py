"""Telling people: the outbox becomes notifications, notifications are delivered. On a thread of its own.

    outbox (alerts/sink.py) ─▶ notifier: who is told what now ─▶ engine: channel by channel, endpoint by endpoint

What was told and what is on its way lies in Postgres, so whoever runs this next goes on; while Postgres is away, or
whatever else fails, nobody is told, and nothing is lost.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from alerts.channels.feed import Waker
from alerts.delivery.engine import Engine
from alerts.delivery.postgres_store import PostgresStore
from alerts.notifier import notify
from alerts.pruning import prune
from cdc.errors import HeadwaterError, StateError
from cdc.postgres import connect
from headwater.channels import channels, delivery_limits
from headwater.deployment import Deployment
from headwater.events_log import get_log
from headwater.known_views import ALERTS
from headwater.service.sweeping import swept
from headwater.sweep_file import SWEEP_S, SweepFile
from views.maintain.registry import Registry, ViewState

LOOK_S: Final = 0.2
"""How often the outbox is looked at: a part of the time from a commit to its news."""
PRUNE_S: Final = 3600.0
"""How often what is old is removed."""
AGAIN_S: Final = 2.0
STOP_S_MAX: Final = 20.0


@dataclass(frozen=True)
class Alerting:
    deployment: Deployment
    waker: Waker
    api_url: str
    """Where links in messages lead, unless the settings name another address."""

    async def run(self, stopping: asyncio.Event) -> None:
        """Until told to stop; what fails is begun again."""
        log = get_log("alerts")
        is_first = True
        while not stopping.is_set():
            try:
                await asyncio.to_thread(self._await_sweeps, anew=is_first)
                is_first = False
                await self._once(stopping)
            except Exception as error:  # a fault of ours, too: nobody would be told anything until the next start
                fact = error.fact if isinstance(error, HeadwaterError) else f"{type(error).__name__}: {error}".strip()
                log.warning("nobody is told anything for now", fact=fact, again_in_s=AGAIN_S)
                await _rest(stopping, AGAIN_S)

    async def _once(self, stopping: asyncio.Event) -> None:
        store = PostgresStore(self.deployment.postgres)
        ways = channels(self.deployment, self.waker)
        engine = Engine(store, ways, delivery_limits(self.deployment.settings))
        over = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(engine.run(over))
                group.create_task(self._notifying(engine, stopping, over))
                group.create_task(self._sweeping(over))
        except* Exception as failed:
            raise failed.exceptions[0] from failed
        finally:
            for way in ways.values():
                await way.close()
            await store.close()

    async def _notifying(self, engine: Engine, stopping: asyncio.Event, over: asyncio.Event) -> None:
        wanted = self.deployment.settings.alerts
        pace, pruned_at = wanted.pace(self.api_url), float("-inf")
        try:
            with connect(self.deployment.postgres) as conn:
                while not stopping.is_set():
                    if time.monotonic() - pruned_at > PRUNE_S:
                        before = datetime.now(UTC) - timedelta(days=wanted.keep_days)
                        if not await asyncio.to_thread(prune, conn, before):
                            pruned_at = time.monotonic()
                    made = await asyncio.to_thread(notify, conn, pace)
                    if made.notifications:
                        engine.wake()
                    if not made.owners:
                        await _rest(stopping, LOOK_S)
        finally:
            over.set()
            engine.wake()

    def _await_sweeps(self, *, anew: bool) -> None:
        """Noted from outside of the sweeps, so that it is told when none of them comes about."""
        registry = Registry(self.deployment.settings.views_state)
        with suppress(StateError, OSError):  # told by who keeps the views; people are told all the same
            state = registry.state()
            having = {each.view for each in state.sinks if each.sink == ALERTS}
            live = [view for view in having if view in state.views and state.views[view].state is ViewState.LIVE]
            SweepFile(registry.folder).await_sweeps(live, time.time_ns() // 1000, anew=anew)

    async def _sweeping(self, over: asyncio.Event) -> None:
        """Expected is no difference: one means that people were not told, or told wrongly."""
        log, said, newest = get_log("alerts"), dict[str, str](), dict[str, int]()
        while not over.is_set():
            await asyncio.to_thread(self._await_sweeps, anew=False)
            await _rest(over, SWEEP_S)
            if over.is_set():
                return
            for fact in await _until(over, swept()):  # the log is away, say: the next one looks again
                log.warning("not swept", fact=fact)
            for view, each in SweepFile(self.deployment.settings.views_state).read().items():
                if each.differences and each.differences[-1].found_us != newest.get(view):  # each is said once
                    newest[view], hint = each.differences[-1].found_us, f"headwater alerts sweep {view}"
                    log.error(
                        "alerts differ", view=view, missed=each.count("missed"), wrong=each.count("wrong"), hint=hint
                    )
                if each.lacks and each.lacks != said.get(view):
                    log.warning("alerts stood still, and some news is missing", view=view, changed=each.lacks)
                said[view] = each.lacks
                if each.broken:
                    log.warning(
                        "saved searches do not fit their view any more",
                        view=view,
                        count=len(each.broken),
                        example=each.broken_example,
                    )


async def _until(over: asyncio.Event, work: Coroutine[Any, Any, list[str]]) -> list[str]:
    """The work's answer; it is cancelled, and has none, when everything is over."""
    working, ending = asyncio.create_task(work), asyncio.create_task(over.wait())
    try:
        await asyncio.wait((working, ending), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else []
    finally:
        for task in (working, ending):
            task.cancel()
        await asyncio.gather(working, ending, return_exceptions=True)


async def _rest(stopping: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stopping.wait()
    except TimeoutError:
        return


@contextmanager
def alerting(deployment: Deployment, waker: Waker, api_url: str) -> Iterator[None]:
    loop, stopping, begun = asyncio.new_event_loop(), asyncio.Event(), threading.Event()

    def run() -> None:
        asyncio.set_event_loop(loop)
        begun.set()
        try:
            loop.run_until_complete(Alerting(deployment, waker, api_url).run(stopping))
        finally:
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    thread = threading.Thread(target=run, name="alerts", daemon=True)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join(STOP_S_MAX)
