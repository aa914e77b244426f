"""Plans epochs over the change log: where a stream begins, and where each of its epochs ends. Knows Kafka, not Spark.

The search itself is boundaries.py; here it meets the log in Kafka and the eras. A stream stays within one era of one
topic. Where going on would skip something it is refused: TopicRecreated when the topic is not the one that the stream
began with, PositionExpired when the log was cut off beyond the stream's position, EraEnded when the source's history
ended and the stream has seen all of it that is whole. With an archive the log reaches back beyond Kafka's retention, as
far as the two leave no gap.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from cdc.addresses import KafkaAddress, Source
from cdc.boundaries import Mark, epoch_end, is_whole_start, whole_start
from cdc.changelog import Archive
from cdc.envelope import is_boundary
from cdc.eras import Era, EraBook, current, era_ended, topic_recreated
from cdc.errors import LogError, NothingWhole
from cdc.position import Position
from cdc.reader import wait_for_records
from cdc.relations import QUIET, SUBSCRIPTIONS
from cdc.topics import TopicState, topic_state
from cdc.whole_log import read_whole

EARLIEST: Final = "earliest"
_MARKER: Final = b'{"status":"'
_BEGIN: Final = b'{"status":"BEGIN"'
_CUTS: Final = f'"{SUBSCRIPTIONS}"'.encode()
_PARTS: Final = f'"{QUIET}"'.encode()
CUT_S: Final = 1.0
CUTS_MAX: Final = 5
CUT_RECORDS_MIN: Final = 4096
"""Short epochs are cut once in that time, and so often at once: when searches are saved faster than that, they share a
cut, and then see what was committed a moment before them, too, in fewer records than these. Longer ones are always."""


def mark_of(value: bytes | None) -> Mark:
    """What a record means for the bounds of transactions, without parsing it."""
    if value is None:
        return Mark.INSIDE
    if value.startswith(_BEGIN):
        return Mark.OPENS
    if not is_boundary(value):
        return Mark.INSIDE
    if not value.startswith(_MARKER):
        return Mark.ALONE
    if _PARTS in value:
        return Mark.PARTS
    return Mark.CUTS if _CUTS in value else Mark.CLOSES


@dataclass(frozen=True, slots=True)
class LogMarks:
    """The log, as boundaries.py scans it."""

    kafka: KafkaAddress
    source: Source
    archive: Archive | None = None
    """None where Kafka has all that is asked for."""
    topic_id: str = ""

    def scan(self, start: int, end: int) -> Iterator[tuple[int, Mark]]:
        for chunk in read_whole(self.kafka, self.source, self.archive, self.topic_id, start, end):
            for raw in chunk:
                yield raw.offset, mark_of(raw.value)


@dataclass(frozen=True, slots=True)
class _Standing:
    """What a stream can read now."""

    era: Era
    high: int
    """The end of the log, or of the era if another one began in the same topic."""
    following: Era | None


class EpochPlanner:
    """The driver's side of one stream. Remembers what it has searched: a large transaction that is still being written
    is not read again from its beginning every time."""

    def __init__(
        self, kafka: KafkaAddress, source: Source, *, idle_s_max: float = 0.0, archive: Archive | None = None
    ) -> None:
        self._kafka, self._source, self._idle_s_max = kafka, source, idle_s_max
        self._archive = archive
        self._marks = LogMarks(kafka, source)
        self._eras = EraBook(kafka, source)
        self._frozen_at: int | None = None
        self._start: Position | None = None
        self._clear_to = 0
        self._cuts, self._looked_at = float(CUTS_MAX), time.monotonic()
        self.seen: tuple[Position, str] | None = None
        """The end of the log when it was last looked at, and the topic's id."""
        self.is_archived = False
        """Whether the last position asked for is one that only the archive has."""

    def first(self, starting_position: str = EARLIEST) -> tuple[Position, str]:
        """Where a new stream begins, and the topic's id. The earliest position is where the oldest transaction begins
        that the log holds whole. Raises LogError if the position given lies inside a transaction."""
        state = topic_state(self._kafka, self._source.changes_topic)
        if starting_position == EARLIEST:
            return self._earliest(state), state.topic_id
        position = Position.parse(starting_position)
        era = self._eras.load().locate(position, state.topic_id, state.low, state.high)
        low = max(state.low, era.first_offset)
        if position.offset != era.first_offset and not is_whole_start(self._marks, low, position.offset, state.high):
            raise LogError(
                f"{position} lies inside a transaction",
                detail="a stream begins where a transaction does, or just after one ended",
                hint=f"headwater log show {position}",
            )
        return position, state.topic_id

    def freeze(self, at: int | None = None) -> None:
        """From now on behaves as if nothing were written any more, or nothing after an offset."""
        self._frozen_at = topic_state(self._kafka, self._source.changes_topic).high if at is None else at

    def thaw(self) -> None:
        """Sees what is written again."""
        self._frozen_at = None

    def require(self, position: Position, topic_id: str) -> None:
        """Raises what stands against reading on from the position."""
        self._standing(position, topic_id)

    def end(self, start: Position, topic_id: str, rows_max: int | None, *, cut: bool = True) -> Position:
        """The end of the epoch that begins at `start`; `start` itself while no transaction is complete after it, and
        then not before having waited for one a little. Without `cut` for who tells nobody what changed."""
        end = self._search(start, topic_id, rows_max, cut)
        if end == start and self._frozen_at is None and self._idle_s_max > 0:
            topic, beyond = self._source.changes_topic, max(self._clear_to, start.offset)
            if wait_for_records(self._kafka, topic, beyond, self._idle_s_max):
                return self._search(start, topic_id, rows_max, cut)
        return end

    def _search(self, start: Position, topic_id: str, rows_max: int | None, cut: bool) -> Position:
        standing = self._standing(start, topic_id)
        if start != self._start:
            self._start, self._clear_to = start, start.offset
        high = standing.high if self._frozen_at is None else min(standing.high, self._frozen_at)
        if high > self._clear_to:
            cut_min = self._cut_min() if cut else None
            found = epoch_end(self._marks, start.offset, high, rows_max, clear_to=self._clear_to, cut_min=cut_min)
            self._cuts -= found.is_cut and found.end - start.offset < CUT_RECORDS_MIN
            if found.end > start.offset:
                return Position(start.era, found.end)
            self._clear_to = found.clear_to
        if standing.following is not None and self._clear_to >= standing.following.first_offset:
            # What is left of the era, if anything, is the beginning of a transaction whose end will never come.
            raise era_ended(standing.era, standing.following)
        return start

    def _cut_min(self) -> int:
        now = time.monotonic()
        self._cuts = min(CUTS_MAX, self._cuts + (now - self._looked_at) / CUT_S)
        self._looked_at = now
        return 1 if self._cuts >= 1 else CUT_RECORDS_MIN

    def _standing(self, position: Position, topic_id: str) -> _Standing:
        state = topic_state(self._kafka, self._source.changes_topic)
        if state.topic_id != topic_id:
            raise topic_recreated(position, topic_id, state.topic_id)
        self.seen = Position(position.era, state.high), topic_id
        # Eras after the extent: whatever lies in the extent was written after its era was registered.
        eras = self._eras.load()
        era = eras.locate(position, topic_id, self._low(state, position.offset), state.high)
        following = eras.following(era)
        high = state.high if following is None else min(state.high, following.first_offset)
        return _Standing(era, high, following)

    def _low(self, state: TopicState, wanted: int) -> int:
        """Where the log begins for who wants it from that offset on. The archive is asked only if Kafka has it not."""
        self.is_archived = self._archive is not None and wanted < state.low
        if self._archive is None or not self.is_archived:
            self._marks = replace(self._marks, archive=None)
            return state.low
        self._marks = replace(self._marks, archive=self._archive, topic_id=state.topic_id)
        return self._archive.reach(state.topic_id, state.low)

    def _earliest(self, state: TopicState) -> Position:
        era = current(self._kafka, self._source)
        if era.topic_id != state.topic_id:
            raise topic_recreated(Position(era.era, era.first_offset), era.topic_id, state.topic_id)
        low = self._low(state, era.first_offset)
        if low <= era.first_offset:
            return Position(era.era, era.first_offset)
        offset = whole_start(self._marks, low, state.high)
        if offset is None:
            raise NothingWhole(
                "the log holds no whole transaction",
                detail=f"what is left from offset {low} on is the inside of one that began earlier",
                hint="headwater status",
            )
        return Position(era.era, offset)
