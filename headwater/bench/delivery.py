"""`headwater bench delivery`: webhooks a second to healthy endpoints on loopback while one in ten hangs.

First at a steady rate: deliveries come due at fixed times, whether or not earlier ones are done, and a latency is from
then to the verdict that it was delivered. Then a backlog for the healthy ones, as fast as it goes, while the others
hang. `cpu_ms` is this process' own processor time for each: it holds on a busy machine, where rates do not. Without
TLS. With the store in memory the engine, the channel and the sockets are measured; with the one in Postgres also that.
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
from alerts.delivery.endpoints import DeliveryLimits
from alerts.delivery.engine import Engine
from alerts.notification_json import payload
from cdc.addresses import PostgresAddress
from cdc.errors import StackError
from headwater.bench.conditions import Machine
from headwater.bench.delivery_stores import StoreName, Supply, Timed, notification, supply, target
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
    backlog_hanging: int = 0
    """Waits for each hanging endpoint beside it."""


@dataclass(frozen=True, slots=True)
class DeliveryConditions:
    machine: Machine
    plan: DeliveryPlan
    payload_bytes: int
    request_timeout_s: float
    store: StoreName
    tls: bool = False


def run(
    machine: Machine,
    progress: Progress,
    limits: DeliveryLimits,
    plan: DeliveryPlan,
    postgres: PostgresAddress | None = None,
) -> dict[str, Any]:
    """With the store in that database, or in memory."""
    secret = new_secret()
    with _endpoints(plan, secret) as (ports, ended):
        targets = [target(f"http://127.0.0.1:{port}/", secret) for port in ports]
        found = asyncio.run(_measured(postgres, targets, progress, limits, plan))
        genuine = ended()
    if genuine < found["delivered"]:
        raise StackError("some webhooks did not arrive", detail=f"{genuine} of {found['delivered']} were genuine")
    size = len(payload(notification("x")))
    store: StoreName = "memory" if postgres is None else "postgres"
    return {**found, "conditions": DeliveryConditions(machine, plan, size, WebhookLimits().request_s, store)}


async def _measured(
    postgres: PostgresAddress | None,
    targets: Sequence[Target],
    progress: Progress,
    limits: DeliveryLimits,
    plan: DeliveryPlan,
) -> dict[str, Any]:
    channel = Webhook(AddressPolicy(openings=(Opening.parse("127.0.0.1:*"),)))
    async with supply(postgres, targets) as given:
        engine = Engine(given.store, {channel.name: channel}, replace(limits, drain_s=0.0))
        running = asyncio.create_task(engine.run(asyncio.Event()))
        progress.step(f"{plan.rate_per_s} a second for {plan.seconds} s, {plan.hanging} of {plan.endpoints} hang")
        steady = await _steady(engine, given, targets, plan)
        progress.step(f"a backlog of {plan.backlog}")
        backlog = await _backlog(engine, given, targets, plan)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await channel.close()
    return {**steady, **backlog, "delivered": len(given.store.sent_at)}


async def _steady(engine: Engine, given: Supply, targets: Sequence[Target], plan: DeliveryPlan) -> dict[str, Any]:
    """Targets take turns, the hanging ones among them, so that each gets the same. What is late is made due at once."""
    healthy, due = {target.id for target in targets[plan.hanging :]}, dict[str, datetime]()
    worked_s = time.process_time()
    per_s, began = plan.rate_per_s * plan.endpoints / (plan.endpoints - plan.hanging), time.monotonic()
    made, wanted = 0, int(per_s * (plan.seconds + WARM_UP_S))
    while made < wanted:
        await asyncio.sleep(max(0.0, began + made / per_s - time.monotonic()))
        some = range(made, min(wanted, max(made + 1, int((time.monotonic() - began) * per_s))))
        found = await given.add([targets[number % len(targets)] for number in some])
        for number, (id_, due_at) in zip(some, found.items(), strict=True):
            if targets[number % len(targets)].id in healthy and number >= per_s * WARM_UP_S:
                due[id_] = due_at
        made = some.stop
        engine.wake()
    sent_at = await _all_sent(given.store, due)
    cpu_ms = (time.process_time() - worked_s) * 1_000 / len(due)
    first, last = min(due.values()), max(sent_at[id_] for id_ in due)
    took = [(sent_at[id_] - at).total_seconds() * 1_000 for id_, at in due.items()]
    per_s = len(due) / (last - first).total_seconds()
    return {"webhooks_per_s": round(per_s, 1), "cpu_ms": round(cpu_ms, 2), **asdict(Latencies.of(took))}


async def _backlog(engine: Engine, given: Supply, targets: Sequence[Target], plan: DeliveryPlan) -> dict[str, Any]:
    for hanging in targets[: plan.hanging]:
        await given.add([hanging] * plan.backlog_hanging)
    healthy = targets[plan.hanging :]
    due = await given.add([healthy[number % len(healthy)] for number in range(plan.backlog)])
    began, worked_s = time.monotonic(), time.process_time()
    engine.wake()
    await _all_sent(given.store, due)
    took_s, worked_s = time.monotonic() - began, time.process_time() - worked_s
    return {
        "backlog_webhooks_per_s": round(plan.backlog / took_s, 1),
        "backlog_cpu_ms": round(worked_s * 1_000 / plan.backlog, 2),
    }


async def _all_sent(store: Timed, ids: dict[str, datetime]) -> dict[str, datetime]:
    try:
        async with asyncio.timeout(WAIT_S_MAX):
            while not ids.keys() <= store.sent_at.keys():
                await asyncio.sleep(0.02)
    except TimeoutError:
        left = len(ids.keys() - store.sent_at.keys())
        raise StackError("webhooks to healthy endpoints are stuck", detail=f"{left} of {len(ids)} are left") from None
    return store.sent_at


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
