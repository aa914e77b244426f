"""`headwater bench delivery`: webhooks a second to healthy endpoints on loopback while one in ten hangs.

First at a steady rate: deliveries come due at fixed times, whether or not earlier ones are done, and a latency is from
then to the verdict that it was delivered. Then a backlog for the healthy ones, as fast as it goes, while the others
hang. `cpu_ms` is this process' own processor time for each: it holds on a busy machine, where rates do not. The store
is the one in memory, without TLS: what is measured is the engine, the channel and the sockets.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final

from alerts.channels.channel import Target
from alerts.channels.public_addresses import AddressPolicy, Opening
from alerts.channels.signature import new_secret
from alerts.channels.webhook import Webhook, WebhookLimits
from alerts.clock import system_clock
from alerts.delivery.endpoints import DeliveryLimits
from alerts.delivery.engine import Engine
from alerts.delivery.memory import MemoryStore
from alerts.delivery.store import Delivery
from alerts.delivery.verdict import Sent, Verdict
from alerts.notification import Event, Item, MatchedSearch, Notification
from alerts.notification_json import payload
from cdc.errors import StackError
from headwater.bench.conditions import Machine
from headwater.bench.figures import Latencies
from headwater.bench.progress import Progress

WARM_UP_S: Final = 2.0
WAIT_S_MAX: Final = 120.0


@dataclass(frozen=True, slots=True)
class DeliveryPlan:
    rate_per_s: int = 200
    """To the healthy endpoints; the hanging ones get as many each."""
    seconds: int = 20
    endpoints: int = 100
    hanging: int = 10
    backlog: int = 5_000


@dataclass(frozen=True, slots=True)
class DeliveryConditions:
    machine: Machine
    plan: DeliveryPlan
    payload_bytes: int
    request_timeout_s: float
    store: str = "memory"
    tls: bool = False


class TimedStore(MemoryStore):
    """Notes when each delivery was settled as sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent_at: dict[str, datetime] = {}

    async def settle(self, delivery: str, verdict: Verdict, now: datetime) -> None:
        if isinstance(verdict, Sent):
            self.sent_at[delivery] = system_clock()
        await super().settle(delivery, verdict, now)


def run(machine: Machine, progress: Progress, limits: DeliveryLimits, plan: DeliveryPlan) -> dict[str, Any]:
    secret = new_secret()
    with _endpoints(plan, secret) as (ports, ended):
        found = asyncio.run(_measured(ports, secret, progress, limits, plan))
        genuine = ended()
    if genuine < found["delivered"]:
        raise StackError("some webhooks did not arrive", detail=f"{genuine} of {found['delivered']} were genuine")
    size = len(payload(_notification("x")))
    return {**found, "conditions": DeliveryConditions(machine, plan, size, WebhookLimits().request_s)}


async def _measured(
    ports: Sequence[int], secret: str, progress: Progress, limits: DeliveryLimits, plan: DeliveryPlan
) -> dict[str, Any]:
    openings = (Opening.parse("127.0.0.1:*"),)
    channel, store = Webhook(AddressPolicy(openings=openings)), TimedStore()
    targets = [Target(str(port), "webhook", f"http://127.0.0.1:{port}/", (secret,)) for port in ports]
    engine = Engine(store, {channel.name: channel}, replace(limits, drain_s=0.0))
    running = asyncio.create_task(engine.run(asyncio.Event()))
    progress.step(f"{plan.rate_per_s} a second for {plan.seconds} s, {plan.hanging} of {plan.endpoints} hang")
    steady = await _steady(engine, store, targets, plan)
    progress.step(f"a backlog of {plan.backlog}")
    backlog = await _backlog(engine, store, targets[plan.hanging :], plan)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await channel.close()
    return {**steady, **backlog, "delivered": len(store.sent_at)}


async def _steady(engine: Engine, store: TimedStore, targets: Sequence[Target], plan: DeliveryPlan) -> dict[str, Any]:
    """Targets take turns, the hanging ones among them, so that each gets the same."""
    healthy, due = {target.id for target in targets[plan.hanging :]}, dict[str, datetime]()
    worked_s = time.process_time()
    per_s, began = plan.rate_per_s * plan.endpoints / (plan.endpoints - plan.hanging), time.monotonic()
    for number in range(int(per_s * (plan.seconds + WARM_UP_S))):
        if (early_s := began + number / per_s - time.monotonic()) > 0:
            await asyncio.sleep(early_s)
        target = targets[number % len(targets)]
        due_at = _add(store, f"steady-{number}", target)
        if target.id in healthy and number >= per_s * WARM_UP_S:
            due[f"steady-{number}"] = due_at
        engine.wake()
    await _all_sent(store, due)
    cpu_ms = (time.process_time() - worked_s) * 1_000 / len(due)
    first, last = min(due.values()), max(store.sent_at[id_] for id_ in due)
    took = [(store.sent_at[id_] - at).total_seconds() * 1_000 for id_, at in due.items()]
    per_s = len(due) / (last - first).total_seconds()
    return {"webhooks_per_s": round(per_s, 1), "cpu_ms": round(cpu_ms, 2), **asdict(Latencies.of(took))}


async def _backlog(engine: Engine, store: TimedStore, healthy: Sequence[Target], plan: DeliveryPlan) -> dict[str, Any]:
    due = {
        f"backlog-{number}": _add(store, f"backlog-{number}", healthy[number % len(healthy)])
        for number in range(plan.backlog)
    }
    began, worked_s = time.monotonic(), time.process_time()
    engine.wake()
    await _all_sent(store, due)
    took_s, worked_s = time.monotonic() - began, time.process_time() - worked_s
    return {
        "backlog_webhooks_per_s": round(plan.backlog / took_s, 1),
        "backlog_cpu_ms": round(worked_s * 1_000 / plan.backlog, 2),
    }


def _add(store: MemoryStore, id_: str, target: Target) -> datetime:
    now = system_clock()
    store.add(Delivery(id_, target, _notification(id_)), now)
    return now


async def _all_sent(store: TimedStore, ids: dict[str, datetime]) -> None:
    try:
        async with asyncio.timeout(WAIT_S_MAX):
            while not ids.keys() <= store.sent_at.keys():
                await asyncio.sleep(0.02)
    except TimeoutError:
        left = len(ids.keys() - store.sent_at.keys())
        raise StackError("webhooks to healthy endpoints are stuck", detail=f"{left} of {len(ids)} are left") from None


def _notification(id_: str) -> Notification:
    row = {"id": 4711, "title": "Garden flat close to the river", "price": 450_000, "bedrooms": 2, "kind": "flat"}
    item = Item("listing_card", {"id": 4711}, Event.ENTERED, row, None, (MatchedSearch("s1", "Two rooms", "price"),))
    return Notification(id_, "ada", 1, system_clock(), (item,))


@contextmanager
def _endpoints(plan: DeliveryPlan, secret: str) -> Iterator[tuple[list[int], Any]]:
    """In a process of their own: their work is not the engine's."""
    counts = (str(plan.endpoints), str(plan.hanging))
    command = [sys.executable, "-m", "headwater.bench.delivery_endpoints", *counts, secret]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def ended() -> int:
            stdin.close()
            return int(json.loads(stdout.readline())["genuine"])

        try:
            yield json.loads(stdout.readline()), ended
        finally:
            process.terminate()
