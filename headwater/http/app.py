"""The routes. Values come from the watch and the log; nothing here decides."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from cdc.changelog import ChangeLog
from cdc.findings import Finding
from cdc.guardian import GuardianCollector
from headwater import __version__
from headwater.api import key_lookup
from headwater.api.streams import begun
from headwater.demo.catchers import listening
from headwater.demo.caught_file import CaughtFile
from headwater.http import astray
from headwater.http.feed import Feed
from headwater.http.hosts import KnownHosts, known_hosts
from headwater.http.metrics import StatusCollector
from headwater.pages import api_docs, front, site, static_files
from headwater.pages.console import Console
from headwater.plain import plain

if TYPE_CHECKING:
    from headwater.http.server import PageServer
    from headwater.status import Status

STREAM_INTERVAL_S: Final = 1.0
STATUS_AGE_S_MAX: Final = 30.0
"""The watch looks every second; while it starts a dead server again it does not, and what it saw before counts less."""
SERVICE_UNAVAILABLE: Final = 503

DOORS: Final = (
    front.Door(
        "search", "Search and alerts", "Find rows of a view, save the search, and be told when something matches it."
    ),
)


def make_app(server: PageServer) -> FastAPI:
    app = FastAPI(title="Headwater", version=__version__, docs_url=None, redoc_url=None)
    astray.register(app)
    server.reading.register(app)
    app.include_router(static_files.router())
    site.register(app, server.reading)
    feed = Feed(ChangeLog(server.deployment.kafka, server.deployment.source), server.stopping)
    app.include_router(front.router(DOORS))
    app.include_router(api_docs.router(app))
    Console(server, feed).register(app)
    _add_probes(app, server)
    _add_state(app, server, feed)
    _add_metrics(app, server)
    key_lookup.shorten(app, server.reading)  # last of the routes: it has to know all of them
    if not server.reading.access.is_required:
        app.add_middleware(KnownHosts, names=known_hosts(server.deployment.settings))
    return app


def _add_probes(app: FastAPI, server: PageServer) -> None:
    @app.get("/livez")
    def livez() -> dict[str, str]:
        """The process answers."""
        return {"status": "alive"}

    @app.get("/readyz")
    def readyz(response: Response) -> dict[str, object]:
        """Changes flow: 503 as long as anything fails, or nobody has looked for a while. Where keys are needed, it only
        names what there is: a probe has none, and details may hold keys of rows."""
        line = _name if server.reading.access.is_required else _line
        against = _against_ready(server.status, datetime.now(UTC), line)
        if against:
            response.status_code = SERVICE_UNAVAILABLE
        told = server.status.findings if server.status else ()
        return {"ready": not against, "findings": [*against, *(line(f) for f in told if f.level != "fail")]}


def _add_state(app: FastAPI, server: PageServer, feed: Feed) -> None:
    @app.get("/v1/status")
    async def status(request: Request) -> Response:
        """What the watch last saw; 503 before its first look."""
        await server.reading.admit(request, "read")
        if server.status is None:
            return Response(b'{"detail":"not looked yet"}', SERVICE_UNAVAILABLE, media_type="application/json")
        return Response(msgspec.json.encode(plain(server.status)), media_type="application/json")

    @app.get("/demo/caught")
    async def caught(request: Request) -> dict[str, object]:
        """What the demo's catchers caught, the newest last. They take webhooks at `webhook`, and mail to anybody."""
        await server.reading.admit(request, "admin")
        folder = server.deployment.settings.data_folder
        catchers = await asyncio.to_thread(listening, folder)
        caught = await asyncio.to_thread(CaughtFile(folder).read)
        return {"caught": caught, "webhook": catchers.webhook_url if catchers else None}

    @app.get("/v1/live")
    async def live(request: Request) -> StreamingResponse:
        """Server-sent events: `status` each second and `changes` as they come down the log, with their rows."""
        await server.reading.admit(request, "admin")
        return await begun(_events(server, feed, server.stopping), lambda: server.reading.admits(request, "admin"))


def _add_metrics(app: FastAPI, server: PageServer) -> None:
    registry = CollectorRegistry()
    guardian = GuardianCollector()
    registry.register(guardian)
    registry.register(StatusCollector(server))

    @app.get("/metrics", include_in_schema=False)
    def metrics() -> Response:
        if server.status and server.status.slot:
            guardian.record(server.deployment.source, server.status.slot)
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def _against_ready(status: Status | None, now: datetime, line: Callable[[Finding], str]) -> list[str]:
    if status is None:
        return ["not looked yet"]
    age_s = (now - status.at).total_seconds()
    stale = [f"status: last looked {age_s:.0f} s ago"] if age_s > STATUS_AGE_S_MAX else []
    return stale + [line(finding) for finding in status.findings if finding.level == "fail"]


def _name(finding: Finding) -> str:
    return finding.name


def _line(finding: Finding) -> str:
    return f"{finding.name}: {finding.detail}"


async def _events(server: PageServer, feed: Feed, stopping: threading.Event) -> AsyncGenerator[bytes, None]:
    seen = feed.newest
    while not stopping.is_set():
        yield b"event: status\ndata: " + msgspec.json.encode(plain(server.status)) + b"\n\n"
        seen, changes = feed.since(seen)
        if changes:
            yield b"event: changes\ndata: " + msgspec.json.encode(changes) + b"\n\n"
        await asyncio.sleep(STREAM_INTERVAL_S)
