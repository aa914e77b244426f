"""The archive of the log: what it holds (pure), and the real thing on Kafka and Delta."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from cdc.addresses import KafkaAddress
from cdc.archive import Archiver, ArchiveReader, archive_folder
from cdc.archive_ranges import Held, Ranges
from cdc.changelog import ChangeLog
from cdc.eras import register
from cdc.errors import LogError, PositionExpired, StateFenced
from cdc.position import Position
from tests.cdc.log_writer import LogWriter

TOPIC = "topic-1"


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.data())
def test_what_is_held_reaches_back_to_the_last_gap(sizes: list[int], data: st.DataObject) -> None:
    """Ranges of one topic, some with a gap before them, each in an era of its own or the last one's."""
    ranges, at, begins = Ranges(), 0, 0
    for number, size in enumerate(sizes):
        if data.draw(st.booleans()) and number:
            at += 1
            begins = at
        era = number if data.draw(st.booleans()) else 0
        ranges = ranges.plus(Held(TOPIC, era, at, at + size))
        at += size
    assert ranges.next_offset(TOPIC, 0) == at
    assert ranges.reach(TOPIC, at) == begins
    assert ranges.reach("another", at) == at
    assert ranges.reach(TOPIC, at + 1) == at + 1, "a gap between archive and Kafka"
    found = list(ranges.within(TOPIC, begins, at))
    assert sum(held.end - held.start for held in found) == at - begins
    assert all(one.end == two.start for one, two in pairwise(found))


def test_ranges_that_go_on_are_one() -> None:
    ranges = Ranges().plus(Held(TOPIC, 1, 0, 5)).plus(Held(TOPIC, 1, 5, 9))
    assert ranges.held == (Held(TOPIC, 1, 0, 9),)
    assert str(ranges) == "1:0 to 1:9"
    assert len(ranges.plus(Held(TOPIC, 1, 10, 12)).held) == 2
    assert len(ranges.plus(Held(TOPIC, 2, 9, 12)).held) == 2


@pytest.mark.stack
def test_the_log_outlives_kafkas_retention(kafka: KafkaAddress, tmp_path: Path) -> None:
    log = LogWriter(kafka)
    archiver, reader = Archiver(kafka, log.source, tmp_path), ArchiveReader(log.source, tmp_path)
    changes, era = ChangeLog(kafka, log.source), log.era.era
    for rows in (2, 1500, 3):
        log.transaction(rows)
    log.write(*log.next_transaction(1))
    log.abort()  # occupies offsets, and is never seen
    wanted = list(changes.read(Position(era, 0)))
    first = archiver.step(records_max=1200)
    assert (first.start, first.end) == (Position(era, 0), Position(era, 1200))
    second = Archiver(kafka, log.source, tmp_path).step()
    assert second.start == first.end
    assert archiver.step().start == archiver.step().end, "nothing new"
    log.cut_off(1400)
    assert list(reader.read(Position(era, 0), second.end)) == wanted
    assert list(reader.read(Position(era, 700), Position(era, 900))) == [
        record for record in wanted if 700 <= record.position.offset < 900
    ]
    assert reader.reach(log.topic_id, 1400) == 0

    # Another era, in the same topic: each record has its own.
    later = register(kafka, log.source, log.identity(timeline=2), "failover")
    log.transaction(1)
    wanted += changes.read(Position(later.era, later.first_offset))
    assert archiver.step().end.era == later.era
    assert list(reader.records(log.topic_id, 0, changes.bounds()[1].offset)) == wanted
    assert len(reader.ranges().held) == 2

    # Lost before it was archived: said, then accepted, and never read over.
    lost_from = changes.bounds()[1].offset
    log.transaction(3)
    lost_to = changes.bounds()[1].offset
    log.transaction(1)
    log.cut_off(lost_to)
    with pytest.raises(PositionExpired, match=f"dropped offsets {lost_from} to {lost_to}"):
        archiver.step()
    behind = archiver.step(accept_gap=True)
    assert behind.start == Position(later.era, lost_to)
    with pytest.raises(PositionExpired, match="does not hold") as raised:
        reader.read(Position(later.era, later.first_offset), behind.end)
    assert str(lost_from) in raised.value.detail
    with pytest.raises(PositionExpired, match=f"does not hold 0 to {behind.end.offset} whole"):
        list(reader.records(log.topic_id, 0, behind.end.offset))
    assert reader.reach(log.topic_id, behind.end.offset) == lost_to

    archiver.compact()
    assert list(reader.read(Position(era, 0), second.end)) == [r for r in wanted if r.position.era == era]
    table = DeltaTable(archive_folder(tmp_path, log.source).path)
    write_deltalake(table, table.to_pyarrow_table().slice(0, 1), mode="append")
    with pytest.raises(LogError, match="somebody else"):
        archiver.step()


