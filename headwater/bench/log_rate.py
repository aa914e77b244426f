"""From the write-ahead log into the change log: how fast Debezium and Connect work off a backlog.

The clock starts when the first rows of the backlog can be read in the log by a reader of committed records, and stops
when the END of its last transaction can; rows that were there at the first sight do not count. Starting the connector
is thus not part of the rate, but told apart. The watcher looks at the log's extent and its last few records only, so
that it takes next to nothing from the machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cdc.boundaries import Mark
from cdc.capture import RUN_TIMEOUT_S, Capture
from cdc.connect import ConnectClient
from cdc.envelope import parse
from cdc.epochs import mark_of
from cdc.errors import CaptureError
from cdc.events import End, Record
from cdc.position import Lsn, Position
from cdc.reader import Raw, read_range
from cdc.topics import topic_state
from headwater.bench.figures import Rate
from headwater.bench.progress import Advance

LOOK_INTERVAL_S: Final = 0.1
STALL_S_MAX: Final = 120.0
TAIL_OFFSETS: Final = 64
"""How far back the last END is looked for: more than Kafka's own markers and a heartbeat's transaction take."""


@dataclass(frozen=True, slots=True)
class LogRead:
    rate: Rate
    start_ms: float
    """From asking the connector to go on until its first rows were in the log."""
    end_offset: int


def stop(capture: Capture) -> None:
    """The connector's task is gone and its slot let go."""
    with ConnectClient(capture.connect) as client:
        client.stop(capture.source.connector)
        client.wait_stopped(capture.source.connector, RUN_TIMEOUT_S)


def resume(capture: Capture) -> None:
    with ConnectClient(capture.connect) as client:
        client.resume(capture.source.connector)


def end_offset(capture: Capture) -> int:
    return topic_state(capture.kafka, capture.source.changes_topic).high


def whole_end(capture: Capture) -> int:
    """The end of the last whole transaction in the log: a connector may have been stopped within one."""
    high = end_offset(capture)
    chunks = read_range(capture.kafka, capture.source.changes_topic, max(0, high - TAIL_OFFSETS), high)
    return max((raw.offset + 1 for chunk in chunks for raw in chunk if mark_of(raw.value).completes), default=high)


def work_off(capture: Capture, rows: int, until: Lsn, advance: Advance) -> LogRead:
    """Lets the stopped connector go on and measures it until a commit at or after `until` is in the log."""
    start = end_offset(capture)
    began = time.monotonic()
    resume(capture)
    first = last = _grown(capture, start)
    while not _ended(capture, max(start, last.high - TAIL_OFFSETS), last.high, until):
        seen = _grown(capture, last.high)
        advance(seen.high - last.high)
        last = seen
    early = rows_among(read_range(capture.kafka, capture.source.changes_topic, start, first.high))
    return LogRead(rate_of(rows, early, first.at - began, last.at - began), (first.at - began) * 1000, last.high)


def rate_of(rows: int, early: int, first_s: float, last_s: float) -> Rate:
    """Pure: what came after the first sight, in the time since; of a backlog so small that all of it was there at the
    first sight, all of it in the time since the connector was asked."""
    return Rate(rows - early, last_s - first_s) if early < rows and last_s > first_s else Rate(rows, last_s)


@dataclass(frozen=True, slots=True)
class _Extent:
    high: int
    at: float


def _grown(capture: Capture, beyond: int) -> _Extent:
    """The log's extent as soon as it reaches beyond that offset."""
    deadline = time.monotonic() + STALL_S_MAX
    while (high := end_offset(capture)) <= beyond:
        if time.monotonic() > deadline:
            raise _stalled(capture)
        time.sleep(LOOK_INTERVAL_S)
    return _Extent(high, time.monotonic())


def _ended(capture: Capture, start: int, end: int, until: Lsn) -> bool:
    chunks = read_range(capture.kafka, capture.source.changes_topic, start, end)
    return any(commit >= until for commit in commits_among(chunks))


def _stalled(capture: Capture) -> CaptureError:
    with ConnectClient(capture.connect) as client:
        status = client.status(capture.source.connector)
    state = f"{status.summary} {status.reason}".strip() if status else "absent"
    return CaptureError(
        f"the log did not grow for {STALL_S_MAX:g} s",
        detail=f"the connector {capture.source.connector} is {state}",
        hint="headwater logs connect",
    )


def commits_among(chunks: Iterable[list[Raw]]) -> list[Lsn]:
    """The commits whose END is among the records."""
    return [entry.commit_lsn for chunk in chunks for raw in chunk if isinstance(entry := parse(_record(raw)), End)]


def rows_among(chunks: Iterable[list[Raw]]) -> int:
    """How many of the records are changes of rows, not markers."""
    return sum(mark_of(raw.value) in (Mark.INSIDE, Mark.ALONE) for chunk in chunks for raw in chunk)


def _record(raw: Raw) -> Record:
    return Record(Position(0, raw.offset), raw.written_at_ms, raw.key, raw.value)
