"""An epoch of a group as one Spark job: in a single task while it is small, spread over shards level by level if not.

    spread   records ─ intake ─▶ by shard ─ mirrors ─▶ by shard ─ stages ─▶ … ─ stores ─▶ what is to be published
    single   the same nodes in the same order in one task, without a shuffle between them

A task answers with its stores' changes, or with word that they lie in the state because they are large. What goes
wrong on purpose inside a task (HeadwaterError) reaches the caller as what it is.
"""

from __future__ import annotations

import base64
import gc
import pickle
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import pyarrow as pa

from cdc.addresses import KafkaAddress, Source
from cdc.changelog import Archive
from cdc.errors import HeadwaterError
from cdc.position import Position
from cdc.spark_source import ChangesStream, Range, StreamOptions, cut
from views.maintain.failpoints import reached
from views.maintain.intake import Note, hand_out
from views.maintain.mail import Mailbox, packed, unpacked
from views.maintain.seed import Seed
from views.maintain.worker import Changed, GroupRef, Letter, Worker

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession

SINGLE_RECORDS_MAX: Final = 100_000
"""Up to so many records one task is faster than two: on two cores it takes 15,000 records a second, and two tasks with
the shuffles between their levels 9,000."""
SCHEMA: Final = "shard int, dest int, place int, payload binary"
_ARROW: Final = pa.schema([*((name, pa.int32()) for name in ("shard", "dest", "place")), ("payload", pa.binary())])
_NOTE, _CHANGES, _SAVED = -1, -2, -3
_ERROR: Final = re.compile(r"headwater-error:([A-Za-z0-9+/=]+):")
_BATCH_BYTES_MAX: Final = 8 << 20

_ones: dict[str, Any] = {}

Row: TypeAlias = tuple[int, int, int, bytes]


@dataclass
class Answer:
    """What an epoch's job gave."""

    note: Note = field(default_factory=Note)
    changed: list[Changed] = field(default_factory=list)


@dataclass(frozen=True)
class LogRange:
    """The records of an epoch, or more: what a group knows already it passes over."""

    kafka: KafkaAddress
    source: Source
    topic_id: str
    start: Position
    end: int
    archive: Archive | None = None
    """Where Kafka no longer has all of it."""

    def batches(self, piece: tuple[int, int] | None = None) -> Iterator[pa.RecordBatch]:
        """All of them, or those of one piece."""
        begin, until = piece or (self.start.offset, self.end)
        stream = ChangesStream(StreamOptions(self.kafka, self.source, archive=self.archive))
        return stream.read(Range(self.topic_id, self.start.era, begin, until))

    @property
    def size(self) -> int:
        return self.end - self.start.offset

    def parts(self, shards: int) -> int:
        """In how many parts it can be read."""
        return len(self._pieces(shards))

    def letters(self, worker: Worker, note: Note, parts: Collection[int] | None = None) -> Iterator[Letter]:
        """All of it, or some parts, to the mirrors; what they say of the epoch is noted on the way."""
        pieces = self._pieces(worker.shards)
        chosen = [None] if parts is None else [pieces[number] for number in parts]
        read = (batch for piece in chosen for batch in self.batches(piece))
        for node, table in hand_out(read, worker.group.tables, note):
            yield Letter(node, worker.mirror_shard(node), 0, table)

    def _pieces(self, count: int) -> list[tuple[int, int]]:
        return cut(self.start.offset, self.end, count)


@dataclass(frozen=True)
class SeedRows:
    """The first epoch of a group that does not begin with the log: the rows that its mirrors take from a seed."""

    folder: Path
    seed: Seed

    @property
    def end(self) -> int:
        return self.seed.offset

    @property
    def size(self) -> int:
        return self.seed.rows

    def parts(self, shards: int) -> int:
        return shards

    def letters(self, worker: Worker, note: Note, parts: Collection[int] | None = None) -> Iterator[Letter]:
        """To the nodes after the mirrors: those have their rows already."""
        if parts is None or 0 in parts:
            note.add(self.seed.note())
        yield from worker.begin(self.folder, range(worker.shards) if parts is None else parts)


def run_epoch(spark: SparkSession, records: LogRange | SeedRows, ref: GroupRef) -> Answer:
    """Runs a group over the records up to their end, which is the epoch's number."""
    try:
        if records.size <= SINGLE_RECORDS_MAX:
            return _answer(_one(spark).mapPartitions(Single(ref, records)).collect())
        return _answer(_rows(_spread(spark, records, ref).toArrow().to_batches()))
    except Exception as error:
        found = _raised(error)
        if found is None:
            raise
        raise found from error


