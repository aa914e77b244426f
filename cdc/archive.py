"""The change log beyond Kafka's retention: its raw records in a Delta table, by day.

    <folder>/<source>/@changes    offset, era, written_at_ms, key, value; partitioned by the day (UTC) of written_at_ms

An archiver appends what is new, a bounded piece of the log at a time. A commit says which ranges of the log the table
holds, so every record is there exactly once whatever is repeated or killed. A range that Kafka dropped before it was
archived is an error that names it, until it is accepted; a reader is never carried over it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from cdc.addresses import KafkaAddress, Source
from cdc.archive_delta import Commit, DeltaFolder, Snapshot
from cdc.archive_ranges import Held, Ranges
from cdc.eras import Eras, load, topic_recreated
from cdc.errors import LogError, PositionExpired
from cdc.events import Record
from cdc.position import Position
from cdc.reader import Raw, read_range
from cdc.topics import TopicState, find_topic, topic_state

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

RECORDS_PER_STEP_MAX: Final = 200_000
BYTES_PER_STEP_MAX: Final = 128 * 1024 * 1024
"""What a step holds in memory, about: it ends early when it has read so much."""
READ_OFFSETS_MAX: Final = 20_000
"""Offsets whose records a reader holds at a time."""
_DAY: Final = "day"
_TABLE: Final = pa.schema(
    [
        ("offset", pa.int64()),
        ("era", pa.int64()),
        ("written_at_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        (_DAY, pa.date32()),
    ]
)
_PROPERTIES: Final = {
    "delta.appendOnly": "true",
    "delta.dataSkippingStatsColumns": "offset,era,written_at_ms",
    "delta.deletedFileRetentionDuration": "interval 24 hours",
    "delta.logRetentionDuration": "interval 24 hours",
}


def archive_folder(folder: str | Path, source: Source) -> DeltaFolder:
    """Beside the warehouse's views, of which none has a folder with @ in its name."""
    return DeltaFolder(Path(folder).absolute() / source.name / "@changes")


class Archived(NamedTuple):
    """What a step appended: the range [start, end) of the log; nothing if they are equal."""

    start: Position
    end: Position


class Archiver:
    """One for each archive: a second one is refused at its first step that comes late."""

    def __init__(self, kafka: KafkaAddress, source: Source, folder: str | Path) -> None:
        self._kafka, self._source, self._table = kafka, source, archive_folder(folder, source)

    def step(self, records_max: int = RECORDS_PER_STEP_MAX, *, accept_gap: bool = False) -> Archived:
        """Appends what is new, up to so many offsets, of one era. With `accept_gap` it goes on behind a loss."""
        found = self._prepared()
        ranges = _ranges(found.last)
        eras, state = self._now()
        start = self._start(ranges, eras, state, accept_gap)
        era = eras.era_of(state.topic_id, start)
        if era is None:
            raise LogError(
                f"offset {start} belongs to no era", detail=state.topic_id, hint="headwater up registers one"
            )
        following = eras.following(era)
        end = min(start + records_max, state.high, *([following.first_offset] if following else []))
        if start >= end:
            return Archived(Position(era.era, start), Position(era.era, start))
        rows, reached = self._read(Held(state.topic_id, era.era, start, end))
        found.append(rows, ranges.plus(Held(state.topic_id, era.era, start, reached)))
        return Archived(Position(era.era, start), Position(era.era, reached))

    def compact(self) -> None:
        """Small files of a day are put together."""
        self._prepared().compact()

    def vacuum(self) -> None:
        """Files that were put together are removed, once readers had a day to finish with them."""
        self._prepared().vacuum()

    def _prepared(self) -> Snapshot:
        found = self._table.look()
        if found is None and not any(self._table.path.rglob("*.parquet")):
            self._table.create(_TABLE, _PROPERTIES, [_DAY])
            found = self._table.look()
        if found is None or not found.is_ours:
            raise LogError(
                "the log's archive was written to by somebody else, or damaged",
                detail=f"in {self._table.path}: which records it holds is not known any more",
                hint="move the folder away: what Kafka still has is archived anew",
            )
        return found

    def _now(self) -> tuple[Eras, TopicState]:
        state = topic_state(self._kafka, self._source.changes_topic)
        return load(self._kafka, self._source), state

    def _start(self, ranges: Ranges, eras: Eras, state: TopicState, accept_gap: bool) -> int:
        first = next((era.first_offset for era in eras.eras if era.topic_id == state.topic_id), 0)
        start = ranges.next_offset(state.topic_id, first)
        if start < state.low and not accept_gap:
            raise PositionExpired(
                f"the log dropped offsets {start} to {state.low} before they were archived",
                detail=f"topic {state.topic_id}, archive in {self._table.path}",
                hint="headwater up goes on behind the loss; archive more often, or raise capture.retention_days",
            )
        return max(start, state.low)

    def _read(self, held: Held) -> tuple[pa.Table, int]:
        """The range's records, and the offset up to which they were read."""
        batches: list[pa.RecordBatch] = []
        size_bytes = 0
        for chunk in read_range(self._kafka, self._source.changes_topic, held.start, held.end):
            self._require_topic(held)
            batches.append(_batch(held.era, chunk))
            size_bytes += batches[-1].nbytes
            if size_bytes >= BYTES_PER_STEP_MAX:
                return pa.Table.from_batches(batches, _TABLE), chunk[-1].offset + 1
        self._require_topic(held)
        return pa.Table.from_batches(batches, _TABLE), held.end

    def _require_topic(self, held: Held) -> None:
        """What was fetched is of the topic that was asked for: one made anew has other records at these offsets."""
        found = find_topic(self._kafka, self._source.changes_topic)
        if found != held.topic_id:
            raise topic_recreated(Position(held.era, held.start), held.topic_id, found or "none")


