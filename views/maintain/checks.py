"""Comparisons, one after the other: each reads every row, and the machine is for those who read. One that nobody waits
for any more is stopped, so that it keeps nobody else waiting.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from views.rebuild import Checked


@dataclass(frozen=True)
class _Asked:
    what: str
    stop: threading.Event
    future: Future[Checked]


class Checks:
    """By name. Not shared between threads."""

    def __init__(self) -> None:
        self._asked: dict[str, _Asked] = {}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="check")

    def ended(self, name: str, what: str, compare: Callable[[threading.Event], Checked]) -> Future[Checked] | None:
        """None while it is compared: it was asked for before, or is from now on. `compare` is to end soon once its
        event is set."""
        if name not in self._asked:
            stop = threading.Event()
            self._asked[name] = _Asked(what, stop, self._pool.submit(compare, stop))
            return None
        return self._asked.pop(name).future if self._asked[name].future.done() else None

    def before(self, name: str) -> str:
        """What is compared while this one waits for its turn; empty when it does not."""
        asked = self._asked.get(name)
        if asked is None or asked.future.running() or asked.future.done():
            return ""
        return next((each.what for each in self._asked.values() if each.future.running()), "")

    def only(self, names: Collection[str]) -> None:
        """All others are stopped, and forgotten."""
        for name in self._asked.keys() - set(names):
            asked = self._asked.pop(name)
            asked.stop.set()
            asked.future.cancel()

    def close(self) -> None:
        """Waits for nobody."""
        self.only(())
        self._pool.shutdown(wait=False, cancel_futures=True)
