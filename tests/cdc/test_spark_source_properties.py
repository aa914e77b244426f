"""For random transactions and random timing: every epoch is a union of whole transactions in order, and nothing is lost
or seen twice over restarts and crashes. Real broker, real Spark; the search alone has many more examples without them
(test_boundaries.py)."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import StreamingQueryException

from cdc.addresses import KafkaAddress
from tests.cdc.log_writer import LogWriter
from tests.cdc.stream_runs import StreamRuns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.stack, pytest.mark.spark]

EPOCH_S_MAX = 60.0


@dataclass(frozen=True)
class Transaction:
    rows: int
    kafka_commit_after: int | None
    """Kafka's own transaction is committed after so many of its records: Debezium's polls end where they like."""
    first_attempt_aborted: bool


@dataclass(frozen=True)
class SnapshotRows:
    rows: int


@dataclass(frozen=True)
class Run:
    """The stream runs until it has read everything there is."""

    rows_per_epoch_max: int
    crash_at_next: bool


@dataclass(frozen=True)
class RunWhileWriting:
    """The stream runs while transactions are written, and is stopped somewhere in between."""

    rows_per_epoch_max: int
    transactions: tuple[Transaction, ...]


def transactions() -> st.SearchStrategy[Transaction]:
    return st.builds(Transaction, st.integers(0, 9), st.none() | st.integers(1, 9), st.booleans())


def steps() -> st.SearchStrategy[list[object]]:
    limits = st.integers(1, 12)
    several = st.lists(transactions(), min_size=1, max_size=5).map(tuple)
    step = st.one_of(
        transactions(),
        transactions(),
        st.builds(SnapshotRows, st.integers(1, 4)),
        st.builds(Run, limits, st.booleans()),
        st.builds(RunWhileWriting, limits, several),
    )
    return st.lists(step, min_size=3, max_size=8)


@dataclass
class Story:
    runs: StreamRuns
    groups: list[list[bytes]]
    """What must come together: each transaction, each row of the snapshot."""

    def write(self, transaction: Transaction) -> None:
        writer = self.runs.writer
        values = writer.next_transaction(transaction.rows)
        cut = transaction.kafka_commit_after or len(values)
        if transaction.first_attempt_aborted:
            writer.write(*values[:cut])
            writer.abort()
        for part in (values[:cut], values[cut:]):
            writer.write(*part)
            writer.commit()
        self.groups.append(values)

    def take(self, step: object) -> None:
        match step:
            case Transaction():
                self.write(step)
            case SnapshotRows(rows):
                self.groups += [[value] for value in self.runs.writer.snapshot(rows)]
            case Run(limit, crash):
                self.run(limit, crash)
            case RunWhileWriting(limit, several):
                query = self.runs.start(rows_per_epoch_max=limit)
                for transaction in several:
                    self.write(transaction)
                assert self.runs.epoch_seen.wait(EPOCH_S_MAX)
                query.stop()

    def run(self, limit: int, crash: bool = False) -> None:
        if crash:
            self.runs.crash_at = max(self.runs.epochs, default=-1) + 1
            query = self.runs.start(available_now=True, rows_per_epoch_max=limit)
            with suppress(StreamingQueryException):  # there may be nothing left to read, and then nothing to die in
                query.awaitTermination()
            error = query.exception()
            assert error is None or "Crash" in str(error)
            self.runs.crash_at = None
        else:
            self.runs.run(rows_per_epoch_max=limit)

    def check(self) -> None:
        assert self.runs.records() == [value for group in self.groups for value in group]
        left = [list(group) for group in self.groups]
        for number in sorted(self.runs.epochs):
            epoch = list(self.runs.epochs[number])
            while epoch:
                group = left.pop(0)
                assert epoch[: len(group)] == group, f"epoch {number} cuts through a transaction"
                del epoch[: len(group)]


@settings(
    max_examples=6,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(steps())
def test_epochs_are_whole_and_nothing_is_lost_or_seen_twice(
    kafka: KafkaAddress, spark: SparkSession, script: list[object]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        story = Story(StreamRuns(spark, LogWriter(kafka), Path(folder) / "checkpoint"), [])
        for step in script:
            story.take(step)
        story.run(limit=7)
        story.check()
