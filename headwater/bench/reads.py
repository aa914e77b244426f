"""`headwater bench reads`: key lookups through the API of the running `headwater up`, at a steady rate, while it works.

Requests are due at fixed times and sent then, whether or not earlier ones were answered: a slow answer does not make
the next ones wait unseen. A latency is from when a request was due to when its answer was read. Only rows that were
answered are timed: a refusal comes faster than a row, and would make the figure better.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

from cdc.errors import StackError
from headwater.bench.conditions import Machine
from headwater.bench.figures import Latencies

CONNECTIONS: Final = 16
WARM_UP_S: Final = 2.0
_FOUND: Final = 200
_MISSING: Final = 404
"""A row may have gone meanwhile."""


@dataclass(frozen=True, slots=True)
class ReadsPlan:
    view: str
    rate_per_s: int = 500
    seconds: int = 20


class Answer(NamedTuple):
    due_at: float
    took_ms: float
    status: int


@dataclass(frozen=True, slots=True)
class ReadsConditions:
    machine: Machine
    plan: ReadsPlan
    keys: int


def run(url: str, keys: list[str], machine: Machine, plan: ReadsPlan) -> dict[str, Any]:
    """`keys` are asked for in random order."""
    paths = [f"/v1/views/{quote(plan.view, safe='')}/{quote(key, safe='')}" for key in keys]
    answers = asyncio.run(_load(url, paths, plan))
    statuses = Counter(answer.status for answer in answers)
    found = [answer.took_ms for answer in answers if answer.status == _FOUND]
    if not found:
        told = ", ".join(f"{count} times {status}" for status, count in statuses.items())
        raise StackError(f"no row of {plan.view} was answered", detail=told, hint=f"headwater show {plan.view}")
    return {
        **asdict(Latencies.of(found)),
        "requests_per_s": plan.rate_per_s,
        "missing": statuses[_MISSING],
        "failed": len(answers) - len(found) - statuses[_MISSING],
        "conditions": ReadsConditions(machine, plan, len(keys)),
    }


async def _load(url: str, paths: list[str], plan: ReadsPlan) -> list[Answer]:
    """The answers to what was due after the warm-up."""
    due: asyncio.Queue[tuple[float, str] | None] = asyncio.Queue()
    answers: list[Answer] = []
    workers = [asyncio.create_task(_ask(url, due, answers)) for _ in range(CONNECTIONS)]
    draw, began = random.Random(7), time.monotonic()
    for number in range(int(plan.rate_per_s * (plan.seconds + WARM_UP_S))):
        at = began + number / plan.rate_per_s
        if (early_s := at - time.monotonic()) > 0:
            await asyncio.sleep(early_s)
        due.put_nowait((at, draw.choice(paths)))
    for _ in workers:
        due.put_nowait(None)
    await asyncio.gather(*workers)
    return [answer for answer in answers if answer.due_at >= began + WARM_UP_S]


async def _ask(url: str, due: asyncio.Queue[tuple[float, str] | None], answers: list[Answer]) -> None:
    """One connection, kept open."""
    where = urlsplit(url)
    try:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
    except OSError as error:
        raise StackError("the API does not answer", detail=f"{url}: {error}", hint="headwater up --demo") from error
    try:
        while (asked := await due.get()) is not None:
            at, path = asked
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode())
            status = await _answer(reader)
            answers.append(Answer(at, (time.monotonic() - at) * 1000, status))
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader) -> int:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = next(int(line.partition(":")[2]) for line in head.split("\r\n") if line.startswith("content-length:"))
    await reader.readexactly(length)
    return int(head.split(" ", 2)[1])
