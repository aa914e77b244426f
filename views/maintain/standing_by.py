"""Definitions that readers left, kept fed: for who wants one back at once.

A group that stands by follows the log like one that waits for a review: by itself, in large steps, and publishes
nothing. To go back is to show it like any other that is ready (showing.py): those that readers use come to where it is,
and what differs is published.

    it kept nothing else ─▶ it stands by as it is
    it keeps other views ─▶ before readers leave it, a group of its own for the old definition begins with its mirrors

One a view: what readers left last. When its time is over, it goes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, MutableMapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from views.maintain import seed
from views.maintain.group import Group, GroupSpec
from views.maintain.registry import Registry, Standby, WantedView
from views.maintain.runner import GroupRunner

GONE: Final = "nobody wanted it back"
PREPARE_S_MAX: Final = 60.0
"""How long readers of a changed view wait until what they had is secured, and one that cannot go on stays."""


@dataclass
class StandingBy:
    registry: Registry
    runners: MutableMapping[str, GroupRunner]
    keep_s: float
    """How long; 0 keeps none."""
    open: Callable[[Group], GroupRunner]
    leave: Callable[[GroupRunner], None]
    """Rides no longer."""
    follow: Callable[[GroupRunner], None]
    """Lets a group follow the log by itself, if it does not."""
    retire: Callable[[str], None]
    _begun: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict)
    """By the group that a view is about to leave: the one that begins with its mirrors, and since when."""

    def is_kept(self, runner: GroupRunner) -> bool:
        return bool(runner.group.spec.keep_until_s) and not runner.is_idle

    def all(self) -> list[GroupRunner]:
        return [each for each in list(self.runners.values()) if self.is_kept(each)]

    def of(self, view: str) -> list[GroupRunner]:
        return [each for each in self.all() if view in each.group.live]

    def statuses(self) -> list[Standby]:
        return [
            Standby(view, spec.id, spec.kept_since_s, spec.keep_until_s, is_ready=each.progress.is_snapshot_whole)
            for each in self.all()
            for view in each.group.live
            if (spec := each.group.spec)
        ]

    # Coming

    def prepare(self, replaced: GroupRunner, views: Collection[str]) -> bool:
        """Before readers leave views of a group that keeps others, too: whether they may."""
        return not self.keep_s or not [view for view in views if not self._is_secured(replaced, view)]

    def keep(self, replaced: GroupRunner, view: str) -> None:
        """Readers have left the only view that it kept: it goes on with it, unseen. It leaves those that ride when it
        is live no more: who is on the way to them does not get there then."""
        if not self.keep_s:
            return
        self._let_go_others(view, replaced)
        now = time.time()
        replaced.stand_by(view, now, now + self.keep_s)
        self.leave(replaced)
        self.follow(replaced)

    def go_on(self, replaced: GroupRunner, view: str) -> None:
        """Readers have not left the only view that it keeps: it was stopped for that, and is fed and told again. By
        itself: its epochs are cut as those were that it missed."""
        self.leave(replaced)
        replaced.go_on(view)
        self.follow(replaced)

    def _is_secured(self, replaced: GroupRunner, view: str) -> bool:
        """What is needed to compute it was taken: the rest can wait."""
        name = replaced.group.spec.id, view
        group, since = self._begun.get(name, ("", 0.0))
        runner = self.runners.get(group)
        if runner is None:
            self._let_go_others(view)
            runner, since = self._begin(replaced, view), time.monotonic()
            self._begun[name] = runner.group.spec.id, since
        has_begun = runner.offset > runner.group.spec.start or seed.found(runner.group) is not None
        return has_begun or runner.is_idle or time.monotonic() - since > PREPARE_S_MAX

    def _begin(self, replaced: GroupRunner, view: str) -> GroupRunner:
        old, now = replaced.group.spec, time.time()
        spec = GroupSpec.new(old.era, old.topic_id, old.start, old.shards, {view: old.definitions[view]}, old.tables)
        spec = msgspec.structs.replace(
            spec,
            skip_before=old.skip_before,
            seed_from=old.id,
            kept_since_s=now,
            keep_until_s=now + self.keep_s,
        )
        runner = self.open(Group(spec.save(self.registry.groups), spec))
        self.follow(runner)
        return runner

    # Going

    def back(self, view: str, wanted: WantedView, era: int, used: str = "") -> GroupRunner | None:
        """The group that has what is wanted already: it stands by no longer. Who wants the definition that is `used`
        wants it computed anew, unless it is that group they named."""
        for runner in self.of(view):
            spec = runner.group.spec
            if wanted.goes_back_to != spec.id and wanted.text == used:
                continue
            is_same = spec.definitions[view] == wanted.text and all(row in spec.tables for row in wanted.tables)
            is_whole = all(spec.skip_before.get(table, 0) >= skip for table, skip in wanted.skip_before.items())
            if is_same and is_whole and spec.era == era:
                with runner.lock:
                    if self.is_kept(runner):  # nobody has let go of it meanwhile
                        runner.step_forward()
                        return runner
        return None

    def spare(self, stayed: str, view: str) -> None:
        """Readers stay with that group: what was begun with its mirrors, for when they would have left it, goes."""
        for runner in self.of(view):
            if runner.group.spec.seed_from == stayed:
                self._let_go(runner)

    def let_go_old(self) -> None:
        """Those whose time is over, and those that cannot go on: the log would be kept for them."""
        now = time.time()
        for runner in list(self.runners.values()):
            spec = runner.group.spec
            is_stuck = runner.is_idle and now - spec.kept_since_s > PREPARE_S_MAX
            if spec.keep_until_s and (is_stuck or spec.keep_until_s < now):
                self._let_go(runner)

    def _let_go_others(self, view: str, but: GroupRunner | None = None) -> None:
        for runner in self.of(view):
            if runner is not but:
                self._let_go(runner)

    def _let_go(self, runner: GroupRunner) -> None:
        with runner.lock:
            if not runner.group.spec.keep_until_s:
                return  # it was taken back meanwhile
            runner.pause(list(runner.group.live), GONE)
        self.retire(runner.group.spec.id)


def stands_by(group: Group, era: int) -> bool:
    """Whether one that is opened again is still to be fed."""
    return bool(group.live) and group.spec.keep_until_s > time.time() and group.spec.era == era
