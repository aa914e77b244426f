"""The change log into Spark through `readStream.format("headwater")`: a backlog that is there, and a log that grows.

The rows are counted where they are, in Spark's tasks, and every byte of them gets there; only the counts come to the
driver. The session runs before the clock starts; starting the query is part of what is measured.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cdc.capture import Capture
from cdc.errors import LogError
from cdc.position import Position
from cdc.spark_source import FORMAT, options
from headwater.bench.figures import Rate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

ARRIVAL_S_MAX: Final = 600.0
WAIT_STEP_S: Final = 0.5
_ROWS: Final = "count_if(substring(value, 1, 10) != cast('{\"status\":' as binary)) as rows"
_BYTES: Final = "coalesce(sum(length(key)), 0) + coalesce(sum(length(value)), 0) as bytes"


@dataclass(frozen=True, slots=True)
class SparkRead:
    rate: Rate
    epochs: int
    record_bytes: float
    """The average of a record's key and value."""


class Counter:
    """What has arrived so far. Called by Spark's callback thread, awaited by ours."""

    def __init__(self) -> None:
        self.rows = self.records = self.bytes = self.epochs = 0
        self.changed = threading.Condition()

    def __call__(self, batch: DataFrame, _number: int) -> None:
        found = batch.selectExpr(_ROWS, "count(*) as records", _BYTES).collect()[0]
        with self.changed:
            self.rows += found["rows"]
            self.records += found["records"]
            self.bytes += found["bytes"]
            self.epochs += 1
            self.changed.notify_all()


def read_backlog(spark: SparkSession, capture: Capture, start: Position, rows_min: int) -> SparkRead:
    """All that is in the log from `start` on; raises if that is less than it should be."""
    counter = Counter()
    with _checkpoint() as folder:
        began = time.monotonic()
        query = _query(spark, capture, start, counter, folder).trigger(availableNow=True).start()
        query.awaitTermination()
        took_s = time.monotonic() - began
    if counter.rows < rows_min:
        raise LogError(
            f"Spark read {counter.rows} rows of {rows_min}", detail=f"from {start}", hint="headwater log tail"
        )
    return SparkRead(Rate(counter.rows, took_s), counter.epochs, counter.bytes / max(1, counter.records))


@contextmanager
def following(spark: SparkSession, capture: Capture, start: Position) -> Iterator[Callable[[int], float]]:
    """A query that runs during the block; yields a function that waits for so many rows and tells when they were in."""
    counter = Counter()
    with _checkpoint() as folder:
        query = _query(spark, capture, start, counter, folder).start()
        try:
            yield lambda rows: _wait(query, counter, rows)
        finally:
            query.stop()


def _wait(query: StreamingQuery, counter: Counter, rows: int) -> float:
    deadline = time.monotonic() + ARRIVAL_S_MAX
    with counter.changed:
        while counter.rows < rows:
            if (error := query.exception()) is not None:
                raise LogError("the streaming query failed", detail=str(error), hint="headwater status")
            if time.monotonic() > deadline:
                raise LogError(
                    f"Spark has {counter.rows} rows of {rows} after {ARRIVAL_S_MAX:g} s", hint="headwater status"
                )
            counter.changed.wait(WAIT_STEP_S)
    return time.monotonic()


def _query(spark: SparkSession, capture: Capture, start: Position, counter: Counter, folder: str) -> DataStreamWriter:
    stream = (
        spark.readStream.format(FORMAT)
        .options(**options(capture.kafka, capture.source))
        .option("startingPosition", str(start))
        .load()
    )
    return stream.writeStream.foreachBatch(counter).option("checkpointLocation", folder)


@contextmanager
def _checkpoint() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="headwater-bench-", ignore_cleanup_errors=True) as folder:
        yield folder
