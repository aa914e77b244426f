"""What an epoch brought, on its way to a place. Never blocks who puts, and never holds more than its limit.

Beyond it the changes are let go and only the newest mark is kept: they are read from the topic instead.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple

from views.sinks.sink import Change, Mark


class Delivery(NamedTuple):
    mark: Mark
    after: int
    """Who includes everything before this offset may take the changes; who does not has to read the topic."""
    changes: list[Change] | None
    """None: they are in the topic only."""


class Inbox:
    def __init__(self, rows_max: int, deliveries_max: int) -> None:
        self._rows_max, self._deliveries_max = rows_max, deliveries_max
        self._held: deque[Delivery] = deque()
        self._rows = 0
        self._changed = threading.Condition()

    def put(self, delivery: Delivery) -> None:
        with self._changed:
            self._held.append(delivery)
            self._rows += len(delivery.changes or ())
            if self._rows > self._rows_max or len(self._held) > self._deliveries_max:
                self._let_go()
            self._changed.notify_all()

    def take(self, timeout_s: float) -> Delivery | None:
        """The oldest; None if none arrives in time."""
        with self._changed:
            if not self._held:
                self._changed.wait(timeout_s)
            if not self._held:
                return None
            found = self._held.popleft()
            self._rows -= len(found.changes or ())
            return found

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    @property
    def waiting(self) -> int:
        return len(self._held)

    def _let_go(self) -> None:
        newest = self._held[-1]
        self._held.clear()
        self._held.append(Delivery(newest.mark, newest.mark.next_offset, None))
        self._rows = 0
