"""The HTTP server of `headwater serve`: the API, the pages, the status as JSON, health for probes, metrics."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

import uvicorn

from cdc.errors import ConfigurationError, StackError
from headwater.api.reading import Reading
from headwater.deployment import Deployment
from headwater.http.app import make_app
from headwater.settings import HttpSettings
from headwater.stack.state import port_is_free
from headwater.status import Status

REQUESTS_MAX: Final = 16
"""Requests that ask a database or the search server at once. What waits for something else has threads of its own
(api/view_feed.py, pages/console.py), or none (api/waiters.py)."""
START_S_MAX: Final = 10.0
START_POLL_S: Final = 0.02
STOP_S_MAX: Final = 5.0


def require_port(wanted: HttpSettings) -> None:
    """Raises when somebody else listens there. To be asked before anything is started: a start takes a while."""
    if wanted.host in ("127.0.0.1", "localhost") and not port_is_free(wanted.port):
        raise ConfigurationError(
            f"port {wanted.port} is taken",
            detail="the page and the metrics need it",
            hint="set HEADWATER_HTTP__PORT to a free one",
        )


class _Server(uvicorn.Server):
    """With threads enough for what blocks: asyncio's default, six on two processors, is made for computing."""

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(REQUESTS_MAX, "request"))
        await super().serve(sockets)


class PageServer:
    """Serves the status that it was last given, by `headwater serve`; asking it costs the servers nothing."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.status: Status | None = None
        self.stopping = threading.Event()
        self.reading = Reading(deployment, self.stopping)
        wanted = deployment.settings.http
        self._host, self._port = wanted.host, wanted.port
        self.url = wanted.url

    @contextmanager
    def running(self) -> Iterator[PageServer]:
        require_port(self.deployment.settings.http)
        config = uvicorn.Config(
            make_app(self), host=self._host, port=self._port, log_level="warning", access_log=False, lifespan="off"
        )
        server = _Server(config)
        thread = threading.Thread(target=server.run, name="http", daemon=True)
        thread.start()
        deadline = time.monotonic() + START_S_MAX
        while not server.started:
            if not thread.is_alive() or time.monotonic() > deadline:
                raise StackError(f"the page could not be served at {self.url}", hint="headwater logs api")
            time.sleep(START_POLL_S)
        self.reading.start()
        try:
            yield self
        finally:
            self.reading.stop()
            server.should_exit = True
            thread.join(STOP_S_MAX)
