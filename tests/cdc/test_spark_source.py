"""The stream on the real broker and a real Spark: whole transactions, restarts, and refusals instead of gaps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc.addresses import KafkaAddress, Source
from cdc.epochs import EpochPlanner
from cdc.eras import register
from cdc.errors import ConfigurationError, EraEnded, LogError, PositionExpired, TopicRecreated
from cdc.position import Position
from cdc.reader import Raw
from cdc.spark_source import BATCH_BYTES_MAX, BATCH_ROWS_MAX, StreamOptions, batches, cut, options
from tests.cdc.log_writer import LogWriter
from tests.cdc.stream_runs import StreamRuns
from tests.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_range_is_cut_over_the_tasks_without_gap_or_overlap() -> None:
    assert cut(5, 5, 4) == []
    assert cut(5, 6, 4) == [(5, 6)]
    assert cut(0, 10_001, 4) == [(0, 2500), (2500, 5000), (5000, 7500), (7500, 10_001)]


def test_batches_are_bounded_in_rows_and_bytes() -> None:
    small = [Raw(offset, 0, None, b"") for offset in range(BATCH_ROWS_MAX * 2 + 1)]
    assert [len(batch) for batch in batches([small[:7], small[7:]])] == [BATCH_ROWS_MAX, BATCH_ROWS_MAX, 1]
    large = [Raw(offset, 0, b"", bytes(BATCH_BYTES_MAX // 2)) for offset in range(5)]
    assert [len(batch) for batch in batches([large])] == [2, 2, 1]
    huge = [Raw(offset, 0, b"", bytes(BATCH_BYTES_MAX + 1)) for offset in range(2)]
    assert [len(batch) for batch in batches([huge])] == [1, 1]


def test_options_come_back_as_they_were_given() -> None:
    kafka = KafkaAddress("broker:9092", (("sasl.password", "hunter2"), ("security.protocol", "SASL_SSL")))
    parsed = StreamOptions.parse(options(kafka, Source("shop")))
    assert (parsed.kafka, parsed.source) == (kafka, Source("shop"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"bootstrap": ""},
        {"rows_per_epoch_max": "0"},
        {"tasks": "many"},
        {"security": '{"sasl.password": "hunter2"'},
    ],
)
def test_an_option_that_is_not_valid_is_named_without_its_value(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))) as raised:
        StreamOptions.parse({**options(KafkaAddress("broker:9092"), Source("shop")), **wrong})
    assert "hunter2" not in str(raised.value)


@pytest.mark.stack
class TestPlanner:
    @pytest.fixture
    def writer(self, kafka: KafkaAddress) -> LogWriter:
        return LogWriter(kafka)

    @pytest.fixture
    def planner(self, writer: LogWriter) -> EpochPlanner:
        return EpochPlanner(writer.kafka, writer.source)

    def test_waits_for_a_transaction_that_is_not_complete(self, writer: LogWriter, planner: EpochPlanner) -> None:
        *first, last = writer.next_transaction(5)
        writer.write(*first)
        writer.commit()
        start, topic_id = planner.first()
        assert planner.end(start, topic_id, 2) == start
        writer.write(last)
        writer.commit()
        end = planner.end(start, topic_id, 2)
        assert end.offset == 8  # just after the last record; the marker that follows it may wait
        assert planner.end(end, topic_id, 2) == end

    def test_behaves_as_if_nothing_were_written_once_it_is_frozen(
        self, writer: LogWriter, planner: EpochPlanner
    ) -> None:
        writer.transaction(1)
        start, topic_id = planner.first()
        planner.freeze()
        writer.transaction(1)
        end = planner.end(start, topic_id, None)
        assert end.offset == 4
        assert planner.end(end, topic_id, None) == end

    def test_a_position_inside_a_transaction_is_refused(self, writer: LogWriter, planner: EpochPlanner) -> None:
        writer.transaction(2)
        writer.transaction(1)
        era = writer.era.era
        for inside in (1, 2, 3, 6, 7):
            with pytest.raises(LogError, match="lies inside a transaction"):
                planner.first(f"{era}:{inside}")
        for whole in (0, 4, 5, 8, 9):
            assert planner.first(f"{era}:{whole}")[0] == Position(era, whole)

    def test_the_earliest_position_of_a_log_cut_off_is_its_first_whole_transaction(
        self, writer: LogWriter, planner: EpochPlanner
    ) -> None:
        writer.transaction(2)
        writer.transaction(1)
        writer.cut_off(2)
        start, topic_id = planner.first()
        assert start.offset == 4
        assert planner.end(start, topic_id, 5).offset == 9

    def test_refuses_a_topic_made_anew(self, writer: LogWriter, planner: EpochPlanner) -> None:
        writer.transaction(1)
        start, topic_id = planner.first()
        writer.recreate()
        writer.transaction(1)
        with pytest.raises(TopicRecreated):
            planner.end(start, topic_id, None)
        with pytest.raises(TopicRecreated):
            planner.require(start, topic_id)

    def test_refuses_a_position_that_is_gone(self, writer: LogWriter, planner: EpochPlanner) -> None:
        writer.transaction(1)
        writer.transaction(1)
        start, topic_id = planner.first()
        writer.cut_off(4)
        with pytest.raises(PositionExpired):
            planner.end(start, topic_id, None)

    def test_an_era_is_read_to_its_last_whole_transaction_and_then_ends(
        self, writer: LogWriter, planner: EpochPlanner
    ) -> None:
        writer.transaction(1)
        start, topic_id = planner.first()
        writer.write(*writer.next_transaction(2)[:-1])
        writer.commit()
        later = register(writer.kafka, writer.source, writer.identity(timeline=2), "failover")
        writer.transaction(1)
        end = planner.end(start, topic_id, None)
        assert end.offset == 3
        with pytest.raises(EraEnded, match=f"era {writer.era.era} ended"):
            planner.end(end, topic_id, None)
        assert planner.first()[0] == Position(later.era, later.first_offset)


@pytest.mark.stack
@pytest.mark.spark
class TestStream:
    @pytest.fixture
    def runs(self, kafka: KafkaAddress, spark: SparkSession, tmp_path: Path) -> StreamRuns:
        return StreamRuns(spark, LogWriter(kafka), tmp_path / "checkpoint")

    def test_epochs_are_whole_transactions_within_the_limit(self, runs: StreamRuns) -> None:
        written = runs.writer.snapshot(3)
        sizes = (1, 2, 7, 1)
        for rows in sizes:
            written += runs.writer.transaction(rows)
        runs.run(rows_per_epoch_max=6)
        assert runs.records() == written
        assert [len(runs.epochs[number]) for number in sorted(runs.epochs)] == [3, 3, 4, 9, 3]

    def test_a_restart_goes_on_exactly_where_it_was(self, runs: StreamRuns) -> None:
        written = runs.writer.transaction(2)
        runs.run()
        runs.run()
        assert runs.records() == written
        written += runs.writer.transaction(3)
        runs.crash_at = 1
        with pytest.raises(Exception, match="Crash"):
            runs.run()
        written += runs.writer.transaction(1)
        runs.run()
        assert runs.records() == written

    def test_a_running_stream_sees_what_is_committed(self, runs: StreamRuns) -> None:
        query = runs.start()
        try:
            written = runs.writer.transaction(2)
            eventually(lambda: runs.records() == written)
            written += runs.writer.transaction(1)
            eventually(lambda: runs.records() == written)
        finally:
            query.stop()

    def test_a_large_epoch_is_read_by_several_tasks_in_order(self, runs: StreamRuns) -> None:
        written = runs.writer.transaction(5000)
        runs.run(tasks=3)
        assert runs.records() == written
        assert runs.partitions[0] == 3

    def test_a_topic_made_anew_stops_the_stream(self, runs: StreamRuns) -> None:
        runs.writer.transaction(1)
        runs.run()
        runs.writer.recreate()
        for _ in range(3):
            runs.writer.transaction(1)
        with pytest.raises(Exception, match="TopicRecreated: the change log's topic was deleted and made anew"):
            runs.run()

    def test_an_unfinished_epoch_of_a_topic_made_anew_is_not_repeated(self, runs: StreamRuns) -> None:
        runs.writer.transaction(1)
        runs.crash_at = 0
        with pytest.raises(Exception, match="Crash"):
            runs.run()
        runs.writer.recreate()
        runs.writer.transaction(1)
        with pytest.raises(Exception, match="TopicRecreated"):
            runs.run()

    def test_a_position_that_is_gone_stops_the_stream(self, runs: StreamRuns) -> None:
        runs.writer.transaction(1)
        runs.run()
        runs.writer.transaction(1)
        runs.writer.transaction(1)
        runs.writer.cut_off(8)
        with pytest.raises(Exception, match="PositionExpired: the log no longer holds") as raised:
            runs.run()
        assert "headwater log" in str(raised.value)
