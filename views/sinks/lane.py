"""Keeps one view in one place: rides with the epochs while it keeps up, follows the view's topic when it does not.

    an epoch is published ─▶ inbox ─▶ missed nothing? ─ yes ─▶ its changes as they are         (riding)
                                                      └ no ──▶ the topic, up to the epoch's mark (following)

A lane has a thread of its own and is never waited for: a place that is slow, down or broken delays nobody. Where it is,
the place itself says (`Sink.mark`); whatever was written before a failure is written again, which changes nothing. The
hand-over needs no agreement: an epoch says which mark it continues from.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from cdc.errors import HeadwaterError, SinkError, SinkUnavailable
from views.sinks.following import FollowTask, ViewTopic, follow
from views.sinks.inbox import Delivery, Inbox
from views.sinks.sink import HistorySink, Mark, Refused, Sink, SinkKind, TendedSink, ViewShape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class LaneLimits:
    queue_rows_max: int = 20_000
    queue_epochs_max: int = 50
    chunk_rows_max: int = 5_000
    task_records_min: int = 20_000
    """From so many on the topic is followed in a task of Spark's."""
    task_records_max: int = 200_000
    """At most so many a task: between two of them progress is told."""
    backoff_s: float = 0.5
    backoff_s_max: float = 30.0
    check_s: float = 5.0
    """How often a place is asked whether it is still what it was."""


class LaneState(StrEnum):
    WAITING = "waiting"
    """For the view's first publication."""
    FILLING = "filling"
    """A generation that readers do not use yet."""
    FOLLOWING = "following"
    RIDING = "riding"
    DOWN = "down"
    """The place cannot take anything; tried again."""
    FAILED = "failed"
    """It refuses; tried again, but a person should look."""


class SinkStatus(msgspec.Struct, frozen=True):
    view: str
    sink: str
    state: LaneState
    generation: int = 0
    mark: Mark | None = None
    """What readers see includes everything up to it."""
    target_offset: int = 0
    """Of the view's topic: where it is to be."""
    reason: str = ""
    refused: int = 0
    """Changes that the place would not take: dead letters."""
    applied_at_us: int = 0


class _Over(Exception):
    """The lane is to end, or to begin again."""


