"""The embedded stack as a whole: fetched, started in order, watched, stopped in order.

Only one process runs a stack (state.StackLock). Whatever a killed predecessor left behind is ended first; the servers
then recover by themselves from their own logs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from cdc.errors import StackError
from headwater.precedence import make_give_way
from headwater.stack import java
from headwater.stack import state as stack_state
from headwater.stack.account import reachable, unprivileged
from headwater.stack.artifacts import bundle
from headwater.stack.cache import Cache, default_folder
from headwater.stack.process import Child, ProcessId, end
from headwater.stack.servers import NAMES, SERVERS, Server
from headwater.stack.site import HeapSizes, Site

POLL_S: Final = 0.1
STOP_TIMEOUT_S: Final = 20.0
RESTARTS_MAX: Final = 5
RESTART_WINDOW_S: Final = 300.0
RESTART_BACKOFF_S: Final = 1.0

_PORTS: Final = {"kafka": ("kafka", "kafka_controller"), "elasticsearch": ("elasticsearch", "elasticsearch_transport")}
_PROMPT: Final = frozenset({"redis"})
_ON_JAVA: Final = frozenset({"kafka", "connect", "elasticsearch"})

Report: TypeAlias = Callable[[str, str], None]
"""Called with a server's name and what it is doing now."""


@dataclass(frozen=True)
class StackPlan:
    """What to run and where; made from the settings."""

    folder: Path
    servers: tuple[str, ...] = NAMES
    cache: Cache = field(default_factory=lambda: Cache(default_folder()))
    heap: HeapSizes = field(default_factory=HeapSizes)
    account: str = "nobody"
    java: str = ""
    start_timeout_s: float = 120.0
    wal_keep_max_mb: int = 10_240
    niceness: int = 0
    """How far servers give way that nobody waits for while a row is looked up."""


class EndedWhileStarting(StackError):
    """The server's process ended before it answered."""


def _silent(_server: str, _what: str) -> None:
    return


