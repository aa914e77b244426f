"""Questions that take seconds of a processor (a preview looks through many versions of rows, an explanation through the
history of one): some at a time, on threads of their own. Searches, saves and clicks on links never wait behind them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from headwater.api.problems import TooMany

THREADS: Final = 2
WAITING_MAX: Final = 8
RETRY_AFTER_S: Final = 3.0
T = TypeVar("T")


class SlowQuestions:
    def __init__(self, threads: int = THREADS, waiting_max: int = WAITING_MAX) -> None:
        self._threads, self._most = ThreadPoolExecutor(threads, "slow"), threads + waiting_max
        self._asked, self._lock = 0, threading.Lock()

    async def ask(self, question: Callable[[], T]) -> T:
        """Raises TooMany where others have to be answered first."""
        with self._lock:
            if self._asked >= self._most:
                error = TooMany(
                    "too many previews and explanations at once",
                    detail=f"{self._asked} are being answered",
                    hint="wait as Retry-After says",
                )
                error.retry_after_s = RETRY_AFTER_S
                raise error
            self._asked += 1
        answering = self._threads.submit(question)
        answering.add_done_callback(self._answered)
        return await asyncio.wrap_future(answering)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _answered(self, _future: object) -> None:
        with self._lock:
            self._asked -= 1
