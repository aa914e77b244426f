"""One child process: started with its log file, dies with its parent (also on kill -9), stopped politely, then firmly.

On Linux the kernel sends the death signal when the thread that started the child ends, so children are started from the
main thread. Elsewhere what a killed parent leaves behind is found and ended by the next start (state.py).

The signal is asked for by a program between us and the server (_LAUNCHER), not in a fork of ours: ours has threads, and
libraries that do not survive a fork.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from cdc.errors import StackError
from headwater.stack.account import Account

LOG_BYTES_MAX: Final = 32 << 20
TAIL_BYTES_MAX: Final = 16_384
KILL_WAIT_S: Final = 10.0
GROUP_POLL_S: Final = 0.05
_LAUNCHER: Final = """
import ctypes, os, sys
number, parent, uid, gid, program, *argv = sys.argv[1:]
if uid:
    os.setgroups([])
    os.setgid(int(gid))
    os.setuid(int(uid))
ctypes.CDLL(None).prctl(1, int(number))
os.getppid() == int(parent) or os._exit(1)
os.execv(program, argv)
"""
"""Becomes the server. PR_SET_PDEATHSIG (1) survives exec but not a change of user, so that comes first; and the account
may not be allowed to run this Python, so nobody but we can change it."""


@dataclass(frozen=True, slots=True)
class Command:
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    account: Account | None = None
    stop_signal: int = signal.SIGTERM


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A pid together with its start time, so that a reused pid is never mistaken for ours."""

    pid: int
    started_at: float

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        try:
            return cls(pid, psutil.Process(pid).create_time())
        except psutil.NoSuchProcess:
            return None

    def process(self) -> psutil.Process | None:
        try:
            process = psutil.Process(self.pid)
            ours = abs(process.create_time() - self.started_at) < 1 and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return None
        return process if ours else None


class Child:
    """A running server process."""

    def __init__(self, name: str, command: Command, log: Path) -> None:
        self.name = name
        self.log = log
        self._stop_signal = command.stop_signal
        log.parent.mkdir(parents=True, exist_ok=True)
        self.trim_log()
        try:
            with log.open("ab") as out:
                self._popen = subprocess.Popen(
                    _launched(command),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    cwd=command.folder,
                    env={**_inherited(), **command.environment},
                    start_new_session=True,
                )
        except OSError as error:
            raise StackError(f"{name} could not be started", detail=str(error), hint="headwater doctor") from error
        self.id = ProcessId.of(self._popen.pid) or ProcessId(self._popen.pid, 0.0)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def exit_code(self) -> int | None:
        return self._popen.poll()

    def signal(self, number: int) -> None:
        """To the server's whole process group: Elasticsearch and Postgres have children of their own."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return

    def stop(self, timeout_s: float) -> None:
        """Asks it to end and waits for its whole group: Elasticsearch's launcher goes before the server does."""
        deadline = time.monotonic() + timeout_s
        if self.exit_code() is None:
            self._popen.send_signal(self._stop_signal)
        while self._group_lives() and time.monotonic() < deadline:
            time.sleep(GROUP_POLL_S)
        self.kill()

    def _group_lives(self) -> bool:
        """Whether anybody of the group still runs. The dead that nobody has buried yet (in a container whose first
        process does not care for orphans) are not waited for."""
        if self.exit_code() is None:
            return True
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):  # the latter: macOS, where only the dead are left
            return False
        return any(_group(process) == self.pid for process in psutil.process_iter())

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._popen.wait(KILL_WAIT_S)

    def log_tail(self, lines: int = 12) -> str:
        if not self.log.exists():
            return ""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - TAIL_BYTES_MAX))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])

    def trim_log(self) -> None:
        """A log beyond its limit becomes the one old log that is kept. Emptied in place: a running server goes on
        writing to the same file, at its end."""
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES_MAX:
            shutil.copyfile(self.log, self.log.with_suffix(".log.1"))
            os.truncate(self.log, 0)


def end(id_: ProcessId, timeout_s: float = 5.0) -> bool:
    """Ends a process that is not our child, with its descendants; False when it was not there any more."""
    process = id_.process()
    if process is None:
        return False
    family = [process, *process.children(recursive=True)]
    for number, wait_s in ((signal.SIGTERM, timeout_s), (signal.SIGKILL, KILL_WAIT_S)):
        family = [member for member in family if _runs(member)]
        for member in family:
            _signal_quietly(member, number)
        deadline = time.monotonic() + wait_s
        while any(_runs(member) for member in family) and time.monotonic() < deadline:
            time.sleep(GROUP_POLL_S)
    return True


def _group(process: psutil.Process) -> int | None:
    """The process group of a process that runs; None for one that is dead or gone."""
    try:
        return None if process.status() == psutil.STATUS_ZOMBIE else os.getpgid(process.pid)
    except (psutil.Error, ProcessLookupError, PermissionError):
        return None


def _runs(process: psutil.Process) -> bool:
    """The dead whom their parent has not buried yet do not count."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _signal_quietly(process: psutil.Process, number: int) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return


def _inherited() -> dict[str, str]:
    """Our environment less what would change a server's behaviour behind our back."""
    dropped = ("KAFKA_", "PG", "ES_", "CLASSPATH", "JAVA_TOOL_OPTIONS", "LC_")
    return {k: v for k, v in os.environ.items() if not k.startswith(dropped)}


def _launched(command: Command) -> tuple[str, ...]:
    """The command behind the launcher. Raises OSError if there is no such program: the launcher could only log that."""
    account = command.account
    program = shutil.which(command.argv[0], path=command.environment.get("PATH"))
    if program is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command.argv[0])
    if not sys.platform.startswith("linux"):
        return command.argv
    uid, gid = ("", "") if account is None or account.uid is None else (str(account.uid), str(account.gid))
    told = (str(int(command.stop_signal)), str(os.getpid()), uid, gid, program)
    return (sys.executable, "-I", "-S", "-c", _LAUNCHER, *told, *command.argv)
