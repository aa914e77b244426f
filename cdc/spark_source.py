"""`spark.readStream.format("headwater")`: the change log as a stream of epochs, each some whole transactions.

The driver decides where an epoch ends (epochs.py) and cuts its range over the tasks; each task reads its own piece of
the log and yields Arrow batches. The stream's offset, kept in Spark's checkpoint, is {era, topic_id, offset}: a restart
goes on exactly there, and refuses (TopicRecreated, EraEnded, PositionExpired) where going on would skip something.

Options: `bootstrap`, `security` (librdkafka settings as JSON), `source`, `startingPosition` (earliest | ERA:OFFSET),
`rows_per_epoch_max`, `tasks`, `idle_ms_max`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from cdc.addresses import KafkaAddress, Source
from cdc.changelog import Archive
from cdc.epochs import EARLIEST, EpochPlanner
from cdc.eras import topic_recreated
from cdc.errors import ConfigurationError
from cdc.position import Position
from cdc.reader import Raw
from cdc.topics import find_topic
from cdc.whole_log import read_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

FORMAT: Final = "headwater"
SCHEMA: Final = "offset bigint, era bigint, written_at_ms bigint, key binary, value binary"
BATCH_ROWS_MAX: Final = 10_000
BATCH_BYTES_MAX: Final = 8 << 20
ROWS_PER_TASK_MIN: Final = 1000
"""Below this a further task costs more than it saves."""
_ARROW: Final = pa.schema(
    [
        ("offset", pa.int64()),
        ("era", pa.int64()),
        ("written_at_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


def register(spark: SparkSession) -> None:
    """Makes the format known to the session."""
    spark.dataSource.register(ChangesSource)


def options(kafka: KafkaAddress, source: Source) -> dict[str, str]:
    """What `.options(**…)` needs to reach that log."""
    security = msgspec.json.encode(dict(kafka.security)).decode()
    return {"bootstrap": kafka.bootstrap, "security": security, "source": source.name}


@dataclass(frozen=True, slots=True)
class StreamOptions:
    kafka: KafkaAddress
    source: Source
    starting_position: str = EARLIEST
    rows_per_epoch_max: int = 50_000
    tasks: int = 2
    idle_ms_max: int = 100
    """How long the driver waits for news before it tells Spark that there are none: it rests instead of asking on."""
    archive: Archive | None = None
    """For ranges that Kafka no longer holds; not one of Spark's options."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> StreamOptions:
        try:
            security = msgspec.json.decode(given.get("security") or "{}", type=dict[str, str])
        except msgspec.MsgspecError as error:
            # The value holds passwords: it is not repeated.
            raise _bad_option("security", "a JSON object of librdkafka settings") from error
        for name in ("bootstrap", "source"):
            if not given.get(name):
                raise _bad_option(name, "given")
        return cls(
            KafkaAddress(given["bootstrap"], tuple(sorted(security.items()))),
            Source(given["source"]),
            given.get("startingPosition", EARLIEST),
            _at_least(given, "rows_per_epoch_max", 1, 50_000),
            _at_least(given, "tasks", 1, 2),
            _at_least(given, "idle_ms_max", 0, 100),
        )


class ChangesSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> ChangesStream:
        return ChangesStream(StreamOptions.parse(self.options))


class Range(InputPartition):
    """One task's piece of the log."""

    def __init__(self, topic_id: str, era: int, start: int, end: int) -> None:
        self.topic_id, self.era, self.start, self.end = topic_id, era, start, end


class ChangesStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One instance lives on the driver as long as the query; tasks get copies, of which only `read` is used."""

    def __init__(self, given: StreamOptions) -> None:
        self._options = given

    @cached_property
    def _planner(self) -> EpochPlanner:
        return EpochPlanner(self._options.kafka, self._options.source, idle_s_max=self._options.idle_ms_max / 1000)

    def initialOffset(self) -> dict[str, object]:
        return _offset(*self._planner.first(self._options.starting_position))

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.rows_per_epoch_max)

    def prepareForTriggerAvailableNow(self) -> None:
        self._planner.freeze()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:
        position, topic_id = _position(start)
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return _offset(self._planner.end(position, topic_id, rows_max), topic_id)

    def reportLatestOffset(self) -> dict[str, object] | None:
        seen = self._planner.seen
        return None if seen is None else _offset(*seen)

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        (first, topic_id), (last, _) = _position(start), _position(end)
        # Spark repeats an unfinished epoch of its checkpoint without asking for the latest offset first.
        self._planner.require(first, topic_id)
        pieces = cut(first.offset, last.offset, self._options.tasks)
        return [Range(topic_id, first.era, begin, until) for begin, until in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        given, topic = self._options, self._options.source.changes_topic
        asked = partition.topic_id, partition.start, partition.end
        for rows in batches(read_whole(given.kafka, given.source, given.archive, *asked)):
            # Asked after the rows were fetched: then they are of the topic that the driver planned with.
            found = find_topic(given.kafka, topic)
            if found != partition.topic_id:
                position = Position(partition.era, partition.start)
                raise topic_recreated(position, partition.topic_id, found or "none")
            yield _arrow(rows, partition.era)


def cut(start: int, end: int, tasks: int) -> list[tuple[int, int]]:
    """The range in as many pieces as there are tasks, in order, or fewer where they would be small."""
    pieces = max(1, min(tasks, (end - start) // ROWS_PER_TASK_MIN))
    at = [start + (end - start) * piece // pieces for piece in range(pieces + 1)]
    return [(begin, until) for begin, until in pairwise(at) if begin < until]


def batches(chunks: Iterable[list[Raw]]) -> Iterator[list[Raw]]:
    """The same records in batches of bounded rows and bytes (a batch has one record at least, however large)."""
    batch: list[Raw] = []
    bytes_held = 0
    for chunk in chunks:
        for raw in chunk:
            size = len(raw.key or b"") + len(raw.value or b"")
            if batch and (len(batch) >= BATCH_ROWS_MAX or bytes_held + size > BATCH_BYTES_MAX):
                yield batch
                batch, bytes_held = [], 0
            batch.append(raw)
            bytes_held += size
    if batch:
        yield batch


def _arrow(rows: list[Raw], era: int) -> pa.RecordBatch:
    columns = [
        pa.array([raw.offset for raw in rows], pa.int64()),
        pa.repeat(pa.scalar(era, pa.int64()), len(rows)),
        pa.array([raw.written_at_ms for raw in rows], pa.int64()),
        pa.array([raw.key for raw in rows], pa.binary()),
        pa.array([raw.value for raw in rows], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)


def _offset(position: Position, topic_id: str) -> dict[str, object]:
    """Always in this order: Spark compares offsets as text."""
    return {"era": position.era, "topic_id": topic_id, "offset": position.offset}


def _position(offset: Mapping[str, object]) -> tuple[Position, str]:
    return Position(int(str(offset["era"])), int(str(offset["offset"]))), str(offset["topic_id"])


def _at_least(given: Mapping[str, str], name: str, least: int, default: int) -> int:
    text = given.get(name, str(default))
    if not text.isdecimal() or int(text) < least:
        raise _bad_option(name, f"a whole number, {least} or more")
    return int(text)


def _bad_option(name: str, wanted: str) -> ConfigurationError:
    return ConfigurationError(
        f"option {name} of format {FORMAT} is not valid",
        detail=f"it must be {wanted}",
        hint="cdc.spark_source.options(kafka, source) makes the options that reach a log",
    )
