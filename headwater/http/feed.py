"""The newest changes of the log, for people to watch: one follower for all viewers, bounded, started by the first."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

from cdc import envelope
from cdc.changelog import ChangeLog
from cdc.errors import HeadwaterError
from cdc.events import ChangeEvent, Op
from cdc.relations import OWN_SCHEMA
from headwater.events_log import get_log

KEPT_MAX: Final = 200
RETRY_S: Final = 2.0


class Feed:
    def __init__(self, log: ChangeLog, stop: threading.Event) -> None:
        self._log, self._stop = log, stop
        self._changes: deque[tuple[int, dict[str, object]]] = deque(maxlen=KEPT_MAX)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.newest = 0

    def since(self, number: int) -> tuple[int, list[dict[str, object]]]:
        """What came after the given number, and the number to ask with next."""
        self._start()
        with self._lock:
            return self.newest, [change for n, change in self._changes if n > number]

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._follow, name="feed", daemon=True)
                self._thread.start()

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                for record in self._log.follow(self._log.bounds()[1], self._stop):
                    entry = envelope.parse(record)
                    if isinstance(entry, ChangeEvent) and entry.table.schema != OWN_SCHEMA and entry.op != Op.READ:
                        self._add(entry)
            except HeadwaterError as error:  # the page shows the log's own finding; the feed tries again
                if self._stop.is_set():
                    return
                get_log("feed").warning("feed.interrupted", fact=error.fact, detail=error.detail)
                self._stop.wait(RETRY_S)

    def _add(self, event: ChangeEvent) -> None:
        before, after = event.before or {}, event.after or {}
        changed = [c for c in after if c in before and before[c] != after[c]] if event.before else list(after)
        change: dict[str, object] = {
            "position": str(event.position),
            "at": event.event_at.isoformat(),
            "op": event.op.value,
            "table": str(event.table),
            "key": dict(event.key or {}),
            "changed": {c: after[c] for c in changed[:6]},
        }
        with self._lock:
            self.newest += 1
            self._changes.append((self.newest, change))
