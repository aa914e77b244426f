"""`/search/{view}/save`: a search as it is chosen, what it would tell, and the form that saves it (`POST /alerts`)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request, Response

from cdc.errors import HeadwaterError
from headwater.api.problems import status_of
from headwater.pages.forms import Form
from headwater.pages.rendering import page, see_other
from headwater.pages.site_chips import chips, suggested_label
from headwater.pages.site_narrowing import of_params, of_query, query_of
from headwater.pages.site_words import FREQUENCIES, column_label, view_label
from search.query_text import to_text

if TYPE_CHECKING:
    from headwater.pages.site import Site
    from headwater.pages.site_visitors import Visitor

PREVIEW_DAYS: Final = 7
EVENTS: Final = ("entered", "dropped", "changed", "left")


def add_routes(routes: APIRouter, site: Site) -> None:
    @routes.get("/search/{view}/save")
    async def ask(request: Request, view: str, part: bool = False) -> Response:
        visitor = await site.visitor(request)
        params = list(request.query_params.multi_items())
        shown = await asyncio.to_thread(_asked, site, visitor, view, params)
        template = "site/save_form.html" if part else "site/save.html"
        return page(request, template, visitor=visitor, error=None, form=Form([]), is_part=part, **shown)

    @routes.post("/alerts")
    async def save(request: Request) -> Response:
        visitor, form = await site.posted(request)
        view = form.value("view")
        site.visitors.require_view(visitor, view)
        try:
            made = await asyncio.to_thread(site.searches.create, visitor.owner, wish(form))
        except HeadwaterError as error:
            params = [("q", form.value("query"))]
            shown = await asyncio.to_thread(_asked, site, visitor, view, params)
            status = status_of(error)
            values = {"visitor": visitor, "error": error, "form": form, "is_part": False, **shown}
            return page(request, "site/save.html", status, **values)
        return see_other(request, f"alerts?saved={made.id}")


def wish(form: Form) -> dict[str, Any]:
    """What the form asks for, in the fields of a saved search; what is empty is left out."""
    events = [event for event in form.values("events") if event]
    given: dict[str, Any] = {
        "view": form.value("view"),
        "query": form.value("query"),
        "label": form.value("label").strip(),
        "events": events or ["entered"],
        "frequency": form.value("frequency", "instant"),
    }
    if zone := form.value("time_zone").strip():
        given["time_zone"] = zone
    if {"dropped", "rose"} & set(events) and form.value("watched_column"):
        given["watched_column"] = form.value("watched_column")
    if email := form.value("email").strip():
        given |= {"channel": "email", "target": email}
    return given


def _asked(site: Site, visitor: Visitor, view: str, params: list[tuple[str, str]]) -> dict[str, Any]:
    engine, known = site.view(visitor, view)
    currency, definition = site.visitors.currency(), engine.definition
    narrowing = of_params(params, definition)
    query = query_of(narrowing, definition)
    narrowing, text = of_query(query, definition), to_text(query, definition)
    watched = known.layout.headline
    events = [event for event in EVENTS if event != "dropped" or watched]
    tried: dict[str, Any] = {"view": view, "query": text, "events": events}
    preview = site.searches.preview({**tried, **({"watched_column": watched} if watched else {})}, PREVIEW_DAYS)
    return {
        "view": view,
        "label": view_label(view),
        "text": text,
        "address": narrowing.address(),
        "chips": list(chips(narrowing, definition, currency)),
        "suggested": suggested_label(narrowing, definition, currency),
        "preview": preview,
        "hits_max": site.searches.settings.hits_max,
        "events": events,
        "event_labels": event_labels(watched),
        "watched": watched,
        "frequencies": FREQUENCIES,
        "has_mail": bool(site.reading.deployment.settings.mail.host),
    }


def event_labels(watched: str) -> dict[str, str]:
    said = column_label(watched).lower() if watched else "the number"
    return {
        "entered": "Something new matches",
        "dropped": f"The {said} drops",
        "rose": f"The {said} rises",
        "changed": "Anything about a match changes",
        "left": "A match is gone, or matches no more",
    }
