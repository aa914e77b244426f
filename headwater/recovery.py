"""What is missing, and the way back: a plan that is shown first and done after.

    look ─▶ decide: a list of steps, each with what it costs ─▶ carry out: step by step, each idempotent

A gap in the log ends with its era: a fresh slot, a fresh snapshot, a new era, from which every view is built again
while its readers keep what they have. Views that only lack old records have their tables read anew into the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from alerts import numbering
from cdc import eras
from cdc.changelog import ChangeLog
from cdc.errors import LogError, ViewError
from cdc.gaps import Gap
from cdc.postgres import connect, explained
from cdc.snapshots import SnapshotTracker
from headwater.deployment import Deployment
from headwater.migrate import migrate
from headwater.status import Observer, Status
from headwater.views.apply import nobody, read_anew
from views.maintain.registry import Registry, State, ViewState, ViewStatus, Wanted, WantedView
from views.maintain.wanting import LOG_LOST

SNAPSHOT_ROWS_PER_S: Final = 10_000
BUILD_ROWS_PER_S: Final = 8_000
"""Of docs/benchmarks.md, on two cores, the lower ends: a guess for a person who waits, not a promise."""
NEW_ERA_S: Final = 15.0
POLL_S: Final = 0.3
_ROWS: Final = """
    select n.nspname || '.' || c.relname, greatest(c.reltuples, 0)::bigint
      from pg_publication_tables p join pg_namespace n on n.nspname = p.schemaname
      join pg_class c on c.relnamespace = n.oid and c.relname = p.tablename
     where p.pubname = %s
"""


@dataclass(frozen=True, slots=True)
class Step:
    what: str
    rows: int
    seconds: float
    """About."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was found, and what will be done."""

    gaps: tuple[Gap, ...] = ()
    stale: Mapping[str, str] = field(default_factory=dict)
    """By view, why."""
    new_era: bool = False
    read_anew: tuple[str, ...] = ()
    """Views whose tables are read into the running log."""
    steps: tuple[Step, ...] = ()

    @property
    def is_needed(self) -> bool:
        return bool(self.steps)

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)


def decide(
    gaps: tuple[Gap, ...], stale: Mapping[str, str], state: State, wanted: Wanted, rows: Mapping[str, int]
) -> Recovery:
    """Pure. A new era brings everything back, so nothing else is needed with one."""
    if gaps or any(_has_gap(state, view) for view in wanted.views):
        return Recovery(gaps, stale, new_era=True, steps=_new_era(wanted, rows))
    lost = tuple(sorted(view for view in wanted.views if _is_lost(state, view)))
    if not lost:
        return Recovery(gaps, stale)
    tables = {f"{row['schema_name']}.{row['table_name']}" for view in lost for row in wanted.views[view].tables}
    count = sum(rows.get(table, 0) for table in tables)
    steps = (
        Step(f"read {', '.join(sorted(tables))} anew into the log", count, count / SNAPSHOT_ROWS_PER_S),
        Step(f"build {', '.join(lost)} from there on", count, count / BUILD_ROWS_PER_S),
    )
    return Recovery(gaps, stale, read_anew=lost, steps=steps)


def _new_era(wanted: Wanted, rows: Mapping[str, int]) -> tuple[Step, ...]:
    count = sum(rows.values())
    begun = Step("drop slot and connector, begin a new era", 0, NEW_ERA_S)
    tables = f"{len(rows)} table{'' if len(rows) == 1 else 's'}"
    read = Step(f"take a fresh snapshot of {tables}", count, count / SNAPSHOT_ROWS_PER_S)
    if not wanted.views:
        return begun, read
    names = ", ".join(sorted(wanted.views))
    return begun, read, Step(f"build {names} from it; readers keep what they have", count, count / BUILD_ROWS_PER_S)


def _has_gap(state: State, view: str) -> bool:
    """Changes are missing from it that are still in no log."""
    status = state.views.get(view)
    return status is not None and status.state is ViewState.LIVE and status.is_gap


