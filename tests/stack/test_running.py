"""A real small stack: it keeps its data over kill -9, is only one, gives way, mends itself, and tells why it cannot."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from cdc.errors import StackError
from headwater.stack import stack as stack_module
from headwater.stack import state as stack_state
from headwater.stack.account import Account
from headwater.stack.servers import postgres as postgres_server
from headwater.stack.servers import redis as redis_server
from headwater.stack.site import Site
from headwater.stack.stack import Stack, StackPlan, running
from tests.waiting import eventually

pytestmark = pytest.mark.stack

SUPERVISOR = """
import signal, sys
from pathlib import Path
from headwater.stack.stack import StackPlan, running

def asked(*_): raise SystemExit

signal.signal(signal.SIGTERM, asked)
with running(StackPlan(folder=Path(sys.argv[1]), servers=("postgres", "redis"))) as stack:
    print(*stack.running().values(), flush=True)
    while True: signal.pause()
"""


@pytest.fixture(scope="module")
def kept() -> Iterator[Path]:
    """A data folder that each test finds with a stopped stack in it. Its name has a space, as people's do."""
    folder = Path(tempfile.mkdtemp(prefix="headwater small-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def plan(kept: Path) -> StackPlan:
    """Two servers that start quickly, and none that needs Java."""
    return StackPlan(folder=kept, servers=("postgres", "redis"), java="/nonexistent/java")


@contextmanager
def supervised(folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """The stack in a process of its own, and its servers' pids."""
    process = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        assert len(pids) == 2, process.communicate()[1]
        yield process, pids
    finally:
        process.terminate()
        process.communicate(timeout=60)


def headwater(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HEADWATER_DATA_FOLDER": str(folder), "HEADWATER_CONFIG": ""}
    program = [sys.executable, "-m", "headwater", *words]
    return subprocess.run(
        program, capture_output=True, text=True, check=False, env=environment, cwd=folder, timeout=120
    )


def site_of(plan: StackPlan) -> Site:
    """Where the servers are that another process runs."""
    state = stack_state.load(plan.folder)
    return Site(plan.folder / "data", plan.folder / "logs", state, Account(""), None, {}, plan.heap, 0)


def sql(site: Site, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(postgres_server.address(site).conninfo(), autocommit=True) as connection:
        cursor = connection.execute(query)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


def gone(pids: list[int]) -> bool:
    return not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids)


def test_kill_9_of_everything_loses_nothing(plan: StackPlan) -> None:
    with supervised(plan.folder) as (process, pids):
        site = site_of(plan)
        sql(site, "drop table if exists t; create table t as select generate_series(1, 1000) as n")
        with redis.Redis.from_url(redis_server.url(site)) as client:
            client.set("kept", "yes")
        process.kill()
        eventually(lambda: gone(pids))
        assert not stack_state.is_running(plan.folder)
    with supervised(plan.folder) as (_, new_pids):
        assert not set(pids) & set(new_pids)
        again = site_of(plan)
        assert again.state.ports == site.state.ports
        assert sql(again, "select count(*) from t") == [(1000,)]
        with redis.Redis.from_url(redis_server.url(again)) as client:
            assert client.get("kept") == b"yes"
    assert stack_state.load(plan.folder).processes == {}, "an orderly end leaves nothing to clear away"


def test_there_is_only_one_and_anybody_may_stop_it(plan: StackPlan) -> None:
    with supervised(plan.folder) as (process, pids):
        with pytest.raises(StackError, match=f"already running \\(process {process.pid}\\)") as raised:
            Stack(plan).start()
        assert "headwater down" in raised.value.hint
        told = headwater(plan.folder, "up")
        assert told.returncode == 0
        assert "already running" in told.stdout
        assert not gone(pids), "being asked twice disturbs nobody"
        stopped = headwater(plan.folder, "down")
        assert (stopped.returncode, stopped.stdout) == (0, "stopped\n"), stopped.stderr
        assert process.wait(timeout=60) == 0
        assert gone(pids)
    assert headwater(plan.folder, "down").stdout == "nothing was running\n"


def test_what_a_killed_supervisor_left_is_ended_by_the_next_start(plan: StackPlan) -> None:
    """As where the kernel does not do it for us: here the servers of a 'killed' one are still alive."""
    first = Stack(plan)
    first.start()
    left = dict(first.running())
    first._lock.release()
    try:
        with running(plan) as second:
            eventually(lambda: gone(list(left.values())))
            assert set(second.running()) == {"postgres", "redis"}
            assert sql(second.site, "select 1") == [(1,)]
    finally:
        for child in first._children.values():
            child.kill()


def test_down_ends_what_a_killed_supervisor_left(plan: StackPlan) -> None:
    first = Stack(plan)
    first.start()
    try:
        first._lock.release()
        assert headwater(plan.folder, "down").stdout == "stopped\n"
        eventually(lambda: first.running() == {})
    finally:
        first.stop()


def test_a_port_that_somebody_took_is_given_up(plan: StackPlan) -> None:
    with running(plan):
        before = dict(stack_state.load(plan.folder).ports)
    with socket.create_server(("127.0.0.1", before["redis"])), running(plan) as stack:
        after = stack_state.load(plan.folder).ports
        assert after["redis"] != before["redis"]
        assert after["postgres"] == before["postgres"]
        with redis.Redis.from_url(redis_server.url(stack.site)) as client:
            assert client.ping()


def test_an_early_death_tells_the_last_words_and_stops_the_others(plan: StackPlan) -> None:
    with running(plan) as stack:
        config = stack.site.folder("postgres") / "data" / "postgresql.auto.conf"
    good = config.read_bytes()
    config.write_bytes(good + b"shared_buffers = 'as much as it takes'\n")
    broken = Stack(plan)
    try:
        with pytest.raises(StackError, match="postgres ended while starting") as raised:
            broken.start()
    finally:
        config.write_bytes(good)
    assert "as much as it takes" in raised.value.detail
    assert raised.value.hint == "headwater logs postgres"
    assert broken.running() == {}
    assert not stack_state.is_running(plan.folder)


def test_who_does_not_answer_in_time_is_told(plan: StackPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_server.Redis, "ready", lambda *_: False)
    broken = Stack(replace(plan, start_timeout_s=0.5))
    with pytest.raises(StackError, match=r"redis did not answer within 0\.5 s") as raised:
        broken.start()
    assert "stack.start_timeout_s" in raised.value.hint
    assert broken.running() == {}


def test_it_reports_each_step_and_stops_in_reverse_order(plan: StackPlan) -> None:
    told: list[tuple[str, str]] = []
    stack = Stack(plan)
    stack.start(lambda name, what: told.append((name, what)))
    assert told[:2] == [("postgres", "starting"), ("redis", "starting")]
    assert set(told[2:]) == {("postgres", "ready"), ("redis", "ready")}
    told.clear()
    stack.stop(lambda name, what: told.append((name, what)))
    assert told == [("redis", "stopping"), ("redis", "stopped"), ("postgres", "stopping"), ("postgres", "stopped")]


def test_a_dead_server_is_started_again_until_it_dies_too_often(
    plan: StackPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_module, "RESTART_BACKOFF_S", 0.0)
    monkeypatch.setattr(stack_module, "RESTARTS_MAX", 2)
    told: list[tuple[str, str]] = []
    with running(plan) as stack:
        stack.mend(lambda name, what: told.append((name, what)))
        assert told == []
        for _ in range(2):
            stack.child("redis").kill()
            stack.mend(lambda name, what: told.append((name, what)))
            with redis.Redis.from_url(redis_server.url(stack.site)) as client:
                assert client.ping()
        assert [what for _, what in told] == ["died (exit code -9), starting again", "ready"] * 2
        stack.child("redis").kill()
        with pytest.raises(StackError, match="redis keeps dying: 2 restarts"):
            stack.mend()
        stack.forgive()
        stack.mend()
        assert set(stack.running()) == {"postgres", "redis"}


def test_one_that_dies_while_it_is_started_again_gets_another_try(
    plan: StackPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_module, "RESTART_BACKOFF_S", 0.0)
    with running(plan) as stack:
        site, config = stack.site, stack.site.folder("redis") / "redis.conf"
        prepare, prepared = redis_server.Redis.prepare, []

        def spoilt_once(self: redis_server.Redis, site: Site) -> None:
            prepare(self, site)
            prepared.append(site)
            if len(prepared) == 1:
                config.write_text("no such directive\n")

        monkeypatch.setattr(redis_server.Redis, "prepare", spoilt_once)
        stack.child("redis").kill()
        stack.mend()
        assert len(prepared) == 2
        with redis.Redis.from_url(redis_server.url(site)) as client:
            assert client.ping()


def test_a_busy_session_does_not_keep_a_killed_postgres_from_coming_back(plan: StackPlan) -> None:
    """It notices the death of its server only when its query ends, and holds the shared memory until then."""
    with running(plan) as stack:
        connection = psycopg.connect(postgres_server.address(stack.site).conninfo(), autocommit=True)
        busy = connection.info.backend_pid
        connection.pgconn.send_query(b"do $$ begin loop end loop; end $$")
        started = psutil.Process(busy).cpu_times().user
        eventually(lambda: psutil.Process(busy).cpu_times().user > started + 0.1)
        stack.child("postgres").kill()
        assert not gone([busy])
        stack.mend()
        assert sql(stack.site, "select 1") == [(1,)]
        assert gone([busy])
        connection.close()


def test_reset_deletes_what_the_servers_wrote_and_nothing_else(kept: Path, plan: StackPlan) -> None:
    with running(plan):
        pass
    (kept / "mine.txt").write_text("not theirs")
    asked = headwater(kept, "down", "--reset")
    assert asked.returncode == 2, "without --yes it asks, and nobody can answer"
    assert "--yes" in asked.stderr
    assert (kept / "data").exists()
    assert headwater(kept, "down", "--reset", "--yes").returncode == 0
    assert [path.name for path in kept.iterdir()] == ["mine.txt"]
    (kept / "mine.txt").unlink()
    (kept / "stack.json").write_text("{damaged")
    assert headwater(kept, "down").returncode == 1
    done = headwater(kept, "down", "--reset", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    assert '"reset": true' in done.stdout
    assert not kept.exists()
