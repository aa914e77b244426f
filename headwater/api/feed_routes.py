"""`/v1/views/{view}/changes`: what changes in a view, as server-sent events that can be resumed.

An event's id is its offset in the view's topic: a client that comes back with Last-Event-ID misses nothing and gets
nothing twice. A comment every few seconds keeps proxies from giving the connection up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from headwater.api.streams import begun
from views.maintain.publisher import view_topic

if TYPE_CHECKING:
    from headwater.api.reading import Reading


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
        events = reading.feeds.events(view, view_topic(reading.source, view), last_event_id or from_)
        return await begun(events, lambda: reading.admits(request, "read"))

    return routes
