"""The change log as everything downstream reads it: by position, by time, by LSN; as records, entries or transactions.

Records come in the log's order, each with its position. Reading is bounded by the end of the log at the time of the
call; following goes on. What was asked for is read whole or an error says why not: a position that the log no longer
holds raises PositionExpired, one of a topic that was made anew TopicRecreated. With an archive the log reaches back
beyond Kafka's retention, as far as the two leave no gap. A record of Kafka's is handed out only after the topic's id
was found unchanged since it was fetched: a topic made anew under a running reader cannot slip in.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Final, Protocol

from cdc.addresses import KafkaAddress, Source
from cdc.envelope import parse
from cdc.eras import Era, Eras, current, load, topic_recreated
from cdc.errors import LogError, PositionExpired
from cdc.events import ChangeEvent, End, Entry, Record, Snapshot
from cdc.position import Lsn, Position
from cdc.reader import Raw, offset_at, read_range, wait_for_records
from cdc.repeats import without_repeats
from cdc.seeking import Completed, seek
from cdc.topics import TopicState, find_topic, topic_state
from cdc.transactions import Transaction, assemble

FOLLOW_WAIT_S_MAX: Final = 0.5
"""How long a follower waits for news before it looks whether to stop, and whether the topic is still the same."""


class Archive(Protocol):
    """What Kafka no longer holds (archive.py)."""

    def reach(self, topic_id: str, low: int) -> int: ...

    def records(self, topic_id: str, start: int, end: int) -> Iterator[Record]: ...

    def first_written(self, topic_id: str, start: int, end: int, at_ms: int) -> int | None: ...


@dataclass(frozen=True, slots=True)
class ChangeLog:
    kafka: KafkaAddress
    source: Source
    archive: Archive | None = None

    def bounds(self) -> tuple[Position, Position]:
        """(low, high): the position of the oldest record that is left, and the one that the next record will get."""
        eras, state = self._now()
        oldest = eras.era_of(state.topic_id, state.low)
        newest = eras.era_of(state.topic_id, state.high)
        if oldest is None or newest is None:
            found = current(self.kafka, self.source)
            raise topic_recreated(Position(found.era, found.first_offset), found.topic_id, state.topic_id)
        return Position(oldest.era, state.low), Position(newest.era, state.high)

    def read(self, from_: Position, to: Position | None = None, limit: int | None = None) -> Iterator[Record]:
        """The records in [from_, to), at most `limit`; without `to`, up to the end of the log as it is now."""
        eras, state = self._now()
        eras.locate(from_, state.topic_id, state.low, state.high)
        end = state.high
        if to is not None:
            eras.locate(to, state.topic_id, state.low, state.high)
            end = to.offset
        return self._records(eras, state.topic_id, from_.offset, end, limit)

    def follow(self, from_: Position, stop: threading.Event) -> Iterator[Record]:
        """The records from `from_` on, for ever, until `stop` is set. Goes on into a new era of the same topic: each
        record's position says so."""
        eras, state = self._now()
        eras.locate(from_, state.topic_id, state.low, state.high)
        offset, topic_id = from_.offset, state.topic_id
        while not stop.is_set():
            if state.topic_id != topic_id:
                raise topic_recreated(Position(from_.era, offset), topic_id, state.topic_id)
            if offset < state.low:
                raise expired(Position(from_.era, offset), state.low)
            for record in self._records(eras, topic_id, offset, state.high, None):
                yield record
                if stop.is_set():
                    return
            offset = max(offset, state.high)
            wait_for_records(self.kafka, self.source.changes_topic, offset, FOLLOW_WAIT_S_MAX)
            eras, state = self._now()

    def entries(self, from_: Position, to: Position | None = None, limit: int | None = None) -> Iterator[Entry]:
        """Like read, parsed, without rows that the connector wrote twice. What cannot be parsed comes as a DeadLetter
        in its place."""
        return without_repeats(parse(record) for record in self.read(from_, to, limit))

    def transactions(self, from_: Position, to: Position | None = None) -> Iterator[Transaction]:
        """Whole transactions, in commit order; rows outside transactions each as one of their own. An incomplete one at
        the end of what was asked for is left out."""
        return assemble(self.entries(from_, to))

    def count(self, from_: Position, to: Position | None = None) -> int:
        """The number of records in [from_, to). They are read for it: offsets are not dense."""
        return sum(1 for _ in self.read(from_, to))

    def seek_time(self, at: datetime) -> Position:
        """The first record written to the log at or after that instant; the end of the log if there is none."""
        low, high = self.bounds()
        at_ms = int(at.timestamp() * 1000)
        archived = self._first_archived(low.offset, at_ms)
        if archived is not None:
            return self.position(archived)
        found = offset_at(self.kafka, self.source.changes_topic, at_ms)
        offset = high.offset if found is None else min(max(found, low.offset), high.offset)
        return self.position(offset)

    def _first_archived(self, low: int, at_ms: int) -> int | None:
        """In the part that only the archive holds."""
        if self.archive is None:
            return None
        state = topic_state(self.kafka, self.source.changes_topic)
        return self.archive.first_written(state.topic_id, low, state.low, at_ms)

    def seek_lsn(self, lsn: Lsn) -> Position:
        """Where the first transaction of the current era whose commit LSN is at or after `lsn` begins; where the next
        one will begin if it is still to come. A snapshot taken at or after `lsn` counts: it holds those changes.

        Raises PositionExpired if transactions at or after `lsn` may have been in a part of the log that is gone.
        """
        eras, state = self._now()
        era = self._current(eras, state)
        low = max(state.low, era.first_offset)
        sought = seek(_Completions(self, era, state.topic_id), low, state.high, lsn)
        cut_off = low > era.first_offset
        if cut_off and sought.offset == low and (sought.found is None or sought.found.lsn != lsn):
            raise PositionExpired(
                f"the log may no longer hold the first transaction at or after {lsn}",
                detail=f"what was before {Position(era.era, low)} is gone",
                hint="headwater log tail --from earliest shows what is left",
            )
        return Position(era.era, sought.offset)

    def _now(self) -> tuple[Eras, TopicState]:
        state = topic_state(self.kafka, self.source.changes_topic)
        if self.archive is not None:
            state = replace(state, low=self.archive.reach(state.topic_id, state.low))
        # Eras after the extent: whatever lies in the extent was written after its era was registered.
        return load(self.kafka, self.source), state

    def _current(self, eras: Eras, state: TopicState) -> Era:
        era = eras.current or current(self.kafka, self.source)
        if era.topic_id != state.topic_id:
            raise topic_recreated(Position(era.era, era.first_offset), era.topic_id, state.topic_id)
        return era

    def position(self, offset: int) -> Position:
        """The position of an offset of the topic as it is now, in the era that the offset belongs to."""
        eras, state = self._now()
        era = eras.era_of(state.topic_id, offset) or self._current(eras, state)
        return Position(era.era, offset)

    def _records(self, eras: Eras, topic_id: str, start: int, end: int, limit: int | None) -> Iterator[Record]:
        return islice(self._all(eras, topic_id, start, end), limit)

    def _all(self, eras: Eras, topic_id: str, start: int, end: int) -> Iterator[Record]:
        """The archive's part, then Kafka's."""
        if self.archive is not None:
            low = topic_state(self.kafka, self.source.changes_topic).low
            turn = min(max(start, low), end)
            yield from self.archive.records(topic_id, start, turn)
            start = turn
        for chunk in read_range(self.kafka, self.source.changes_topic, start, end):
            self._require_topic(eras, topic_id, chunk)
            for raw in chunk:
                yield _record(eras, topic_id, raw)

    def _require_topic(self, eras: Eras, topic_id: str, chunk: list[Raw]) -> None:
        found = find_topic(self.kafka, self.source.changes_topic)
        if found != topic_id:
            era = eras.era_of(topic_id, chunk[0].offset)
            position = Position(era.era if era else 0, chunk[0].offset)
            raise topic_recreated(position, topic_id, found or "none")


@dataclass(frozen=True, slots=True)
class _Completions:
    """The log as seek() wants it."""

    log: ChangeLog
    era: Era
    topic_id: str

    def first_completed(self, start: int, end: int) -> Completed | None:
        for record in self.log._records(Eras((self.era,)), self.topic_id, start, end, None):
            entry = parse(record)
            if isinstance(entry, End):
                return Completed(entry.position.offset, entry.commit_lsn)
            if isinstance(entry, ChangeEvent) and entry.snapshot in (Snapshot.FIRST, Snapshot.WITHIN, Snapshot.LAST):
                return Completed(entry.position.offset, entry.lsn)
        return None


def expired(position: Position, low: int) -> PositionExpired:
    return PositionExpired(
        f"the log no longer holds {position}",
        detail=f"its oldest record is at or after {low}",
        hint="headwater log tail --from earliest shows what is left",
    )


def _record(eras: Eras, topic_id: str, raw: Raw) -> Record:
    era = eras.era_of(topic_id, raw.offset)
    if era is None:
        raise LogError(
            f"offset {raw.offset} belongs to no era", detail=f"topic {topic_id}", hint="headwater up registers one"
        )
    return Record(Position(era.era, raw.offset), raw.written_at_ms, raw.key, raw.value)
