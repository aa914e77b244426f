"""`/search`: what can be searched; `/search/{view}`: a page of it; its points on the map."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
from fastapi import APIRouter, Request, Response

from headwater.api.freshness import Freshness
from headwater.pages.rendering import page, see_other
from headwater.pages.site_cards import Dresser
from headwater.pages.site_narrowing import SORT, Narrowing, of_params, query_of
from headwater.pages.site_results import Results, results
from headwater.pages.site_words import ago_text, column_label, view_label
from search.errors import CursorExpired, CursorRefused, QueryRefused
from search.index import decode_row

if TYPE_CHECKING:
    from headwater.pages.site import Site
    from headwater.pages.site_visitors import Visitor

POINTS_MAX: Final = 500
NOT_YET: Final = 503
SEARCH: Final = "search"
NOT_KEPT: Final = {"Cache-Control": "no-store"}


def add_routes(routes: APIRouter, site: Site) -> None:
    @routes.get("/search")
    async def views(request: Request) -> Response:
        visitor = await site.visitor(request)
        found = await asyncio.to_thread(_views, site, visitor)
        return page(request, "site/views.html", visitor=visitor, views=found)

    @routes.get("/search/{view}")
    async def search(request: Request, view: str, cursor: str = "") -> Response:
        visitor = await site.visitor(request)
        params = list(request.query_params.multi_items())
        if await asyncio.to_thread(site.is_building, visitor, view):
            return page(request, "site/building.html", NOT_YET, visitor=visitor, label=view_label(view))
        try:
            shown = await asyncio.to_thread(_searched, site, visitor, view, params, cursor)
        except (CursorExpired, CursorRefused):
            return see_other(request, f"search/{view}{Narrowing().address(*_without_cursor(params))}")
        return page(request, "site/search.html", visitor=visitor, **shown)

    @routes.get("/search/{view}/points")
    async def points(request: Request, view: str) -> Response:
        visitor = await site.visitor(request)
        params = list(request.query_params.multi_items())
        found = await asyncio.to_thread(_points, site, visitor, view, params)
        return Response(msgspec.json.encode(found), media_type="application/json", headers=NOT_KEPT)


def _without_cursor(params: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in params if name != "cursor"]


def _views(site: Site, visitor: Visitor) -> list[dict[str, Any]]:
    made = []
    for name in site.visitors.views(visitor):
        if site.is_building(visitor, name):
            continue
        engine, known = site.view(visitor, name)
        columns = [column_label(each) for each in (*known.layout.facets, *known.layout.ranges)][:6]
        made.append(
            {
                "name": name,
                "label": view_label(name),
                "count": engine.count(),
                "columns": columns,
                "has_map": engine.definition.geo is not None,
                "has_alerts": site.has_alerts(name),
            }
        )
    return sorted(made, key=lambda view: (not view["has_alerts"], not view["has_map"], view["name"]))


def _searched(site: Site, visitor: Visitor, view: str, params: list[tuple[str, str]], cursor: str) -> dict[str, Any]:
    engine, known = site.view(visitor, view)
    refusal: QueryRefused | None = None
    try:
        found = results(engine, known, of_params(params, engine.definition), cursor, site.visitors.currency())
    except QueryRefused as error:  # everything, beside what is wrong with the words
        refusal = error
        found = results(engine, known, Narrowing(), "", site.visitors.currency())
    return {
        "view": view,
        "label": view_label(view),
        "found": found,
        "words": dict(params).get("q", "") if refusal else found.narrowing.words,
        "refusal": refusal,
        "hidden": _hidden(found),
        "has_map": engine.definition.geo is not None,
        "can_save": site.has_alerts(view) and refusal is None,
        "fresh": _fresh(site, view),
    }


def _hidden(found: Results) -> list[tuple[str, str]]:
    """What the form of words and ranges has to send along: the choices that are links, the map, the order."""
    return [(n, v) for n, v in found.narrowing.params() if n.startswith("is.") or n in ("box", SORT)]


def _fresh(site: Site, view: str) -> str:
    """How old the last commit is that the answer includes."""
    status = site.reading.board.status(view, SEARCH)
    at = Freshness.of(status).committed_at if status else None
    return ago_text(datetime.fromisoformat(at), datetime.now(UTC)) if at else ""


def _points(site: Site, visitor: Visitor, view: str, params: list[tuple[str, str]]) -> dict[str, Any]:
    """Latitude, longitude, key, title, number, the number in short; some of them, where there are many."""
    engine, known = site.view(visitor, view)
    query = query_of(of_params(params, engine.definition), engine.definition)
    found = engine.search(query, size=POINTS_MAX, pages=False)
    dresser = Dresser(engine.definition, known.layout, site.visitors.currency(), datetime.now(UTC))
    made = []
    for hit in found.hits:
        row = decode_row(engine.definition, hit.row)
        card = dresser.card(row)
        if card.point is not None:
            made.append([card.point.lat, card.point.lon, card.key, card.name, card.headline, dresser.mark(row)])
    return {"total": found.total, "points": made}
