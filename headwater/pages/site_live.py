"""An open inbox: news as they are recorded, as server-sent events that can be resumed.

An event's id is the news' number: who comes back with Last-Event-ID misses nothing and gets nothing twice. What wakes a
listener is the owner's newest number, asked for all who listen by one question.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import Final

import msgspec
import psycopg

from alerts import inbox
from alerts.inbox import News
from cdc.addresses import PostgresAddress
from cdc.errors import HeadwaterError
from cdc.postgres import connect
from headwater.api.problems import TooMany

LISTENERS_MAX: Final = 1_000
OWNER_LISTENERS_MAX: Final = 10
LOOK_S: Final = 0.4
AGAIN_S: Final = 2.0
QUIET_S: Final = 15.0
"""A comment after so long keeps proxies from closing the connection."""
NEWS_MAX: Final = 100

Shown = Callable[[Sequence[News]], list[str]]
"""Each as a part of the page."""


class Watching:
    """All open inboxes of this process, and the one task that looks for them. One event loop."""

    def __init__(self, postgres: PostgresAddress, stopping: threading.Event) -> None:
        self._postgres, self._stopping = postgres, stopping
        self._listeners: dict[str, set[asyncio.Event]] = {}
        self._seen: dict[str, int] = {}
        self._looking: asyncio.Task[None] | None = None
        self._conn: psycopg.Connection | None = None

    async def events(self, owner: str, after: int, shown: Shown) -> AsyncGenerator[bytes, None]:
        """Until the server stops. Raises TooMany before the first."""
        woken = self._enter(owner)
        try:
            yield b"retry: 1000\n\n"
            while not self._stopping.is_set():
                woken.clear()  # before the look: what comes during it is looked for again
                news = await asyncio.to_thread(self._read, owner, after)
                if news:
                    after = news[-1].sequence
                    parts = await asyncio.to_thread(shown, news)
                    yield b"".join(_event(each, html) for each, html in zip(news, parts, strict=True))
                elif not await _woken(woken):
                    yield b": nothing new\n\n"
        finally:
            self._leave(owner, woken)

    def _read(self, owner: str, after: int) -> list[News]:
        with connect(self._postgres) as conn:
            return inbox.after(conn, owner, after, NEWS_MAX)

    def _enter(self, owner: str) -> asyncio.Event:
        mine = len(self._listeners.get(owner, ()))
        if mine >= OWNER_LISTENERS_MAX or sum(map(len, self._listeners.values())) >= LISTENERS_MAX:
            raise TooMany("too many inboxes are open", hint="close one")
        woken = asyncio.Event()
        self._listeners.setdefault(owner, set()).add(woken)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())
        return woken

    def _leave(self, owner: str, woken: asyncio.Event) -> None:
        self._listeners[owner].discard(woken)
        if not self._listeners[owner]:
            del self._listeners[owner]
            self._seen.pop(owner, None)

    async def _look(self) -> None:
        """While somebody listens; what fails is begun again."""
        while self._listeners and not self._stopping.is_set():
            try:
                found = await asyncio.to_thread(self._last, list(self._listeners))
            except (HeadwaterError, psycopg.Error):
                self._conn = None
                await asyncio.sleep(AGAIN_S)
                continue
            for owner, last in found.items():
                if last > self._seen.get(owner, -1):
                    self._seen[owner] = last
                    self._wake(owner)
            await asyncio.sleep(LOOK_S)
        self._wake_all()
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _last(self, owners: list[str]) -> dict[str, int]:
        self._conn = self._conn or connect(self._postgres)
        return inbox.last_sequences(self._conn, owners)

    def _wake(self, owner: str) -> None:
        for listener in self._listeners.get(owner, ()):
            listener.set()

    def _wake_all(self) -> None:
        for owner in list(self._listeners):
            self._wake(owner)


async def _woken(woken: asyncio.Event) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(QUIET_S):
            await woken.wait()
    return woken.is_set()


def _event(news: News, html: str) -> bytes:
    """JSON has no line breaks of its own, so one `data` line is enough."""
    data = msgspec.json.encode({"sequence": news.sequence, "html": html})
    return b"id: %d\nevent: news\ndata: %b\n\n" % (news.sequence, data)
