"""The change log on the real broker: every way to read it, and every way in which it can be gone."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from cdc.addresses import KafkaAddress
from cdc.changelog import ChangeLog
from cdc.eras import register
from cdc.errors import LogError, PositionExpired, TopicRecreated
from cdc.events import Begin, End
from cdc.position import Lsn, Position
from tests.cdc.log_writer import LogWriter

pytestmark = pytest.mark.stack


@pytest.fixture
def writer(kafka: KafkaAddress) -> LogWriter:
    return LogWriter(kafka)


@pytest.fixture
def log(writer: LogWriter) -> ChangeLog:
    return ChangeLog(writer.kafka, writer.source)


def test_an_empty_log_reads_as_nothing(log: ChangeLog, writer: LogWriter) -> None:
    start = Position(writer.era.era, 0)
    assert log.bounds() == (start, start)
    assert list(log.read(start)) == []
    assert log.seek_lsn(Lsn(5)) == start


def test_reads_what_was_written_in_order_without_what_was_aborted(log: ChangeLog, writer: LogWriter) -> None:
    written = writer.snapshot(3)
    written += writer.transaction(2)
    writer.write(*writer.next_transaction(4))
    writer.abort()
    written += writer.transaction(1)
    low, high = log.bounds()
    records = list(log.read(low))
    assert [record.value for record in records] == written
    assert sorted({record.position for record in records}) == [record.position for record in records]
    assert log.count(low) == log.count(low, high) == len(written)
    assert [record.value for record in log.read(low, limit=2)] == written[:2]
    middle = records[4].position
    assert [record.value for record in log.read(low, middle)] == written[:4]
    assert [record.value for record in log.read(middle)] == written[4:]


def test_what_is_not_committed_is_not_read(log: ChangeLog, writer: LogWriter) -> None:
    written = writer.transaction(1)
    writer.write(*writer.next_transaction(1))
    low, _ = log.bounds()
    assert [record.value for record in log.read(low)] == written
    writer.abort()


def test_readers_do_not_disturb_each_other(log: ChangeLog, writer: LogWriter) -> None:
    for _ in range(3):
        writer.transaction(2)
    low, _ = log.bounds()
    pairs = [(outer.position, log.count(outer.position)) for outer in log.read(low)]
    assert [count for _, count in pairs] == list(range(len(pairs), 0, -1))


def test_transactions_come_whole(log: ChangeLog, writer: LogWriter) -> None:
    writer.snapshot(2)
    writer.transaction(3)
    writer.transaction(0)
    low, _ = log.bounds()
    assert [len(each.events) for each in log.transactions(low)] == [1, 1, 3, 0]
    *_, third, fourth = log.transactions(low)
    assert isinstance(third.begin, Begin)
    assert isinstance(third.end, End)
    assert third.end.commit_lsn < (fourth.end or third.end).commit_lsn


def test_following_goes_on_until_it_is_stopped(log: ChangeLog, writer: LogWriter) -> None:
    stop = threading.Event()
    written = writer.transaction(1)
    seen: list[bytes | None] = []
    for record in log.follow(log.bounds()[0], stop):
        seen.append(record.value)
        if len(seen) == 3:
            written += writer.transaction(2)
        if len(seen) == 7:
            stop.set()
    assert seen == written


def test_seeks_by_lsn(log: ChangeLog, writer: LogWriter) -> None:
    writer.snapshot(3)
    snapshot_lsn = writer.lsn
    begins = []
    for rows in (1, 4, 2):
        begins.append(log.bounds()[1])
        writer.transaction(rows)
    first_lsn = snapshot_lsn + 100
    low, _ = log.bounds()

    def first_at(lsn: int) -> Position:
        return next(log.read(log.seek_lsn(Lsn(lsn)))).position

    assert first_at(0) == first_at(snapshot_lsn) == low
    assert first_at(snapshot_lsn + 1) == first_at(first_lsn) == begins[0]
    assert first_at(first_lsn + 1) == begins[1]
    assert first_at(first_lsn + 200) == begins[2]
    assert list(log.read(log.seek_lsn(Lsn(first_lsn + 201)))) == []


def test_seeks_by_time(log: ChangeLog, writer: LogWriter) -> None:
    writer.transaction(1)
    low, high = log.bounds()
    now = datetime.now(UTC)
    assert log.seek_time(now - timedelta(hours=1)) == low
    assert log.seek_time(now + timedelta(hours=1)) == high
    written = [record.written_at_ms for record in log.read(low)]
    assert log.seek_time(datetime.fromtimestamp(written[0] / 1000, UTC)) == low


def test_a_position_that_is_gone_is_refused(log: ChangeLog, writer: LogWriter) -> None:
    for _ in range(3):
        writer.transaction(2)
    low, _ = log.bounds()
    writer.cut_off(6)
    with pytest.raises(PositionExpired) as raised:
        log.read(low)
    assert "headwater log" in raised.value.hint
    assert log.bounds()[0].offset == 6
    with pytest.raises(PositionExpired, match="may no longer hold"):
        log.seek_lsn(Lsn(1))
    assert log.seek_lsn(Lsn(writer.lsn)).offset > 6


def test_a_log_cut_off_under_a_reader_is_an_error_not_a_gap(log: ChangeLog, writer: LogWriter) -> None:
    for _ in range(3):
        writer.transaction(2)
    low, _ = log.bounds()
    reading = log.read(low)
    writer.cut_off(6)
    with pytest.raises(PositionExpired):
        next(reading)


def test_a_topic_made_anew_is_refused(log: ChangeLog, writer: LogWriter) -> None:
    writer.transaction(2)
    low, _ = log.bounds()
    writer.recreate()
    with pytest.raises(TopicRecreated) as raised:
        log.read(low)
    assert "headwater log" in raised.value.hint
    with pytest.raises(TopicRecreated):
        log.bounds()


def test_a_topic_made_anew_under_a_reader_is_refused(log: ChangeLog, writer: LogWriter) -> None:
    for _ in range(3):
        writer.transaction(2)
    low, _ = log.bounds()
    reading = log.read(low)
    writer.recreate()
    for _ in range(3):
        writer.transaction(2)
    with pytest.raises(TopicRecreated):
        next(reading)


def test_a_position_beyond_the_end_is_refused(log: ChangeLog, writer: LogWriter) -> None:
    _, high = log.bounds()
    with pytest.raises(LogError, match="is not in the log"):
        log.read(Position(high.era, high.offset + 1))


def test_records_of_a_new_era_say_so(log: ChangeLog, writer: LogWriter) -> None:
    writer.transaction(1)
    later = register(writer.kafka, writer.source, writer.identity(timeline=2), "failover")
    writer.transaction(1)
    low, high = log.bounds()
    assert low.era == writer.era.era
    assert high.era == later.era
    positions = [record.position for record in log.read(low)]
    assert [position.era for position in positions] == [writer.era.era] * 3 + [later.era] * 3
    assert positions == sorted(positions)
    assert log.seek_lsn(Lsn(1)) == Position(later.era, later.first_offset)
