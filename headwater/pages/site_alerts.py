"""`/alerts`: somebody's saved searches, each to be paused, let go on, changed and deleted."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request, Response

from alerts.saved_search import SavedSearch, Wish
from cdc.errors import ConfigurationError, HeadwaterError
from headwater.api.problems import status_of
from headwater.pages.forms import Form
from headwater.pages.rendering import page, see_other
from headwater.pages.site_chips import chips
from headwater.pages.site_inbox import news_shown
from headwater.pages.site_narrowing import of_query
from headwater.pages.site_options import asked, column_choices, last_day, of_wish, unit_labels
from headwater.pages.site_saving import event_labels
from headwater.pages.site_words import FREQUENCIES, STATES, ago_text, column_label, view_label
from search.index import IndexDefinition, define
from search.query_json import from_json

if TYPE_CHECKING:
    from headwater.pages.site import Site
    from headwater.pages.site_visitors import Visitor
    from headwater.saved_searches import Condition

TALLY_DAYS: Final = 7
NEWS: Final = 10
ACTIONS: Final = {"pause": {"paused": True}, "resume": {"paused": False}}
PLACES: Final = ("alerts", "inbox")
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NUMBERS: Final = ("digest_hour", "digest_weekday", "cap_per_day")


def add_routes(routes: APIRouter, site: Site) -> None:
    @routes.get("/alerts")
    async def alerts(request: Request, saved: int = 0) -> Response:
        visitor = await site.visitor(request)
        found = await asyncio.to_thread(_listed, site, visitor)
        views = await asyncio.to_thread(_views_with_alerts, site, visitor)
        values: dict[str, Any] = {"alerts": found, "saved": saved, "views": views, "frequencies": FREQUENCIES}
        return page(request, "site/alerts.html", visitor=visitor, **values)

    @routes.get("/alerts/{id_}")
    async def alert(request: Request, id_: int, saved: bool = False) -> Response:
        visitor = await site.visitor(request)
        shown = await asyncio.to_thread(_one, site, visitor, id_)
        return page(request, "site/alert.html", visitor=visitor, error=None, secret="", saved=saved, **shown)

    @routes.post("/alerts/{id_}")
    async def change(request: Request, id_: int) -> Response:
        visitor, form = await site.posted(request)
        try:
            await asyncio.to_thread(site.searches.update, visitor.owner, id_, changes(form))
        except HeadwaterError as error:
            shown = await asyncio.to_thread(_one, site, visitor, id_)
            return page(
                request,
                "site/alert.html",
                status_of(error),
                visitor=visitor,
                error=error,
                secret="",
                saved=False,
                **shown,
            )
        return see_other(request, back(form, f"alerts/{id_}"))

    @routes.post("/alerts/{id_}/delete")
    async def delete(request: Request, id_: int) -> Response:
        visitor, _ = await site.posted(request)
        await asyncio.to_thread(site.searches.remove, visitor.owner, id_)
        return see_other(request, "alerts")

    @routes.post("/alerts/{id_}/secret")
    async def rotate(request: Request, id_: int) -> Response:
        """Shown in the answer alone: no address and no cookie ever holds it."""
        visitor, _ = await site.posted(request)
        secret = await asyncio.to_thread(site.searches.rotate_secret, visitor.owner, id_)
        shown = await asyncio.to_thread(_one, site, visitor, id_)
        return page(request, "site/alert.html", visitor=visitor, error=None, secret=secret, saved=False, **shown)

    @routes.post("/alerts/{id_}/{action}")
    async def act(request: Request, id_: int, action: str) -> Response:
        visitor, form = await site.posted(request)
        if action not in ACTIONS:
            raise ConfigurationError(f"a saved search cannot {action}", hint=", ".join(ACTIONS))
        await asyncio.to_thread(site.searches.update, visitor.owner, id_, ACTIONS[action])
        return see_other(request, back(form, "alerts"))


def back(form: Form, otherwise: str) -> str:
    """The page that the form was on: one of ours, never what somebody wrote."""
    return form.value("back") if form.value("back") in PLACES else otherwise


def changes(form: Form) -> dict[str, Any]:
    """Of the fields that the form holds. A time or a cap that is empty is none."""
    given: dict[str, Any] = {}
    for name in ("label", "frequency", "time_zone"):
        if value := form.value(name).strip():
            given[name] = value
    for name in _NUMBERS:
        if (name, "") in form.items() and name == "cap_per_day":
            given[name] = None
        elif value := form.value(name).strip():
            given[name] = _number(name, value)
    if any(name == "quiet_from" for name, _ in form.items()):
        given |= {name: form.value(name).strip() or None for name in ("quiet_from", "quiet_to")}
    if form.values("events"):  # one is empty: also a form without a tick says what it wants
        events = [event for event in form.values("events") if event]
        given |= {"events": events, **asked(form, events)}
    return given


def _number(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ConfigurationError(f"{name.replace('_', ' ')} is a number")
    return int(text)


def _listed(site: Site, visitor: Visitor) -> list[dict[str, Any]]:
    now = datetime.now(UTC)
    tallies = site.searches.tallies(visitor.owner, now - timedelta(days=TALLY_DAYS))
    made = []
    searches = site.searches.listed(visitor.owner)
    conditions = site.searches.conditions(searches)
    for search in reversed(searches):
        count, last_at = tallies.get(search.id, (0, None))
        told = {"count": count, "last": ago_text(last_at, now) if last_at else "", "days": TALLY_DAYS}
        made.append(_shown(site, search, conditions[search.id], now) | told)
    return made


def _shown(site: Site, search: SavedSearch, condition: Condition, now: datetime) -> dict[str, Any]:
    (state, trouble), wish = condition, search.wish
    said, address = _said(site, search)
    return {
        "id": search.id,
        "wish": wish,
        "label": wish.label or said or view_label(wish.view),
        "said": said,
        "address": address,
        "view_label": view_label(wish.view),
        "state": state,
        "state_label": STATES[state],
        "trouble": trouble,
        "can_pause": search.silence(now) is None,
        "frequency": FREQUENCIES[wish.frequency],
        "events": [event_labels(wish.watched_column or "")[event] for event in wish.events],
        "created": ago_text(search.created_at, now),
    }


def _said(site: Site, search: SavedSearch) -> tuple[str, str]:
    """The query in words, and the search page that shows it; empty for a view that is gone or has changed."""
    definition = _definition(site, search.wish.view)
    try:
        query = from_json(search.wish.query, definition) if definition else None
    except HeadwaterError:
        query = None
    if definition is None or query is None:
        return "", ""
    narrowing = of_query(query, definition)
    parts = [chip.label for chip in chips(narrowing, definition, site.visitors.currency())]
    return " · ".join(parts) or "Everything", f"search/{search.wish.view}{narrowing.address()}"


def _definition(site: Site, view: str) -> IndexDefinition | None:
    try:
        return define(site.reading.shapes.shape(view))
    except HeadwaterError:
        return None


def _views_with_alerts(site: Site, visitor: Visitor) -> list[tuple[str, str]]:
    return [(name, view_label(name)) for name in site.visitors.views(visitor) if site.has_alerts(name)]


def _one(site: Site, visitor: Visitor, id_: int) -> dict[str, Any]:
    search, now = site.searches.read(visitor.owner, id_), datetime.now(UTC)
    known = site.layout(search.wish.view)
    watched = search.wish.watched_column or (known[1].headline if known else "")
    events = ["entered", *(["dropped", "rose"] if watched else []), "changed", "left"]
    return {
        "alert": _shown(site, search, site.searches.conditions([search])[search.id], now),
        "wish": search.wish,
        "news": news_shown(site, site.searches.news_of(visitor.owner, id_, NEWS), visitor),
        "frequencies": FREQUENCIES,
        "days": DAYS,
        "all_events": events,
        "event_labels": event_labels(watched),
        "watched": watched,
        "told_where": told_where(search.wish),
        "options": of_wish(search.wish),
        "expires_was": last_day(search.wish),
        "column_choices": column_choices(known[0] if known else None),
        "watched_label": column_label(watched) if watched else "",
        "units": unit_labels(watched, site.visitors.currency()),
        "offers_webhook": False,
    }


def told_where(wish: Wish) -> str:
    if wish.channel == "feed":
        return "in the inbox alone"
    return f"by {wish.channel} to {wish.target}" if wish.target else f"by {wish.channel}"
