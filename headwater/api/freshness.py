"""How far every sink is, followed from the board: whether an answer includes a write, and waiting until it does.

    X-Headwater-Token: an LSN after the write ─▶ wait, bounded, until the sink's mark has passed it ─▶ read

A mark passes an LSN with the first commit after it. On a quiet database that would be the next heartbeat, so who waits
asks Postgres for a commit of its own (`nudge`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from cdc.addresses import KafkaAddress, Source
from cdc.errors import HeadwaterError, LogError
from cdc.position import Lsn, Position
from cdc.reader import tail
from cdc.topics import find_state
from headwater.api.waiters import Waiters
from headwater.events_log import get_log
from views.maintain.staleness import Stale, stale_sink
from views.sinks.board import board_topic
from views.sinks.lane import SinkStatus

LISTEN_S: Final = 0.5
AGAIN_S: Final = 1.0
HEADER_MAX: Final = 500
SAME_S_MAX: Final = 30.0
"""How long a board may be another one, made anew, before it is noticed."""
NUDGE_S: Final = 0.1
"""At most one commit of our own in that time, however many wait."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """Of one sink of one view, at the moment of an answer."""

    position: str
    lsn: str
    committed_at: str | None
    """Of the last commit that is included."""
    lag_ms: float | None
    """From that commit to when the sink had it."""
    state: str
    generation: int
    incomplete: int = 0
    """Keys of which the place refused the newest row: dead letters are open."""
    stale: str | None = None
    """Why the view, or this place of it, is not what it should be; null while it is."""
    stale_since: str | None = None

    @classmethod
    def of(cls, status: SinkStatus, stale: Stale | None = None) -> Freshness:
        mark, stale = status.mark, stale or stale_sink(status)
        at_us = mark.committed_at_us if mark else None
        return cls(
            str(Position(mark.era, mark.offset)) if mark else "",
            mark.lsn if mark else "0/0",
            None if at_us is None else datetime.fromtimestamp(at_us / 1e6, UTC).isoformat(),
            None if at_us is None else round(max(0, status.applied_at_us - at_us) / 1000, 1),
            status.state.value,
            status.generation,
            status.incomplete,
            None if stale is None else stale.reason,
            None if stale is None else datetime.fromtimestamp(stale.since_s, UTC).isoformat(),
        )

    def headers(self) -> dict[str, str]:
        lag = {} if self.lag_ms is None else {"X-Headwater-Lag-Ms": f"{self.lag_ms:g}"}
        at = {} if self.committed_at is None else {"X-Headwater-Committed-At": self.committed_at}
        held = {"X-Headwater-Incomplete": str(self.incomplete)} if self.incomplete else {}
        stale = {} if self.stale is None else {"X-Headwater-Stale": _header(self.stale)}
        return {"X-Headwater-Position": self.position, "X-Headwater-Lsn": self.lsn, **at, **lag, **held, **stale}


def _header(text: str) -> str:
    """As a header may hold it: one line of plain letters."""
    return " ".join(text.encode("ascii", "replace").decode().split())[:HEADER_MAX]


class _Place(NamedTuple):
    """Where on the board, and on which."""

    topic_id: str
    offset: int


class Board:
    """Follows the board on a thread of its own; waiting costs nothing but memory."""

    def __init__(self, kafka: KafkaAddress, source: Source, nudge: Callable[[], None] = lambda: None) -> None:
        self._kafka, self._source, self._nudge = kafka, source, nudge
        self._known: dict[tuple[str, str], SinkStatus] = {}
        self._fresh: dict[tuple[str, str], tuple[SinkStatus, Stale | None, Freshness]] = {}
        self._waiters = Waiters()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._follow, name="board", daemon=True),
            threading.Thread(target=self._nudging, name="nudge", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._waiters.close()

    def status(self, view: str, sink: str) -> SinkStatus | None:
        return self._known.get((view, sink))

    def freshness(self, view: str, sink: str, stale: Stale | None = None) -> Freshness | None:
        """Made once for what the board says: every request asks for it."""
        status = self._known.get((view, sink))
        if status is None:
            return None
        known = self._fresh.get((view, sink))
        if known is None or known[0] is not status or known[1] != stale:
            known = self._fresh[view, sink] = (status, stale, Freshness.of(status, stale))
        return known[2]

    def statuses(self) -> list[SinkStatus]:
        return sorted(self._known.values(), key=lambda status: (status.view, status.sink))

    async def includes(self, view: str, sink: str, lsn: Lsn, timeout_s: float) -> bool:
        """Waits until the sink includes everything committed before the LSN; False when it does not in time."""
        return self._has(view, sink, lsn) or await self._waiters.until(lambda: self._has(view, sink, lsn), timeout_s)

    def _has(self, view: str, sink: str, lsn: Lsn) -> bool:
        status = self._known.get((view, sink))
        return status is not None and status.mark is not None and Lsn.parse(status.mark.lsn) >= lsn

    def _nudging(self) -> None:
        """A commit after what somebody waits for, so that the wait is as long as the way and not as the heartbeat."""
        while not self._stopping.is_set():
            if not self._waiters.somebody.wait(LISTEN_S):
                continue
            try:
                self._nudge()
            except HeadwaterError:
                self._stopping.wait(AGAIN_S)  # the heartbeat comes all the same
            self._stopping.wait(NUDGE_S)

    def _follow(self) -> None:
        place: _Place | None = None
        is_told = False
        while not self._stopping.is_set():
            try:
                place = self._read(place)
                is_told = False
            except LogError as error:
                if not is_told:
                    get_log("api").warning("the board cannot be read", fact=error.fact, detail=error.detail)
                place, is_told = None, True
                self._stopping.wait(AGAIN_S)

    def _read(self, place: _Place | None) -> _Place | None:
        """Follows the board for a while, from there or, where it is another one, from its beginning."""
        topic = board_topic(self._source)
        state = find_state(self._kafka, topic)
        if state is None:
            self._stopping.wait(AGAIN_S)
            return None
        if place is None or place.topic_id != state.topic_id:
            place = _Place(state.topic_id, state.low)
        until = time.monotonic() + SAME_S_MAX
        for chunk in tail(self._kafka, topic, place.offset, LISTEN_S):
            if chunk:
                place = place._replace(offset=chunk[-1].offset + 1)
                for raw in chunk:
                    self._note(raw.key, raw.value)
                self._waiters.wake()
            if self._stopping.is_set() or time.monotonic() > until:
                break
        return place

    def _note(self, key: bytes | None, value: bytes | None) -> None:
        view, _, sink = (key or b"").decode().partition("/")
        if value is None:
            self._known.pop((view, sink), None)
        else:
            self._known[view, sink] = msgspec.json.decode(value, type=SinkStatus)
