"""Keeps the wanted views: one streaming query over the log feeds all live groups, an epoch after the other.

    wanted.json ─▶ new group ─ follows the log by itself ─▶ whole ─▶ published ─ caught up ─▶ rides with the others

A group that is new, was put back from a copy, or cannot keep up follows the log by itself, in batches, and holds nobody
up; when it has caught up it joins the streaming query between two of its epochs. Positions are kept with the state and
in Kafka, never in Spark's checkpoint: that one lives as long as the query.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from cdc import eras
from cdc.addresses import KafkaAddress, Source
from cdc.changelog import Archive
from cdc.epochs import EpochPlanner
from cdc.errors import LogError, NothingWhole, PositionExpired, StateError, ViewError
from cdc.topics import delete_topic
from views.arrangement import Owner
from views.maintain.booking import BookKeeper
from views.maintain.catch_up import POLL_S, CatchUp
from views.maintain.copies import copy_group, put_back
from views.maintain.group import Group, GroupSpec
from views.maintain.meters import Meters
from views.maintain.noting import Noting
from views.maintain.obeying import Obeying, why
from views.maintain.orders import Orders
from views.maintain.pace import Pace
from views.maintain.pauses import Pauses
from views.maintain.publisher import Publisher, view_topic
from views.maintain.rebuilding import KEEP_S, Check, Rebuilder, no_check
from views.maintain.registry import Registry, ViewState, ViewStatus, Wanted, WantedView
from views.maintain.repairs import requests
from views.maintain.riding import Riding
from views.maintain.runner import GroupRunner
from views.maintain.showing import PAUSED_OUT, Showing
from views.maintain.sinking import Sinking
from views.maintain.statuses import Statuses
from views.sinks.sink import SinkKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTE_S: Final = 1.0
RETRY_S: Final = 5.0
"""Until what could not be begun, because Kafka did not answer, is tried again."""
LOG_LOST: Final = "the log no longer has what comes next"
"""Why a view is paused that only a fresh snapshot of its tables brings back: headwater recover."""


@dataclass(frozen=True)
class Limits:
    records_per_epoch_max: int = 50_000
    build_records_per_epoch_max: int = 100_000
    shards: int = 1
    hold_s_max: float = 5.0
    """How long one group may hold up the others in an epoch before it is left to follow by itself."""
    copy_interval_s: float = 900.0
    durable: bool = False
    rebuild_lag_ms_max: float = 2_000.0
    """How far the live views may be behind before work in the background slows down."""
    keep_standby_s: float = KEEP_S


@dataclass
class Maintainer:
    spark: SparkSession
    kafka: KafkaAddress
    source: Source
    registry: Registry
    limits: Limits = field(default_factory=Limits)
    sinks: Mapping[str, SinkKind] = field(default_factory=dict)
    """By the names that views list them under."""
    stop: threading.Event = field(default_factory=threading.Event)
    archive: Archive | None = None
    """What Kafka no longer holds of the log."""
    check: Check = no_check
    """Verifies a generation before readers go over to it."""

    def __post_init__(self) -> None:
        self._owner = Owner.acquire(self.registry.folder)
        self._riding = Riding(
            self.spark,
            self.kafka,
            self.source,
            self.limits.records_per_epoch_max,
            self.limits.hold_s_max,
            follow=self._begin_by_itself,
            put_back=lambda runner: put_back(runner, self.registry.copies),
            fail=self._fail,
            is_wanted=lambda runner: runner.group.spec.id in self._runners,
        )
        self._runners: dict[str, GroupRunner] = {}
        self._views = self._known_views()
        self._meters = Meters()
        self._problem = self._uncopied = ""
        self._failure: BaseException | None = None
        self._copied_at = time.monotonic()
        self._noted_at = float("-inf")
        self._over = threading.Event()
        self._wanted_at_ns = -1
        self._apply_after = float("-inf")
        self._pace = Pace(self._behind_ms, self.limits.rebuild_lag_ms_max)
        self._sinking = Sinking(
            self.kafka, self.source, self.sinks, self.spark, rest=self._pace.rest, piece=self._pace.piece
        )
        self._assemble(BookKeeper(self.registry))

    def _assemble(self, keeper: BookKeeper) -> None:
        """Those who work on groups and views, each with what it needs of the others."""
        held = {held.view: why(held) for held in keeper.book.held if not held.sink}
        for view in held.keys() & self._views.keys():
            if self._views[view].state is ViewState.LIVE:
                self._views.hold(view, held[view])  # it was cut off before it noted that
        self._pauses = Pauses(set(held), self._views, self._runners, self._riding.leave)
        self._showing = Showing(self._views, self._runners, self._retire, self._riding.run_alone)
        self._catch_up = CatchUp(
            self.kafka,
            self.source,
            self.archive,
            self.limits.build_records_per_epoch_max,
            self._runners,
            self._riding,
            self._showing,
            self._pace,
            is_held=self._pauses.is_held,
            lost=self._lost,
            fail=self._fail,
            over=self._over,
            stop=self.stop,
        )
        self._noting = Noting(
            self.kafka,
            self.source,
            self.registry,
            self._views,
            self._runners,
            self._meters,
            self._riding,
            self._sinking,
            self._catch_up.threads,
        )
        self._rebuilder = Rebuilder(keeper, self._sinking, self._views.get, self.check, self.limits.keep_standby_s)
        self._obeying = Obeying(Orders(self.registry.folder), keeper, self._rebuilder, self._pauses.hold, self._release)
        self._rebuilding = threading.Thread(target=self._rebuild, name="rebuilder", daemon=True)

    def run(self) -> None:
        """Until `stop` is set. Raises what cannot be mended from here."""
        try:
            self._open_groups()
            self._rebuilding.start()
            while not self._is_over:
                self._look()
                self.stop.wait(POLL_S)
        finally:
            self._over.set()
            self._close()

    @property
    def _is_over(self) -> bool:
        return self.stop.is_set() or self._over.is_set()

    def _look(self) -> None:
        if self._failure is not None:
            raise self._failure
        changed = self.registry.changed_at_ns()
        if changed != self._wanted_at_ns and time.monotonic() >= self._apply_after:
            is_done = self._apply(self.registry.wanted())
            self._wanted_at_ns = changed if is_done else -1
            self._apply_after = time.monotonic() + (0.0 if is_done else RETRY_S)
        self._riding.keep()
        self._tell_again()
        self._copy()
        if time.monotonic() - self._noted_at >= NOTE_S:
            self._note()

    def _behind_ms(self) -> float:
        """What readers see, behind the log."""
        return self._meters.lately_behind_ms() + self._sinking.behind_ms()

    def _begin_by_itself(self, runner: GroupRunner) -> None:
        self._catch_up.begin(runner)

    def _fail(self, error: BaseException) -> None:
        self._failure = error

    def _known_views(self) -> Statuses:
        """Of a file that cannot be read nothing is known: all views are built again from the log."""
        try:
            return Statuses(self.registry.state().views)
        except StateError:
            return Statuses()

    def _rebuild(self) -> None:
        try:
            self._obeying.run(self._over)
        except BaseException as error:
            self._fail(error)

    # Groups

    def _open_groups(self) -> None:
        self._showing.unreviewed = _unreviewed(self.registry.wanted())
        era = self._era()
        for folder in sorted(self.registry.groups.glob("*")) if self.registry.groups.is_dir() else ():
            group = self._loaded(folder)
            if group is None:
                continue
            used = {view for view, status in self._views.items() if _needs(view, status, group)}
            if used and (group.spec.era, group.spec.topic_id) != (era.era, era.topic_id):
                self._runner(group)  # what they hold stays until then: the difference is what is published
                self._views.outlived(used, group.spec)
                continue
            if not used:
                # Ends a transaction that it may have left open: readers of the topics would wait for it.
                Publisher(self.kafka, self.source, folder.name)
                shutil.rmtree(folder, ignore_errors=True)
                shutil.rmtree(self.registry.copies / folder.name, ignore_errors=True)
                continue
            runner = self._runner(group)
            if not runner.progress.is_live and not self._views.of(folder.name):
                self._retire(folder.name)  # its views were applied again before it was ready
                continue
            if runner.is_progress_lost or runner.is_left_behind:
                put_back(runner, self.registry.copies)
        for runner in [each for each in self._runners.values() if each.progress.is_live]:
            self._showing.shown(runner)
            self._sinking.published(runner.group, runner.published())
        for runner in list(self._runners.values()):
            if runner.group.spec.era == era.era:
                self._catch_up.begin(runner)

    def _loaded(self, folder: Path) -> Group | None:
        """None where its file was lost or damaged: its views are built again from the log."""
        try:
            return Group.load(folder)
        except StateError:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.rmtree(self.registry.copies / folder.name, ignore_errors=True)
            self._views.lost(folder.name)
            return None

    def _era(self) -> eras.Era:
        return eras.current(self.kafka, self.source)

    def _runner(self, group: Group) -> GroupRunner:
        runner = GroupRunner(
            self.spark, self.kafka, self.source, group, self._owner.number, durable=self.limits.durable
        )
        runner.on_paused = self._paused
        runner.on_gap = lambda what: self._is_stale(runner, what)
        runner.on_measured = self._meters.add
        runner.on_published = lambda published: self._sinking.published(runner.group, published)
        runner.prepare()
        self._runners[group.spec.id] = runner
        return runner

    def _paused(self, view: str, why: str) -> None:
        if why != PAUSED_OUT:
            self._views.paused(view, why)

    def _is_stale(self, runner: GroupRunner, why: str) -> None:
        self._views.incomplete(runner.group.live, runner.group.spec.id, why)

    def _lost(self, runner: GroupRunner, error: PositionExpired) -> None:
        """Neither Kafka nor the archive has what it would read next: its views stand still, the others go on."""
        self._is_stale(runner, f"{LOG_LOST}: {error.fact}")
        runner.pause(list(runner.group.live), f"{LOG_LOST}: {error.fact}; {error.detail}")

    # What is wanted

    def _apply(self, wanted: Wanted) -> bool:
        """Whether there is nothing left to be tried again."""
        self._showing.unreviewed |= _unreviewed(wanted)
        for gone in [name for name in self._views if name not in wanted.views]:
            self._drop(gone)
        fresh: dict[str, dict[str, WantedView]] = {}
        for name, view in wanted.views.items():
            known = self._views.get(name)
            if known is not None and known.applied_at_s != view.applied_at_s and self._is_taken_back(name, view):
                continue
            if known is None or known.state is ViewState.WAITING or known.applied_at_s != view.applied_at_s:
                fresh.setdefault(view.batch, {})[name] = view
        left = False
        for views in fresh.values():
            try:
                self._begin(views)
            except (ViewError, LogError) as error:
                # One that cannot be begun must not stop the others.
                left |= self._not_begun(views, error)
        # Last: a group that was taken back is gone before it may be shown.
        self._showing.unreviewed = _unreviewed(wanted)
        return not left

    def _not_begun(self, views: Mapping[str, WantedView], error: ViewError | LogError) -> bool:
        """Whether it is worth another try. What readers have so far stays, and is fed."""
        passes = isinstance(error, LogError) and error.fact != LOG_LOST
        state = ViewState.WAITING if passes else ViewState.PAUSED
        reason = f"{error.fact}: {error.detail}; {error.hint}"
        for name, view in views.items():
            known = self._views.get(name, ViewStatus(state))
            applied_at_s = known.applied_at_s if passes else view.applied_at_s
            self._views.renew(name, state, known.group, applied_at_s, reason)
        return passes

    def _is_taken_back(self, name: str, view: WantedView) -> bool:
        """Somebody has looked at what would change, and wants the one that readers use to stay."""
        known = self._views[name]
        if known.state not in (ViewState.BUILDING, ViewState.READY):
            return False
        for group, runner in self._runners.items():
            kept = runner.group.spec.definitions.get(name) if runner.progress.is_live else None
            if group != known.group and kept == view.text and name in runner.group.live:
                self._views.renew(name, ViewState.LIVE, group, view.applied_at_s)
                self._retire(known.group)
                return True
        return False

    def _begin(self, views: Mapping[str, WantedView]) -> None:
        """A new group for views that were applied together."""
        era = self._era()
        tables = {row["relation"]: row for view in views.values() for row in view.tables}
        known = [view.skip_before for view in views.values() if view.era in (0, era.era)]
        skips = {table: offset for skip in known for table, offset in skip.items()}
        spec = GroupSpec.new(
            era.era,
            era.topic_id,
            self._start(era, tables.values(), skips),
            self.limits.shards,
            {name: view.text for name, view in views.items()},
            list(tables.values()),
        )
        spec = msgspec.structs.replace(spec, skip_before=skips, seed_from=self._seed_from(views))
        group = Group(spec.save(self.registry.groups), spec)
        runner = self._runner(group)
        for name, view in views.items():
            self._views.renew(name, ViewState.BUILDING, spec.id, view.applied_at_s)
        self._supersede(runner)
        self._note()
        self._catch_up.begin(runner)

    def _supersede(self, runner: GroupRunner) -> None:
        """Groups that were being built for the same views will not be shown with them."""
        for name, other in list(self._runners.items()):
            with other.lock:
                if other is not runner and not other.progress.is_live:
                    other.pause(list(runner.group.live), PAUSED_OUT)
                    self._retire(name)

    def _seed_from(self, views: Mapping[str, WantedView]) -> str:
        """The one group that keeps them all, when they are to begin with what it knows."""
        kept = {known.group if (known := self._views.get(name)) else "" for name in views}
        return kept.pop() if len(kept) == 1 and all(view.from_mirrors for view in views.values()) else ""

    def _start(self, era: eras.Era, tables: Iterable[Mapping[str, object]], skips: Mapping[str, int]) -> int:
        """Where a new group begins to read: with the era, from the archive where Kafka has let it go, or later if
        snapshots bring all its rows."""
        named = {f"{row['schema_name']}.{row['table_name']}" for row in tables}
        is_brought = named <= skips.keys()
        try:
            first, _ = EpochPlanner(self.kafka, self.source, archive=None if is_brought else self.archive).first()
        except NothingWhole as error:
            raise _log_lost(error.summary) from error
        if is_brought or first.offset <= era.first_offset:
            return max(first.offset, era.first_offset)
        raise _log_lost(f"era {era.era} began at {era.first_offset}, without a gap it begins at {first.offset}")

    def _drop(self, view: str) -> None:
        runners = [runner for runner in self._runners.values() if view in runner.group.spec.definitions]
        for runner in runners:
            runner.pause([view], PAUSED_OUT)
        del self._views[view]
        for runner in runners[:1]:
            runner.forget(view)
        delete_topic(self.kafka, view_topic(self.source, view))
        self._problem = "; ".join(self._sinking.forget(view)) or self._problem
        self._rebuilder.forget(view)
        self._pauses.forget(view)
        for runner in runners:
            self._retire(runner.group.spec.id)

    def _release(self, views: Collection[str]) -> None:
        for runner in self._pauses.release(views):
            self._catch_up.begin_if_idle(runner)

    def _retire(self, group: str) -> None:
        """Lets go of a group that no view needs any more."""
        if self._views.of(group):
            return
        runner = self._runners.pop(group, None)
        self._riding.leave(runner)
        if runner is not None:
            with runner.lock:
                shutil.rmtree(runner.group.folder, ignore_errors=True)
                shutil.rmtree(self.registry.copies / group, ignore_errors=True)

    # Looking after itself

    def _tell_again(self) -> None:
        """Rows that somebody found wrong in a sink. A request for a view that is gone is done with."""
        for request in requests(self.registry):
            known = self._views.get(request.asked.view)
            runner = self._runners.get(known.group) if known else None
            if known is None or (runner is not None and runner.tell_again(request.asked.view, request.asked.keys)):
                request.done()

    def _copy(self) -> None:
        if time.monotonic() - self._copied_at < self.limits.copy_interval_s:
            return
        self._copied_at = time.monotonic()
        self._uncopied = ""
        for runner in self._riding.groups:
            if not runner.is_idle:
                try:
                    copy_group(runner, self.registry.copies)
                except StateError as error:  # the views go on; the next copy is tried when it is due
                    self._uncopied = error.summary
                runner.note_ledger()

    def _note(self) -> None:
        self._noted_at = time.monotonic()
        self._noting.note(self._problem or self._uncopied)

    def _close(self) -> None:
        self._riding.end_query()
        for thread in [*self._catch_up.threads.values(), *([self._rebuilding] if self._rebuilding.is_alive() else [])]:
            thread.join(timeout=30)
        self._riding.close()
        self._sinking.close()
        for runner in self._runners.values():
            with suppress(StateError):  # what is lost is found when it is needed
                runner.note_ledger()
        self._owner.release()


def _unreviewed(wanted: Wanted) -> set[str]:
    return {name for name, view in wanted.views.items() if not view.is_reviewed}


def _needs(view: str, status: ViewStatus, group: Group) -> bool:
    """A view needs the group that keeps it, and while it is built anew the one that it will replace."""
    return status.group == group.spec.id or (
        status.state in (ViewState.BUILDING, ViewState.WAITING, ViewState.READY) and view in group.spec.definitions
    )


def _log_lost(detail: str) -> LogError:
    return LogError(LOG_LOST, detail=detail, hint="headwater recover reads the tables anew")
