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
LITTLE_S: Final = 1.0
"""Who is close to the end of the log rests no longer: little is left to read, and its comparison waits for it."""
AGAIN_S: Final = 0.05
"""Between two looks whether those that it replaces have come to where it is."""
SEED_S_MAX: Final = 60.0
REST_S_MAX: Final = 20.0
"""Who is close and not shown reads on after so long: what was deleted is still there, who erases it waits."""


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
    """Of those that are computed anew."""
    keep_pace: Pace
    """Of those that nobody reads and that are kept fed: it never ends."""
    is_held: Callable[[GroupRunner], bool]
    lost: Callable[[GroupRunner, PositionExpired], None]
    """Nobody has what it would read next."""
    fail: Callable[[BaseException], None]
    over: threading.Event
    stop: threading.Event
    threads: dict[str, threading.Thread] = field(default_factory=dict)
    """Of those that follow by themselves now."""
    _beginning: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def begin(self, runner: GroupRunner) -> None:
        if self.is_held(runner):
            return
        name = runner.group.spec.id
        self.threads[name] = thread = threading.Thread(
            target=self._guarded, args=(runner,), name=f"follow-{name}", daemon=True
        )
        thread.start()

    def begin_if_idle(self, runner: GroupRunner) -> None:
        with self._beginning:
            if runner.group.spec.id not in self.threads and runner not in self.riding.groups:
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
        else:
            self._leave(runner)
            if not self._is_over and runner.group.spec.id in self.runners and not runner.is_idle:
                self.begin_if_idle(runner)  # who was held may have been let go on since
        finally:
            self._leave(runner)

    def _leave(self, runner: GroupRunner) -> None:
        """Another thread may have begun to follow for it by now: that one stays."""
        with self._beginning:
            if self.threads.get(runner.group.spec.id) is threading.current_thread():
                del self.threads[runner.group.spec.id]

    def _catch_up(self, runner: GroupRunner) -> None:
        spec = runner.group.spec
        self._seed(runner)
        planner = EpochPlanner(self.kafka, self.source, idle_s_max=POLL_S, archive=self.archive)
        pace = self.pace
        while not self._is_over and spec.id in self.runners and not runner.is_idle and not self.is_held(runner):
            end = self._end(runner, planner)
            if end > runner.offset and not self._rests(runner, planner) and not self._waits(runner):
                self._run_beside(runner, end, pace)
            elif not runner.progress.is_live and runner.progress.is_snapshot_whole:
                pace = self.keep_pace
                if not self.showing.may_show(runner):
                    self.over.wait(POLL_S)
                elif not self.showing.go_live(runner):
                    self.over.wait(AGAIN_S)
            elif runner.progress.is_live and runner.archive is None and self._join(runner, planner):
                return

    def _run_beside(self, runner: GroupRunner, end: int, pace: Pace) -> None:
        """An epoch of its own. While nobody reads it, and others that somebody does, it gives way to those."""
        if runner.progress.is_live or not any(each.progress.is_live for each in list(self.runners.values())):
            self.riding.run_alone(runner, end)
            return
        pace.begin()
        began, records = time.monotonic(), end - runner.offset
        self.riding.run_alone(runner, end)
        if not runner.progress.is_live:
            reached("computed-beside")
            rest_s = pace.rest(time.monotonic() - began)
            self.over.wait(rest_s if records > JOIN_RECORDS_MAX else min(rest_s, LITTLE_S))

    def _rests(self, runner: GroupRunner, planner: EpochPlanner) -> bool:
        """Whether what is left to read can wait: unless it is compared with Postgres as that is now."""
        is_awaited = not runner.progress.is_live and self.showing.is_awaited(runner)
        return _is_close(runner, planner) and not is_awaited

    def _waits(self, runner: GroupRunner) -> bool:
        """Whether it need not read on before those that it replaces have come to where it is."""
        is_there = runner.progress.is_snapshot_whole and runner.archive is None and runner.intended is None
        return is_there and not runner.progress.is_live and self.showing.is_ahead(runner)

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
    """Near enough to the end of the log to be shown, or to ride with the others, who read Kafka only. Who is not shown
    is so for a while only."""
    return (
        planner.seen is not None
        and planner.seen[0].offset - runner.offset <= JOIN_RECORDS_MAX
        and runner.progress.is_snapshot_whole
        and runner.archive is None
        and runner.intended is None
        and runner.offset >= runner.published_to
        and (runner.progress.is_live or time.monotonic() - runner.ran_at <= REST_S_MAX)
    )
