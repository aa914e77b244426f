"""`/console/live`: server-sent events for one page of the console: its panels when they change, and the plots' points.

Holds behind a proxy: nothing is buffered, a silent stream beats, and who comes back (Last-Event-ID) gets the points
that they missed. Nothing more is said once the session has ended, and no stream goes on for ever.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from headwater.api.streams import begun
from headwater.pages.console_panels import panels_of
from headwater.pages.page_route import PageRoute
from headwater.pages.panels import event, moving
from headwater.pages.trail import POINTS_MAX

if TYPE_CHECKING:
    from headwater.pages.console import Console

STREAM_S_MAX: Final = 3_600.0
"""Then the browser asks again, and its session is looked at anew."""
HEADERS: Final = {
    "Cache-Control": "no-store, no-transform",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}


def router(console: Console) -> APIRouter:
    routes = APIRouter(route_class=PageRoute, include_in_schema=False)

    @routes.get("/console/live")
    async def live(request: Request, page: str = "overview", view: str = "", root: str = "./") -> StreamingResponse:
        session = await console.gate.admit(request)
        console.trail.start()
        seen = console.trail.seen(request.headers.get("Last-Event-ID", ""))
        until = time.monotonic() + STREAM_S_MAX
        state = {"seen": seen}

        def points() -> list[bytes]:
            found = console.trail.since(state["seen"])[-POINTS_MAX:]
            if not found:
                return []
            state["seen"] = found[-1][0]
            return [event("points", [value for _, value in found], f"{console.trail.run}-{state['seen']}")]

        def go_on() -> bool:
            return not console.stopping.is_set() and time.monotonic() < until

        events = moving(panels_of(console, page, view, session.form_token), safe_root(root), points, go_on)
        return await begun(events, lambda: console.gate.admits(request), HEADERS)

    return routes


def safe_root(root: str) -> str:
    """Links in panels are relative to the page that shows them, not to the stream: the page says how."""
    return root if root in ("./", "../", "../../", "../../../") else "./"
