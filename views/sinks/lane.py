"""Keeps one view in one place: rides with the epochs while it keeps up, follows the view's topic when it does not.

    an epoch is published ─▶ inbox ─▶ missed nothing? ─ yes ─▶ its changes as they are         (riding)
                                                      └ no ──▶ the topic, up to the epoch's mark (following)

A lane has a thread of its own and is never waited for: a place that is slow, down or broken delays nobody. Where it is,
the place itself says (`Sink.mark`); whatever was written before a failure is written again, which changes nothing. The
hand-over needs no agreement: an epoch says which mark it continues from.

The lane that is shown feeds the generation that readers use. Beside it may be others of the same view and place: one
that is filled anew, or one that readers came from and may go back to. They are fed alike (`switching.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from cdc.errors import HeadwaterError, SinkError, SinkUnavailable
from views.sinks.following import CutOff, FollowTask, Holding, ViewTopic, follow
from views.sinks.inbox import Delivery, Inbox
from views.sinks.lane_status import LaneState, SinkStatus
from views.sinks.letters import LetterBox, NoLetters, Taken, Told
from views.sinks.sink import HistorySink, Mark, Sink, SinkKind, TendedSink, ViewShape

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
    side_pause_s: float = 0.25
    """What is not shown is fed so often, with all that came meanwhile: nobody waits for it."""


__all__ = ["Lane", "LaneLimits", "LaneState", "SinkStatus"]


LATELY_S: Final = 10.0


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
        letters: LetterBox = NoLetters(),  # noqa: B008 - it has no state
        spark: SparkSession | None = None,
        number: int | None = None,
        next_number: Callable[[int], int] = lambda current: current + 1,
        rest: Callable[[float, int], float] = lambda worked_s, records: 0.0,
        piece: Callable[[], int] | None = None,
    ) -> None:
        """With a `number` it feeds that generation, which is not shown. So that what readers use stays fresh, `rest`
        says how long to pause after so many seconds and records of filling, `piece` how much is filled at a time."""
        self.kind, self.shape, self._topic, self._limits = kind, shape, topic, limits
        self._tell, self._letters, self._spark = tell, letters, spark
        self._next_number, self._rest = next_number, rest
        self._piece = piece or (lambda: limits.task_records_min)
        self.is_shown, self.number = number is None, number
        self._writing = threading.RLock()
        """Held while anything is written, and by who wants the place to stand still."""
        self._held: dict[bytes, int] = {}
        """The keys that open letters hold."""
        self._untold: list[Told] = []
        """What could not be told yet: the place's mark is past it, so nobody else knows."""
        is_joined = kind.holds_rows and not kind.interval_s
        self._inbox = Inbox(limits.queue_rows_max, limits.queue_epochs_max, together=is_joined)
        self._stopping = threading.Event()
        self._in_a_hurry = threading.Event()
        self._mark: Mark | None = None
        self._target: Mark | None = None
        self._written_at = self._checked_at = self._moved_at = 0.0
        self._writes_us = 0
        """When what it is writing was published; 0 while it writes nothing."""
        self._lagged: tuple[float, float] = (float("-inf"), 0.0)
        """When it last wrote what an epoch brought, and how many milliseconds after its publication."""
        self.status = SinkStatus(shape.view, kind.name, LaneState.WAITING)
        self._thread = threading.Thread(target=self._run, name=f"{shape.view}-{kind.name}", daemon=True)
        self._thread.start()

    def offer(self, delivery: Delivery) -> None:
        """What an epoch brought. Never blocks."""
        self._inbox.put(delivery)

    def stop(self, timeout_s: float = 30.0) -> None:
        self._stopping.set()
        self._in_a_hurry.set()
        self._inbox.wake()
        self._thread.join(timeout_s)

    def drop(self) -> None:
        """Removes what it wrote: nobody wants it there any more."""
        self.stop()
        if not self.is_shown:
            self._remove(self.number or 0)
            return
        current = self.kind.current(self.shape.source, self.shape.view)
        for number in {current or 1, self.number or 1, self._next_number(current or 0)}:
            self._remove(number)
        self.kind.switch(self.shape.source, self.shape.view, None)

    def _remove(self, number: int) -> None:
        sink = self.kind.open(self.shape, number)
        try:
            sink.drop()
        finally:
            sink.close()
        self._letters.forget(self.shape.view, self.kind.name, number)

    # For who switches from one to another

    @property
    def mark(self) -> Mark | None:
        """What its generation includes."""
        return self._mark

    @property
    def target(self) -> Mark | None:
        return self._target

    @property
    def behind_ms(self) -> float:
        """From a publication to its being written: of the one under way, or of the last if that was lately."""
        if writes_us := self._writes_us:
            return time.time_ns() / 1e6 - writes_us / 1e3
        at, lag_ms = self._lagged
        return lag_ms if time.monotonic() - at < LATELY_S else 0.0

    @contextmanager
    def standing_still(self, timeout_s: float) -> Iterator[None]:
        """Nothing is written meanwhile. Raises SinkUnavailable when a write does not end in time."""
        if not self._writing.acquire(timeout=timeout_s):
            raise SinkUnavailable(
                f"the {self.kind.name} of {self.shape.view} does not stand still",
                detail=f"something is being written for more than {timeout_s:g} s",
                hint=f"headwater views {self.shape.view}",
            )
        try:
            yield
        finally:
            self._writing.release()

    @contextmanager
    def standing_still_now(self) -> Iterator[bool]:
        """Whether nothing is being written; if so, nothing is meanwhile."""
        is_still = self._writing.acquire(blocking=False)
        try:
            yield is_still
        finally:
            if is_still:
                self._writing.release()

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """Takes what comes at once, shown or not."""
        self._in_a_hurry.set()
        try:
            yield
        finally:
            if not self._stopping.is_set():
                self._in_a_hurry.clear()

    def show(self) -> None:
        """Readers use its generation from now on."""
        self.is_shown = True
        self._say(self.status.state, self.status.reason)

    def hide(self) -> None:
        """Readers have left its generation, which is fed all the same."""
        self.is_shown = False

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
                self._say(LaneState.DOWN, error.summary)
                pause_s = max(pause_s, error.retry_after_s)
            except HeadwaterError as error:
                self._say(LaneState.FAILED, error.summary)
            except Exception as error:  # whatever it is, the other lanes go on
                self._say(LaneState.FAILED, f"{type(error).__name__}: {error}")
            if time.monotonic() - began > self._limits.backoff_s_max:
                pause_s = self._limits.backoff_s
            self._stopping.wait(pause_s)
            pause_s = min(pause_s * 2, self._limits.backoff_s_max)

    def _live(self) -> None:
        if self._target is None:
            self._target = self._next().mark
        with self._writing:
            generation, sink = self._generation(self._target)
            self.number = generation
            if generation != self.status.generation:
                self.status, self._untold = msgspec.structs.replace(self.status, generation=generation), []
            self._open_letters()
        try:
            self._catch_up(sink, generation)
            while True:
                if not self.is_shown:
                    self._in_a_hurry.wait(self._limits.side_pause_s)
                delivery = self._inbox.take(self._limits.check_s)
                self._end_if_over()
                if delivery is not None and self.kind.interval_s:
                    delivery = self._gathered(delivery)
                with self._writing:
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
        if not self.is_shown:
            return self._begun(self.number or 0, target)
        current = self.kind.current(self.shape.source, self.shape.view)
        if current is not None:
            sink = self.kind.open(self.shape, current)
            mark = sink.mark()
            if mark is None or _is_same(mark, target):
                return current, self._ready(sink, mark, target)
            sink.close()
        return self._begun(self._next_number(current or 0), target)

    def _begun(self, number: int, target: Mark) -> tuple[int, Sink]:
        """One that nobody reads yet: goes on where somebody left it, if it is of the view's present shape."""
        sink = self.kind.open(self.shape, number)
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
        is_read = self.kind.current(self.shape.source, self.shape.view) == generation
        self._follow(sink, generation, self._target, LaneState.FOLLOWING if is_read else LaneState.FILLING)
        if self.is_shown and not is_read:
            self._show(generation)
        self._say(LaneState.RIDING)

    def _show(self, generation: int) -> None:
        source, view = self.shape.source, self.shape.view
        before = self.kind.current(source, view)
        self.kind.switch(source, view, generation)
        if before is not None:
            self._remove(before)

    # Riding and following

    def _take(self, sink: Sink, generation: int, delivery: Delivery) -> None:
        self._writes_us = delivery.mark.published_at_us or 0
        try:
            self._taken(sink, generation, delivery)
            self._lagged = time.monotonic(), self.behind_ms
        finally:
            self._writes_us = 0

    def _taken(self, sink: Sink, generation: int, delivery: Delivery) -> None:
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
        is_due = not self.kind.interval_s and time.monotonic() - self._written_at >= self._limits.check_s
        if is_due:
            self._require_kept(sink)
        if fresh or is_due:
            holding = Holding(set(self._held))
            holding.apply(sink, fresh, delivery.mark)
            self._told_off(holding.told)
            self._written_at = time.monotonic()
        self._mark = delivery.mark
        self._say(LaneState.RIDING)

    def _gathered(self, delivery: Delivery) -> Delivery:
        """What came until the place is due again, as one stretch of the topic."""
        due_s = self._written_at + self.kind.interval_s - time.monotonic()
        if self._stopping.wait(max(0.0, due_s)):
            raise _Over
        while (later := self._inbox.take(0)) is not None:
            delivery = later
        return delivery._replace(changes=None)

    def _follow(self, sink: Sink, generation: int, target: Mark, state: LaneState) -> None:
        assert self._mark is not None
        self._say(state)
        rows_max = self.kind.rows_per_apply_max or self._limits.chunk_rows_max
        self._moved_at, is_read = time.monotonic(), state is not LaneState.FILLING
        while self._spark is not None and target.next_offset - self._mark.next_offset >= self._limits.task_records_min:
            records_max = self._limits.task_records_max if self.is_shown else self._piece()
            end = min(target.next_offset, self._mark.next_offset + records_max)
            until = target if end == target.next_offset else msgspec.structs.replace(self._mark, next_offset=end)
            held = frozenset(self._held)
            task = FollowTask(
                self.kind, self.shape, generation, self._topic, self._mark, until, rows_max, held, is_read
            )
            answered = self._spark.sparkContext.parallelize([0], 1).mapPartitions(task).collect()
            self._told_off([each for each in answered if not isinstance(each, CutOff)])
            for each in answered:
                if isinstance(each, CutOff):
                    raise each.error
            self._moved(until, state)
        moved: Callable[[Mark], None] = lambda mark: self._moved(mark, state)  # noqa: E731
        holding = Holding(set(self._held))
        try:
            follow(sink, self._topic, self._mark, target, rows_max, holding, moved, is_read=is_read)
        finally:
            self._told_off(holding.told)
        self._written_at = time.monotonic()

    def _moved(self, mark: Mark, state: LaneState) -> None:
        records = mark.next_offset - (self._mark.next_offset if self._mark else mark.next_offset)
        self._mark = mark
        self._say(state)
        if state is LaneState.FILLING:
            self._stopping.wait(self._rest(time.monotonic() - self._moved_at, records))
            self._moved_at = time.monotonic()
        self._end_if_over()

    def _check(self, sink: Sink) -> None:
        """A place that was emptied behind our back says so: it has no mark, or an older one."""
        if time.monotonic() - self._checked_at < self._limits.check_s:
            return
        self._checked_at = time.monotonic()
        self._require_kept(sink)
        self._tell_letters()
        if self._held:  # a person may have closed some
            self._look_at_letters()
        if isinstance(sink, TendedSink):
            sink.tend()

    def _require_kept(self, sink: Sink) -> None:
        found = sink.mark()
        if found is None or self._mark is None or found.next_offset < self._mark.next_offset:
            raise _Over

    def _told_off(self, told: list[Told]) -> None:
        self._untold += told
        refused = sum(not isinstance(each, Taken) for each in told)
        self.status = msgspec.structs.replace(self.status, refused=self.status.refused + refused)
        self._tell_letters()

    def _tell_letters(self) -> None:
        if not self._untold:
            return
        self._letters.tell(self.shape, self.kind.name, self.status.generation, self._untold)
        for each in self._untold:
            if isinstance(each, Taken):
                self._held.pop(each.key, None)
            else:
                self._held[each.change.key] = each.change.version
        self._untold = []

    def _open_letters(self) -> None:
        """Which keys are held; none of a place that is filled from the beginning, where every row is judged anew."""
        assert self._target is not None
        self._tell_letters()
        if self._mark == _beginning(self._target):
            self._letters.forget(self.shape.view, self.kind.name, self.status.generation)
        self._look_at_letters()

    def _look_at_letters(self) -> None:
        self._held = self._letters.held(self.shape.view, self.kind.name, self.status.generation)

    def _say(self, state: LaneState, reason: str = "") -> None:
        current = self.status
        self.status = msgspec.structs.replace(
            current,
            state=state,
            mark=self._mark if state is not LaneState.FILLING else None,
            target_offset=self._target.next_offset if self._target else 0,
            reason=reason,
            incomplete=len(self._held),
            applied_at_us=time.time_ns() // 1000,
            next_offset=self._mark.next_offset if self._mark else 0,
        )
        if self.is_shown:
            self._tell(self.status)


def _is_same(mark: Mark, target: Mark) -> bool:
    return (mark.topic_id, mark.since) == (target.topic_id, target.since)


def _beginning(target: Mark) -> Mark:
    """Of a place that has nothing yet."""
    return Mark(target.topic_id, target.since, target.since)
