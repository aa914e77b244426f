"""What a stack remembers, and that there is only one of it."""

from __future__ import annotations

import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cdc.errors import StackError
from headwater.stack import state as state_module
from headwater.stack.process import ProcessId
from headwater.stack.state import StackLock, StackState, free_port, is_running, load, port_is_free, save
from tests.waiting import eventually

HOLDER = """
import sys, time
from pathlib import Path
from headwater.stack.state import StackLock
lock = StackLock(Path(sys.argv[1]))
print(lock.acquire(), flush=True)
time.sleep(600)
"""


def test_nothing_is_remembered_at_first(tmp_path: Path) -> None:
    assert load(tmp_path) == StackState()


def test_ports_and_passwords_are_kept(tmp_path: Path) -> None:
    first = StackState()
    ports = {name: first.port(name) for name in ("postgres", "redis")}
    password = first.secret("postgres")
    first.processes, first.supervisor = {"redis": ProcessId(1, 2.5)}, ProcessId(3, 4.5)
    save(tmp_path, first)
    again = load(tmp_path)
    assert again == first
    assert {name: again.port(name) for name in ports} == ports
    assert again.secret("postgres") == password
    assert again.secret("redis") != password


def test_a_port_that_somebody_took_is_picked_anew() -> None:
    state = StackState()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        state.ports["redis"] = taken.getsockname()[1]
        picked = state.port("redis")
        assert picked != taken.getsockname()[1]
        assert state.port("redis") == picked


def test_a_port_is_free_again_as_soon_as_its_connections_linger_only() -> None:
    """A restart must not lose its port to the closed connections of the last run."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not port_is_free(port)
        with socket.create_connection(("127.0.0.1", port)):
            accepted, _ = server.accept()
            accepted.close()  # the server's side closes first: it keeps TIME_WAIT
    assert port_is_free(port)


def test_ports_are_out_of_the_way_of_outgoing_connections_and_of_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    assert free_port() in range(20_000, 32_000)
    monkeypatch.setattr(state_module, "PORTS", range(20_000, 20_003))
    monkeypatch.setattr(state_module, "port_is_free", lambda port: port != 20_001)
    assert free_port([20_000]) == 20_002
    with pytest.raises(StackError, match="no free port"):
        free_port([20_000, 20_002])


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    save(tmp_path, StackState(secrets={"postgres": "s3cret"}))
    assert stat.S_IMODE((tmp_path / "stack.json").stat().st_mode) == 0o600
    (tmp_path / "stack.json").chmod(0o644)
    save(tmp_path, StackState())
    assert stat.S_IMODE((tmp_path / "stack.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "{", '{"ports": {"redis": "many"}}', "null", "\udc00"])
def test_a_damaged_file_is_told_with_a_way_out(tmp_path: Path, text: str) -> None:
    (tmp_path / "stack.json").write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(StackError, match="state file is damaged") as raised:
        load(tmp_path)
    assert str(tmp_path) in raised.value.detail
    assert "headwater down --reset" in raised.value.hint


def test_a_folder_of_somebody_else_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    save(tmp_path, StackState())
    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", refused)
        with pytest.raises(StackError, match="belongs to somebody else"):
            load(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", refused)
        with pytest.raises(StackError, match="belongs to somebody else"):
            StackLock(tmp_path).acquire()


def test_there_is_one_holder_of_the_lock(tmp_path: Path) -> None:
    assert not is_running(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists(), "asking leaves nothing behind"
    one, other = StackLock(tmp_path), StackLock(tmp_path)
    assert one.acquire()
    assert is_running(tmp_path)
    assert not other.acquire()
    one.release()
    one.release()
    assert not is_running(tmp_path)
    assert other.acquire()
    other.release()


def test_kill_9_frees_the_lock(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == "True"
        assert is_running(tmp_path)
        holder.kill()
    eventually(lambda: not is_running(tmp_path))


def test_who_only_asks_does_not_keep_a_start_from_its_lock(tmp_path: Path) -> None:
    probe, start = StackLock(tmp_path), StackLock(tmp_path)
    assert probe.acquire(wait_s=0)
    threading.Timer(0.05, probe.release).start()
    assert start.acquire(wait_s=30)
    start.release()
