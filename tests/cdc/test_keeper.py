"""The keeper on a real capture: what failed runs again, a gap stays, what was cut off starts anew."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import LiteralString

import psycopg
import pytest

from cdc import eras
from cdc.capture import Capture, Pace
from cdc.changelog import ChangeLog
from cdc.connect import ConnectClient
from cdc.errors import HeadwaterError, SourceError
from cdc.events import ChangeEvent, Op
from cdc.keeper import CaptureKeeper, Deed, Look
from cdc.mending import Mending
from cdc.position import Position
from cdc.snapshots import SnapshotTracker
from tests.waiting import eventually

pytestmark = pytest.mark.stack

EAGER = Mending(backoff_s=0.1, backoff_s_max=0.5, attempts_max=1_000)
SLOW = Pace(batch_rows_max=8, queue_rows_max=16)
"""One Kafka transaction every few rows: a snapshot that can be cut off in its middle."""


def sql(capture: Capture, *statements: LiteralString) -> None:
    with psycopg.connect(capture.postgres.conninfo(), autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement)


def started(capture: Capture, rows: int = 3) -> Capture:
    """Capturing a table of so many rows, its snapshot complete."""
    with_rows(capture, rows)
    capture.ensure()
    eventually(lambda: SnapshotTracker(log_of(capture)).look().complete)
    return capture


def with_rows(capture: Capture, rows: int) -> None:
    with psycopg.connect(capture.postgres.conninfo(), autocommit=True) as conn:
        conn.execute("create table t (id int primary key)")
        conn.execute("insert into t select generate_series(1, %s)", [rows])


def log_of(capture: Capture) -> ChangeLog:
    return ChangeLog(capture.kafka, capture.source)


def inserted(capture: Capture) -> set[object]:
    """The ids that the current era speaks of."""
    era = eras.current(capture.kafka, capture.source)
    entries = log_of(capture).entries(Position(era.era, era.first_offset))
    changes = [
        e for e in entries if isinstance(e, ChangeEvent) and e.table.name == "t" and e.op in (Op.INSERT, Op.READ)
    ]
    return {change.after["id"] for change in changes if change.after}


def failed(capture: Capture) -> bool:
    with ConnectClient(capture.connect) as client:
        status = client.status(capture.source.connector)
        return bool(status and status.failed)


def kept(keeper: CaptureKeeper, until: Deed) -> Look:
    """Looks again and again until that is done."""

    def looked() -> Look:
        look = keeper.step(time.monotonic())
        assert look.deed is until, look
        return look

    return eventually(looked, 120)


def slot_reader(capture: Capture) -> int | None:
    """The process that reads the slot."""
    with psycopg.connect(capture.postgres.conninfo(), autocommit=True) as conn:
        query = "select active_pid from pg_replication_slots where slot_name = %s"
        row = conn.execute(query, [capture.source.slot]).fetchone()
        return row[0] if row else None


def test_while_all_is_well_nothing_is_done(capture: Capture) -> None:
    keeper = CaptureKeeper(started(capture), EAGER)
    look = keeper.step(time.monotonic())
    assert (look.deed, look.reason) == (Deed.NOTHING, "")
    assert look.snapshot.complete


def test_a_failed_connector_is_restarted_and_misses_nothing(capture: Capture) -> None:
    started(capture)
    eventually(lambda: slot_reader(capture) is not None)
    keeper = CaptureKeeper(capture, EAGER)
    with psycopg.connect(capture.postgres.conninfo(), autocommit=True) as conn:
        role = psycopg.sql.Identifier(capture.capture.user)
        conn.execute(psycopg.sql.SQL("alter role {} nologin").format(role))
        conn.execute("select pg_terminate_backend(%s)", [slot_reader(capture)])
        eventually(lambda: failed(capture))
        conn.execute("insert into t values (1000)")
        first = kept(keeper, Deed.RESTARTED)
        assert first.reason
        assert first.attempts == 1
        conn.execute(psycopg.sql.SQL("alter role {} login").format(role))

    def runs() -> None:
        keeper.step(time.monotonic())
        assert not failed(capture)
        assert slot_reader(capture)
        assert 1000 in inserted(capture)

    era = eras.current(capture.kafka, capture.source)
    eventually(runs, 120)
    assert eras.current(capture.kafka, capture.source) == era, "the same history goes on"


@pytest.mark.parametrize("manner", ["dropped", "made anew"])
def test_a_gap_is_never_stepped_over(capture: Capture, manner: str) -> None:
    started(capture)
    with ConnectClient(capture.connect) as client:
        eventually(lambda: bool(client.offsets(capture.source.connector)))
        client.stop(capture.source.connector)
        client.wait_stopped(capture.source.connector, 60)
        eventually(lambda: slot_reader(capture) is None)
        with psycopg.connect(capture.postgres.conninfo(), autocommit=True) as conn:
            conn.execute("insert into t values (1000)")
            conn.execute("select pg_drop_replication_slot(%s)", [capture.source.slot])
            if manner == "made anew":
                conn.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [capture.source.slot])
        client.resume(capture.source.connector)
        eventually(lambda: failed(capture), 120)
    look = kept(CaptureKeeper(capture, EAGER), Deed.GAVE_UP)
    assert look.reason
    assert failed(capture)
    assert 1000 not in inserted(capture)


def test_a_snapshot_that_was_cut_off_begins_anew(capture: Capture) -> None:
    slow = replace(capture, pace=SLOW)
    with_rows(slow, 4_000)
    slow.ensure()
    before = eras.current(slow.kafka, slow.source)
    tracker = SnapshotTracker(log_of(slow))
    eventually(lambda: tracker.look().begun == 1)
    with ConnectClient(slow.connect) as client:
        client.stop(slow.source.connector)
        client.wait_stopped(slow.source.connector, 60)
        assert not tracker.look().complete, "the snapshot was too quick for this test: give it more rows"
        sql(slow, "delete from t where id <= 2", "insert into t values (5000)")
        client.resume(slow.source.connector)
        keeper = CaptureKeeper(slow, EAGER)
        assert kept(keeper, Deed.BEGAN_ANEW).snapshot.spoilt
    after = eras.current(slow.kafka, slow.source)
    assert after.era > before.era
    eventually(lambda: keeper.step(time.monotonic()).snapshot.complete, 120)
    assert inserted(slow) == {*range(3, 4_001), 5_000}, "what was deleted between the two is not in the new era"


def test_a_new_beginning_that_failed_half_way_is_brought_to_its_end(
    capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = CaptureKeeper(started(capture), EAGER)
    before = eras.current(capture.kafka, capture.source)

    def only_removed(self: Capture) -> None:
        self.remove()
        raise SourceError("the database went away", hint="headwater doctor")

    with monkeypatch.context() as patched:
        patched.setattr(Capture, "begin_anew", only_removed)
        patched.setattr("cdc.snapshots.SnapshotProgress.spoilt", property(lambda _: True))
        with pytest.raises(HeadwaterError, match="the database went away"):
            keeper.step(time.monotonic())
    kept(keeper, Deed.BEGAN_ANEW)
    assert eras.current(capture.kafka, capture.source).era > before.era
    eventually(lambda: keeper.step(time.monotonic()).snapshot.complete)
    assert keeper.step(time.monotonic()).deed is Deed.NOTHING


def test_a_database_that_goes_away_is_an_error_with_a_hint(capture: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(self: CaptureKeeper, now: float) -> Look:
        raise psycopg.errors.AdminShutdown("terminating connection due to administrator command")

    monkeypatch.setattr(CaptureKeeper, "_step", cut)
    with pytest.raises(SourceError, match="lost the source database"):
        CaptureKeeper(capture).step(0.0)
