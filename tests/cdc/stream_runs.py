"""Runs a stream over a change log and keeps what each of its epochs held."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cdc.spark_source import FORMAT, options
from tests.cdc.log_writer import LogWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


class Crash(Exception):
    """Stands for the death of the process in the middle of an epoch."""


@dataclass
class StreamRuns:
    """One stream, run as often as you like from the same checkpoint."""

    spark: SparkSession
    writer: LogWriter
    folder: Path
    epochs: dict[int, list[bytes]] = field(default_factory=dict)
    """The records of each epoch, in order, by the epoch's number."""
    partitions: dict[int, int] = field(default_factory=dict)
    crash_at: int | None = None
    """The number of the epoch in which the next run dies, once."""
    epoch_seen: threading.Event = field(default_factory=threading.Event)

    def start(self, *, available_now: bool = False, **given: object) -> StreamingQuery:
        known = options(self.writer.kafka, self.writer.source)
        stream = self.spark.readStream.format(FORMAT).options(**known)
        for name, value in given.items():
            stream = stream.option(name, str(value))
        writing = stream.load().writeStream.foreachBatch(self._epoch).option("checkpointLocation", str(self.folder))
        self.epoch_seen.clear()
        return (writing.trigger(availableNow=True) if available_now else writing).start()

    def run(self, **given: object) -> None:
        """Until everything there is has been read."""
        self.start(available_now=True, **given).awaitTermination()

    def records(self) -> list[bytes]:
        return [value for number in sorted(self.epochs) for value in self.epochs[number]]

    def _epoch(self, frame: DataFrame, number: int) -> None:
        rows = frame.collect()
        offsets = [row.offset for row in rows]
        assert offsets == sorted(set(offsets))
        values = [bytes(row.value) for row in rows]
        # An epoch that is repeated after a crash is the same epoch.
        assert self.epochs.setdefault(number, values) == values
        self.partitions[number] = frame.rdd.getNumPartitions()
        self.epoch_seen.set()
        if self.crash_at == number:
            self.crash_at = None
            raise Crash
