"""A group that follows the log by itself, in batches, on a thread of its own, and holds nobody up.

    seeded, or from its start ─▶ epochs ─▶ close to the log's end ─▶ shown, if it is new ─▶ rides with the others

Who is cut off goes on from where its state is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Final

from cdc.addresses import KafkaAddress, Source
from cdc.changelog import Archive
from cdc.epochs import EpochPlanner
from cdc.errors import PositionExpired, StateFenced
from views.maintain import seed
from views.maintain.copies import take_seed
from views.maintain.failpoints import reached
from views.maintain.pace import Pace
from views.maintain.riding import JOIN_RECORDS_MAX, Riding
from views.maintain.runner import GroupRunner
from views.maintain.showing import Showing

POLL_S: Final = 0.3
SEED_S_MAX: Final = 60.0


@dataclass
class CatchUp:
    kafka: KafkaAddress
    source: Source
    archive: Archive | None
    records_per_epoch_max: int
    runners: MutableMapping[str, GroupRunner]
    """Who is not among them any more ends."""
    riding: Riding
    showing: Showing
    pace: Pace
    is_held: Callable[[GroupRunner], bool]
    lost: Callable[[GroupRunner, PositionExpired], None]
    """Nobody has what it would read next."""
    fail: Callable[[BaseException], None]
    over: threading.Event
    stop: threading.Event
    threads: dict[str, threading.Thread] = field(default_factory=dict)
    """Of those that follow by themselves now."""

    def begin(self, runner: GroupRunner) -> None:
        if self.is_held(runner):
            return
        name = runner.group.spec.id
        self.threads[name] = thread = threading.Thread(
            target=self._guarded, args=(runner,), name=f"follow-{name}", daemon=True
        )
        thread.start()

    def begin_if_idle(self, runner: GroupRunner) -> None:
        if runner.group.spec.id not in self.threads:
            self.begin(runner)

    @property
    def _is_over(self) -> bool:
        return self.over.is_set() or self.stop.is_set()

    def _guarded(self, runner: GroupRunner) -> None:
        try:
            self._catch_up(runner)
        except StateFenced as error:
            self.fail(error)
        except PositionExpired as error:
            self.lost(runner, error)
        except BaseException as error:
            if not self._is_over and runner.group.spec.id in self.runners:
                self.fail(error)
        finally:
            self.threads.pop(runner.group.spec.id, None)

    def _catch_up(self, runner: GroupRunner) -> None:
        spec = runner.group.spec
        self._seed(runner)
        planner = EpochPlanner(self.kafka, self.source, idle_s_max=POLL_S, archive=self.archive)
        while not self._is_over and spec.id in self.runners and not runner.is_idle and not self.is_held(runner):
            end = self._end(runner, planner)
            if end > runner.offset and not _is_close(runner, planner):
                began = time.monotonic()
                self.riding.run_alone(runner, end)
                if not runner.progress.is_live and self.riding.groups:
                    self.over.wait(self.pace.rest(time.monotonic() - began))
            elif not runner.progress.is_live and runner.progress.is_snapshot_whole:
                if self.showing.may_show(runner):
                    self.showing.go_live(runner)
            elif runner.progress.is_live and runner.archive is None and self._join(runner, planner):
                return

    def _end(self, runner: GroupRunner, planner: EpochPlanner) -> int:
        """Of its next epoch: one that was begun, and what was published before, end where they did."""
        topic_id, intended = runner.group.spec.topic_id, runner.intended
        limit = intended or (runner.published_to if runner.offset < runner.published_to else None)
        planner.freeze(limit) if limit else planner.thaw()
        if intended is not None:
            planner.require(runner.position, topic_id)
        end = intended or self._planned(runner, planner)
        runner.archive = self.archive if planner.is_archived else None
        return end

    def _join(self, runner: GroupRunner, planner: EpochPlanner) -> bool:
        def end_before(to: int) -> int:
            planner.freeze(to)
            end = self._planned(runner, planner)
            return end if end > runner.offset else to

        return self.riding.join(runner, end_before)

    def _planned(self, runner: GroupRunner, planner: EpochPlanner) -> int:
        """Not cut while it is not live: then nobody is told of it."""
        topic_id, cut = runner.group.spec.topic_id, runner.progress.is_live
        return planner.end(runner.position, topic_id, self.records_per_epoch_max, cut=cut).offset

    def _seed(self, runner: GroupRunner) -> None:
        """Its first epoch, from the mirrors of another group; without one it reads the log."""
        spec = runner.group.spec
        other = self.runners.get(spec.seed_from)
        if other is not None and runner.offset == spec.start and runner.intended is None:
            deadline = time.monotonic() + SEED_S_MAX
            while other.intended is not None and not self._is_over and time.monotonic() < deadline:
                self.over.wait(POLL_S)  # it was cut off within an epoch, and ends that first
            taken = None if self._is_over else take_seed(other, runner.group)
            reached("seed-taken")
            if taken is not None:
                self.riding.run_alone(runner, taken.offset)
            reached("seeded")
        if runner.offset > spec.start:
            seed.remove(runner.group)


def _is_close(runner: GroupRunner, planner: EpochPlanner) -> bool:
    """Near enough to the end of the log to be shown, or to ride with the others, who read Kafka only."""
    return (
        planner.seen is not None
        and planner.seen[0].offset - runner.offset <= JOIN_RECORDS_MAX
        and runner.progress.is_snapshot_whole
        and runner.archive is None
        and runner.intended is None
        and runner.offset >= runner.published_to
    )
