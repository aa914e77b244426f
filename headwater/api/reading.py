"""What the routes share: the views' shapes, the board, the cache's connections, who may ask and how often."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from fastapi import FastAPI, Request

from alerts.channels.feed import FeedHub
from alerts.inbox import notifications
from alerts.notification import Notification
from cdc.addresses import KafkaAddress, Source
from cdc.postgres import connect, explained
from headwater.api import (
    alerts_feed_routes,
    alerts_routes,
    feed_routes,
    past_routes,
    problems,
    search_routes,
    suppressions_routes,
    unsubscribe_routes,
    views_routes,
)
from headwater.api.access import Access, KeyStore
from headwater.api.bell import Listening
from headwater.api.freshness import Board
from headwater.api.limits import RateLimit
from headwater.api.nudge import Nudge
from headwater.api.owners import HEADER, owner_for
from headwater.api.shapes import Shapes
from headwater.api.shared_secret import shared_secret
from headwater.deployment import Deployment
from headwater.saved_searches import SavedSearches
from views.maintain.registry import Registry
from views.sinks.cache_reads import CacheReads

NEWS_PER_READ: Final = 100
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass
class Reading:
    deployment: Deployment
    stopping: threading.Event = field(default_factory=threading.Event)
    feeds: int = 0

    def __post_init__(self) -> None:
        settings = self.deployment.settings
        self.source: Source = self.deployment.source
        self.kafka: KafkaAddress = self.deployment.kafka
        self.shapes = Shapes(Registry(settings.views_state), self.source)
        self.board = Board(self.kafka, self.source, Nudge(self.deployment.postgres))
        self.cache = CacheReads(self.deployment.redis)
        wanted = settings.api
        is_open = settings.http.host in LOOPBACK and wanted.keys != "required"
        self.searches = SavedSearches.of(self.deployment, self.shapes)
        self.hub = FeedHub(self._news)
        self._listening = Listening(self.deployment.postgres, self.hub)
        self.access = Access(KeyStore(self.deployment.postgres), is_required=not is_open)
        self.cursor_secret = shared_secret(settings.data_folder)
        self._limit = RateLimit(wanted.requests_per_s_max, wanted.requests_burst_max)

    async def admit(self, request: Request, scope: str) -> str:
        """Who asks. Raises when they may not, or too often. Who names no known key is counted by address."""
        authorization = request.headers.get("Authorization")
        caller = self.access.known(authorization, scope)
        self._limit.take(caller or (request.client.host if request.client else ""))
        if caller is None:
            caller = await asyncio.to_thread(self.access.caller, authorization, scope)
        return caller

    async def admit_owner(self, request: Request) -> str:
        """Whose saved searches the request is about. Raises when the caller may not act for them."""
        await self.admit(request, "alerts")
        key = await asyncio.to_thread(self.access.key, request.headers.get("Authorization"), "alerts")
        return owner_for(key, request.headers.get(HEADER, ""))

    def admit_anybody(self, request: Request) -> None:
        """For what needs no key: counted by address."""
        self._limit.take(request.client.host if request.client else "")

    def register(self, app: FastAPI) -> None:
        problems.register(app)
        app.include_router(feed_routes.router(self))
        app.include_router(alerts_feed_routes.router(self.hub, self.admit_owner))
        app.include_router(unsubscribe_routes.router(self))
        app.include_router(alerts_routes.router(self))
        app.include_router(suppressions_routes.router(self))
        app.include_router(search_routes.router(self))
        app.include_router(past_routes.router(self))
        app.include_router(views_routes.router(self))

    async def _news(self, owner: str, after: int) -> Sequence[Notification]:
        def read() -> list[Notification]:
            with connect(self.deployment.postgres) as conn, explained(conn):
                return notifications(conn, owner, after, NEWS_PER_READ)

        return await asyncio.to_thread(read)

    def start(self) -> None:
        self.board.start()
        self._listening.start()

    def stop(self) -> None:
        self.stopping.set()
        self.board.stop()
        self._listening.stop()
        self.hub.close_from_thread()
