"""The console's pages. Each is whole as it comes; what moves on it is in panels (console_panels.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from fastapi import APIRouter, Request, Response

from alerts import quiet
from alerts.delivery import listing
from cdc import eras
from cdc.errors import HeadwaterError
from headwater.audit_store import listed
from headwater.pages import questions
from headwater.pages.page_route import PageRoute
from headwater.pages.sql_text import highlighted
from views.sinks.letters import read_letters

if TYPE_CHECKING:
    from headwater.pages.console import Console

LETTERS_SHOWN: Final = 200
DELIVERIES_SHOWN: Final = 50
STRETCHES_SHOWN: Final = 10
ACTIONS_SHOWN: Final = 100

T = TypeVar("T")


def router(console: Console) -> APIRouter:
    routes = APIRouter(route_class=PageRoute, include_in_schema=False)
    for add in (_add_views, _add_capture, _add_alerts):
        add(routes, console)
    return routes


def _add_views(routes: APIRouter, console: Console) -> None:
    @routes.get("/console")
    async def overview(request: Request) -> Response:
        session = await console.gate.admit(request)
        return await console.moving_page(request, "console/overview.html", session, "overview")

    @routes.get("/console/views")
    async def views(request: Request) -> Response:
        session = await console.gate.admit(request)
        return await console.moving_page(request, "console/views.html", session, "views")

    @routes.get("/console/views/{view}")
    async def view(request: Request, view: str) -> Response:
        session = await console.gate.admit(request)
        facts = await asyncio.to_thread(console.kept.view, view)
        return await console.moving_page(
            request, "console/view.html", session, "view", view, facts=facts, sql=highlighted(facts.text)
        )


def _add_capture(routes: APIRouter, console: Console) -> None:
    @routes.get("/console/source")
    async def source(request: Request) -> Response:
        session = await console.gate.admit(request)
        known = await tried(lambda: eras.load(console.deployment.kafka, console.deployment.source).eras[::-1])
        return await console.moving_page(
            request,
            "console/source.html",
            session,
            "source",
            eras=known.value or (),
            problem=known.problem,
            questions=questions.CAPTURE,
            settings=console.deployment.settings,
        )

    @routes.get("/console/dead-letters")
    async def dead_letters(request: Request, view: str = "", sink: str = "") -> Response:
        session = await console.gate.admit(request)
        found = await tried(lambda: read_letters(console.deployment.kafka, console.deployment.source))
        all_letters = found.value or []
        letters = [each for each in all_letters if view in ("", each.view) and sink in ("", each.sink)]
        return console.page(
            request,
            "console/dead_letters.html",
            session,
            letters=letters[: -LETTERS_SHOWN - 1 : -1],
            total=len(letters),
            views=sorted({each.view for each in all_letters}),
            sinks=sorted({each.sink for each in all_letters}),
            problem=found.problem,
            questions=questions.LETTERS,
            view=view,
            sink=sink,
        )


def _add_alerts(routes: APIRouter, console: Console) -> None:
    @routes.get("/console/alerts")
    async def alerts(request: Request, state: str = "") -> Response:
        session = await console.gate.admit(request)
        wanted = state if state in listing.STATES else ""

        def look() -> tuple[list[listing.Listed], list[quiet.Stretch]]:
            with console.source() as conn:
                return listing.listed(conn, wanted, most=DELIVERIES_SHOWN), quiet.listed(conn, STRETCHES_SHOWN)

        deliveries, stretches = (await tried(look)).value or ([], [])
        return await console.moving_page(
            request, "console/alerts.html", session, "alerts",
            deliveries=deliveries, state=wanted, states=listing.STATES, stretches=stretches,
            views=sorted(console.kept.registry.wanted().views),
        )  # fmt: skip

    @routes.get("/console/audit")
    async def audit(request: Request, verb: str = "", actor: str = "") -> Response:
        session = await console.gate.admit(request)
        found = await tried(lambda: listed(console.deployment, verb=verb, actor=actor, most=ACTIONS_SHOWN))
        return console.page(
            request, "console/audit.html", session,
            actions=found.value or [], problem=found.problem, verb=verb, actor=actor,
        )  # fmt: skip


@dataclass(frozen=True)
class Tried(Generic[T]):
    value: T | None
    problem: HeadwaterError | None = None


async def tried(what: Callable[[], T]) -> Tried[T]:
    """A server that is away is told on the page, and the rest of the page is there."""
    try:
        return Tried(await asyncio.to_thread(what))
    except HeadwaterError as error:
        return Tried(None, error)
