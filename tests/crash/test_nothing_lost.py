"""Nothing lost, nothing twice between Postgres and the log, whoever is killed or frozen under load.

A stack of its own: the servers of the other tests are not killed. For choosing a Debezium version or looking for
something rare, HEADWATER_TEST_ROUNDS raises the number of rounds and HEADWATER_TEST_DEBEZIUM names another plugin.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from cdc import eras
from cdc.capture import Capture
from cdc.changelog import ChangeLog
from cdc.connect import ConnectClient
from cdc.errors import HeadwaterError
from cdc.keeper import CaptureKeeper
from cdc.mending import Mending
from cdc.position import Lsn, Position
from cdc.snapshots import SnapshotTracker
from headwater.deployment import Deployment
from headwater.migrate import migrate
from headwater.settings import Settings
from headwater.stack.stack import Stack, StackPlan
from headwater.status import log_status
from tests.conftest import fresh_database
from tests.crash.workload import TABLES, Load, Replay, Truth
from tests.waiting import eventually

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

ROUNDS = int(os.environ.get("HEADWATER_TEST_ROUNDS", "2"))
LOADED_S = 3.0
"""How long the load runs before each blow: the only thing here that is a time, and nothing is asserted about it."""
FROZEN_S = 9.0
"""Connect's worker is not given up on for that (headwater/stack/servers/connect.py): its task goes on afterwards."""
CAUGHT_UP_S = 180.0
COPIES = (1, 2, 10, 100)
RESTARTS = 5
"""In a round."""


@pytest.fixture(scope="module")
def fragile() -> Iterator[Stack]:
    folder = Path(tempfile.mkdtemp(prefix="headwater-crash-"))
    folder.chmod(0o755)
    stack = TrialStack(StackPlan(folder=folder, servers=("postgres", "kafka", "connect")))
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()
        shutil.rmtree(folder, ignore_errors=True)


class TrialStack(Stack):
    """With the Debezium that HEADWATER_TEST_DEBEZIUM names (an unpacked plugin), else the locked one."""

    def fetch(self, progress: Callable[[str, int], None] = lambda _name, _bytes: None) -> dict[str, Path]:
        found, other = super().fetch(progress), os.environ.get("HEADWATER_TEST_DEBEZIUM")
        return found | ({"debezium": Path(other)} if other else {})


@pytest.fixture
def captured(fragile: Stack, unique: str) -> Iterator[Capture]:
    recover(fragile)
    deployment = Deployment.of(Settings(source=unique), fragile.site.state)
    with contextmanager(fresh_database)(deployment.postgres, unique) as address:
        migrate(address)
        with psycopg.connect(address.conninfo(), autocommit=True) as connection:
            connection.execute(TABLES)
        capture = replace(deployment.capture(), postgres=address)
        yield capture
        eventually(lambda: remove(capture, fragile), CAUGHT_UP_S)


def recover(stack: Stack) -> None:
    """A test that failed with a server down fails alone."""
    for name in set(stack.plan.servers) - set(stack.running()):
        stack.forgive()
        stack.restart(name)


def remove(capture: Capture, stack: Stack) -> None:
    try:
        capture.remove()
    except (HeadwaterError, psycopg.Error) as error:
        raise AssertionError(f"{error}\nruns: {stack.running()}\n{stack.child('connect').log_tail(40)}") from error


def blow(stack: Stack, victim: str, manner: str) -> None:
    if manner == "kill -9":
        stack.child(victim).kill()
        stack.forgive()
        stack.restart(victim)
    else:
        stack.child(victim).signal(signal.SIGSTOP)
        time.sleep(FROZEN_S)
        stack.child(victim).signal(signal.SIGCONT)


