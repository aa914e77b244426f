"""The endpoints that the delivery bench calls: in a process of their own, some of them hanging.

    python -m headwater.bench.delivery_endpoints ENDPOINTS HANGING SECRET

The first line of output has their ports, the hanging ones first. It ends when its input does, and says what it caught.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import NoReturn

from headwater.demo.webhook_catcher import CaughtWebhook, WebhookCatcher


async def hang(_caught: CaughtWebhook, _writer: asyncio.StreamWriter) -> NoReturn:
    await asyncio.Event().wait()
    raise AssertionError("nobody wakes it")


async def main(endpoints: int, hanging: int, secret: str) -> None:
    genuine = 0

    def count(caught: CaughtWebhook) -> None:
        nonlocal genuine
        genuine += caught.genuine

    async with AsyncExitStack() as open_:
        started = [
            await open_.enter_async_context(
                WebhookCatcher(secret, hang) if number < hanging else WebhookCatcher(secret, on_caught=count)
            )
            for number in range(endpoints)
        ]
        print(json.dumps([each.port for each in started]), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        print(json.dumps({"genuine": genuine}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
