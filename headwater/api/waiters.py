"""Who waits for what another thread will know: each on its event loop, without a thread meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

Holds = Callable[[], bool]
"""Asked on the event loop and on the threads that wake, so it must be quick and must not block."""


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    holds: Holds
    loop: asyncio.AbstractEventLoop
    woken: asyncio.Event = field(default_factory=asyncio.Event)


class Waiters:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: set[_Waiter] = set()
        self._is_closed = False
        self.somebody = threading.Event()
        """Set as long as anybody waits."""

    async def until(self, holds: Holds, timeout_s: float) -> bool:
        """Whether it holds: as soon as it does, when the time is over, or when all are let go."""
        waiter = _Waiter(holds, asyncio.get_running_loop())
        self._enter(waiter)  # before the first look: what changes after it wakes
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    while not holds() and not self._is_closed:
                        await waiter.woken.wait()
                        waiter.woken.clear()
        finally:
            self._leave(waiter)
        return holds()

    def wake(self) -> None:
        """To be called from any thread after something has changed: wakes those for whom it holds now."""
        with self._lock:
            woken = [waiter for waiter in self._waiting if self._is_closed or waiter.holds()]
        for waiter in woken:
            with suppress(RuntimeError):  # its loop was closed meanwhile
                waiter.loop.call_soon_threadsafe(waiter.woken.set)

    def close(self) -> None:
        """Lets all go, also those who come later."""
        self._is_closed = True
        self.wake()

    def _enter(self, waiter: _Waiter) -> None:
        with self._lock:
            self._waiting.add(waiter)
            self.somebody.set()

    def _leave(self, waiter: _Waiter) -> None:
        with self._lock:
            self._waiting.discard(waiter)
            if not self._waiting:
                self.somebody.clear()
