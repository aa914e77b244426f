"""The groups that ride: one streaming query over the log feeds them all, an epoch after the other.

Who takes too long in an epoch is left behind, and follows the log by itself until it has caught up (maintainer.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cdc.addresses import KafkaAddress, Source
from cdc.errors import LogError, StateFenced
from cdc.position import Position
from views.maintain.query import MaintainQuery
from views.maintain.runner import GroupRunner
from views.maintain.worker import NodeFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOIN_RECORDS_MAX: Final = 2_000
"""A group this close joins the others: they wait for it to read the rest."""
GROUPS_MAX: Final = 8
"""So many run at once in an epoch; more take turns."""


@dataclass
class Riding:
    spark: SparkSession
    kafka: KafkaAddress
    source: Source
    records_per_epoch_max: int
    hold_s_max: float
    """How long one group may hold up the others in an epoch before it is left behind."""
    follow: Callable[[GroupRunner], None]
    """Lets a group catch up by itself."""
    put_back: Callable[[GroupRunner], object]
    """Gives a group whose state is damaged an older one."""
    fail: Callable[[BaseException], None]
    """Told what cannot be mended from here."""
    is_wanted: Callable[[GroupRunner], bool]
    _groups: list[GroupRunner] = field(default_factory=list, init=False)
    _query: MaintainQuery | None = field(default=None, init=False)
    _offset: int = field(default=0, init=False)
    """Up to where the groups that ride have read."""

    def __post_init__(self) -> None:
        self._gate = threading.RLock()
        """Held while an epoch runs, and by who changes which groups ride."""
        self._pool = ThreadPoolExecutor(max_workers=GROUPS_MAX, thread_name_prefix="group")

    @property
    def groups(self) -> list[GroupRunner]:
        return list(self._groups)

    @property
    def measured(self) -> dict[str, float]:
        return self._query.measured if self._query else {}

    def keep(self) -> None:
        """Has the query run, if anybody rides. Raises LogError if it failed."""
        if self._query is not None and self._query.is_active:
            return
        if self._query is not None and (failure := self._query.failure):
            raise LogError(
                "the streaming query ended", detail=str(failure).partition("\n")[0], hint="headwater logs views"
            )
        self._restart()

    def join(self, runner: GroupRunner, end_before: Callable[[int], int]) -> bool:
        """Between two epochs of the others. False if they are meanwhile further away, or its readers have left it.
        `end_before` says where its next epoch ends on the way to them."""
        with self._gate:
            if not runner.progress.is_live:
                return False
            if self._query is not None and self._query.is_active:
                if self._offset - runner.offset > JOIN_RECORDS_MAX:
                    return False
                while (start := runner.offset) < self._offset:
                    self.run_alone(runner, end_before(self._offset))
                    if runner.offset <= start:
                        return False  # it was put back, or nobody wants it any more
            self._groups.append(runner)
            return True

    def leave(self, runner: GroupRunner | None) -> None:
        """Idempotent; afterwards no epoch of the others has it."""
        with self._gate:
            self._groups = [each for each in self._groups if each is not runner]

    def run_alone(self, runner: GroupRunner, end: int) -> None:
        """An epoch of a group that does not ride."""
        try:
            runner.run(end)
        except NodeFailed as failed:
            if not failed.is_damage:
                raise
            self.put_back(runner)

    def end_query(self) -> None:
        if self._query is not None:
            self._query.close()

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _restart(self) -> None:
        """From where the groups are. The checkpoint is the query's own, and new."""
        with self._gate:
            self.end_query()
            self._query = None
            if not self._groups:
                return
            first = max(runner.offset for runner in self._groups)
            # An epoch that was begun is finished first, as it was cut: some of its nodes have run.
            for runner in [each for each in self._groups if each.offset < first or each.intended is not None]:
                self._groups.remove(runner)
                self.follow(runner)
            if not self._groups:
                return
            self._offset = first
            position = Position(self._groups[0].group.spec.era, first)
            self._query = MaintainQuery(
                self.spark, self.kafka, self.source, position, self._epoch, self.records_per_epoch_max
            )

    def _epoch(self, end: int) -> None:
        with self._gate:
            runners = list(self._groups)
            try:
                if len(runners) == 1:
                    self._ride(runners[0], end)
                else:
                    self._ride_together(runners, end)
            except StateFenced as error:
                self.fail(error)
                raise
            self._offset = end

    def _ride(self, runner: GroupRunner, end: int) -> None:
        try:
            runner.run(end)
        except NodeFailed as failed:
            if not failed.is_damage:
                raise
            self._take_out(runner)
            self.put_back(runner)
            self.follow(runner)

    def _ride_together(self, runners: list[GroupRunner], end: int) -> None:
        """Each its own job; who takes too long is left behind and follows by itself."""
        at_work: dict[Future[None], GroupRunner] = {
            self._pool.submit(self._ride, runner, end): runner for runner in runners
        }
        done, late = wait(at_work, timeout=self.hold_s_max)
        for future in late:
            runner = at_work[future]
            self._take_out(runner)
            future.add_done_callback(lambda ended, runner=runner: self._left(ended, runner))  # type: ignore[misc]
        for future in done:
            future.result()

    def _left(self, ended: Future[None], runner: GroupRunner) -> None:
        error = ended.exception()
        if error is not None:
            self.fail(error)
        elif self.is_wanted(runner):
            self.follow(runner)

    def _take_out(self, runner: GroupRunner) -> None:
        """Within an epoch: who runs it holds the gate, and a group's own thread must not wait for it."""
        self._groups = [each for each in self._groups if each is not runner]
