"""Capture as a whole, on the real servers: set up once, left alone when right, refused or begun anew when not."""

from __future__ import annotations

import psycopg
import pytest

from cdc import eras, topics
from cdc.capture import Capture
from cdc.changelog import ChangeLog
from cdc.connect import ConnectClient
from cdc.errors import CaptureError
from cdc.events import ChangeEvent, Op, Snapshot
from cdc.keeper import CaptureKeeper, Deed
from cdc.position import Lsn, Position
from cdc.snapshots import SnapshotTracker
from tests.waiting import eventually

pytestmark = pytest.mark.stack


def run(capture: Capture, *statements: str) -> None:
    with psycopg.connect(capture.postgres.conninfo(), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)  # type: ignore[call-overload]


def events(capture: Capture, table: str) -> list[tuple[Op, object, Snapshot | None]]:
    """(op, id, place in a snapshot) of each change of the current era."""
    log, era = ChangeLog(capture.kafka, capture.source), eras.current(capture.kafka, capture.source)
    return [
        (e.op, (e.after or e.before or {})["id"], e.snapshot)
        for e in log.entries(Position(era.era, era.first_offset))
        if isinstance(e, ChangeEvent) and e.table.name == table
    ]


def expect(capture: Capture, table: str, expected: list[tuple[Op, object]]) -> None:
    def check() -> None:
        assert [(op, id_) for op, id_, _ in events(capture, table)] == expected

    eventually(check)


def test_a_second_run_changes_nothing(capture: Capture) -> None:
    run(capture, "create table t (id int primary key)", "insert into t values (1)")
    assert capture.ensure()
    era = eras.current(capture.kafka, capture.source)
    assert not capture.ensure()
    assert eras.current(capture.kafka, capture.source) == era
    run(capture, "insert into t values (2)")
    expect(capture, "t", [(Op.READ, 1), (Op.INSERT, 2)])


def test_rows_of_a_table_that_is_added_later_are_read_into_the_running_log(capture: Capture) -> None:
    run(capture, "create table t (id int primary key)", "insert into t values (1)")
    capture.ensure()
    era = eras.current(capture.kafka, capture.source)
    run(capture, "create table later (id int primary key)", "insert into later values (7), (8)")
    assert capture.ensure()
    run(capture, "insert into later values (9)")

    def read_all() -> None:
        found = events(capture, "later")
        assert {id_ for op, id_, place in found if place is Snapshot.INCREMENTAL} >= {7, 8}
        assert (Op.INSERT, 9, None) in found

    eventually(read_all)
    assert eras.current(capture.kafka, capture.source) == era


def test_a_table_keyed_by_an_index_is_keyed_so_in_the_log(capture: Capture) -> None:
    run(
        capture,
        "create table t (id int not null unique, v text)",
        "alter table t replica identity using index t_id_key",
    )
    capture.ensure()
    run(capture, "insert into t values (1, 'a')", "delete from t where id = 1")
    expect(capture, "t", [(Op.INSERT, 1), (Op.DELETE, 1)])
    log = ChangeLog(capture.kafka, capture.source)
    keys = [e.key for e in log.entries(log.bounds()[0]) if isinstance(e, ChangeEvent) and e.table.name == "t"]
    assert keys == [{"id": 1}, {"id": 1}]


def test_a_slot_of_somebody_else_is_not_taken_over(capture: Capture) -> None:
    run(capture, "create table t (id int primary key)")
    run(capture, f"select pg_create_logical_replication_slot('{capture.source.slot}', 'pgoutput')")
    with pytest.raises(CaptureError, match="no log of it") as refused:
        capture.ensure()
    assert "headwater capture reset" in refused.value.hint
    capture.begin_anew()
    run(capture, "insert into t values (1)")
    expect(capture, "t", [(Op.INSERT, 1)])


