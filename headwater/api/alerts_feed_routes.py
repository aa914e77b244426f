"""`/v1/alerts/feed`: an owner's notifications as server-sent events that can be resumed.

An event's id is the notification's sequence: who comes back with Last-Event-ID misses nothing and gets nothing twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from alerts.channels.feed import TooManyListeners
from cdc.errors import ConfigurationError
from headwater.api.problems import TooMany
from headwater.api.streams import begun

if TYPE_CHECKING:
    from alerts.channels.feed import FeedHub

OwnerOf = Callable[[Request], Awaitable[str]]
"""Who asks; raises when they may not."""
Admits = Callable[[Request], Awaitable[bool]]
"""Whether who asked still may."""
SEQUENCE_DIGITS_MAX: Final = 18


def router(hub: FeedHub, owner_of: OwnerOf, admits: Admits) -> APIRouter:
    routes = APIRouter(prefix="/v1/alerts", tags=["alerts"])

    @routes.get("/feed")
    async def feed(
        request: Request,
        after: Annotated[str, Query(description="the sequence of the last notification seen")] = "0",
        last_event_id: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
    ) -> StreamingResponse:
        """Events `notification`, with the same payload as a webhook's."""
        owner = await owner_of(request)
        events = hub.events(owner, sequence_of(last_event_id or after))
        try:
            return await begun(events, lambda: admits(request))
        except TooManyListeners:
            raise TooMany("too many feeds are open", hint="close one") from None

    return routes


def sequence_of(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= SEQUENCE_DIGITS_MAX):
        raise ConfigurationError("not the id of an event", detail="it is a number", hint="leave it out for all of them")
    return int(text)
