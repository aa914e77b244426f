"""How the initial snapshot of an era is doing, told from the log itself.

Why it is watched: when Debezium is cut off in the middle of its snapshot, it takes another one, with the slot that is
already there. It then streams from the server's current LSN instead of the slot's exported snapshot, so a transaction
whose commit record was written but not yet visible is in neither, and rows deleted in between stay in the log for ever.
A snapshot that began twice is therefore worthless: capture begins anew, with a fresh slot and a new era.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from cdc import envelope, eras, topics
from cdc.changelog import ChangeLog
from cdc.events import ChangeEvent, Record, Snapshot, TableName
from cdc.position import Lsn, Position

SCAN_RECORDS_MAX: Final = 50_000
"""In one look, for those who look again and again and must not be held up."""
SNAPSHOT_END: Final = TableName("headwater", "canary")
"""Read last in every incremental snapshot: its rows in the log say that the tables before it are complete. One of them
never changes: Debezium leaves out what changes while it is read."""
_PLACES: Final = (b'"snapshot":"first"', b'"snapshot":"last"')


@dataclass(frozen=True, slots=True)
class SnapshotProgress:
    scanned: Position
    """Everything before it has been looked at."""
    rows: int = 0
    begun: int = 0
    first_lsn: Lsn | None = None
    """Where in Postgres' log the (last) snapshot was taken."""
    complete: bool = False
    behind: bool = False
    """The log holds more that has not been looked at yet."""

    @property
    def spoilt(self) -> bool:
        return self.begun > 1

    def seen(self, record: Record) -> SnapshotProgress:
        value = record.value or b""
        step = replace(self, scanned=Position(record.position.era, record.position.offset + 1), rows=self.rows + 1)
        if not any(place in value for place in _PLACES):  # most rows: no need to parse them
            return step
        entry = envelope.parse(record)
        if not isinstance(entry, ChangeEvent):
            return step
        if entry.snapshot is Snapshot.FIRST:
            return replace(step, begun=self.begun + 1, first_lsn=entry.lsn)
        return replace(step, complete=self.complete or entry.snapshot is Snapshot.LAST)


class SnapshotTracker:
    """Reads each record of a snapshot once, and nothing any more when it is complete."""

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self._progress: SnapshotProgress | None = None

    def look(self, records_max: int | None = None) -> SnapshotProgress:
        """Reads on from the last look, at most so many records: then `behind` says that there is more to read."""
        era = eras.current(self._log.kafka, self._log.source)
        progress = self._progress
        if progress is None or progress.scanned.era != era.era:
            progress = self._begin(era)
        read, progress = 0, replace(progress, behind=False)
        if not progress.complete:
            for record in self._log.read(progress.scanned, limit=records_max):
                read, progress = read + 1, progress.seen(record)
                if progress.complete:
                    break
            progress = replace(progress, behind=read == records_max and not progress.complete)
        self._progress = progress
        return progress

    def _begin(self, era: eras.Era) -> SnapshotProgress:
        """At the era's first record. Where that has expired, the snapshot is as old as the log's retention, and over:
        nothing about it can be told any more."""
        low = topics.topic_state(self._log.kafka, self._log.source.changes_topic).low
        start = Position(era.era, max(low, era.first_offset))
        return SnapshotProgress(start, complete=low > era.first_offset)
