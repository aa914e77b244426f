"""What the routes share: the views' shapes, the board, the cache's connections, who may ask and how often."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from fastapi import FastAPI, Request

from alerts.channels.feed import FeedHub
from alerts.inbox import notifications
from alerts.notification import Notification
from cdc.addresses import KafkaAddress, Source
from cdc.errors import HeadwaterError
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
from headwater.api.owners import HEADER, header_text, owner_for
from headwater.api.problems import Forbidden, Unauthorized
from headwater.api.shapes import Shapes
from headwater.api.shared_secret import shared_secret
from headwater.api.slow_questions import SlowQuestions
from headwater.api.view_feed import Feeds
from headwater.deployment import Deployment
from headwater.saved_searches import SavedSearches
from views.maintain.registry import Registry
from views.sinks.cache_reads import CacheReads

NEWS_PER_READ: Final = 100
NEWS_READERS_MAX: Final = 4
"""Threads for all feeds of news: each looks every few seconds, and requests do not wait behind a thousand of them."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass
class Reading:
    deployment: Deployment
    stopping: threading.Event = field(default_factory=threading.Event)

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
        self.slow = SlowQuestions()
        self._news_readers = ThreadPoolExecutor(NEWS_READERS_MAX, "news")
        self.feeds = Feeds(self.kafka)
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

    async def admits(self, request: Request, scope: str) -> bool:
        """Whether who was admitted still may, for what goes on after that. Not counted. While the database is away
        nobody can be shut out there, and who listens is not cut off."""
        authorization = request.headers.get("Authorization")
        try:
            if self.access.known(authorization, scope) is None:
                await asyncio.to_thread(self.access.caller, authorization, scope)
        except (Unauthorized, Forbidden):
            return False
        except HeadwaterError:
            return True
        return True

    async def admit_owner(self, request: Request) -> str:
        """Whose saved searches the request is about. Raises when the caller may not act for them."""
        await self.admit(request, "alerts")
        key = await asyncio.to_thread(self.access.key, request.headers.get("Authorization"), "alerts")
        return owner_for(key, header_text(request.headers.get(HEADER, ""), HEADER))

    def admit_anybody(self, request: Request) -> None:
        """For what needs no key: counted by address."""
        self._limit.take(request.client.host if request.client else "")

    def register(self, app: FastAPI) -> None:
        problems.register(app)
        app.include_router(feed_routes.router(self))
        app.include_router(
            alerts_feed_routes.router(self.hub, self.admit_owner, lambda request: self.admits(request, "alerts"))
        )
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

        return await asyncio.get_running_loop().run_in_executor(self._news_readers, read)

    def start(self) -> None:
        self.board.start()
        self._listening.start()

    def stop(self) -> None:
        self.stopping.set()
        self.board.stop()
        self.feeds.close()
        self._listening.stop()
        self.hub.close_from_thread()
        self._news_readers.shutdown(wait=False)
        self.slow.close()