def _is_lost(state: State, view: str) -> bool:
    status = state.views.get(view)
    return status is not None and status.state is ViewState.PAUSED and status.reason.startswith(LOG_LOST)


Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Recoverer:
    deployment: Deployment
    registry: Registry
    nobody_s_max: float = 120.0

    def plan(self) -> Recovery:
        return self.planned(Observer(self.deployment).look())

    def planned(self, seen: Status) -> Recovery:
        stale = {line.name: line.stale.reason for line in seen.views.views if line.stale is not None}
        return decide(seen.gaps, stale, self.registry.state(), self.registry.wanted(), self._rows())

    def _rows(self) -> dict[str, int]:
        with connect(self.deployment.postgres) as conn, explained(conn):
            found = conn.execute(_ROWS, [self.deployment.source.publication]).fetchall()
        return {name: count for name, count in found if not name.startswith("headwater.")}

    def carry_out(self, recovery: Recovery, report: Report) -> None:
        """May be done again after it was cut off anywhere: what was done is found done."""
        place = self.deployment
        if recovery.new_era:
            migrate(place.postgres)  # what was put back may be from before
            with connect(place.postgres) as conn, explained(conn):
                numbering.move_on(conn)
            place.capture().begin_anew(report)
        elif recovery.read_anew:
            report("asking for the tables anew")
            with connect(place.postgres) as conn, explained(conn):
                read_anew(self.registry, recovery.read_anew, conn, place.kafka, place.source)

    def wait(self, recovery: Recovery) -> Iterator[str]:
        """Looks until all are live again, and says how far they are. Raises ViewError when nobody has kept them for
        longer than that takes to begin anew: a new era ends the process that does."""
        yield from self._snapshot()
        kept_at = time.monotonic()
        while waiting := self._not_live(recovery):
            yield "; ".join(waiting)
            if self.registry.is_kept():
                kept_at = time.monotonic()
            elif time.monotonic() - kept_at > self.nobody_s_max:
                raise nobody(self.registry.state())
            time.sleep(POLL_S)

    def _snapshot(self) -> Iterator[str]:
        tracker = SnapshotTracker(ChangeLog(self.deployment.kafka, self.deployment.source))
        while not (progress := tracker.look()).complete:
            yield f"snapshot: {progress.rows:,} rows so far"
            time.sleep(POLL_S)

    def _not_live(self, recovery: Recovery) -> list[str]:
        wanted = self.registry.wanted()
        era = eras.current(self.deployment.kafka, self.deployment.source).era
        return not_live(self._views(recovery), self.registry.state(), wanted, era, self._held())

    def left(self, recovery: Recovery) -> list[str]:
        """What is still to be done by somebody, and how."""
        return left(self._views(recovery), self.registry.state(), self._held())

    def _views(self, recovery: Recovery) -> tuple[str, ...]:
        return recovery.read_anew or tuple(self.registry.wanted().views)

    def _held(self) -> set[str]:
        return {each.view for each in self.registry.book().held if not each.sink}


def left(views: Collection[str], state: State, held: Collection[str] = ()) -> list[str]:
    """Views that no waiting brings back: a person has paused them, or has to look first."""
    found = [f"{view} is paused: headwater resume {view}" for view in views if view in held]
    ready = [view for view, status in state.views.items() if status.state is ViewState.READY and view in views]
    return found + [f"{view} waits for a decision: headwater apply --approve {view}, or --reject" for view in ready]


def not_live(views: Iterable[str], state: State, wanted: Wanted, era: int, held: Collection[str] = ()) -> list[str]:
    """Those that are not there yet, and how far they are; of those that wait for a person, what could be done is done.
    Raises ViewError for one that will not be."""
    found = []
    for view in views:
        if view in held:
            continue
        status = state.views.get(view)
        group = state.groups.get(status.group) if status else None
        is_of_era = group is not None and group.era == era
        if status is None or not (is_of_era or _was_refused(status, wanted.views.get(view))):
            found.append(f"{view} waiting")
        elif status.state is ViewState.PAUSED and not _is_lost(state, view):
            raise ViewError(f"{view} is paused", detail=status.reason, hint=f"headwater views {view}")
        elif status.state not in (ViewState.LIVE, ViewState.READY, ViewState.HELD):
            done = group.offset / max(group.end, 1) if group else 0
            found.append(f"{view} {status.state} {done:.0%}")
    return found


def _was_refused(status: ViewStatus, wanted: WantedView | None) -> bool:
    """What is wanted now could not even be begun."""
    return status.group == "" and wanted is not None and wanted.applied_at_s == status.applied_at_s


def require_log(recovery: Recovery, status: Status) -> None:
    """Raises where nothing can be decided because nothing could be asked."""
    if status.log is None and not recovery.gaps:
        told = next((f.detail for f in status.findings if f.name == "log"), "")
        raise LogError("the log cannot be looked at", detail=told, hint="headwater status")
