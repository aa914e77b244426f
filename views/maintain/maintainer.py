"""Keeps the wanted views: one streaming query over the log feeds all live groups, an epoch after the other.

    wanted.json ─▶ new group ─ follows the log by itself ─▶ whole ─▶ published ─ caught up ─▶ rides with the others

A group that is new, was put back from a copy, or cannot keep up follows the log by itself, in batches, and holds nobody
up; when it has caught up it joins the streaming query between two of its epochs. Positions are kept with the state and
in Kafka, never in Spark's checkpoint: that one lives as long as the query.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cdc.addresses import KafkaAddress, Source
from cdc.changelog import Archive
from cdc.errors import StateError
from views.arrangement import Owner
from views.maintain.booking import BookKeeper
from views.maintain.catch_up import POLL_S, CatchUp
from views.maintain.comparing import Compare, is_compared, may_be_shown, no_compare
from views.maintain.computing import Computing, is_paused
from views.maintain.contents import count
from views.maintain.copies import copy_group, put_back
from views.maintain.groups import Groups
from views.maintain.meters import Meters
from views.maintain.noting import Noting
from views.maintain.obeying import Obeying, why
from views.maintain.orders import Orders
from views.maintain.pace import Pace
from views.maintain.pauses import Pauses
from views.maintain.publisher import read_frontiers
from views.maintain.rebuilding import KEEP_S, Check, Rebuilder, no_check
from views.maintain.registry import Registry, ViewState
from views.maintain.repairs import requests
from views.maintain.riding import Riding
from views.maintain.runner import GroupRunner
from views.maintain.showing import Showing
from views.maintain.sinking import Sinking
from views.maintain.standing_by import StandingBy
from views.maintain.statuses import Statuses
from views.maintain.wanting import Wanting
from views.sinks.sink import SinkKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTE_S: Final = 1.0
RETRY_S: Final = 5.0
"""Until what could not be begun, because Kafka did not answer, is tried again."""


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
    compare: Compare = no_compare
    """Compares a view that was computed anew with its SQL, before readers have it."""

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
        self._views = self._known_views()
        self._meters = Meters()
        self._uncopied = ""
        self._failure: BaseException | None = None
        self._copied_at = time.monotonic()
        self._noted_at = float("-inf")
        self._over = threading.Event()
        self._wanted_at_ns = -1
        self._apply_after = float("-inf")
        fill, self._compute_pace, self._keep_pace = (
            Pace(self._behind_ms, self.limits.rebuild_lag_ms_max) for _ in range(3)
        )
        self._sinking = Sinking(
            self.kafka,
            self.source,
            self.sinks,
            self.spark,
            rest=fill.rest,
            piece=fill.piece,
            held_back=fill.held_back,
        )
        self._groups = Groups(
            self.spark,
            self.kafka,
            self.source,
            self.registry,
            self._owner.number,
            self.limits.durable,
            self._views,
            self._meters,
            self._sinking,
            leave=self._riding.leave,
            is_kept=self._is_kept,
            note=self._note,
        )
        self._runners = self._groups.runners
        keeper = BookKeeper(self.registry)
        self.set_aside = keeper.set_aside
        """A book that could not be read."""
        self._assemble(keeper)
        self._assemble_asked(keeper)

    def _assemble(self, keeper: BookKeeper) -> None:
        """Those who work on groups and views, each with what it needs of the others."""
        held = {held.view: why(held) for held in keeper.book.held if not held.sink}
        for view in held.keys() & self._views.keys():
            if self._views[view].state is ViewState.LIVE:
                self._views.hold(view, held[view])  # it was cut off before it noted that
        self._pauses = Pauses(set(held), self._views, self._runners, self._riding.leave)
        self._standing_by = StandingBy(
            self.registry,
            self._runners,
            self.limits.keep_standby_s,
            open=self._groups.open,
            leave=self._riding.leave,
            follow=self._follow,
            retire=self._groups.retire,
        )
        self._showing = Showing(
            self._views, self._runners, self._groups.retire, self._riding.run_alone, self._standing_by
        )
        self._catch_up = CatchUp(
            self.kafka,
            self.source,
            self.archive,
            self.limits.build_records_per_epoch_max,
            self._runners,
            self._riding,
            self._showing,
            self._compute_pace,
            self._keep_pace,
            is_held=self._is_held,
            lost=self._groups.lost,
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
            self._standing_by,
            self._catch_up.threads,
        )

    def _assemble_asked(self, keeper: BookKeeper) -> None:
        """Those who do what people ask."""
        self._rebuilder = Rebuilder(
            keeper,
            self._sinking,
            self._views.get,
            self.check,
            self.limits.keep_standby_s,
            Computing(
                self._read_so_far,
                self._give_up,
                self._go_on,
                self._compute_pace.held_back,
                self._rows,
                self.compare,
            ),
        )
        self._showing.is_equal = lambda view, at_s: may_be_shown(keeper.book, view, at_s)
        self._showing.is_compared = lambda view, at_s: is_compared(keeper.book, view, at_s)
        self._wanting = Wanting(
            self.kafka,
            self.source,
            self.registry,
            self.archive,
            self.limits.shards,
            self._views,
            self._runners,
            self._showing,
            self._standing_by,
            self._catch_up,
            self._rebuilder,
            self._sinking,
            self._pauses,
            open=self._groups.open,
            retire=self._groups.retire,
            note=self._note,
        )
        self._obeying = Obeying(Orders(self.registry.folder), keeper, self._rebuilder, self._pauses.hold, self._release)
        self._rebuilding = threading.Thread(target=self._rebuild, name="rebuilder", daemon=True)

    def run(self) -> None:
        """Until `stop` is set. Raises what cannot be mended from here."""
        try:
            self._go_on_with_groups()
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
            is_done = self._wanting.apply(self.registry.wanted())
            self._wanted_at_ns = changed if is_done else -1
            self._apply_after = time.monotonic() + (0.0 if is_done else RETRY_S)
        self._wanting.look()
        self._riding.keep()
        self._tell_again()
        self._copy()
        if time.monotonic() - self._noted_at >= NOTE_S:
            self._standing_by.let_go_old()
            self._note()

    def _behind_ms(self, lately_s: float) -> float:
        """What readers see, behind the log."""
        following = [self._runners.get(name) for name in list(self._catch_up.threads)]
        live = [each for each in (*self._riding.groups, *following) if each is not None and each.progress.is_live]
        waiting_ms = self._meters.waiting_ms(each.offset for each in live if not each.is_idle)
        return max(self._meters.lately_behind_ms(lately_s), waiting_ms) + self._sinking.behind_ms()

    def _begin_by_itself(self, runner: GroupRunner) -> None:
        self._catch_up.begin(runner)

    def _follow(self, runner: GroupRunner) -> None:
        self._catch_up.begin_if_idle(runner)

    def _is_kept(self, runner: GroupRunner) -> bool:
        return self._standing_by.is_kept(runner)

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

    def _go_on_with_groups(self) -> None:
        """From where they were left, or cut off."""
        self._showing.wants(self.registry.wanted())
        era = self._wanting.era()
        self._groups.reopen(era)
        for view, frontier in read_frontiers(self.kafka, self.source).items():
            if frontier.group in self._runners:
                self._views.serves(view, frontier.group)
        for runner in [each for each in self._runners.values() if each.progress.is_live]:
            self._showing.shown(runner)
            self._sinking.published(runner.group, runner.published())
        for name, wanted in self.registry.wanted().views.items():
            if name in self._views:
                self._wanting.is_given_up(name, wanted)  # it was cut off before it took that back
        for runner in list(self._runners.values()):
            if runner.group.spec.era == era.era:
                self._catch_up.begin(runner)

    # Views that are held, or computed

    def _release(self, views: Collection[str]) -> None:
        era = self._wanting.era().era
        for runner in self._pauses.release(views):
            if runner.group.spec.era == era:
                self._catch_up.begin_if_idle(runner)

    def _is_held(self, runner: GroupRunner) -> bool:
        """By who has paused the views, or all the rebuilds for which it computes them."""
        if self._pauses.is_held(runner):
            return True
        built = [] if runner.progress.is_live else self._views.of(runner.group.spec.id)
        at_s = {view: self._views[view].applied_at_s for view in built}
        return bool(built) and all(is_paused(self._rebuilder.keeper.book, view, at_s[view]) for view in built)

    def _read_so_far(self, view: str) -> tuple[int, int] | None:
        known = self._views.get(view)
        runner = self._runners.get(known.group) if known else None
        if runner is None:
            return None
        start = runner.group.spec.start
        return runner.offset - start, max(self._noting.end, runner.offset) - start

    def _rows(self, view: str) -> int:
        known = self._views.get(view)
        runner = self._runners.get(known.read_from) if known else None
        return count(runner.group, view) if runner is not None and view in runner.group.spec.definitions else 0

    def _give_up(self, view: str, applied_at_s: float) -> bool:
        wanted = self.registry.wanted().views.get(view)
        if wanted is None or wanted.applied_at_s != applied_at_s or view not in self._views:
            return False
        return self._wanting.is_given_up(view, wanted)

    def _go_on(self, view: str) -> None:
        known = self._views.get(view)
        runner = self._runners.get(known.group) if known else None
        if runner is not None:
            self._catch_up.begin_if_idle(runner)

    # Looking after itself

    def _tell_again(self) -> None:
        """Rows that somebody found wrong in a sink. A request for a view that is gone is done with."""
        for request in requests(self.registry):
            known = self._views.get(request.asked.view)
            runner = self._runners.get(known.read_from) if known else None
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
                    runner.note_ledger()
                except StateError as error:  # the views go on; the next copy is tried when it is due
                    self._uncopied = error.summary

    def _note(self) -> None:
        self._noted_at = time.monotonic()
        self._noting.note(self._wanting.problem or self._uncopied)

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
