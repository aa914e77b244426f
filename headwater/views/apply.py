"""Writes down which views are wanted, and waits until they are kept so.

Order: tables that changed under a view are noted with the end of the log, then asked for anew, then the views are
written down, all in one file at once. Cut off before the file is written, nothing was applied.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import msgspec
import psycopg

from cdc import eras
from cdc.addresses import KafkaAddress, Source
from cdc.capture import request_snapshot
from cdc.errors import StateError, ViewError
from cdc.events import TableName
from cdc.topics import topic_state
from headwater.file_lock import locked
from headwater.views.declared import tables_of
from headwater.views.plan_views import Action, Change, Sources, ViewsPlan
from views.maintain.group import Group
from views.maintain.registry import Registry, Standby, State, ViewState, ViewStatus, Wanted, WantedView

POLL_S: Final = 0.3
_TABLE_CHANGED: Final = re.compile(r"^table (\S+) changed")


@dataclass(frozen=True)
class Applied:
    views: tuple[str, ...]
    dropped: tuple[str, ...]
    batch: str
    at_s: float
    asked: tuple[str, ...] = ()
    """Tables that are read anew."""


def changed_tables(changes: Iterable[Change], state: State) -> dict[str, set[str]]:
    """By view, the tables whose change paused it."""
    found: dict[str, set[str]] = {}
    for change in changes:
        status = state.views.get(change.name)
        if status is not None and status.state is ViewState.PAUSED and (seen := _TABLE_CHANGED.match(status.reason)):
            found[change.name] = {seen[1]}
    return found


def known_skips(registry: Registry, era: int) -> dict[str, int]:
    """By table, the offset from which on the log has it in its present shape, as far as groups of this era know.

    An offset of another era means nothing in this one: its groups are passed over.
    """
    found: dict[str, int] = {}
    for folder in registry.groups.glob("*") if registry.groups.is_dir() else ():
        try:
            spec = Group.load(folder).spec
        except StateError:
            continue
        for table, offset in spec.skip_before.items() if spec.era == era else ():
            found[table] = max(offset, found.get(table, 0))
    return found


def altered_since(conn: psycopg.Connection, began_s: int) -> set[str]:
    """Tables that came or changed their shape after that second: the log may have rows of two shapes."""
    found = conn.execute(
        "select schema_name || '.' || table_name from headwater.catalog where recorded_at > to_timestamp(%s)",
        [began_s],
    )
    return {name for (name,) in found}


def next_wanted(
    wanted: Wanted,
    plan: ViewsPlan,
    sources: Sources,
    skips: Mapping[str, int],
    *,
    drop: bool,
    batch: str,
    at_s: float,
    era: int = 0,
    review: bool = False,
) -> Wanted:
    """What is wanted once the plan is applied. Pure."""
    gone = {change.name for change in plan.having(Action.DROPPED)} if drop else set()
    views = {name: view for name, view in wanted.views.items() if name not in gone}
    for change in plan.pending:
        assert change.declared is not None
        tables, known = change.declared.tables, wanted.views.get(change.name)
        # One that waits already is replaced; what readers use stays what it would be taken back to.
        previous = known.previous if known is not None and not known.is_reviewed else known
        # To build again what waits is no decision on it.
        goes_on_waiting = change.action is Action.AGAIN and known is not None and not known.is_reviewed
        waits = (review or goes_on_waiting) and previous is not None
        views[change.name] = WantedView(
            change.declared.text,
            sources.shapes(tables),
            at_s,
            batch,
            {str(table): skips[str(table)] for table in tables if str(table) in skips},
            era,
            is_reviewed=not waits,
            previous=previous if waits else None,
        )
    return Wanted(views)


def apply(
    plan: ViewsPlan,
    sources: Sources,
    registry: Registry,
    conn: psycopg.Connection,
    kafka: KafkaAddress,
    source: Source,
    *,
    drop: bool,
    review: bool = False,
) -> Applied:
    """The plan must not be refused. Where what was wanted cannot be read, it is what the plan says, and no more."""
    _wanted_before(registry, plan, drop=drop, review=review)  # before anything is asked for
    era = eras.current(kafka, source)
    skips = known_skips(registry, era.era) if plan.pending else {}
    used = {str(table) for change in plan.pending if change.declared for table in change.declared.tables}
    paused_by = set[str]().union(*changed_tables(plan.pending, registry.state()).values())
    asked = sorted(paused_by | (used & altered_since(conn, era.era)))
    low = topic_state(kafka, source.changes_topic).low
    if low > era.first_offset:
        # The log's beginning is gone: what no snapshot has brought since must be read anew.
        asked = sorted({*asked, *(table for table in used if skips.get(table, -1) < low)})
    if asked:
        # The end first: what the snapshot reads stands after it.
        end = topic_state(kafka, source.changes_topic).high
        skips |= dict.fromkeys(asked, end)
        request_snapshot(conn, [TableName.parse(table) for table in asked])
    batch = uuid.uuid4().hex[:12]
    with _one_at_a_time(registry):
        wanted, at_s = _wanted_before(registry, plan, drop=drop, review=review), time.time()
        registry.want(
            next_wanted(wanted, plan, sources, skips, drop=drop, batch=batch, at_s=at_s, era=era.era, review=review)
        )
    dropped = tuple(change.name for change in plan.having(Action.DROPPED)) if drop else ()
    return Applied(tuple(change.name for change in plan.pending), dropped, batch, at_s, tuple(asked))


def wanted_or_names(registry: Registry) -> Wanted:
    """What is wanted; where that cannot be read, the names of the views that are kept, each as another than any file
    declares."""
    try:
        return registry.wanted()
    except StateError:
        return Wanted({name: WantedView("", [], 0.0, "") for name in _kept_names(registry)})


def _wanted_before(registry: Registry, plan: ViewsPlan, *, drop: bool, review: bool) -> Wanted:
    """Raises StateError if that cannot be read, and the plan does not say what is to become of every view that is kept:
    whoever keeps the views drops those that nobody wants."""
    try:
        return registry.wanted()
    except StateError as error:
        told = {change.name for change in (*plan.pending, *(plan.having(Action.DROPPED) if drop else ()))}
        if left := sorted(_kept_names(registry) - told):
            error.detail = f"and this does not declare {', '.join(left)}: they would be dropped"
            error.hint = "headwater apply FOLDER with the files of all views; --drop drops those that none declares"
            raise
        if review:
            error.detail = "so nobody can say what would change"
            error.hint = "headwater apply, without --review"
            raise
        return Wanted()


def _kept_names(registry: Registry) -> set[str]:
    try:
        return set(registry.state().views)
    except StateError:  # then whoever keeps the views knows of none, either
        return set()


def apply_again(
    registry: Registry, views: Collection[str], *, from_mirrors: bool = False, is_compared: bool = False
) -> Applied:
    """Builds views again from the log, or from what is known of their tables, as they are written down; readers keep
    the old rows until the new are whole, and with `is_compared` until a rebuild has found them equal. Raises ViewError
    for one that waits for somebody to look."""
    with _one_at_a_time(registry):
        wanted, batch, at_s = registry.wanted(), uuid.uuid4().hex[:12], time.time()
        require_decided(wanted, views)
        again = {
            name: _again(view, at_s, batch, is_compared=is_compared, from_mirrors=from_mirrors)
            for name, view in wanted.views.items()
            if name in views
        }
        registry.want(Wanted({**wanted.views, **again}))
    return Applied(tuple(again), (), batch, at_s)


def go_back(registry: Registry, standby: Standby) -> Applied:
    """Wants a definition again that readers left: the group that was kept fed with it is shown (standing_by.py)."""
    group = Group.load(registry.groups / standby.group)
    used, spec = set(tables_of(group.plans[standby.view].root)), group.spec
    with _one_at_a_time(registry):
        wanted, batch, at_s = registry.wanted(), uuid.uuid4().hex[:12], time.time()
        require_decided(wanted, [standby.view])
        view = WantedView(
            spec.definitions[standby.view],
            [row for row in spec.tables if TableName(row["schema_name"], row["table_name"]) in used],
            at_s,
            batch,
            {table: offset for table, offset in spec.skip_before.items() if TableName.parse(table) in used},
            spec.era,
            goes_back_to=spec.id,
        )
        registry.want(Wanted({**wanted.views, standby.view: view}))
    return Applied((standby.view,), (), batch, at_s)


def _one_at_a_time(registry: Registry) -> AbstractContextManager[None]:
    """Who changes what is wanted reads it first, and writes all of it: nobody else does so in between, or what they
    applied would be undone."""
    return locked(registry.folder / "wanted.lock")


def require_decided(wanted: Wanted, views: Iterable[str]) -> None:
    """Raises ViewError for one that waits for somebody to look: what would be built again is not what readers use."""
    for name in views:
        known = wanted.views.get(name)
        if known is not None and not known.is_reviewed:
            raise ViewError(
                f"view {name} waits for a decision",
                detail="its changed definition is built, or being built, beside the one that readers use",
                hint=f"headwater apply --approve {name}, or --reject {name}; then again",
            )


def decide(
    registry: Registry, views: Collection[str], *, approve: bool, seen: Mapping[str, float] = MappingProxyType({})
) -> Applied:
    """Shows views that wait for somebody to look, or takes them back. `seen` are applications (applied_at_s) that
    somebody looked at, by view. Raises ViewError for one that does not wait, or is another by now."""
    with _one_at_a_time(registry):
        wanted, state = registry.wanted(), registry.state()
        for name in views:
            _require_waiting(name, wanted.views.get(name), state.views.get(name), seen.get(name), approve=approve)
        decided = {name: _decided(wanted.views[name], approve=approve) for name in views}
        registry.want(Wanted({**wanted.views, **decided}))
    at_s = next(iter(decided.values())).applied_at_s
    return Applied(tuple(views), (), next(iter(decided.values())).batch, at_s)


def _require_waiting(
    name: str, known: WantedView | None, status: ViewStatus | None, seen_at_s: float | None, *, approve: bool
) -> None:
    if known is None or known.is_reviewed:
        raise ViewError(f"view {name} does not wait for a decision", hint="headwater apply --review")
    if seen_at_s not in (None, known.applied_at_s):
        raise changed_since(name, "its definition was applied again")
    if approve and (status is None or status.state is not ViewState.READY):
        raise ViewError(
            f"view {name} is not built yet",
            detail=status.state if status else "",
            hint=f"headwater views {name}, then headwater apply --approve {name}",
        )


def changed_since(view: str, detail: str) -> ViewError:
    return ViewError(f"view {view} changed since you looked", detail=detail, hint="load the page again")


def _decided(view: WantedView, *, approve: bool) -> WantedView:
    if approve or view.previous is None:
        return msgspec.structs.replace(view, is_reviewed=True, previous=None)
    return view.previous


def read_anew(
    registry: Registry,
    views: Collection[str],
    conn: psycopg.Connection,
    kafka: KafkaAddress,
    source: Source,
    *,
    is_compared: bool = False,
) -> Applied:
    """Builds views again from a fresh snapshot of their tables, for which the log need not have its beginning. One
    that waits for somebody to look goes on waiting; what it would be taken back to can be built from there, too."""
    era = eras.current(kafka, source)
    tables = set[str]().union(*(_read_by(view) for name, view in registry.wanted().views.items() if name in views))
    # The end first: what the snapshot reads stands after it.
    skips = dict.fromkeys(sorted(tables), topic_state(kafka, source.changes_topic).high)
    request_snapshot(conn, [TableName.parse(table) for table in skips])
    with _one_at_a_time(registry):
        wanted, batch, at_s = registry.wanted(), uuid.uuid4().hex[:12], time.time()
        chosen = {name: view for name, view in wanted.views.items() if name in views}
        for name, view in chosen.items():
            if not _read_by(view) <= tables:
                raise ViewError(f"view {name} was changed meanwhile", hint=f"headwater views {name}; then again")
        again = {
            name: _again(_read_from(view, skips, era.era), at_s, batch, is_compared=is_compared)
            for name, view in chosen.items()
        }
        registry.want(Wanted({**wanted.views, **again}))
    return Applied(tuple(again), (), batch, at_s, tuple(skips))


def _again(view: WantedView, at_s: float, batch: str, *, is_compared: bool, from_mirrors: bool = False) -> WantedView:
    """The same definition, to be built once more."""
    return msgspec.structs.replace(
        view, applied_at_s=at_s, batch=batch, from_mirrors=from_mirrors, is_compared=is_compared, goes_back_to=""
    )


def _read_from(view: WantedView, skips: dict[str, int], era: int) -> WantedView:
    """With rows of its tables from there on, as what it would be taken back to."""
    previous = view.previous and msgspec.structs.replace(view.previous, skip_before=skips, era=era)
    return msgspec.structs.replace(view, skip_before=skips, era=era, previous=previous)


def _read_by(view: WantedView) -> set[str]:
    """Tables of it, and of what it would be taken back to."""
    read = [view, *([view.previous] if view.previous is not None else [])]
    return {f"{row['schema_name']}.{row['table_name']}" for each in read for row in each.tables}


@dataclass(frozen=True)
class Progress:
    """Of one view on its way."""

    view: str
    state: ViewState
    group: str = ""
    done: int = 0
    total: int = 0
    reason: str = ""

    @property
    def is_over(self) -> bool:
        return self.state in (ViewState.LIVE, ViewState.PAUSED, ViewState.READY)


def progress(applied: Applied, state: State) -> list[Progress]:
    """How far the applied views are. What the state says of an earlier application of a view does not count."""
    return [_progress(name, state.views.get(name), applied.at_s, state) for name in applied.views]


def _progress(view: str, status: ViewStatus | None, at_s: float, state: State) -> Progress:
    if status is None or status.applied_at_s != at_s:
        return Progress(view, ViewState.WAITING)
    group = state.groups.get(status.group)
    done, total = (group.offset, group.end) if group is not None else (0, 0)
    if status.failed:  # readers have what they had, not what was asked for
        return Progress(view, ViewState.PAUSED, status.group, done, total, status.failed)
    return Progress(view, status.state, status.group, done, total, status.reason)


def wait(applied: Applied, registry: Registry) -> Iterator[list[Progress]]:
    """Looks again and again, until all views are live or one is paused. Raises ViewError when nobody keeps views."""
    while True:
        state = registry.state()
        found = progress(applied, state)
        yield found
        if all(each.is_over for each in found):
            return
        if not registry.is_kept():
            raise nobody(state)
        time.sleep(POLL_S)


def nobody(state: State) -> ViewError:
    detail = f"the last one said: {state.problem}" if state.problem else "what is applied is built once one runs"
    return ViewError("no process keeps the views", detail=detail, hint="headwater up")
