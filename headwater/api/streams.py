"""Server-sent events as an answer: closed when the client is gone, and ended when it may not listen any more."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

from fastapi.responses import StreamingResponse

HEADERS: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}

Admits = Callable[[], Awaitable[bool]]
"""Whether who asked still may. Asked before every event, so it should remember for a while."""


async def begun(
    events: AsyncGenerator[bytes, None], admits: Admits, headers: dict[str, str] = HEADERS
) -> StreamingResponse:
    """Raises what they raise before the first: nothing has been sent by then."""
    first = await anext(events)
    return StreamingResponse(_admitted(first, events, admits), 200, headers, "text/event-stream")


async def _admitted(first: bytes, events: AsyncGenerator[bytes, None], admits: Admits) -> AsyncIterator[bytes]:
    async with aclosing(events):
        yield first
        async for event in events:
            if not await admits():
                return
            yield event
