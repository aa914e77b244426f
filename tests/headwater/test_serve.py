"""The API in a process of its own: what reaches it from the others, and what several of them share."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from alerts.channels.feed import FeedHub
from alerts.notification import Notification
from cdc.addresses import PostgresAddress
from headwater.api.bell import Bell, Listening
from headwater.api.shared_secret import SECRET_FILE, shared_secret
from headwater.precedence import kept_processors, make_give_way
from headwater.serve import Service
from headwater.service.kept_child import KeptChild, Pauses
from headwater.stack.state import StackState
from headwater.status_file import STATUS_FILE, StatusFile
from tests.headwater.test_http import FAILURE, Deployment, settings, status
from tests.waiting import eventually

# The status


def test_a_status_is_read_as_it_was_written(tmp_path: Path) -> None:
    writer, reader = StatusFile(tmp_path), StatusFile(tmp_path)
    assert reader.read() is None
    for written in (status(), status(FAILURE)):
        writer.write(written)
        assert reader.read() == written
        assert reader.read() is reader.read(), "what has not changed is not read again"
    writer.remove()
    assert reader.read() is None
    assert list(tmp_path.iterdir()) == []


def test_what_another_version_wrote_is_no_status(tmp_path: Path) -> None:
    (tmp_path / STATUS_FILE).write_text('{"at": "yesterday"}')
    assert StatusFile(tmp_path).read() is None


@contextmanager
def serving(folder: Path) -> Iterator[httpx.Client]:
    wanted, stop = settings(data_folder=str(folder)), threading.Event()
    thread = threading.Thread(target=Service(Deployment.of(wanted, StackState()), stop))
    thread.start()
    try:
        with httpx.Client(base_url=wanted.http.url, timeout=20) as client:
            yield client
    finally:
        stop.set()
        thread.join(20)


def test_what_the_watch_saw_is_served(tmp_path: Path) -> None:
    watch = StatusFile(tmp_path)
    with serving(tmp_path) as client:

        def ready() -> int:
            try:
                return client.get("readyz").status_code
            except httpx.ConnectError:
                return 0

        eventually(lambda: ready() == 503)
        watch.write(status())
        eventually(lambda: ready() == 200)
        watch.write(status(FAILURE))
        eventually(lambda: ready() == 503)
        assert client.get("v1/status").json()["healthy"] is False


# That somebody has news


async def _nothing(_owner: str, _after: int) -> Sequence[Notification]:
    return ()


class Hub(FeedHub):
    def wake_from_thread(self, owner: str) -> None:
        woken.add(owner)


woken: set[str] = set()


@pytest.mark.stack
def test_a_bell_is_heard_in_another_process_and_after_an_outage(postgres: PostgresAddress) -> None:
    """The connections are the only thing that the two share, so one process will do."""
    woken.clear()
    listening = Listening(postgres, Hub(_nothing))
    listening.start()
    with Bell(postgres).ringing() as bell, psycopg.connect(postgres.conninfo(), autocommit=True) as conn:

        def heard(owner: str) -> bool:
            bell.wake_from_thread(owner)  # a ring before anybody listens is lost, as in life
            return owner in woken

        eventually(lambda: heard("Ada O'Brien, ✓"))
        conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        eventually(lambda: heard("eve"))
    listening.stop()


def test_a_bell_that_reaches_nobody_holds_nobody_up() -> None:
    with Bell(PostgresAddress("127.0.0.1", 1, "none", "none")).ringing() as bell:
        for number in range(20_000):
            bell.wake_from_thread(f"owner {number}")


def test_listeners_are_let_go_at_the_end() -> None:
    """Who holds a feed open does not hold up the end of the process."""

    async def run() -> None:
        hub = FeedHub(_nothing, look_s=3_600.0)
        events = hub.events("ada", 0)
        assert await anext(events)
        ending = asyncio.create_task(anext(events, None))
        await asyncio.sleep(0)
        hub.close_from_thread()
        async with asyncio.timeout(10):
            while await ending is not None:
                ending = asyncio.create_task(anext(events, None))

    asyncio.run(run())


# Cursors


def test_all_processes_sign_cursors_alike(tmp_path: Path) -> None:
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(shared_secret(tmp_path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert stat.S_IMODE((tmp_path / SECRET_FILE).stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == [SECRET_FILE]


def test_without_a_data_folder_nothing_is_written(tmp_path: Path) -> None:
    assert shared_secret(tmp_path / "none") != shared_secret(tmp_path / "none")
    assert not (tmp_path / "none").exists()


# The child


def test_a_child_that_dies_is_started_again(tmp_path: Path) -> None:
    """With a verb that fails at once: what it said is kept, and the pause grows."""
    child = KeptChild("api", "no-such-verb", tmp_path, Pauses(0.01, 0.02))
    child.mend(is_wanted=False)
    assert not (tmp_path / "api.log").exists()

    def said_twice() -> bool:
        child.mend()
        return (tmp_path / "api.log").read_text().count("no-such-verb") >= 2

    eventually(said_twice)
    assert "no-such-verb" in child.last_words()
    child.stop(10)
    assert not child.is_running


# Precedence


def has_session_weight() -> bool:
    """Where the kernel has none, or a control group weighs the session already, the file is not there or is empty."""
    weight = Path("/proc/self/autogroup")
    return weight.exists() and bool(weight.read_text().split())


@pytest.mark.skipif(not has_session_weight(), reason="sessions are not weighed here")
@pytest.mark.parametrize("own_session", [True, False])
def test_who_gives_way_does_so_with_its_whole_session(own_session: bool) -> None:
    """But never with a session that it does not lead: that is the user's terminal."""
    program = (
        "from headwater.precedence import give_way; import os, pathlib; give_way(7, 0);"
        "print(os.nice(0), pathlib.Path('/proc/self/autogroup').read_text().split()[-1])"
    )
    before, session = os.nice(0), Path("/proc/self/autogroup").read_text().split()[-1]
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, start_new_session=own_session
    ).stdout.split()
    assert said == [str(min(19, before + 7)), "7" if own_session else session]


@pytest.mark.skipif(not has_session_weight(), reason="sessions are not weighed here")
def test_a_child_is_made_to_give_way_with_its_whole_session() -> None:
    before = os.nice(0)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
        make_give_way(child.pid, 0)
        assert Path(f"/proc/{child.pid}/autogroup").read_text().split()[-1] == "0"
        make_give_way(child.pid, 6)
        told = Path(f"/proc/{child.pid}/autogroup").read_text().split()[-1], os.getpriority(os.PRIO_PROCESS, child.pid)
        child.kill()
    assert told == ("6", max(6, before))
    make_give_way(child.pid, 6)  # it has ended: nothing to be done


def test_some_processors_are_left_to_others() -> None:
    assert kept_processors({0, 1}, 1) == {1}
    assert kept_processors({2, 3, 5, 7}, 1) == {3, 5, 7}
    assert kept_processors({0, 1, 2, 3}, 2) == {2, 3}
    assert kept_processors({4}, 1) == kept_processors({4}, 0) == {4}, "one is needed"
    assert kept_processors({0, 1}, 0) == {0, 1}


@pytest.mark.skipif(sys.platform != "linux", reason="processors cannot be chosen")
def test_who_gives_way_keeps_to_its_processors_with_its_children() -> None:
    program = (
        "from headwater.precedence import give_way; import subprocess, sys; give_way(0, 1);"
        "subprocess.run([sys.executable, '-c', 'import os; print(*sorted(os.sched_getaffinity(0)))'])"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert {int(word) for word in said.split()} == kept_processors(os.sched_getaffinity(0), 1)
