"""What the plots show: a point a look, the last minutes of them, kept by the process that serves the console.

Points are numbered. Who comes back says the last number they have seen, and gets what came after it.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from headwater.pages.path_picture import PLACES, published_ms, readable_ms
from headwater.status import Status

POINTS_MAX: Final = 900
LOOK_S: Final = 0.5
RATE_LOOKS: Final = 15
"""Over so many a sink's rate is told: the warehouse is written now and then."""

Point = dict[str, float | None]


class Trail:
    def __init__(self, status: Callable[[], Status | None], stop: threading.Event) -> None:
        self._status, self._stop = status, stop
        self._points: deque[tuple[int, Point]] = deque(maxlen=POINTS_MAX)
        self._newest = 0
        self._last: Status | None = None
        self._reached: deque[tuple[float, dict[str, int]]] = deque(maxlen=RATE_LOOKS)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.run = secrets.token_hex(4)
        """Of this process: numbers of another one mean nothing."""

    def start(self) -> None:
        """With the first viewer."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._follow, name="trail", daemon=True)
                self._thread.start()

    def look(self) -> None:
        """One point for each look of the watch, however often this is asked."""
        status = self._status()
        if status is None or (self._last is not None and status.at == self._last.at):
            return
        with self._lock:
            self._newest += 1
            self._reached.append((status.at.timestamp(), reached(status)))
            self._points.append((self._newest, point(status, self._last, self._rates())))
            self._last = status

    def since(self, number: int) -> list[tuple[int, Point]]:
        with self._lock:
            return [(each, value) for each, value in self._points if each > number]

    def rates(self) -> dict[str, float]:
        """Records a second that each sink took over the last looks; none of one that was written anew meanwhile."""
        with self._lock:
            return self._rates()

    def _rates(self) -> dict[str, float]:
        if len(self._reached) < 2:
            return {}
        (began_s, first), (now_s, last) = self._reached[0], self._reached[-1]
        moved = {sink: end - first[sink] for sink, end in last.items() if sink in first}
        return {sink: records / (now_s - began_s) for sink, records in moved.items() if records >= 0}

    def seen(self, last_event_id: str) -> int:
        """The number after which to go on; 0, which is from the oldest, for a stranger's."""
        run, _, number = last_event_id.partition("-")
        return int(number) if run == self.run and re.fullmatch("[0-9]{1,11}", number) else 0

    def _follow(self) -> None:
        while not self._stop.is_set():
            self.look()
            self._stop.wait(LOOK_S)


def point(status: Status, before: Status | None, rates: Mapping[str, float] = MappingProxyType({})) -> Point:
    """Pure: what is plotted of one look; rates are against the look before it, those of sinks are given."""
    views, slot = status.views, status.slot.state if status.slot else None
    seconds = (status.at - before.at).total_seconds() if before else 0.0
    moved = views.epochs.changes - before.views.epochs.changes if before else 0
    found: Point = {
        "at": round(status.at.timestamp() * 1000),
        "records_per_s": _rounded(status.records_per_s),
        "changes_per_s": _rounded(moved / seconds) if seconds > 0 and moved >= 0 else None,
        "log_ms": _rounded(status.log.last_commit_delay_ms if status.log else None),
        "view_ms": _rounded(published_ms(views)),
        "retained_bytes": slot.retained_bytes if slot else None,
        "lag_bytes": slot.lag_bytes if slot else None,
    }
    found |= {f"{sink}_ms": _rounded(readable_ms(views, sink)) for sink in PLACES}
    return found | {f"{sink}_per_s": _rounded(rates.get(sink)) for sink in PLACES}


def reached(status: Status) -> dict[str, int]:
    """By sink, up to where it is written, over all views."""
    found: dict[str, int] = {}
    for sink in status.views.sinks:
        found[sink.sink] = found.get(sink.sink, 0) + sink.next_offset
    return found


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(max(0.0, number), 1)
