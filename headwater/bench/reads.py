"""`headwater bench reads`: key lookups through the API of the running `headwater up`, at a steady rate, while it works.

Requests are due at fixed times and sent then, whether or not earlier ones were answered: a slow answer does not make
the next ones wait unseen. A latency is from when a request was due to when its answer was read.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

from cdc.errors import StackError
from headwater.bench.conditions import Machine
from headwater.bench.figures import Latencies

CONNECTIONS: Final = 16
WARM_UP_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class ReadsPlan:
    view: str
    rate_per_s: int = 500
    seconds: int = 20


@dataclass(frozen=True, slots=True)
class ReadsConditions:
    machine: Machine
    plan: ReadsPlan
    keys: int


def run(url: str, keys: list[str], machine: Machine, plan: ReadsPlan) -> dict[str, Any]:
    """`keys` are asked for in random order."""
    took, failed = asyncio.run(_load(url, [f"/v1/views/{plan.view}/{quote(key)}" for key in keys], plan))
    return {
        **asdict(Latencies.of(took)),
        "requests_per_s": plan.rate_per_s,
        "failed": failed,
        "conditions": ReadsConditions(machine, plan, len(keys)),
    }


async def _load(url: str, paths: list[str], plan: ReadsPlan) -> tuple[list[float], int]:
    due: asyncio.Queue[tuple[float, str] | None] = asyncio.Queue()
    took: list[float] = []
    wrong: list[int] = []
    workers = [asyncio.create_task(_ask(url, due, took, wrong)) for _ in range(CONNECTIONS)]
    draw, began = random.Random(7), time.monotonic()
    for number in range(int(plan.rate_per_s * (plan.seconds + WARM_UP_S))):
        at = began + number / plan.rate_per_s
        if (early_s := at - time.monotonic()) > 0:
            await asyncio.sleep(early_s)
        due.put_nowait((at, draw.choice(paths)))
    for _ in workers:
        due.put_nowait(None)
    await asyncio.gather(*workers)
    return took[int(plan.rate_per_s * WARM_UP_S) :], len(wrong)


async def _ask(url: str, due: asyncio.Queue[tuple[float, str] | None], took: list[float], wrong: list[int]) -> None:
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
            took.append((time.monotonic() - at) * 1000)
            if status not in (200, 404):  # a row may have gone meanwhile
                wrong.append(status)
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader) -> int:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = next(int(line.partition(":")[2]) for line in head.split("\r\n") if line.startswith("content-length:"))
    await reader.readexactly(length)
    return int(head.split(" ", 2)[1])
