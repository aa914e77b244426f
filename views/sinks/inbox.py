"""What an epoch brought, on its way to a place. Never blocks who puts, and never holds more than its limit.

Beyond it the changes are let go and only the newest mark is kept: they are read from the topic instead. What came while
somebody was busy may be taken together, so that who is slow is not slower the more there is.
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

    def plus(self, later: Delivery) -> Delivery | None:
        """The two as one; None if the later one does not go on where this one ends."""
        is_nothing = later.mark.next_offset == later.after
        if self.changes is None or (later.changes is None and not is_nothing) or later.after != self.mark.next_offset:
            return None
        if (self.mark.topic_id, self.mark.since) != (later.mark.topic_id, later.mark.since):
            return None
        return Delivery(later.mark, self.after, [*self.changes, *(later.changes or ())])


class Inbox:
    def __init__(self, rows_max: int, deliveries_max: int, *, together: bool = False) -> None:
        """`together`: what goes on from each other is taken as one."""
        self._rows_max, self._deliveries_max, self._together = rows_max, deliveries_max, together
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
            while self._together and self._held and (both := found.plus(self._held[0])) is not None:
                found = both
                self._held.popleft()
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
