"""The groups that are open: each with a runner, opened from its folder, and let go when no view needs it any more."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cdc import eras
from cdc.addresses import KafkaAddress, Source
from cdc.errors import HeadwaterError, PositionExpired, StateError
from views.maintain.copies import put_back, remove_unfinished
from views.maintain.group import Group
from views.maintain.meters import Meters
from views.maintain.publisher import Publisher
from views.maintain.registry import Registry, ViewState, ViewStatus
from views.maintain.runner import GroupRunner
from views.maintain.showing import PAUSED_OUT
from views.maintain.sinking import Sinking
from views.maintain.standing_by import stands_by
from views.maintain.statuses import Statuses
from views.maintain.wanting import LOG_LOST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Groups:
    spark: SparkSession
    kafka: KafkaAddress
    source: Source
    registry: Registry
    owner: int
    """Of the state: who is another one is fenced."""
    durable: bool
    views: Statuses
    meters: Meters
    sinking: Sinking
    leave: Callable[[GroupRunner | None], None]
    """Rides no longer."""
    is_kept: Callable[[GroupRunner], bool]
    """Stands by: somebody may want it back."""
    note: Callable[[], None]
    runners: dict[str, GroupRunner] = field(default_factory=dict)
    """By the group's id."""

    def open(self, group: Group) -> GroupRunner:
        runner = GroupRunner(self.spark, self.kafka, self.source, group, self.owner, durable=self.durable)
        runner.on_paused = lambda view, why: self._paused(runner, view, why)
        runner.on_gap = lambda what: self._is_stale(runner, what)
        runner.on_measured = self.meters.add
        runner.on_published = lambda published: self.sinking.published(runner.group, published)
        runner.prepare()
        self.runners[group.spec.id] = runner
        return runner

    def reopen(self, era: eras.Era) -> None:
        """Those that were open before, from their folders. What no view needs any more goes."""
        remove_unfinished(self.registry.copies)
        for folder in sorted(self.registry.groups.glob("*")) if self.registry.groups.is_dir() else ():
            group = self._loaded(folder)
            if group is None:
                continue
            used = {view for view, status in self.views.items() if _needs(view, status, group)}
            is_standby = stands_by(group, era.era)
            if used and (group.spec.era, group.spec.topic_id) != (era.era, era.topic_id):
                self.open(group)  # what they hold stays until then: the difference is what is published
                self.views.outlived(used, group.spec)
                continue
            if not used and not is_standby:
                # Ends a transaction that it may have left open: readers of the topics would wait for it.
                Publisher(self.kafka, self.source, folder.name)
                shutil.rmtree(folder, ignore_errors=True)
                shutil.rmtree(self.registry.copies / folder.name, ignore_errors=True)
                continue
            runner = self.open(group)
            if not runner.progress.is_live and not self.views.of(folder.name) and not is_standby:
                self.retire(folder.name)  # its views were applied again before it was ready
                continue
            if runner.is_progress_lost or runner.is_left_behind:
                put_back(runner, self.registry.copies)

    def retire(self, group: str) -> None:
        """Lets go of a group that no view needs any more, and nobody may want back."""
        runner = self.runners.get(group)
        if self.views.uses(group) or (runner is not None and self.is_kept(runner)):
            return
        self.runners.pop(group, None)
        self.leave(runner)
        if runner is not None:
            with suppress(HeadwaterError):  # first, so that nobody is sent to what is gone
                self.note()
            with runner.lock:
                shutil.rmtree(runner.group.folder, ignore_errors=True)
                shutil.rmtree(self.registry.copies / group, ignore_errors=True)

    def lost(self, runner: GroupRunner, error: PositionExpired) -> None:
        """Neither Kafka nor the archive has what it would read next: its views stand still, the others go on."""
        self._is_stale(runner, f"{LOG_LOST}: {error.fact}")
        runner.pause(list(runner.group.live), f"{LOG_LOST}: {error.fact}; {error.detail}")

    def _loaded(self, folder: Path) -> Group | None:
        """None where its file was lost or damaged: its views are built again from the log."""
        try:
            return Group.load(folder)
        except StateError:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.rmtree(self.registry.copies / folder.name, ignore_errors=True)
            self.views.lost(folder.name)
            return None

    def _paused(self, runner: GroupRunner, view: str, why: str) -> None:
        if why != PAUSED_OUT:
            self.views.paused(view, runner.group.spec.id, why)

    def _is_stale(self, runner: GroupRunner, why: str) -> None:
        self.views.incomplete(runner.group.live, runner.group.spec.id, why)


def _needs(view: str, status: ViewStatus, group: Group) -> bool:
    """A view needs the group that keeps it, and while it is built anew the one that it will replace: which is not one
    that stands by."""
    is_built = status.state in (ViewState.BUILDING, ViewState.WAITING, ViewState.READY) and not group.spec.keep_until_s
    return group.spec.id in (status.group, status.serving) or (is_built and view in group.spec.definitions)