@pytest.mark.stack
def test_archive_and_kafka_are_read_as_one_log(kafka: KafkaAddress, tmp_path: Path) -> None:
    log = LogWriter(kafka)
    changes, era = ChangeLog(kafka, log.source), log.era.era
    log.transaction(1500)
    log.transaction(2)
    wanted, high = list(changes.read(Position(era, 0))), changes.bounds()[1]
    Archiver(kafka, log.source, tmp_path).step(records_max=1450)
    log.cut_off(1400)
    with pytest.raises(PositionExpired):
        changes.read(Position(era, 0))
    whole = ChangeLog(kafka, log.source, ArchiveReader(log.source, tmp_path))
    assert whole.bounds() == (Position(era, 0), high)
    assert list(whole.read(Position(era, 0))) == wanted
    assert list(whole.read(Position(era, 1390), limit=20)) == [r for r in wanted if r.position.offset >= 1390][:20]
    assert len(list(whole.transactions(Position(era, 0)))) == 2
    for record in (wanted[0], wanted[1000], wanted[-1]):
        at_s = record.written_at_ms // 1000
        first = next(r for r in wanted if r.written_at_ms >= at_s * 1000)
        assert whole.seek_time(datetime.fromtimestamp(at_s, UTC)) == first.position
    assert whole.seek_time(datetime(2200, 1, 1, tzinfo=UTC)) == high
    log.cut_off(1460)
    with pytest.raises(PositionExpired):
        whole.read(Position(era, 0))


@pytest.mark.stack
def test_a_step_is_bounded_and_of_two_archivers_one_is_refused(
    kafka: KafkaAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogWriter(kafka)
    log.transaction(11_000)
    archiver, reader = Archiver(kafka, log.source, tmp_path), ArchiveReader(log.source, tmp_path)
    monkeypatch.setattr("cdc.archive.BYTES_PER_STEP_MAX", 1)
    steps = []
    while (done := archiver.step()).start != done.end:
        steps.append(done)
    assert len(steps) > 1
    assert all(one.end == two.start for one, two in pairwise(steps))
    wanted = list(ChangeLog(kafka, log.source).read(steps[0].start))
    assert list(reader.read(steps[0].start, steps[-1].end)) == wanted

    log.transaction(1)
    read = Archiver._read

    def overtaken(self: Archiver, held: Held) -> object:
        if self is archiver:
            Archiver(kafka, log.source, tmp_path).step()
        return read(self, held)

    monkeypatch.setattr(Archiver, "_read", overtaken)
    with pytest.raises(StateFenced):
        archiver.step()
    monkeypatch.undo()
    wanted = list(ChangeLog(kafka, log.source).read(steps[0].start))
    assert list(reader.records(log.topic_id, steps[0].start.offset, archiver.step().end.offset)) == wanted

    shutil.rmtree(archive_folder(tmp_path, log.source).path / "_delta_log")
    with pytest.raises(LogError, match="damaged"):
        archiver.step()
    assert list(tmp_path.rglob("*.parquet")), "what was archived is not thrown away"
