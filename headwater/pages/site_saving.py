"""`/search/{view}/save`: a search as it is chosen, what it would tell, and the form that saves it (`POST /alerts`)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request, Response

from cdc.errors import ConfigurationError, HeadwaterError
from headwater.api.problems import status_of
from headwater.pages.forms import Form
from headwater.pages.rendering import page, see_other
from headwater.pages.site_chips import chips, suggested_label
from headwater.pages.site_narrowing import of_params, of_query, query_of
from headwater.pages.site_options import asked, column_choices, of_form, unit_labels
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
        form = Form([])
        shown = await site.reading.slow.ask(lambda: _asked(site, visitor, view, params, form))
        template = "site/save_form.html" if part else "site/save.html"
        return page(request, template, visitor=visitor, error=None, form=form, is_part=part, **shown)

    @routes.post("/alerts")
    async def save(request: Request) -> Response:
        visitor, form = await site.posted(request)
        view = form.value("view")
        site.visitors.require_view(visitor, view)
        try:
            made = await asyncio.to_thread(site.searches.create, visitor.owner, wish(form))
        except HeadwaterError as error:
            params = [("q", form.value("query"))]
            shown = await site.reading.slow.ask(lambda: _asked(site, visitor, view, params, form))
            status = status_of(error)
            values = {"visitor": visitor, "error": error, "form": form, "is_part": False, **shown}
            return page(request, "site/save.html", status, **values)
        is_signed = made.wish.channel == "webhook"  # on its own page they get the secret
        return see_other(request, f"alerts/{made.id}?saved=true" if is_signed else f"alerts?saved={made.id}")


def wish(form: Form) -> dict[str, Any]:
    """What the form asks for, in the fields of a saved search; what is empty is left out."""
    events = [event for event in form.values("events") if event] or ["entered"]
    email, webhook = form.value("email").strip(), form.value("webhook").strip()
    if email and webhook:
        raise ConfigurationError("a saved search is told by e-mail or by webhook", detail="Choose one: save another.")
    given = {
        "view": form.value("view"),
        "query": form.value("query"),
        "label": form.value("label").strip(),
        "events": events,
        "frequency": form.value("frequency", "instant"),
        "time_zone": form.value("time_zone").strip(),
        "channel": "email" if email else "webhook" if webhook else None,
        "target": email or webhook,
        **asked(form, events),
    }
    return {name: value for name, value in given.items() if value or name in ("view", "query", "label", "reenter_s")}


def _asked(site: Site, visitor: Visitor, view: str, params: list[tuple[str, str]], form: Form) -> dict[str, Any]:
    engine, known = site.view(visitor, view)
    currency, definition = site.visitors.currency(), engine.definition
    narrowing = of_params(params, definition)
    query = query_of(narrowing, definition)
    narrowing, text = of_query(query, definition), to_text(query, definition)
    watched = known.layout.headline
    events = [event for event in EVENTS if event != "dropped" or watched]
    tried: dict[str, Any] = {"view": view, "query": text, "events": events}
    tried |= {"watched_column": watched} if watched else {}
    preview = site.searches.preview(tried, PREVIEW_DAYS, each_alone=True)
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
        "options": of_form(form),
        "expires_was": "",
        "column_choices": column_choices(definition),
        "watched_label": column_label(watched) if watched else "",
        "units": unit_labels(watched, currency),
        "offers_webhook": True,
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