def test_a_slot_that_is_gone_is_a_gap_not_a_new_beginning(capture: Capture) -> None:
    run(capture, "create table t (id int primary key)", "insert into t values (1)")
    capture.ensure()
    expect(capture, "t", [(Op.READ, 1)])
    stop(capture)
    run(capture, f"select pg_drop_replication_slot('{capture.source.slot}')", "insert into t values (2)")
    with pytest.raises(CaptureError, match="slot is gone"):
        capture.ensure()
    before = eras.current(capture.kafka, capture.source)
    capture.begin_anew()
    assert eras.current(capture.kafka, capture.source).era > before.era
    expect(capture, "t", [(Op.READ, 1), (Op.READ, 2)])


def test_a_slot_whose_snapshot_never_began_is_made_anew(capture: Capture) -> None:
    """As after a kill of Debezium between making its slot and reading the first row."""
    run(capture, "create table t (id int primary key)", "insert into t values (1)")
    topic_id = topics.ensure_topic(capture.kafka, capture.source.changes_topic)
    eras.register(capture.kafka, capture.source, eras.Identity(topic_id, "1", 1, "cut off"), "a test")
    run(capture, f"select pg_create_logical_replication_slot('{capture.source.slot}', 'pgoutput')")
    run(capture, "insert into t values (2)")
    capture.ensure()
    assert eras.current(capture.kafka, capture.source).slot != "cut off"
    tracker = SnapshotTracker(ChangeLog(capture.kafka, capture.source))
    eventually(lambda: tracker.look().complete)
    expect(capture, "t", [(Op.READ, 1), (Op.READ, 2)])


def test_a_snapshot_that_was_not_read_where_its_slot_begins_is_taken_anew(capture: Capture) -> None:
    run(capture, "create table t (id int primary key)", "insert into t values (1)")
    capture.ensure()
    before = eras.current(capture.kafka, capture.source)
    capture._wait_for_snapshot(Lsn(1))
    assert eras.current(capture.kafka, capture.source).era > before.era
    expect(capture, "t", [(Op.READ, 1)])


def test_a_stopped_connector_goes_on_where_it_was(capture: Capture) -> None:
    run(capture, "create table t (id int primary key)", "insert into t values (1)")
    capture.ensure()
    expect(capture, "t", [(Op.READ, 1)])
    run(capture, "insert into t values (2)")
    expect(capture, "t", [(Op.READ, 1), (Op.INSERT, 2)])
    stop(capture)
    run(capture, "insert into t values (3)")
    assert not capture.ensure()
    expect(capture, "t", [(Op.READ, 1), (Op.INSERT, 2), (Op.INSERT, 3)])


def test_a_slot_that_was_moved_on_is_a_gap(capture: Capture) -> None:
    run(capture, "create table t (id int primary key)", "insert into t values (1)")
    capture.ensure()
    expect(capture, "t", [(Op.READ, 1)])
    stop(capture)
    slot = capture.source.slot
    run(capture, "insert into t values (2)", f"select pg_replication_slot_advance('{slot}', pg_current_wal_lsn())")
    with pytest.raises(CaptureError, match="moved past"):
        capture.ensure()


def stop(capture: Capture) -> None:
    with ConnectClient(capture.connect) as client:
        client.stop(capture.source.connector)
        client.wait_stopped(capture.source.connector, 60)


def test_what_a_person_has_paused_stays_paused_until_they_resume_it(capture: Capture) -> None:
    run(capture, "create table t (id int primary key)", "insert into t values (1)")
    capture.ensure()
    with ConnectClient(capture.connect) as client:
        client.pause(capture.source.connector)
        eventually(lambda: paused(client, capture))
        assert CaptureKeeper(capture).step(0.0).deed is Deed.NOTHING
        assert not capture.ensure(keep_paused=True), "as `headwater up` calls it"
        run(capture, "insert into t values (2)")
        assert paused(client, capture)
        capture.resume(client)
    expect(capture, "t", [(Op.READ, 1), (Op.INSERT, 2)])
    with ConnectClient(capture.connect) as client:
        client.pause(capture.source.connector)
        eventually(lambda: paused(client, capture))
        capture.ensure()
        assert client.wait(capture.source.connector, 60).running, "asked to start it starts"


def paused(client: ConnectClient, capture: Capture) -> bool:
    status = client.status(capture.source.connector)
    return status is not None and status.summary == "PAUSED"
