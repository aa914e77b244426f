"""What an administrator does to capture in the console: hold it, let it go on, restart it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from cdc.connect import ConnectClient
from cdc.errors import ConfigurationError
from headwater.audit import Action
from headwater.pages import questions
from headwater.pages.console_actions import done
from headwater.pages.page_route import PageRoute

if TYPE_CHECKING:
    from headwater.pages.console import Console


def router(console: Console) -> APIRouter:
    routes = APIRouter(route_class=PageRoute, include_in_schema=False)

    @routes.post("/console/capture")
    async def capture(request: Request) -> Response:
        session, form = await console.gate.admit_form(request)
        verb = form.value("do")

        def does(_action: Action) -> str:
            capture = console.deployment.capture()
            with ConnectClient(capture.connect) as client:
                if verb == "pause":
                    client.pause(capture.source.connector)
                    return "capture is paused; Postgres keeps its WAL for the slot, up to its cap"
                if verb == "resume":
                    capture.resume(client)
                    return "capture goes on"
                capture.restart(client)
                return "capture was restarted"

        if verb not in ("pause", "resume", "restart"):
            raise ConfigurationError(f"there is no such thing to do: {verb!r}", hint="open the page again")
        asks = questions.CAPTURE.get(verb, "")
        if (page := questions.unasked(console, request, session, form, asks, "console/source")) is not None:
            return page
        return await done(console, request, session, f"capture {verb}", does, "console/source")

    return routes
