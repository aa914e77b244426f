"""Keeps the wanted views: one streaming query over the log feeds all live groups, an epoch after the other.

    wanted.json ─▶ new group ─ follows the log by itself ─▶ whole ─▶ published ─ caught up ─▶ rides with the others

A group that is new, was put back from a copy, or cannot keep up follows the log by itself, in batches, and holds nobody
up; when it has caught up it joins the streaming query between two of its epochs. Positions are kept with the state and
in Kafka, never in Spark's checkpoint: that one lives as long as the query.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from cdc import eras
from cdc.addresses import KafkaAddress, Source
from cdc.epochs import EpochPlanner
from cdc.errors import LogError, StateError, StateFenced, ViewError
from cdc.position import Lsn
from cdc.topics import delete_topic, topic_state
from views.arrangement import Owner
from views.maintain.contents import as_changes, difference
from views.maintain.copies import copy_group, put_back
from views.maintain.group import Group, GroupSpec
from views.maintain.meters import Meters
from views.maintain.publisher import Publisher, view_topic
from views.maintain.registry import GroupStatus, Registry, State, ViewState, ViewStatus, Wanted, WantedView
from views.maintain.riding import JOIN_RECORDS_MAX, Riding
from views.maintain.runner import GroupRunner
from views.maintain.sinking import Sinking
from views.sinks.sink import SinkKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S: Final = 0.3
NOTE_S: Final = 1.0
PAUSED_OUT: Final = "dropped"


@dataclass(frozen=True)
class Limits:
    records_per_epoch_max: int = 50_000
    build_records_per_epoch_max: int = 100_000
    shards: int = 1
    hold_s_max: float = 5.0
    """How long one group may hold up the others in an epoch before it is left to follow by itself."""
    copy_interval_s: float = 900.0
    durable: bool = False


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

    def __post_init__(self) -> None:
        self._owner = Owner.acquire(self.registry.folder)
        self._riding = Riding(
            self.spark,
            self.kafka,
            self.source,
            self.limits.records_per_epoch_max,
            self.limits.hold_s_max,
            follow=self._follow,
            put_back=lambda runner: put_back(runner, self.registry.copies),
            fail=self._fail,
            is_wanted=lambda runner: runner.group.spec.id in self._runners,
        )
        self._following: dict[str, threading.Thread] = {}
        self._runners: dict[str, GroupRunner] = {}
        self._views: dict[str, ViewStatus] = dict(self.registry.state().views)
        self._meters = Meters()
        self._problem = ""
        self._failure: BaseException | None = None
        self._copied_at = time.monotonic()
        self._noted_at = float("-inf")
        self._over = threading.Event()
        self._wanted_at_ns = -1
        self._sinking = Sinking(self.kafka, self.source, self.sinks, self.spark)

    def run(self) -> None:
        """Until `stop` is set. Raises what cannot be mended from here."""
        try:
            self._open_groups()
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
        if (changed := self.registry.changed_at_ns()) != self._wanted_at_ns:
            self._apply(self.registry.wanted())
            self._wanted_at_ns = changed
        self._riding.keep()
        self._copy()
        if time.monotonic() - self._noted_at >= NOTE_S:
            self._note()

    def _fail(self, error: BaseException) -> None:
        self._failure = error

    # Groups

    def _open_groups(self) -> None:
        era = self._era()
        for folder in sorted(self.registry.groups.glob("*")) if self.registry.groups.is_dir() else ():
            group = Group.load(folder)
            used = {view for view, status in self._views.items() if _needs(view, status, group)}
            if used and (group.spec.era, group.spec.topic_id) != (era.era, era.topic_id):
                self._stale(used, group)
                continue
            if not used:
                # Ends a transaction that it may have left open: readers of the topics would wait for it.
                Publisher(self.kafka, self.source, folder.name)
                shutil.rmtree(folder, ignore_errors=True)
                shutil.rmtree(self.registry.copies / folder.name, ignore_errors=True)
                continue
            runner = self._runner(group)
            if runner.is_left_behind:
                put_back(runner, self.registry.copies)
        for runner in [each for each in self._runners.values() if each.progress.is_live]:
            self._shown(runner)
            self._sinking.published(runner.group, runner.published())
        for runner in list(self._runners.values()):
            if runner.group.spec.era == era.era:
                self._follow(runner)

    def _stale(self, views: Iterable[str], group: Group) -> None:
        """Their era is over: they are built again from the one that is. What they hold stays until then: the difference
        is what is published."""
        self._runner(group)
        for view in views:
            if self._views[view].group == group.spec.id:
                self._views[view] = ViewStatus(ViewState.WAITING, reason="the source began a new history")

    def _era(self) -> eras.Era:
        return eras.current(self.kafka, self.source)

    def _runner(self, group: Group) -> GroupRunner:
        runner = GroupRunner(
            self.spark, self.kafka, self.source, group, self._owner.number, durable=self.limits.durable
        )
        runner.on_paused = self._paused
        runner.on_measured = self._meters.add
        runner.on_published = lambda published: self._sinking.published(runner.group, published)
        runner.prepare()
        self._runners[group.spec.id] = runner
        return runner

    def _paused(self, view: str, why: str) -> None:
        known = self._views.get(view)
        if known is not None and why != PAUSED_OUT:
            self._views[view] = msgspec.structs.replace(known, state=ViewState.PAUSED, reason=why)

    # What is wanted

    def _apply(self, wanted: Wanted) -> None:
        for gone in [name for name in self._views if name not in wanted.views]:
            self._drop(gone)
        fresh: dict[str, dict[str, WantedView]] = {}
        for name, view in wanted.views.items():
            known = self._views.get(name)
            if known is None or known.state is ViewState.WAITING or known.applied_at_s != view.applied_at_s:
                fresh.setdefault(view.batch, {})[name] = view
        for views in fresh.values():
            try:
                self._begin(views)
            except (ViewError, LogError) as error:
                # One that cannot be begun must not stop the others.
                for name, view in views.items():
                    reason = f"{error.fact}: {error.detail}; {error.hint}"
                    self._views[name] = ViewStatus(ViewState.PAUSED, "", view.applied_at_s, reason)

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
        spec = msgspec.structs.replace(spec, skip_before=skips)
        group = Group(spec.save(self.registry.groups), spec)
        runner = self._runner(group)
        for name, view in views.items():
            self._views[name] = ViewStatus(ViewState.BUILDING, spec.id, view.applied_at_s)
        self._note()
        self._follow(runner)

    def _start(self, era: eras.Era, tables: Iterable[Mapping[str, object]], skips: Mapping[str, int]) -> int:
        """Where a new group begins to read: with the era, or later if snapshots bring all its rows."""
        first, _ = EpochPlanner(self.kafka, self.source).first()
        named = {f"{row['schema_name']}.{row['table_name']}" for row in tables}
        if first.offset <= era.first_offset or named <= skips.keys():
            return max(first.offset, era.first_offset)
        raise LogError(
            "the log no longer holds its beginning",
            detail=f"era {era.era} began at {era.first_offset}, the oldest record is at {first.offset}",
            hint="headwater capture reset",
        )

    def _drop(self, view: str) -> None:
        known = self._views.pop(view)
        runner = self._runners.get(known.group)
        if runner is not None:
            runner.pause([view], PAUSED_OUT)
            runner.forget(view)
        delete_topic(self.kafka, view_topic(self.source, view))
        self._problem = "; ".join(self._sinking.forget(view)) or self._problem
        self._retire(known.group)

    def _retire(self, group: str) -> None:
        """Lets go of a group that no view needs any more."""
        if any(status.group == group for status in self._views.values()):
            return
        runner = self._runners.pop(group, None)
        self._riding.leave(runner)
        if runner is not None:
            with runner.lock:
                shutil.rmtree(runner.group.folder, ignore_errors=True)
                shutil.rmtree(self.registry.copies / group, ignore_errors=True)

    # Following by itself

    def _follow(self, runner: GroupRunner) -> None:
        thread = threading.Thread(
            target=self._guarded, args=(runner,), name=f"follow-{runner.group.spec.id}", daemon=True
        )
        self._following[runner.group.spec.id] = thread
        thread.start()

    def _guarded(self, runner: GroupRunner) -> None:
        try:
            self._catch_up(runner)
        except StateFenced as error:
            self._failure = error
        except BaseException as error:
            if not self._is_over and runner.group.spec.id in self._runners:
                self._failure = error
        finally:
            self._following.pop(runner.group.spec.id, None)

    def _catch_up(self, runner: GroupRunner) -> None:
        spec = runner.group.spec
        planner = EpochPlanner(self.kafka, self.source, idle_s_max=POLL_S)
        while not self._is_over and spec.id in self._runners and not runner.is_idle:
            limit = runner.intended or (runner.published_to if runner.offset < runner.published_to else None)
            planner.freeze(limit) if limit else planner.thaw()
            rows = None if runner.intended else self.limits.build_records_per_epoch_max
            end = runner.intended or planner.end(runner.position, spec.topic_id, rows).offset
            if end > runner.offset and not self._is_close(runner, end):
                self._riding.run_alone(runner, end)
            elif not runner.progress.is_live and runner.progress.is_snapshot_whole:
                self._go_live(runner)
            elif runner.progress.is_live and self._riding.join(runner):
                return

    def _is_close(self, runner: GroupRunner, end: int) -> bool:
        """Near enough to the end of the log to be shown, or to ride with the others."""
        return (
            runner.progress.is_snapshot_whole
            and runner.intended is None
            and runner.offset >= runner.published_to
            and end - runner.offset <= JOIN_RECORDS_MAX
        )

    def _go_live(self, runner: GroupRunner) -> None:
        """Publishes the views as they are now: all their rows, or what differs from the views that they replace."""
        contents, whole = {}, set()
        for view in runner.group.live:
            replaced = self._replaced(runner, view)
            if replaced is None:
                contents[view] = as_changes(runner.group, view)
            else:
                contents[view] = difference(replaced.group, runner.group, view)
            if replaced is None or replaced.group.store(view).columns != runner.group.store(view).columns:
                whole.add(view)  # rows with other columns differ, every one of them
        runner.go_live(contents, whole)
        self._shown(runner)

    def _shown(self, runner: GroupRunner) -> None:
        """Its views are published: those that they replace are no longer needed. Idempotent."""
        known = {view: self._views[view] for view in runner.group.live if view in self._views}
        mine = {view: status for view, status in known.items() if status.group == runner.group.spec.id}
        for view, status in mine.items():
            self._views[view] = msgspec.structs.replace(status, state=ViewState.LIVE)
        for old in {group for view in mine if (group := self._old_group(runner, view))}:
            self._retire(old)

    def _replaced(self, runner: GroupRunner, view: str) -> GroupRunner | None:
        """The group that held the view until now; it no longer feeds it."""
        for other in list(self._runners.values()):
            if other is not runner and view in other.group.spec.definitions and other.progress.is_live:
                other.pause([view], PAUSED_OUT)
                return other
        return None

    def _old_group(self, runner: GroupRunner, view: str) -> str | None:
        for other in self._runners.values():
            if other is not runner and view in other.group.spec.definitions:
                return other.group.spec.id
        return None

    # Looking after itself

    def _copy(self) -> None:
        if time.monotonic() - self._copied_at < self.limits.copy_interval_s:
            return
        self._copied_at = time.monotonic()
        for runner in self._riding.groups:
            if not runner.is_idle:
                copy_group(runner, self.registry.copies)
                runner.note_ledger()

    def _note(self) -> None:
        self._noted_at = time.monotonic()
        end = topic_state(self.kafka, self.source.changes_topic).high
        groups = {
            name: GroupStatus(
                runner.offset,
                end,
                runner.progress.is_live,
                name in self._following,
                str(Lsn(runner.progress.lsn or 0)),
                runner.progress.committed_at_us,
            )
            for name, runner in list(self._runners.items())
        }
        self.registry.note(
            State(
                time.time(),
                os.getpid(),
                dict(self._views),
                groups,
                self._meters.summary(self._riding.measured),
                self._meters.memory_mb(),
                self._problem,
                self._sinking.statuses(),
            )
        )

    def _close(self) -> None:
        self._riding.end_query()
        for thread in list(self._following.values()):
            thread.join(timeout=30)
        self._riding.close()
        self._sinking.close()
        for runner in self._runners.values():
            with suppress(StateError):  # what is lost is found when it is needed
                runner.note_ledger()
        self._owner.release()


def _needs(view: str, status: ViewStatus, group: Group) -> bool:
    """A view needs the group that keeps it, and while it is built anew the one that it will replace."""
    return status.group == group.spec.id or (
        status.state in (ViewState.BUILDING, ViewState.WAITING) and view in group.spec.definitions
    )
