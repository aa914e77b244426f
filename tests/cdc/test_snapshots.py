"""How an initial snapshot is doing: from records made by hand, and from a topic with cuts, eras and retention."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from cdc.addresses import KafkaAddress
from cdc.changelog import ChangeLog
from cdc.eras import register
from cdc.events import Record
from cdc.position import Position
from cdc.snapshots import SnapshotProgress, SnapshotTracker
from cdc.topics import delete_topic
from tests.cdc.golden_files import records
from tests.cdc.log_writer import LogWriter, row, snapshot_row

ERA = 1_760_000_000


def seen(*values: bytes | None) -> SnapshotProgress:
    progress = SnapshotProgress(Position(ERA, 10))
    for offset, value in enumerate(values, 10):
        progress = progress.seen(Record(Position(ERA, offset), 0, None, value))
    return progress


def place(word: str) -> bytes:
    return snapshot_row(1, 1_000, place=word)


def with_column(value: bytes, name: str, content: str) -> bytes:
    """The same record of a table that has one more column."""
    event = json.loads(value)
    event["after"] = {name: content, **event["after"]}
    return json.dumps(event, separators=(",", ":")).encode()


# Records made by hand


def test_a_snapshot_from_its_first_row_to_its_last() -> None:
    assert seen() == SnapshotProgress(Position(ERA, 10))
    begun = seen(place("first"), place("true"))
    assert (begun.begun, begun.complete, begun.rows) == (1, False, 2)
    assert begun.scanned == Position(ERA, 12)
    done = seen(place("first"), place("true"), place("first_in_data_collection"), place("last"))
    assert (done.begun, done.complete, done.spoilt, done.rows) == (1, True, False, 4)


def test_one_that_began_twice_is_spoilt_also_when_it_came_to_an_end() -> None:
    assert seen(place("first"), place("true"), place("first")).spoilt
    assert seen(place("first"), place("first"), place("last")).spoilt


@pytest.mark.parametrize("word", ["first", "last"])
def test_a_column_of_that_name_means_nothing(word: str) -> None:
    spoken = with_column(place("true"), "snapshot", word)
    assert f'"snapshot":"{word}"'.encode() in spoken
    found = seen(place("first"), spoken, spoken)
    assert (found.begun, found.complete) == (1, False)
    changed = with_column(row(1, 7, 1_000), "snapshot", word)
    assert seen(changed).begun == 0
    assert not seen(changed).complete


def test_what_is_no_row_of_a_snapshot_is_counted_and_no_more() -> None:
    found = seen(None, b"", b"rubbish", b'"snapshot":"first"', row(1, 7, 1_000))
    assert (found.rows, found.begun, found.complete) == (5, 0, False)


def test_what_the_real_debezium_writes_is_understood() -> None:
    progress = SnapshotProgress(Position(ERA, 0))
    for record in records():
        progress = progress.seen(record)
    assert (progress.begun, progress.complete) == (1, True)


# A real topic


@pytest.fixture
def writer(kafka: KafkaAddress) -> Iterator[LogWriter]:
    writer = LogWriter(kafka)
    yield writer
    for topic in (writer.source.changes_topic, writer.source.eras_topic):
        delete_topic(kafka, topic)


def log_of(writer: LogWriter) -> ChangeLog:
    return ChangeLog(writer.kafka, writer.source)


@pytest.mark.stack
def test_each_look_goes_on_where_the_last_one_ended(writer: LogWriter) -> None:
    tracker = SnapshotTracker(log_of(writer))
    assert tracker.look().rows == 0
    writer.write(place("first"), place("true"))
    writer.commit()
    assert tracker.look().rows == 2
    assert tracker.look().rows == 2, "nothing is read twice"
    writer.write(place("last"), row(1, 7, 1_000))
    writer.commit()
    done = tracker.look()
    assert (done.rows, done.complete) == (3, True)
    writer.transaction(3)
    assert tracker.look() == done, "after the end of the snapshot nothing is read any more"


@pytest.mark.stack
def test_a_bounded_look_says_that_there_is_more(writer: LogWriter) -> None:
    writer.write(place("first"), *(place("true") for _ in range(5)), place("last"))
    writer.commit()
    tracker = SnapshotTracker(log_of(writer))
    looks = [tracker.look(records_max=3) for _ in range(3)]
    assert [look.rows for look in looks] == [3, 6, 7]
    assert [look.behind for look in looks] == [True, True, False]
    assert [look.complete for look in looks] == [False, False, True]


@pytest.mark.stack
def test_a_new_era_starts_over(writer: LogWriter) -> None:
    tracker = SnapshotTracker(log_of(writer))
    writer.write(place("first"), place("true"), place("first"))
    writer.commit()
    assert tracker.look().spoilt
    era = register(writer.kafka, writer.source, writer.identity(timeline=2), "begun anew")
    fresh = tracker.look()
    assert (fresh.begun, fresh.rows, fresh.scanned.era) == (0, 0, era.era)
    writer.write(place("first"), place("last"))
    writer.commit()
    assert tracker.look().complete
    assert not tracker.look().spoilt


@pytest.mark.stack
def test_a_snapshot_older_than_the_log_is_over(writer: LogWriter) -> None:
    """Or a connector that fails a week after its snapshot would never be looked at again."""
    writer.write(place("first"), place("last"))
    writer.commit()
    writer.transaction(3)
    writer.cut_off(3)
    looked = SnapshotTracker(log_of(writer)).look()
    assert looked.complete
    assert not looked.spoilt