def _one(spark: SparkSession) -> RDD[int]:
    """A single partition, for a job of one task: made once, because making it takes as long as running it."""
    context = spark.sparkContext
    if _ones.get("context") is not context:
        _ones["context"], _ones["rdd"] = context, context.parallelize([0], 1)
    rdd: RDD[int] = _ones["rdd"]
    return rdd


def _spread(spark: SparkSession, records: LogRange | SeedRows, ref: GroupRef) -> DataFrame:
    """The tasks read the log themselves: Spark's own way to a Python source starts processes for every query."""
    group, epoch = ref.open(), records.end
    parts = records.parts(group.spec.shards)
    job = spark.range(0, parts, 1, parts).mapInArrow(Intake(ref, epoch, records), SCHEMA)
    for level in range(group.depth + 1):
        job = job.repartitionById(group.spec.shards, job["shard"]).mapInArrow(Level(ref, epoch, level), SCHEMA)
    return job


@contextmanager
def _carried() -> Iterator[None]:
    """What is raised on purpose survives the way through Spark, which carries texts only.

    Python's collector of cycles is off meanwhile: an epoch's rows have none, and it would look at all of them again and
    again.
    """
    gc.disable()
    try:
        yield
    except HeadwaterError as error:
        content = base64.b64encode(pickle.dumps(error)).decode()
        raise RuntimeError(f"headwater-error:{content}: {error}") from error
    finally:
        gc.enable()


@dataclass(frozen=True)
class Single:
    """The whole epoch in one task, which also reads the log."""

    ref: GroupRef
    records: LogRange | SeedRows

    def __call__(self, partition: Iterable[int]) -> Iterator[Row]:
        for _ in partition:
            pass  # a worker whose input was not read to its end is thrown away, with all that it has open
        with _carried():
            worker, mail, note = Worker(self.ref, self.records.end), Mailbox(), Note()
            for letter in self.records.letters(worker, note):
                mail.add(*letter)
            reached("read")
            for changed in worker.run(mail):
                yield from _told(changed)
            yield 0, _NOTE, 0, msgspec.json.encode(note)


@dataclass(frozen=True)
class _Step:
    """A function of Arrow batches."""

    ref: GroupRef
    epoch: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with _carried():
            yield from _batched(self.rows(batches))

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
        raise NotImplementedError


@dataclass(frozen=True)
class Intake(_Step):
    """Given the numbers of some parts of what there is to read, reads them."""

    records: LogRange | SeedRows

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
        worker, note = Worker(self.ref, self.epoch), Note()
        mine = [number for batch in batches for number in batch.column(0).to_pylist()]
        for found in self.records.letters(worker, note, mine):
            yield found.shard, found.dest, found.place, packed(found.table)
        reached("read")
        yield 0, _NOTE, 0, msgspec.json.encode(note)


@dataclass(frozen=True)
class Level(_Step):
    level: int

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        worker, mail = Worker(self.ref, self.epoch), Mailbox()
        for row in _rows(batches):
            shard, dest, place, payload = row
            if dest >= 0 and worker.group.nodes[dest].level == self.level:
                mail.add(dest, shard, place, unpacked(payload))
            else:
                yield row
        for found in worker.run_level(self.level, mail, [context.partitionId()]):
            if isinstance(found, Letter):
                yield found.shard, found.dest, found.place, packed(found.table)
            else:
                yield from _told(found)


def _told(changed: Changed) -> Iterator[Row]:
    if changed.tables is None:
        yield changed.shard, _SAVED, changed.node, str(changed.rows).encode()
        return
    for table in changed.tables:
        yield changed.shard, _CHANGES, changed.node, packed(table)


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _batched(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    held: list[Row] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row[3])
        if size >= _BATCH_BYTES_MAX:
            yield _arrow(held)
            held, size = [], 0
    if held:
        yield _arrow(held)


def _arrow(rows: list[Row]) -> pa.RecordBatch:
    arrays = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), _ARROW.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def _answer(rows: Iterable[Row]) -> Answer:
    answer = Answer()
    found: dict[tuple[int, int], list[pa.Table]] = {}
    for shard, kind, node, payload in rows:
        if kind == _NOTE:
            answer.note = answer.note.plus(msgspec.json.decode(payload, type=Note))
        elif kind == _SAVED:
            answer.changed.append(Changed(node, shard, None, int(payload)))
        else:
            found.setdefault((node, shard), []).append(unpacked(payload))
    for (node, shard), tables in found.items():
        answer.changed.append(Changed(node, shard, tables, sum(t.num_rows for t in tables)))
    return answer


def _raised(error: Exception) -> HeadwaterError | None:
    """The error that a task raised on purpose."""
    match = _ERROR.search(str(error))
    found: Any = pickle.loads(base64.b64decode(match.group(1))) if match else None  # our own task's
    return found if isinstance(found, HeadwaterError) else None
