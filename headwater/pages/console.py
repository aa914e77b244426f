"""The console: what its pages share, and all its routes. docs/console.md."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from markupsafe import Markup

from cdc.postgres import connect, explained
from headwater.api.access import KeyStore
from headwater.http.feed import Feed
from headwater.pages import (
    capture_routes,
    console_actions,
    console_live,
    console_panels,
    console_routes,
    generation_routes,
    notices,
    sign_in_routes,
    story_routes,
)
from headwater.pages.gate import Gate, NotSignedIn
from headwater.pages.kept_facts import KeptFacts
from headwater.pages.rendering import page, path_of, root_of, see_other
from headwater.pages.sessions import Session, Sessions
from headwater.pages.trail import Trail
from headwater.views.place import Place

if TYPE_CHECKING:
    from headwater.http.server import PageServer
    from headwater.status import Status

ACTIONS_MAX: Final = 4
"""Actions that run at once; an order that the maintainer does not answer takes half a minute."""

T = TypeVar("T")


class Console:
    def __init__(self, server: PageServer, feed: Feed) -> None:
        self.deployment, self.reading, self.stopping = server.deployment, server.reading, server.stopping
        folder = self.deployment.settings.data_folder
        self.gate = Gate(Sessions(folder), KeyStore(self.deployment.postgres), folder)
        self.trail = Trail(lambda: server.status, server.stopping)
        self.kept = KeptFacts(self.deployment)
        self.place = Place(self.deployment, self.kept.registry, Path())
        self.verifying, self.repairing = generation_routes.Busy(), generation_routes.Busy()
        self.feed = feed
        self._threads = ThreadPoolExecutor(ACTIONS_MAX, "console")
        self._server = server

    @property
    def status(self) -> Status | None:
        return self._server.status

    async def away(self, what: Callable[[], T]) -> T:
        """On threads of the console's own, for what may take long: it keeps nobody waiting who reads."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, what)

    @contextmanager
    def source(self) -> Iterator[psycopg.Connection]:
        with connect(self.deployment.postgres) as conn, explained(conn):
            yield conn

    async def moving_page(
        self, request: Request, template: str, session: Session, name: str, view: str = "", **values: Any
    ) -> Response:
        """One whose panels move afterwards: as they are now."""
        found, root = console_panels.panels_of(self, name, view, session.form_token), root_of(request)
        panels = await asyncio.to_thread(lambda: {each.name: Markup(each.html(root)) for each in found})
        return self.page(request, template, session, panels=panels, **values)

    def page(self, request: Request, template: str, session: Session, status: int = 200, **values: Any) -> Response:
        """A page of the console, for who is signed in."""
        self.trail.start()
        notice = notices.take(request)
        known = {"session": session, "form_token": session.form_token, "look": self.status, "notice_left": notice}
        answer = page(request, template, status, None, **known, **values)
        if notice is not None:
            notices.said(answer)
        return answer

    def register(self, app: FastAPI) -> None:
        @app.exception_handler(NotSignedIn)
        async def ask_to_sign_in(request: Request, error: NotSignedIn) -> Response:
            if request.method == "GET" and "text/event-stream" not in request.headers.get("Accept", ""):
                return _to_sign_in(request)
            return page(request, "error.html", 401, None, fact=error.fact, detail=error.detail, hint=error.hint)

        parts = (
            sign_in_routes,
            console_live,
            console_routes,
            console_actions,
            generation_routes,
            capture_routes,
            story_routes,
        )
        for part in parts:
            app.include_router(part.router(self))


def _to_sign_in(request: Request) -> RedirectResponse:
    from urllib.parse import urlencode

    wanted = path_of(request).lstrip("/") + (f"?{request.url.query}" if request.url.query else "")
    return see_other(request, "console/sign-in?" + urlencode({"to": wanted}))