class Lane:
    def __init__(
        self,
        kind: SinkKind,
        shape: ViewShape,
        topic: ViewTopic,
        limits: LaneLimits,
        *,
        tell: Callable[[SinkStatus], None] = lambda status: None,
        refuse: Callable[[ViewShape, str, list[Refused]], None] = lambda shape, sink, refused: None,
        spark: SparkSession | None = None,
    ) -> None:
        self._kind, self.shape, self._topic, self._limits = kind, shape, topic, limits
        self._tell, self._refuse, self._spark = tell, refuse, spark
        self._inbox = Inbox(limits.queue_rows_max, limits.queue_epochs_max)
        self._stopping = threading.Event()
        self._mark: Mark | None = None
        self._target: Mark | None = None
        self._written_at = self._checked_at = 0.0
        self.status = SinkStatus(shape.view, kind.name, LaneState.WAITING)
        self._thread = threading.Thread(target=self._run, name=f"{shape.view}-{kind.name}", daemon=True)
        self._thread.start()

    def offer(self, delivery: Delivery) -> None:
        """What an epoch brought. Never blocks."""
        self._inbox.put(delivery)

    def stop(self, timeout_s: float = 30.0) -> None:
        self._stopping.set()
        self._inbox.wake()
        self._thread.join(timeout_s)

    def drop(self) -> None:
        """Removes what it wrote: the view is not wanted there any more."""
        self.stop()
        generation = self._kind.current(self.shape.source, self.shape.view) or 1
        for number in (generation, generation + 1):
            sink = self._kind.open(self.shape, number)
            try:
                sink.drop()
            finally:
                sink.close()
        self._kind.switch(self.shape.source, self.shape.view, None)

    # One life after the other

    def _run(self) -> None:
        pause_s = self._limits.backoff_s
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._live()
            except _Over:
                continue
            except SinkUnavailable as error:
                self._say(LaneState.DOWN, _reason(error))
                pause_s = max(pause_s, error.retry_after_s)
            except HeadwaterError as error:
                self._say(LaneState.FAILED, _reason(error))
            except Exception as error:  # whatever it is, the other lanes go on
                self._say(LaneState.FAILED, f"{type(error).__name__}: {error}")
            if time.monotonic() - began > self._limits.backoff_s_max:
                pause_s = self._limits.backoff_s
            self._stopping.wait(pause_s)
            pause_s = min(pause_s * 2, self._limits.backoff_s_max)

    def _live(self) -> None:
        if self._target is None:
            self._target = self._next().mark
        generation, sink = self._generation(self._target)
        self.status = msgspec.structs.replace(self.status, generation=generation)
        try:
            self._catch_up(sink, generation)
            while True:
                delivery = self._inbox.take(self._limits.check_s)
                self._end_if_over()
                if delivery is not None and self._kind.interval_s:
                    delivery = self._gathered(delivery)
                if delivery is not None:
                    self._take(sink, generation, delivery)
                self._check(sink)
        finally:
            sink.close()

    def _next(self) -> Delivery:
        while True:
            delivery = self._inbox.take(self._limits.check_s)
            self._end_if_over()
            if delivery is not None:
                return delivery

    def _end_if_over(self) -> None:
        if self._stopping.is_set():
            raise _Over

    # Which generation

    def _generation(self, target: Mark) -> tuple[int, Sink]:
        """The one that readers use, if it is of the view's present shape; else the next one, which is to be filled."""
        current = self._kind.current(self.shape.source, self.shape.view)
        if current is not None:
            sink = self._kind.open(self.shape, current)
            mark = sink.mark()
            if mark is None or _is_same(mark, target):
                return current, self._ready(sink, mark, target)
            sink.close()
        number = (current or 0) + 1
        sink = self._kind.open(self.shape, number)
        mark = sink.mark()
        if mark is None or not _is_same(mark, target):
            sink.drop()  # what somebody began and did not finish
            mark = None
        return number, self._ready(sink, mark, target)

    def _ready(self, sink: Sink, mark: Mark | None, target: Mark) -> Sink:
        if mark is None:
            mark = self._restored(sink, target)
        else:
            sink.prepare()
        self._mark = mark or _beginning(target)
        return sink

    def _restored(self, sink: Sink, target: Mark) -> Mark | None:
        """A place without a mark: a history may bring one back; what else is left of it is not to be trusted."""
        if isinstance(sink, HistorySink):
            try:
                sink.prepare()
                mark = sink.mark()
            except SinkUnavailable:
                raise
            except SinkError:  # of another shape
                mark = None
            if mark is not None and _is_same(mark, target):
                return mark
        sink.drop()
        sink.prepare()
        return None

    def _catch_up(self, sink: Sink, generation: int) -> None:
        """To the newest mark that is known, before any epoch is taken; then readers may come."""
        assert self._target is not None
        is_shown = self._kind.current(self.shape.source, self.shape.view) == generation
        self._follow(sink, generation, self._target, LaneState.FOLLOWING if is_shown else LaneState.FILLING)
        if not is_shown:
            self._show(generation)
        self._say(LaneState.RIDING)

    def _show(self, generation: int) -> None:
        source, view = self.shape.source, self.shape.view
        before = self._kind.current(source, view)
        self._kind.switch(source, view, generation)
        if before is not None:
            old = self._kind.open(self.shape, before)
            try:
                old.drop()
            finally:
                old.close()

    # Riding and following

    def _take(self, sink: Sink, generation: int, delivery: Delivery) -> None:
        assert self._mark is not None
        self._target = delivery.mark
        if not _is_same(self._mark, delivery.mark):
            raise _Over  # another shape: another generation
        is_new = delivery.mark.next_offset > self._mark.next_offset
        if is_new and (delivery.changes is None or self._mark.next_offset < delivery.after):
            self._follow(sink, generation, delivery.mark, LaneState.FOLLOWING)
            self._say(LaneState.RIDING)
            return
        fresh = [change for change in delivery.changes or () if change.version >= self._mark.next_offset]
        is_due = not self._kind.interval_s and time.monotonic() - self._written_at >= self._limits.check_s
        if is_due:
            self._require_kept(sink)
        if fresh or is_due:
            self._told_off(sink.apply(fresh, delivery.mark))
            self._written_at = time.monotonic()
        self._mark = delivery.mark
        self._say(LaneState.RIDING)

    def _gathered(self, delivery: Delivery) -> Delivery:
        """What came until the place is due again, as one stretch of the topic."""
        due_s = self._written_at + self._kind.interval_s - time.monotonic()
        if self._stopping.wait(max(0.0, due_s)):
            raise _Over
        while (later := self._inbox.take(0)) is not None:
            delivery = later
        return delivery._replace(changes=None)

    def _follow(self, sink: Sink, generation: int, target: Mark, state: LaneState) -> None:
        assert self._mark is not None
        self._say(state)
        rows_max = self._kind.rows_per_apply_max or self._limits.chunk_rows_max
        while self._spark is not None and target.next_offset - self._mark.next_offset >= self._limits.task_records_min:
            end = min(target.next_offset, self._mark.next_offset + self._limits.task_records_max)
            until = target if end == target.next_offset else msgspec.structs.replace(self._mark, next_offset=end)
            task = FollowTask(self._kind, self.shape, generation, self._topic, self._mark, until, rows_max)
            self._told_off(self._spark.sparkContext.parallelize([0], 1).mapPartitions(task).collect())
            self._moved(until, state)
        moved: Callable[[Mark], None] = lambda mark: self._moved(mark, state)  # noqa: E731
        self._told_off(follow(sink, self._topic, self._mark, target, rows_max, moved))
        self._written_at = time.monotonic()

    def _moved(self, mark: Mark, state: LaneState) -> None:
        self._mark = mark
        self._say(state)
        self._end_if_over()

    def _check(self, sink: Sink) -> None:
        """A place that was emptied behind our back says so: it has no mark, or an older one."""
        if time.monotonic() - self._checked_at < self._limits.check_s:
            return
        self._checked_at = time.monotonic()
        self._require_kept(sink)
        if isinstance(sink, TendedSink):
            sink.tend()

    def _require_kept(self, sink: Sink) -> None:
        found = sink.mark()
        if found is None or self._mark is None or found.next_offset < self._mark.next_offset:
            raise _Over

    def _told_off(self, refused: list[Refused]) -> None:
        if refused:
            self._refuse(self.shape, self._kind.name, refused)
            self.status = msgspec.structs.replace(self.status, refused=self.status.refused + len(refused))

    def _say(self, state: LaneState, reason: str = "") -> None:
        current = self.status
        self.status = msgspec.structs.replace(
            current,
            state=state,
            mark=self._mark if state is not LaneState.FILLING else None,
            target_offset=self._target.next_offset if self._target else 0,
            reason=reason,
            applied_at_us=time.time_ns() // 1000,
        )
        self._tell(self.status)


def _is_same(mark: Mark, target: Mark) -> bool:
    return (mark.topic_id, mark.since) == (target.topic_id, target.since)


def _beginning(target: Mark) -> Mark:
    """Of a place that has nothing yet."""
    return Mark(target.topic_id, target.since, target.since)


def _reason(error: HeadwaterError) -> str:
    return f"{error.fact}: {error.detail}" if error.detail else error.fact