@dataclass(frozen=True)
class ArchiveReader:
    """The archive for those who read the log. Sees what was archived when it is asked."""

    source: Source
    folder: str | Path

    def ranges(self) -> Ranges:
        return _ranges(archive_folder(self.folder, self.source).last())

    def reach(self, topic_id: str, low: int) -> int:
        """From where on archive and Kafka together have the topic without a gap, if Kafka has it from `low` on."""
        return self.ranges().reach(topic_id, low)

    def read(self, start: Position, end: Position) -> Iterator[Record]:
        """The records in [start, end), of one era, in order. Raises PositionExpired unless all of it was archived."""
        self._require(start, end)
        return self._records(start.era, start.offset, end.offset)

    def records(self, topic_id: str, start: int, end: int) -> Iterator[Record]:
        """The same by the topic's offsets, over its eras."""
        ranges = self.ranges()
        parts = list(ranges.within(topic_id, start, end))
        if sum(held.end - held.start for held in parts) < end - start:
            raise _not_whole(start, end, ranges)
        for held in parts:
            yield from self._records(held.era, held.start, held.end)

    def first_written(self, topic_id: str, start: int, end: int, at_ms: int) -> int | None:
        """The least offset in [start, end) of a record that was written at or after that instant."""
        found = [self._first_written(held, at_ms) for held in self.ranges().within(topic_id, start, end)]
        return min((offset for offset in found if offset is not None), default=None)

    def _first_written(self, held: Held, at_ms: int) -> int | None:
        wanted = _within(held.era, held.start, held.end) & (pc.field("written_at_ms") >= at_ms)
        batches = self._dataset().to_batches(columns=["offset"], filter=wanted)
        return min((pc.min(batch["offset"]).as_py() for batch in batches if batch.num_rows), default=None)

    def _require(self, start: Position, end: Position) -> None:
        ranges = self.ranges()
        if start.era != end.era or not any(held.covers(start.era, start.offset, end.offset) for held in ranges.held):
            raise _not_whole(start, end, ranges)

    def _records(self, era: int, start: int, end: int) -> Iterator[Record]:
        dataset = self._dataset()
        for begin in range(start, end, READ_OFFSETS_MAX):
            until = min(begin + READ_OFFSETS_MAX, end)
            columns = ["offset", "written_at_ms", "key", "value"]
            found = dataset.to_table(columns=columns, filter=_within(era, begin, until))
            yield from _listed(era, found.sort_by("offset"))

    def _dataset(self) -> Dataset:
        table = archive_folder(self.folder, self.source).open()
        assert table is not None
        return table.to_pyarrow_dataset()


def _within(era: int, start: int, end: int) -> pc.Expression:
    return (pc.field("era") == era) & (pc.field("offset") >= start) & (pc.field("offset") < end)


def _not_whole(start: object, end: object, ranges: Ranges) -> PositionExpired:
    return PositionExpired(
        f"the archive does not hold {start} to {end} whole",
        detail=f"it holds {ranges}",
        hint="headwater log tail --from earliest shows what Kafka has left",
    )


def _batch(era: int, chunk: Sequence[Raw]) -> pa.RecordBatch:
    written = pa.array([raw.written_at_ms for raw in chunk], pa.int64())
    columns = [
        pa.array([raw.offset for raw in chunk], pa.int64()),
        pa.repeat(pa.scalar(era, pa.int64()), len(chunk)),
        written,
        pa.array([raw.key for raw in chunk], pa.binary()),
        pa.array([raw.value for raw in chunk], pa.binary()),
        pc.cast(written.cast(pa.timestamp("ms", "UTC")), pa.date32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_TABLE)


def _listed(era: int, found: pa.Table) -> Iterator[Record]:
    columns = [column.to_pylist() for column in found.columns]
    for offset, written_at_ms, key, value in zip(*columns, strict=True):
        yield Record(Position(era, offset), written_at_ms, key, value)


def _ranges(commit: Commit | None) -> Ranges:
    return msgspec.json.decode(commit.note, type=Ranges) if commit is not None else Ranges()