class Stack:
    """The running servers. Start and restart from the main thread (see process.py)."""

    def __init__(self, plan: StackPlan) -> None:
        self.plan = plan
        self._servers = tuple(s for s in SERVERS if s.name in plan.servers)
        self._children: dict[str, Child] = {}
        self._restarts: dict[str, list[float]] = {}
        self._lock = stack_state.StackLock(plan.folder)
        self._site: Site | None = None

    @property
    def site(self) -> Site:
        if self._site is None:
            raise StackError("the embedded stack is not running", hint="headwater up")
        return self._site

    def missing_bytes(self) -> int:
        return sum(self.plan.cache.missing_bytes(bundle(name)) for name in self._bundle_names())

    def fetch(self, progress: Callable[[str, int], None] = lambda _name, _bytes: None) -> dict[str, Path]:
        """All artifacts, in the cache and unpacked."""
        return {
            name: self.plan.cache.ensure(bundle(name), lambda size, name=name: progress(name, size))  # type: ignore[misc]
            for name in self._bundle_names()
        }

    def start(self, report: Report = _silent) -> None:
        """Everything up and answering, or nothing: what did start is stopped again when another does not."""
        if not self._lock.acquire():
            raise stack_state.already_running(self.plan.folder)
        try:
            self._site = self._prepare_site()
            self._start_all(report)
        except BaseException:
            self.stop()
            raise

    def _prepare_site(self) -> Site:
        plan, state = self.plan, stack_state.load(self.plan.folder)
        for leftover in state.processes.values():
            end(leftover)
        found = java.find(plan.java) if _ON_JAVA.intersection(plan.servers) else None
        account = unprivileged(plan.account)
        data = reachable(plan.folder / "data", account)
        data.mkdir(parents=True, exist_ok=True)
        data.chmod(0o711)  # the account passes through to the folders that are its own
        for server in self._servers:
            for port in _PORTS.get(server.name, (server.name,)):
                state.port(port)
            state.secret(server.name)
        state.secret("capture")
        state.data, state.processes, state.supervisor = str(data), {}, ProcessId.of(os.getpid())
        stack_state.save(plan.folder, state)
        return Site(data, plan.folder / "logs", state, account, found, self.fetch(), plan.heap, plan.wal_keep_max_mb)

    def _start_all(self, report: Report) -> None:
        waiting, ready = list(self._servers), set[str]()
        deadline = time.monotonic() + self.plan.start_timeout_s
        while len(ready) < len(self._servers):
            for server in [s for s in waiting if ready.issuperset(set(s.needs) & set(self.plan.servers))]:
                report(server.name, "starting")
                self._spawn(server)
                waiting.remove(server)
            for server in self._servers:
                if server.name in self._children and server.name not in ready and self._answers(server):
                    ready.add(server.name)
                    report(server.name, "ready")
            if time.monotonic() > deadline:
                raise self._too_late([s.name for s in self._servers if s.name not in ready])
            time.sleep(POLL_S)

    def _spawn(self, server: Server) -> None:
        server.prepare(self.site)
        child = Child(server.name, server.command(self.site), self.site.logs / f"{server.name}.log")
        if server.name not in _PROMPT:
            make_give_way(child.pid, self.plan.niceness)
        self._children[server.name] = child
        self.site.state.processes[server.name] = child.id
        stack_state.save(self.plan.folder, self.site.state)

    def _answers(self, server: Server) -> bool:
        child = self._children[server.name]
        if child.exit_code() is not None:
            raise EndedWhileStarting(
                f"{server.name} ended while starting (exit code {child.exit_code()})",
                detail=child.log_tail(),
                hint=f"headwater logs {server.name}",
            )
        with suppress(Exception):  # any refusal means: not yet
            return server.ready(self.site)
        return False

    def _too_late(self, names: Sequence[str]) -> StackError:
        return StackError(
            f"{', '.join(names)} did not answer within {self.plan.start_timeout_s:g} s",
            detail=self._children[names[0]].log_tail() if names[0] in self._children else "",
            hint=f"headwater logs {names[0]}; on a slow machine raise stack.start_timeout_s",
        )

    def running(self) -> dict[str, int]:
        """The live servers and their pids."""
        return {name: child.pid for name, child in self._children.items() if child.exit_code() is None}

    def child(self, name: str) -> Child:
        return self._children[name]

    def mend(self, report: Report = _silent) -> None:
        """Starts servers that died again, with a backoff; gives up on one that keeps dying. Logs are kept short."""
        for server in self._servers:
            self._children[server.name].trim_log()
            code = self._children[server.name].exit_code()
            if code is not None:
                report(server.name, f"died (exit code {code}), starting again")
                self.restart(server.name)
                report(server.name, "ready")

    def restart(self, name: str) -> None:
        """Ends what is left of a server and starts it again, until it answers or has died too often."""
        server = next(s for s in self._servers if s.name == name)
        while True:
            self._children[name].kill()
            time.sleep(self._backoff_s(name))
            self._spawn(server)
            with suppress(EndedWhileStarting):
                return self.wait_ready(name)

    def _backoff_s(self, name: str) -> float:
        """The pause before another restart, which is counted here; raises after too many within a while."""
        now = time.monotonic()
        recent = [at for at in self._restarts.get(name, []) if now - at < RESTART_WINDOW_S]
        if len(recent) >= RESTARTS_MAX:
            raise StackError(
                f"{name} keeps dying: {len(recent)} restarts within {RESTART_WINDOW_S:g} s",
                detail=self._children[name].log_tail(),
                hint=f"headwater logs {name}",
            )
        self._restarts[name] = [*recent, now]
        return RESTART_BACKOFF_S * len(recent)

    def forgive(self) -> None:
        """Forgets earlier restarts: whoever kills servers on purpose does not want them counted."""
        self._restarts.clear()

    def wait_ready(self, name: str) -> None:
        server = next(s for s in self._servers if s.name == name)
        deadline = time.monotonic() + self.plan.start_timeout_s
        while not self._answers(server):
            if time.monotonic() > deadline:
                raise self._too_late([name])
            time.sleep(POLL_S)

    def stop(self, report: Report = _silent) -> None:
        """In reverse order, each politely, then firmly."""
        for name in reversed(list(self._children)):
            report(name, "stopping")
            self._children.pop(name).stop(STOP_TIMEOUT_S)
            report(name, "stopped")
        if self._site is not None:
            self._site.state.processes, self._site.state.supervisor = {}, None
            stack_state.save(self.plan.folder, self._site.state)
        self._lock.release()

    def _bundle_names(self) -> list[str]:
        return list(dict.fromkeys(name for server in self._servers for name in server.bundles))


@contextmanager
def running(plan: StackPlan, report: Report = _silent) -> Iterator[Stack]:
    stack = Stack(plan)
    stack.start(report)
    try:
        yield stack
    finally:
        stack.stop()
