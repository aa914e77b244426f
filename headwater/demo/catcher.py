"""What the catchers share: a server on loopback that keeps the newest of what came, and tells of each."""

from __future__ import annotations

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Generic, Self, TypeVar

KEPT_MAX: Final = 1_000
LOOPBACK: Final = "127.0.0.1"
T = TypeVar("T")
_HUNG_UP: Final = (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ssl.SSLError, ValueError)


@dataclass(slots=True, kw_only=True)
class Catcher(ABC, Generic[T]):
    on_caught: Callable[[T], None] = lambda caught: None
    caught: deque[T] = field(default_factory=lambda: deque(maxlen=KEPT_MAX))
    connections: int = 0
    """Ever made."""
    port: int = 0
    _server: asyncio.Server | None = None
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def tls(self) -> ssl.SSLContext | None:
        """From the start of a connection."""
        return None

    @abstractmethod
    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Over one connection. Whoever hangs up, or speaks something else, ends it."""

    def keep(self, caught: T) -> None:
        self.caught.append(caught)
        self.on_caught(caught)

    async def start(self, port: int = 0) -> Self:
        self._server = await asyncio.start_server(self._serve, LOOPBACK, port, ssl=self.tls)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self if self._server else await self.start()

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.connections += 1
        try:
            with suppress(*_HUNG_UP):
                await self.converse(reader, writer)
        finally:
            self._open.discard(task)
            writer.close()
