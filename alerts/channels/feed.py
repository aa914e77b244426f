"""The web feed: wakes those who listen. What they get comes out of the owner's inbox, never from here.

An owner's inbox is the durable list of notifications by sequence. Somebody who listens reads it after the last
sequence they have, then waits to be woken, then reads on: a wake that is missed costs time, never news. A wake from
another process may be lost on its way, so the inbox is looked at from time to time anyway.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from alerts.channels.channel import Delivered, Outcome, Target
from alerts.notification import Notification
from alerts.notification_json import payload

NAME: Final = "feed"
LISTENERS_MAX: Final = 1_000
OWNER_LISTENERS_MAX: Final = 10
LOOK_S: Final = 5.0
"""How often to look without being woken; each time a comment keeps the connection alive."""

Read = Callable[[str, int], Awaitable[Sequence[Notification]]]
"""The owner's notifications after a sequence, in order, some at a time: an empty answer is the end for now."""


class Waker(Protocol):
    """The hub of this process, or what reaches those of others."""

    def wake_from_thread(self, owner: str) -> None: ...


class TooManyListeners(Exception):
    """As many as there may be listen already."""


@dataclass(slots=True)
class FeedHub:
    """All listeners of this process. One event loop; other threads wake through `wake_from_thread`."""

    read: Read
    look_s: float = LOOK_S
    is_closed: bool = False
    _listeners: dict[str, set[asyncio.Event]] = field(default_factory=dict)
    _loops: Counter[asyncio.AbstractEventLoop] = field(default_factory=Counter)

    @property
    def listeners(self) -> int:
        return sum(map(len, self._listeners.values()))

    def wake(self, owner: str) -> None:
        for listener in self._listeners.get(owner, ()):
            listener.set()

    def wake_from_thread(self, owner: str) -> None:
        self._call_soon(lambda: self.wake(owner))

    def close_from_thread(self) -> None:
        """Ends every feed: listeners come back with their Last-Event-ID."""
        self.is_closed = True
        self._call_soon(self._wake_all)

    def _wake_all(self) -> None:
        for owner in self._listeners:
            self.wake(owner)

    def _call_soon(self, do: Callable[[], object]) -> None:
        for loop in list(self._loops):
            with suppress(RuntimeError):  # it was closed meanwhile
                loop.call_soon_threadsafe(do)

    async def events(self, owner: str, after: int) -> AsyncGenerator[bytes, None]:
        """Server-sent events until the hub is closed; raises TooManyListeners before the first. `after` is the
        Last-Event-ID, or 0."""
        woken = self._enter(owner)
        try:
            yield b"retry: 1000\n\n"
            while not self.is_closed:
                woken.clear()  # before the look: what comes during it is looked for again
                for notification in await self.read(owner, after):
                    after = notification.sequence
                    woken.set()  # there may be more behind these
                    yield event(notification)
                if not woken.is_set() and not await self._woken(woken):
                    yield b": nothing new\n\n"
        finally:
            self._leave(owner, woken)

    async def _woken(self, woken: asyncio.Event) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(self.look_s):
                await woken.wait()
        return woken.is_set()

    def _enter(self, owner: str) -> asyncio.Event:
        if self.listeners >= LISTENERS_MAX or len(self._listeners.get(owner, ())) >= OWNER_LISTENERS_MAX:
            raise TooManyListeners
        woken = asyncio.Event()
        self._listeners.setdefault(owner, set()).add(woken)
        self._loops[asyncio.get_running_loop()] += 1
        return woken

    def _leave(self, owner: str, woken: asyncio.Event) -> None:
        self._listeners[owner].discard(woken)
        if not self._listeners[owner]:
            del self._listeners[owner]
        loop = asyncio.get_running_loop()
        self._loops[loop] -= 1
        self._loops += Counter()  # forgets those at zero


def event(notification: Notification) -> bytes:
    """JSON has no line breaks of its own, so one `data` line is enough."""
    return b"id: %d\nevent: notification\ndata: %b\n\n" % (notification.sequence, payload(notification))


@dataclass(frozen=True, slots=True)
class Feed:
    """As a channel: the inbox has it already, so there is nothing that could fail."""

    waker: Waker

    @property
    def name(self) -> str:
        return NAME

    def check(self, target: Target) -> None:
        """Every owner has an inbox."""

    async def deliver(self, notification: Notification, target: Target) -> Outcome:
        self.waker.wake_from_thread(notification.owner)
        return Delivered()

    async def close(self) -> None:
        """Nothing is open."""
