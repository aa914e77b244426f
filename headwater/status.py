"""One look at everything: the servers, the slot, the connector, the log. Read by `status`, the live view, the page and
the metrics, so that all of them say the same.

Nothing here raises because a part is down: a part that cannot be asked is a finding, and the rest is still shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeVar

import psutil
import psycopg

from alerts import quiet
from cdc import envelope, eras
from cdc.capture import offset_lsn
from cdc.changelog import ChangeLog
from cdc.connect import ConnectClient, ConnectorStatus
from cdc.errors import HeadwaterError
from cdc.events import End
from cdc.findings import Finding
from cdc.gaps import Gap, Gaps, Seen, find
from cdc.guardian import Observation, SlotGuardian, judge
from cdc.mending import refusal
from cdc.position import Lsn, Position
from cdc.postgres import connect
from cdc.snapshots import SCAN_RECORDS_MAX, SnapshotProgress, SnapshotTracker
from cdc.topics import find_topic
from headwater import views_status
from headwater.deployment import Deployment, embedded_servers
from headwater.doctor.servers import elasticsearch, redis
from headwater.stack import artifacts
from headwater.stack import state as stack_state
from headwater.stack.process import ProcessId
from headwater.units import duration_text
from headwater.views_status import NO_VIEWS, ViewsStatus
from views.maintain.registry import Registry

TAIL_RECORDS: Final = 400
"""How far back the last commit is looked for; a larger transaction than that shows as still open."""

OTHERS_INTERVAL_S: Final = 10.0
_ASKED_AS: Final = {"postgres": "slot", "kafka": "log", "connect": "connector"}
"""The finding that tells that a server of the user's does not answer."""

STANDING: Final = ("STOPPED", "PAUSED", "FAILED")
"""A connector that does nothing until somebody acts."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServerStatus:
    name: str
    embedded: bool
    running: bool
    address: str
    version: str = ""
    pid: int | None = None
    memory_mb: int | None = None


@dataclass(frozen=True, slots=True)
class LogStatus:
    topic: str
    era: int
    first_offset: int
    end_offset: int
    last_commit_lsn: Lsn | None = None
    last_commit_at: datetime | None = None
    last_commit_delay_ms: float | None = None
    """From the commit in Postgres to its END marker in the log."""
    last_commit_era: int | None = None

    @property
    def end(self) -> Position:
        return Position(self.era, self.end_offset)


@dataclass(frozen=True, slots=True)
class Status:
    at: datetime
    source: str
    servers: tuple[ServerStatus, ...]
    connector: str
    connector_reason: str
    slot: Observation | None
    snapshot: SnapshotProgress | None
    log: LogStatus | None
    records_per_s: float | None
    """None at the first look."""
    findings: tuple[Finding, ...]
    views: ViewsStatus = NO_VIEWS
    gaps: tuple[Gap, ...] = ()
    """What is known to be missing from the log of the current era."""

    @property
    def healthy(self) -> bool:
        return not any(f.level == "fail" for f in self.findings)


class Observer:
    """Looks again and again; remembers just enough between looks for rates and the forecast of retained WAL."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self._guardian = SlotGuardian(deployment.source)
        self._log = ChangeLog(deployment.kafka, deployment.source)
        self._snapshots = SnapshotTracker(self._log)
        self._last_end: tuple[float, Position] | None = None
        self._others: tuple[float, list[Finding]] = (float("-inf"), [])
        self._registry = Registry(deployment.settings.views_state)

    def look(self) -> Status:
        """In an order in which what is compared later is newer: see cdc/gaps.py."""
        problems: list[Finding] = []
        era = _tried("era", self._era, [])  # that there is none is told by the log
        log = _tried("log", lambda: log_status(self._log), problems)
        snapshot = _tried("snapshot", lambda: self._snapshots.look(SCAN_RECORDS_MAX), problems) if log else None
        asked = len(problems)
        connector = _tried("connector", self._connector, problems)
        state = connector.summary if connector else "UNKNOWN" if len(problems) > asked else "MISSING"
        asked_slot = _tried("slot", lambda: self._slot(state), problems)
        slot, forgotten = asked_slot or (None, [])
        problems += forgotten
        others = self._ask_others()
        servers = server_statuses(self.deployment, frozenset(f.name for f in (*problems, *others)))
        if slot is not None:
            verdicts = judge(slot.state, state, slot.forecast)
            # Nobody reads the slot before the initial snapshot is complete.
            early = "slot inactive" if snapshot and not snapshot.complete else ""
            problems += [f for f in verdicts if f.level != "ok" and f.name != early]
        problems += others
        known = _tried("gaps", self._registry.gaps, problems) or Gaps()
        if era is not None:
            known = known.plus(self._gaps(era, known, log, snapshot, slot, connector), None)
        gaps = known.of(era[0].era) if era is not None else ()
        problems += [Finding("fail", "gap", str(gap), "headwater recover") for gap in gaps]
        views = _tried("views", lambda: views_status.look(self._registry.folder, gaps=known), problems)
        problems += views[1] if views else []
        problems += [
            Finding("fail", s.name, "is not running", f"headwater logs {s.name}")
            for s in servers
            if s.embedded and not s.running
        ]
        return Status(
            at=datetime.now(UTC),
            source=self.deployment.source.name,
            servers=servers,
            connector=state,
            connector_reason=connector.reason if connector else "",
            slot=slot,
            snapshot=snapshot,
            log=log,
            records_per_s=self._rate(log),
            findings=tuple(problems),
            views=views[0] if views else NO_VIEWS,
            gaps=gaps,
        )

    def _era(self) -> tuple[eras.Era, str]:
        """The era, and then the topic's id: the topic is made before its era is registered."""
        era = eras.current(self.deployment.kafka, self.deployment.source)
        return era, find_topic(self.deployment.kafka, self.deployment.source.changes_topic) or ""

    def _gaps(
        self,
        era: tuple[eras.Era, str],
        known: Gaps,
        log: LogStatus | None,
        snapshot: SnapshotProgress | None,
        slot: Observation | None,
        connector: ConnectorStatus | None,
    ) -> list[Gap]:
        is_same = snapshot is not None and snapshot.scanned.era == era[0].era
        seen = Seen(
            *era,
            is_begun=snapshot is not None and is_same and (bool(snapshot.begun) or snapshot.complete),
            log_lsn=log.last_commit_lsn if log and log.last_commit_era == era[0].era else None,
            slot=slot.state if slot else None,
            offset_lsn=self._offset_lsn(slot),
            refusal=refusal(connector),
            proven=known.proven,
        )
        return find(seen, time.time())

    def _offset_lsn(self, slot: Observation | None) -> Lsn | None:
        """Where a connector that does not run would go on."""
        if slot is None or not slot.state.exists or slot.connector_state not in STANDING:
            return None
        try:
            with ConnectClient(self.deployment.connect) as client:
                return offset_lsn(client, self.deployment.source)
        except HeadwaterError:
            return None  # that Connect does not answer is told already

    def _connector(self) -> ConnectorStatus | None:
        with ConnectClient(self.deployment.connect) as client:
            return client.status(self.deployment.source.connector)

    def _slot(self, connector_state: str) -> tuple[Observation, list[Finding]]:
        """And what else the database says."""
        with connect(self.deployment.postgres) as conn:
            return self._guardian.observe(conn, connector_state), _forgotten(conn)

    def _ask_others(self) -> list[Finding]:
        """The user's own search and cache servers, which nothing else here asks; not at every look."""
        asked_at, found = self._others
        if time.monotonic() - asked_at > OTHERS_INTERVAL_S:
            answers = (*elasticsearch(self.deployment.settings), *redis(self.deployment.settings))
            found = [f for f in answers if f.level == "fail"]
            self._others = time.monotonic(), found
        return found

    def _rate(self, log: LogStatus | None) -> float | None:
        """Records a second since the last look."""
        if log is None:
            return None
        now, last, self._last_end = time.monotonic(), self._last_end, (time.monotonic(), log.end)
        if last is None or last[1].era != log.era:
            return None
        return (log.end_offset - last[1].offset) / max(now - last[0], 1e-9)


