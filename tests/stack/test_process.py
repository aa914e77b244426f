"""A child dies with its parent however that dies, is stopped politely and then firmly, and its log stays in bounds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from cdc.errors import StackError
from headwater.stack import process as process_module
from headwater.stack.account import unprivileged
from headwater.stack.process import Child, Command, ProcessId, end
from tests.waiting import eventually

Start = Callable[..., Child]

PARENT = """
import sys, time
from pathlib import Path
from headwater.stack.process import Child, Command
child = Child("sleeper", Command(("sleep", "600")), Path(sys.argv[1]))
print(child.pid, flush=True)
time.sleep(600)
"""

LAUNCHER = """
import subprocess, sys
server = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, text=True)
print(server.pid, server.stdout.readline().strip(), flush=True)
"""
"""Goes away and leaves a server in its process group, as Elasticsearch's does."""

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Child] = []

    def begin(*argv: str, **changes: object) -> Child:
        started.append(Child("it", replace(Command(argv), **changes), tmp_path / "logs" / "it.log"))
        return started[-1]

    yield begin
    for child in started:
        child.kill()


def python(program: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", program, *arguments)


def logged(child: Child, word: str) -> str:
    def said() -> str:
        assert word in child.log_tail(), child.log_tail()
        return child.log_tail()

    return eventually(said)


def gone(pid: int) -> Callable[[], bool]:
    return lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


# With its parent


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere the next start ends what is left")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_dies_with_its_parent(tmp_path: Path, number: int) -> None:
    parent = subprocess.Popen(python(PARENT, str(tmp_path / "sleeper.log")), stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert not gone(pid)()
    parent.send_signal(number)
    parent.communicate()
    eventually(gone(pid))


def test_it_has_a_session_of_its_own(start: Start) -> None:
    child = start("sleep", "600")
    assert os.getsid(child.pid) == child.pid != os.getsid(0), "Ctrl-C in our terminal must not reach it"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has privileges to drop")
def test_root_becomes_somebody_else(start: Start) -> None:
    account = unprivileged("nobody")
    child = start("sh", "-c", "id -u; id -g; id -G; echo done", account=account)
    told = logged(child, "done").splitlines()
    assert told[:3] == [str(account.uid), str(account.gid), str(account.gid)], "root's groups are left behind, too"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has privileges to drop")
def test_who_dropped_privileges_dies_with_its_parent_too(tmp_path: Path) -> None:
    """The kernel forgets the death signal when a process changes its user: it must be asked for afterwards."""
    program = PARENT.replace('Command(("sleep", "600"))', 'Command(("sleep", "600"), account=unprivileged("nobody"))')
    program = "from headwater.stack.account import unprivileged\n" + program
    parent = subprocess.Popen(python(program, str(tmp_path / "sleeper.log")), stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    eventually(lambda: psutil.Process(pid).uids().real != 0)
    eventually(lambda: psutil.Process(pid).name() == "sleep")
    parent.kill()
    parent.communicate()
    eventually(gone(pid))


# Its end


def test_it_is_asked_first_by_its_own_signal(start: Start) -> None:
    program = (
        "import signal, time, sys\nsignal.signal(signal.SIGINT, lambda *_: sys.exit(7))\nprint('up', flush=True)\n"
    )
    child = start(*python(program + "time.sleep(600)"), stop_signal=signal.SIGINT)
    logged(child, "up")
    child.stop(timeout_s=60)
    assert child.exit_code() == 7


def test_who_does_not_listen_is_killed(start: Start) -> None:
    child = start(*python(STUBBORN))
    logged(child, "up")
    child.stop(timeout_s=0.2)
    assert child.exit_code() == -signal.SIGKILL


def test_stopping_waits_for_those_whom_a_launcher_left_behind(start: Start) -> None:
    child = start(*python(LAUNCHER, STUBBORN))
    pid = int(logged(child, "up").split()[0])
    eventually(lambda: child.exit_code() == 0)
    assert not gone(pid)()
    child.stop(timeout_s=0.2)
    eventually(gone(pid))


def test_the_dead_whom_nobody_buries_are_not_waited_for(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container whose first process does not care for orphans they stay in the process table for ever."""
    child = start(*python(STUBBORN))
    logged(child, "up")
    member = psutil.Process(child.pid)
    monkeypatch.setattr(child, "exit_code", lambda: 0)
    monkeypatch.setattr(process_module.psutil, "process_iter", lambda: [member])
    assert child._group_lives()
    monkeypatch.setattr(member, "status", lambda: psutil.STATUS_ZOMBIE)
    assert not child._group_lives()


def test_stopping_twice_is_no_error(start: Start) -> None:
    child = start("true")
    eventually(lambda: child.exit_code() is not None)
    child.stop(timeout_s=5)
    child.stop(timeout_s=5)
    assert child.exit_code() == 0


def test_what_cannot_be_started_is_told(start: Start) -> None:
    with pytest.raises(StackError, match="it could not be started") as raised:
        start("/nonexistent/server")
    assert "/nonexistent/server" in raised.value.detail


# Its environment and its log


def test_what_would_change_a_server_behind_our_back_is_not_passed_on(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGPORT", "ES_JAVA_OPTS", "KAFKA_OPTS", "JAVA_TOOL_OPTIONS"):
        monkeypatch.setenv(name, "meddled")
    child = start(*python("import os; print(sorted(os.environ)); print('done')"), environment={"ES_TMPDIR": "ours"})
    told = logged(child, "done")
    assert "'ES_TMPDIR'" in told
    assert "'PATH'" in told
    assert not any(name in told for name in ("PGPORT", "ES_JAVA_OPTS", "KAFKA_OPTS", "JAVA_TOOL_OPTIONS"))


def test_the_log_has_both_streams_and_grows_over_restarts(start: Start) -> None:
    logged(start("sh", "-c", "echo one; echo two >&2"), "two")
    child = start("sh", "-c", "echo three")
    assert logged(child, "three").splitlines() == ["one", "two", "three"]
    assert child.log_tail(lines=2).splitlines() == ["two", "three"]


def test_a_log_beyond_its_limit_is_put_aside(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "LOG_BYTES_MAX", 1_000)
    first = start("sh", "-c", "echo short")
    logged(first, "short")
    child = start(*python("print('x' * 2000, flush=True); input()"))
    logged(child, "xxx")
    child.trim_log()
    assert child.log.stat().st_size == 0
    assert child.log.with_suffix(".log.1").stat().st_size > 2_000
    child.trim_log()
    assert child.log.with_suffix(".log.1").stat().st_size > 2_000, "a short log replaces nothing"


def test_a_server_goes_on_writing_at_the_end_of_a_log_that_was_put_aside(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "LOG_BYTES_MAX", 1_000)
    program = (
        "import signal, time\n"
        "signal.signal(signal.SIGUSR1, lambda *_: print('after', flush=True))\n"
        "print('x' * 2000, flush=True)\n"
        "while True: time.sleep(1)"
    )
    child = start(*python(program))
    logged(child, "xxx")
    child.trim_log()
    child.signal(signal.SIGUSR1)
    assert logged(child, "after") == "after"


# Process ids


def test_a_reused_pid_is_not_ours(start: Start) -> None:
    child = start("sleep", "600")
    ours = child.id.process()
    assert ours is not None
    assert ours.pid == child.pid
    earlier = ProcessId(child.pid, child.id.started_at - 3_600)
    assert earlier.process() is None
    assert not end(earlier)
    assert child.exit_code() is None, "somebody else's process is left alone"


def test_a_process_that_is_gone_has_no_id(start: Start) -> None:
    child = start("true")
    eventually(lambda: child.exit_code() == 0)
    assert ProcessId.of(child.pid) is None
    assert child.id.process() is None


def test_leftovers_end_with_their_descendants(start: Start) -> None:
    child = start("sh", "-c", "sleep 600 & echo $!; wait")
    eventually(lambda: child.log_tail().strip().isdigit())
    descendant = int(child.log_tail())
    assert end(child.id)
    eventually(gone(descendant))
    eventually(lambda: child.exit_code() is not None)
    assert not end(child.id)