@contextmanager
def mending(capture: Capture) -> Iterator[None]:
    """As `headwater up` does it: a failed connector is restarted, a snapshot that was cut off is begun anew."""
    stop = threading.Event()
    keeper = CaptureKeeper(capture, Mending(backoff_s_max=5, attempts_max=100))

    def mend() -> None:
        while not stop.wait(0.5):
            try:
                keeper.step(time.monotonic())
            except (HeadwaterError, psycopg.Error):  # a server is down: that is what this test does to it
                continue

    thread = threading.Thread(target=mend, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("manner", ["kill -9", "SIGSTOP"])
@pytest.mark.parametrize("victim", ["connect", "kafka", "postgres"])
def test_nothing_is_lost_or_doubled(fragile: Stack, captured: Capture, victim: str, manner: str) -> None:
    """Interleaved transactions of many statements, COPYs of a row each."""
    suffer(fragile, captured, Load(captured.postgres, copy_rows=(1,)), victim, manner)


@pytest.mark.parametrize(("victim", "manner"), [("connect", "kill -9"), ("kafka", "kill -9"), ("kafka", "SIGSTOP")])
def test_cut_off_between_rows_of_one_lsn(fragile: Stack, captured: Capture, victim: str, manner: str) -> None:
    """Rows of one COPY share an LSN, and with small batches nearly every blow falls between two of them."""
    slowed = slow(captured)
    suffer(fragile, slowed, Load(slowed.postgres, writers=2, pause_s=0.05, copy_rows=COPIES), victim, manner)


def test_a_kill_inside_a_large_copy(fragile: Stack, captured: Capture) -> None:
    slowed = slow(captured, batch_rows=64)
    load = Load(slowed.postgres, writers=1, pause_s=1.0, copy_rows=(5_000,), copy_only=True)
    suffer(fragile, slowed, load, "connect", "kill -9")


def test_restarts_between_rows_of_one_lsn(captured: Capture) -> None:
    """Many, because they are quick: the restart is that of a failed connector, without the failure."""
    slowed = slow(captured)
    load = Load(slowed.postgres, writers=2, pause_s=0.05, copy_rows=COPIES, copy_only=True)
    with load, ConnectClient(slowed.connect) as client:
        for _ in range(RESTARTS * ROUNDS):
            log_grows(slowed)
            slowed.restart(client)
            client.wait(slowed.source.connector, CAUGHT_UP_S)
    truth = Truth.read(slowed.postgres)
    replay = replayed(slowed)
    assert replay.against(truth) == []
    assert replay.repeated, "none of them fell between two rows"


def slow(captured: Capture, batch_rows: int = 7) -> Capture:
    """Its snapshot taken, and in batches that end anywhere in a transaction."""
    pace = replace(captured.pace, batch_rows_max=batch_rows, queue_rows_max=2 * batch_rows)
    slowed = replace(captured, pace=pace)
    slowed.ensure()
    wait_until_logged(slowed)
    return slowed


def log_grows(captured: Capture) -> None:
    log = ChangeLog(captured.kafka, captured.source)
    wanted = log.bounds()[1].offset + 100

    def grown() -> None:
        assert log.bounds()[1].offset > wanted

    eventually(grown, CAUGHT_UP_S)


def suffer(stack: Stack, captured: Capture, load: Load, victim: str, manner: str) -> None:
    with mending(captured):
        with load:
            captured.ensure()  # the initial snapshot runs under load, too
            for _ in range(ROUNDS):
                time.sleep(LOADED_S)
                blow(stack, victim, manner)
        truth = Truth.read(captured.postgres)
        replay = replayed(captured)
    assert len(replay.inserted) > 100
    assert replay.against(truth) == []


def replayed(captured: Capture) -> Replay:
    """All of the era, once everything that was written is in it."""
    wait_until_logged(captured)
    log = ChangeLog(captured.kafka, captured.source)
    era = eras.current(captured.kafka, captured.source)
    return Replay.of(log.read(Position(era.era, era.first_offset)))


def wait_until_logged(captured: Capture) -> None:
    """Until the snapshot is complete and the log holds a commit after everything that the load wrote."""
    with psycopg.connect(captured.postgres.conninfo(), autocommit=True) as connection:
        row = connection.execute("select pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
    log, until = ChangeLog(captured.kafka, captured.source), Lsn.parse(row[0])
    tracker = SnapshotTracker(log)

    def logged() -> None:
        try:
            snapshot, status = tracker.look(), log_status(log)
        except HeadwaterError as error:
            raise AssertionError(str(error)) from error
        assert snapshot.complete, connector_state(captured)
        assert not snapshot.spoilt
        assert status.last_commit_lsn is not None, connector_state(captured)
        assert status.last_commit_lsn >= until, connector_state(captured)

    eventually(logged, CAUGHT_UP_S)


def connector_state(captured: Capture) -> str:
    with ConnectClient(captured.connect) as client:
        return str(client.status(captured.source.connector))
