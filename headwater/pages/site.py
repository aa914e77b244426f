"""The pages for people who search: what their routes share, and the list of them.

    /search/{view}  ─▶ narrow ─▶ save with a preview ─▶ /alerts ─▶ /inbox, live

Server-rendered; without JavaScript there is no map, and an inbox has to be loaded again to show what is new.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI, Request

from cdc.errors import HeadwaterError
from headwater.api.search_routes import Engines
from headwater.pages.forms import Form, read_form
from headwater.pages.page_route import PageRoute
from headwater.pages.site_layout import Layout, Profile, layout
from headwater.pages.site_live import Watching
from headwater.pages.site_profile import Known, Profiles
from headwater.pages.site_visitors import Visitor, Visitors
from search.engine import SearchEngine
from search.index import IndexDefinition, define
from views.maintain.registry import Registry

if TYPE_CHECKING:
    from headwater.api.reading import Reading


class Site:
    def __init__(self, reading: Reading) -> None:
        self.reading, self.searches = reading, reading.searches
        self.visitors, self.profiles = Visitors(reading), Profiles()
        self.watching = Watching(reading.deployment.postgres, reading.stopping)
        self._engines = Engines(reading)

    async def visitor(self, request: Request) -> Visitor:
        """Who looks. Raises Unauthorized, and TooMany."""
        self.reading.admit_anybody(request)
        return await asyncio.to_thread(self.visitors.of, request)

    async def posted(self, request: Request) -> tuple[Visitor, Form]:
        """Who posts, and what. Raises also for a form that is not one of our pages'."""
        visitor = await self.visitor(request)
        form = await read_form(request)
        self.visitors.require_token(visitor, form)
        return visitor, form

    def view(self, visitor: Visitor, view: str) -> tuple[SearchEngine, Known]:
        """A view that they may search. Asks the index: to be called in a thread. Raises NotFound."""
        self.visitors.require_view(visitor, view)
        engine = self._engines.engine(view)
        return engine, self.profiles.of(engine)

    def layout(self, view: str) -> tuple[IndexDefinition, Layout] | None:
        """Of any view that somebody was told of; None for one that is gone. May ask the index."""
        try:
            if self.reading.shapes.has(view, "search"):
                known = self.profiles.of(self._engines.engine(view))
                return known.definition, known.layout
            definition = define(self.reading.shapes.shape(view))
        except HeadwaterError:
            return None
        return definition, layout(definition, Profile())

    def is_building(self, visitor: Visitor, view: str) -> bool:
        """Whether it is wanted, and theirs to see, but cannot be searched yet."""
        wanted = Registry(self.reading.deployment.settings.views_state).wanted().views
        if view not in wanted or (visitor.session.views and view not in visitor.session.views):
            return False
        status = self.reading.board.status(view, "search")
        return view not in self.reading.shapes.names() or status is None or status.mark is None

    def has_alerts(self, view: str) -> bool:
        return self.reading.shapes.has(view, "alerts")


def register(app: FastAPI, reading: Reading) -> None:
    from headwater.pages import site_alerts, site_inbox, site_saving, site_search, site_signing

    site = Site(reading)
    app.include_router(site_signing.api(site))
    pages = APIRouter(route_class=PageRoute, include_in_schema=False)
    for module in (site_search, site_saving, site_alerts, site_inbox, site_signing):
        module.add_routes(pages, site)
    app.include_router(pages)
