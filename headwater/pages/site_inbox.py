"""`/inbox`: what somebody was told, newest first; `/inbox/live` what comes while the page is open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Header, Request, Response

from alerts.inbox import News
from headwater.api.alerts_feed_routes import sequence_of
from headwater.api.streams import begun
from headwater.pages.rendering import environment, page
from headwater.pages.site_cards import Card, Changes, Dresser
from headwater.pages.site_words import EVENTS, ago_text, view_label
from search.index import decode_row

if TYPE_CHECKING:
    from headwater.pages.site import Site
    from headwater.pages.site_visitors import Visitor

NEWS: Final = 30
STREAM_S_MAX: Final = 3_600.0
"""Then the browser asks again, and its cookie is looked at anew."""
EVER: Final = 2**62
_KINDS: Final = {"entered": "info", "dropped": "ok", "rose": "warn", "changed": "plain", "left": "plain"}


def add_routes(routes: APIRouter, site: Site) -> None:
    @routes.get("/inbox")
    async def inbox(request: Request, before: int = EVER) -> Response:
        visitor = await site.visitor(request)
        found = await asyncio.to_thread(site.searches.newest, visitor.owner, before, NEWS + 1)
        shown = await asyncio.to_thread(news_shown, site, found[:NEWS], visitor)
        values: dict[str, Any] = {
            "news": shown,
            "last": found[0].sequence if found and before == EVER else 0,
            "is_live": before == EVER,
            "older": f"inbox?before={found[NEWS - 1].sequence}" if len(found) > NEWS else "",
            "searches": len(await asyncio.to_thread(site.searches.listed, visitor.owner)),
        }
        return page(request, "site/inbox.html", visitor=visitor, **values)

    @routes.get("/inbox/live")
    async def live(
        request: Request,
        after: str = "0",
        last_event_id: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
    ) -> Response:
        visitor = await site.visitor(request)

        def parts(news: Sequence[News]) -> list[str]:
            template = environment().get_template("site/news.html")
            return [
                template.render(news=shown, visitor=visitor, root="", is_fresh=True)
                for shown in news_shown(site, news, visitor)
            ]

        events = site.watching.events(visitor.owner, sequence_of(last_event_id or after), parts)
        until = time.monotonic() + STREAM_S_MAX

        async def admits() -> bool:
            return time.monotonic() < until and datetime.now(UTC) < visitor.session.expires_at

        return await begun(events, admits)


def news_shown(site: Site, found: Sequence[News], visitor: Visitor) -> list[dict[str, Any]]:
    """As the page's template takes them. A view that is gone is told by its keys."""
    now, dressers = datetime.now(UTC), dict[str, Dresser | None]()
    allowed = site.visitors.views(visitor)
    made = []
    for news in found:
        if news.view not in dressers:
            dressers[news.view] = _dresser(site, news.view, now)
        made.append(_news(news, dressers[news.view], now) | {"is_searched": news.view in allowed})
    return made


def _dresser(site: Site, view: str, now: datetime) -> Dresser | None:
    found = site.layout(view)
    return Dresser(*found, site.visitors.currency(), now) if found else None


def _dressed(news: News, dresser: Dresser | None) -> tuple[Card | None, Changes]:
    """Neither of a row of the view as it was, which the view as it is cannot read: it is told by its key."""
    if dresser is None:
        return None, ()
    try:
        before, after = (
            None if row is None else decode_row(dresser.definition, row) for row in (news.before, news.after)
        )
        row = after or before
        return dresser.card(row) if row else None, dresser.changes(before, after)
    except (msgspec.ValidationError, TypeError, ValueError):  # a price that was "on request", a place that was a text
        return None, ()


def _news(news: News, dresser: Dresser | None, now: datetime) -> dict[str, Any]:
    card, changes = _dressed(news, dresser)
    return {
        "sequence": news.sequence,
        "search_id": news.subscription_id,
        "search_label": news.label or f"Saved search {news.subscription_id}",
        "view_label": view_label(news.view),
        "event": EVENTS.get(news.event, news.event),
        "kind": _KINDS.get(news.event, "plain"),
        "card": card,
        "name": card.name if card else news.key,
        "changes": changes[:4] if news.event != "entered" else (),
        "reason": news.reason,
        "at": news.recorded_at,
        "ago": ago_text(news.recorded_at, now),
    }
