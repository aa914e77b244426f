"""What a stack remembers in its data folder: ports, passwords, process ids; and the lock that makes it the only one."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import msgspec

from cdc.errors import StackError
from headwater.stack.process import ProcessId

_STATE: Final = "stack.json"
_LOCK: Final = "stack.lock"
FILES: Final = (_STATE, f"{_STATE}.tmp", _LOCK)
"""What this module writes into a data folder."""
PROBE_S_MAX: Final = 0.3
"""Whoever asks whether a stack runs holds its lock for a moment: a start tries again this long."""
PROBE_POLL_S: Final = 0.05
PORTS: Final = range(20_000, 32_000)
"""Below those that the kernel gives to outgoing connections."""
PORT_ATTEMPTS_MAX: Final = 500


class StackState(msgspec.Struct):
    """Mutable on purpose: it is the in-memory copy of one file, written by the one process that holds the lock."""

    ports: dict[str, int] = {}
    secrets: dict[str, str] = {}
    processes: dict[str, ProcessId] = {}
    supervisor: ProcessId | None = None
    data: str = ""
    """Where the servers keep their data; differs from the data folder when root's home hides that one."""

    def port(self, name: str) -> int:
        """The kept port; picked at first, and again when somebody else has taken it since."""
        if name not in self.ports or not port_is_free(self.ports[name]):
            self.ports[name] = free_port(self.ports.values())
        return self.ports[name]

    def secret(self, name: str) -> str:
        return self.secrets.setdefault(name, secrets.token_urlsafe(24))


def load(folder: Path) -> StackState:
    file = folder / _STATE
    try:
        with _ours(folder):
            return msgspec.json.decode(file.read_bytes(), type=StackState)
    except FileNotFoundError:
        return StackState()
    except msgspec.DecodeError as error:
        raise StackError(
            "the stack's state file is damaged",
            detail=f"{file}: {error}",
            hint=f"headwater down --reset throws the embedded stack away, or mend {_STATE}",
        ) from error


def save(folder: Path, state: StackState) -> None:
    """Atomic, and readable by its owner only: it holds passwords."""
    file, working = folder / _STATE, folder / f"{_STATE}.tmp"
    with os.fdopen(os.open(working, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        out.write(msgspec.json.format(msgspec.json.encode(state), indent=1))
        out.flush()
        os.fsync(out.fileno())
    working.replace(file)


class StackLock:
    """Held by the process that runs the stack; the kernel frees it when that process dies, however it dies."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / _LOCK
        self._handle: IO[str] | None = None

    def acquire(self, wait_s: float = PROBE_S_MAX) -> bool:
        with _ours(self._file.parent):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            handle = self._file.open("a")
        deadline = time.monotonic() + wait_s
        while not _locked(handle):
            if time.monotonic() >= deadline:
                handle.close()
                return False
            time.sleep(PROBE_POLL_S)
        self._handle = handle
        return True

    def release(self) -> None:
        if self._handle:
            self._handle.close()
            self._handle = None


def is_running(folder: Path) -> bool:
    if not (folder / _LOCK).exists():
        return False
    lock = StackLock(folder)
    free = lock.acquire(wait_s=0)
    lock.release()
    return not free


def already_running(folder: Path) -> StackError:
    supervisor = load(folder).supervisor
    who = f" (process {supervisor.pid})" if supervisor else ""
    return StackError(
        f"the stack is already running{who}",
        detail=f"data folder {folder}",
        hint="headwater status shows it, headwater down stops it",
    )


def _locked(handle: IO[str]) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _ours(folder: Path) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise StackError(
            "the data folder belongs to somebody else",
            detail=str(error),
            hint=f"run it as the owner of {folder}, or set HEADWATER_DATA_FOLDER to a folder of yours",
        ) from error


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port(taken: Iterable[int] = ()) -> int:
    """A port nobody listens on, out of a range that stays ours."""
    used = set(taken)
    for _ in range(PORT_ATTEMPTS_MAX):
        port = secrets.choice(PORTS)
        if port not in used and port_is_free(port):
            return port
    tried = f"tried {PORT_ATTEMPTS_MAX} between {PORTS.start} and {PORTS.stop}"
    raise StackError("no free port on 127.0.0.1", detail=tried, hint="headwater doctor")