def _tried(name: str, ask: Callable[[], T], problems: list[Finding]) -> T | None:
    try:
        return ask()
    except HeadwaterError as error:
        problems.append(Finding("fail", name, ": ".join(filter(None, (error.fact, error.detail))), error.hint))
        return None


def _forgotten(conn: psycopg.Connection) -> list[Finding]:
    """Of quiet stretches. Nothing where there are no alerts yet."""
    found = list[quiet.Stretch]()
    with suppress(psycopg.Error):
        found = quiet.forgotten(conn)
    return [
        Finding(
            "warn",
            f"alerts of {each.view or 'all views'}",
            f"are quiet since {duration_text((datetime.now(UTC) - each.began_at).total_seconds())}: "
            f"{each.reason or 'nobody said why'}",
            f"headwater quiet end {each.id}",
        )
        for each in found
    ]


def log_status(log: ChangeLog) -> LogStatus:
    low, high = log.bounds()
    since = log.position(max(low.offset, high.offset - TAIL_RECORDS))
    last: tuple[End, int] | None = None
    for record in log.read(since):
        entry = envelope.parse(record)
        if isinstance(entry, End):
            last = entry, record.written_at_ms
    topic = log.source.changes_topic
    if last is None:
        return LogStatus(topic, high.era, low.offset, high.offset)
    end, written_at_ms = last
    delay_ms = written_at_ms - end.at.timestamp() * 1000
    commit = end.commit_lsn, end.at, delay_ms, end.position.era
    return LogStatus(topic, high.era, low.offset, high.offset, *commit)


def server_statuses(deployment: Deployment, failing: frozenset[str] = frozenset()) -> tuple[ServerStatus, ...]:
    """An embedded server runs when its process does; the user's own when it answered, which `failing` says."""
    state = stack_state.load(deployment.settings.data_folder)
    embedded, versions = embedded_servers(deployment.settings), artifacts.versions()
    versions["connect"] = f"{versions['kafka']}, Debezium {versions['debezium']}"
    return tuple(
        _embedded(name, address, versions.get(name, ""), state.processes.get(name))
        if name in embedded
        else ServerStatus(name, embedded=False, running=_ASKED_AS.get(name, name) not in failing, address=address)
        for name, address in addresses(deployment)
    )


def addresses(deployment: Deployment) -> Sequence[tuple[str, str]]:
    """Where each server is, without user or password."""
    postgres = deployment.postgres
    return (
        ("postgres", f"{postgres.host}:{postgres.port}/{postgres.database}"),
        ("kafka", deployment.kafka.bootstrap),
        ("connect", deployment.connect.url),
        ("elasticsearch", deployment.elasticsearch.url.rpartition("@")[2]),
        ("redis", deployment.redis.url.rpartition("@")[2]),
    )


def _embedded(name: str, address: str, version: str, id_: ProcessId | None) -> ServerStatus:
    process = id_.process() if id_ else None
    if process is None:
        return ServerStatus(name, embedded=True, running=False, address=address, version=version)
    try:
        family = [process, *process.children(recursive=True)]
        memory = sum(member.memory_info().rss for member in family) >> 20
    except psutil.NoSuchProcess:
        memory = 0
    return ServerStatus(name, True, True, address, version, process.pid, memory)
