"""`/v1/views/{view}/changes`: what changes in a view, as server-sent events that can be resumed.

An event's id is its offset in the view's topic: a client that comes back with Last-Event-ID misses nothing and gets
nothing twice. A comment every few seconds keeps proxies from giving the connection up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from cdc.errors import ConfigurationError
from cdc.reader import Raw, read_range, wait_for_records
from cdc.topics import find_state
from headwater.api.problems import NotFound, TooMany
from views.maintain.publisher import view_topic

if TYPE_CHECKING:
    from headwater.api.reading import Reading

FEEDS_MAX: Final = 100
CHUNK_MAX: Final = 1_000
LISTEN_S: Final = 1.0
QUIET_S: Final = 10.0


def router(reading: Reading) -> APIRouter:
    routes = APIRouter(prefix="/v1/views", tags=["views"])

    @routes.get("/{view}/changes")
    async def changes(
        request: Request,
        view: str,
        from_: Annotated[
            str, Query(alias="from", description="now, earliest, or an event's id to go on after")
        ] = "now",
        last_event_id: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
    ) -> StreamingResponse:
        """Events `change` with key, before, after, position and commit."""
        await reading.admit(request, "read")
        reading.shapes.store(view)
        if reading.feeds >= FEEDS_MAX:
            raise TooMany(f"{FEEDS_MAX} feeds are open", hint="close one")
        start = await asyncio.to_thread(_start, reading, view, last_event_id or from_)
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return StreamingResponse(_events(reading, view, start), media_type="text/event-stream", headers=headers)

    return routes


def _start(reading: Reading, view: str, word: str) -> int:
    state = find_state(reading.kafka, view_topic(reading.source, view))
    if state is None:
        raise NotFound(f"nothing was published of {view} yet", hint="headwater views")
    if word in ("now", "earliest"):
        return state.high if word == "now" else state.low
    if not word.isdigit() or not state.low <= int(word) + 1 <= state.high:
        raise ConfigurationError(
            f"no event {word} in the feed of {view}",
            detail=f"its events are from {state.low} to {state.high - 1}",
            hint="from=now, from=earliest, or the id of an event",
        )
    return int(word) + 1


async def _events(reading: Reading, view: str, offset: int) -> AsyncIterator[bytes]:
    topic, quiet_s = view_topic(reading.source, view), 0.0
    reading.feeds += 1
    try:
        # The id before the first event: who is cut off before that goes on from here.
        yield b"retry: 1000\n" + (b"id: %d\n\n" % (offset - 1) if offset else b"\n")
        while not reading.stopping.is_set():
            records, offset = await asyncio.to_thread(_next, reading, topic, offset)
            for record in records:
                yield _event(record)
            quiet_s = 0.0 if records else quiet_s + LISTEN_S
            if quiet_s >= QUIET_S:
                quiet_s = 0.0
                yield b": nothing new\n\n"
    finally:
        reading.feeds -= 1


def _next(reading: Reading, topic: str, offset: int) -> tuple[list[Raw], int]:
    state = find_state(reading.kafka, topic)
    if state is None or (state.high <= offset and not wait_for_records(reading.kafka, topic, offset, LISTEN_S)):
        return [], offset
    end = min(max(state.high, offset), offset + CHUNK_MAX)
    found = [raw for chunk in read_range(reading.kafka, topic, offset, end) for raw in chunk]
    return [raw for raw in found if raw.value is not None], end


def _event(record: Raw) -> bytes:
    value = msgspec.Raw(b'{"key":' + (record.key or b"null") + b"," + (record.value or b"{}")[1:])
    return b"id: %d\nevent: change\ndata: %s\n\n" % (record.offset, bytes(value))
