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
from contextlib import closing, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec

from cdc.errors import HeadwaterError, SinkUnavailable
from views.sinks.follower import Follower
from views.sinks.following import Holding, Moved, ViewTopic
from views.sinks.held_keys import HeldKeys
from views.sinks.inbox import Delivery, Inbox
from views.sinks.lane_limits import LaneLimits
from views.sinks.lane_status import LaneState, Report, SinkStatus
from views.sinks.letters import LetterBox, NoLetters, Told
from views.sinks.opening import Opening, beginning, is_same
from views.sinks.sink import HistorySink, Mark, Sink, SinkKind, TendedSink, ViewShape
from views.sinks.wholeness import records_between

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


__all__ = ["Lane", "LaneLimits", "LaneState", "SinkStatus"]

FIRST: Final = 1
"""The number of a place's first generation."""


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
        self._tell, self._letters = tell, letters
        self._next_number, self._rest = next_number, rest
        self._follower = Follower(kind, shape, topic, limits, spark, piece or (lambda: limits.task_records_min))
        self.is_shown, self.number = number is None, number
        self._writing = threading.RLock()
        """Held while anything is written, and by who wants the place to stand still."""
        self._opening = Opening(kind, shape, topic, next_number)
        self._held = HeldKeys(letters, shape, kind.name)
        is_joined = kind.holds_rows and not kind.interval_s
        self._inbox = Inbox(limits.queue_rows_max, limits.queue_epochs_max, together=is_joined)
        self._stopping = threading.Event()
        self._in_a_hurry = threading.Event()
        self._mark: Mark | None = None
        self._target: Mark | None = None
        self._written_at = self._checked_at = self._moved_at = 0.0
        self.read = 0
        """How many records of the topic it has followed so far."""
        self._whole: int | None = None
        """The generation that it has last brought up to the view."""
        self._report = Report(shape.view, kind.name)
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
    def status(self) -> SinkStatus:
        return self._report.status

    @property
    def mark(self) -> Mark | None:
        """What its generation includes."""
        return self._mark

    @property
    def target(self) -> Mark | None:
        return self._target

    def left(self, rows: int) -> int:
        """How many records of the topic it has still to read, at most, if so many rows are not read yet."""
        if self._mark is None or self._target is None:
            return 0
        return records_between(self._mark.next_offset, self._target.next_offset, rows, self._all_from)

    @cached_property
    def _all_from(self) -> int:
        return self._topic.all_from()

    @property
    def is_whole(self) -> bool:
        """Its generation was brought up to the view, and is read if the lane is shown."""
        return self.number is not None and self._whole == self.number

    @property
    def behind_ms(self) -> float:
        """From a publication to its being written (`Report`)."""
        return self._report.behind_ms

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
            generation, sink, self._mark = (
                self._opening.shown(self._target)
                if self.is_shown
                else self._opening.beside(self.number or 0, self._target)
            )
            self.number = generation
            self._report.feeds(generation)
            self._held.open(generation, anew=self._mark == beginning(self._target))
        try:
            self._catch_up(sink, generation)
            while True:
                if not self.is_shown:
                    self._in_a_hurry.wait(self._limits.side_pause_s)
                delivery = self._arrived(self._limits.check_s)
                self._end_if_over()
                if delivery is not None and self.kind.interval_s:
                    delivery = self._gathered(delivery)
                with self._writing:
                    if delivery is not None:
                        with self._report.writing(delivery.mark.published_at_us or 0):
                            self._take(sink, generation, delivery)
                    self._check(sink)
        finally:
            sink.close()

    def _next(self) -> Delivery:
        while True:
            delivery = self._arrived(self._limits.check_s)
            self._end_if_over()
            if delivery is not None:
                return delivery

    def _arrived(self, timeout_s: float) -> Delivery | None:
        """What came next, with a mark that says what the place is made for: it is written there."""
        delivery = self._inbox.take(timeout_s)
        if delivery is None:
            return None
        return delivery._replace(mark=msgspec.structs.replace(delivery.mark, made_for=self._made_for))

    @cached_property
    def _made_for(self) -> str:
        return self.kind.made_for(self.shape)

    def _end_if_over(self) -> None:
        if self._stopping.is_set():
            raise _Over

    def _catch_up(self, sink: Sink, generation: int) -> None:
        """To the newest mark that is known, before any epoch is taken; then readers may come."""
        assert self._target is not None
        assert self._mark is not None
        current = self.kind.current(self.shape.source, self.shape.view)
        is_read, is_filled = current == generation, current != generation or not self._mark.is_whole
        if self.is_shown and is_filled and not self._report.stale[0]:
            self._report.stale = self._lacking(current, generation), time.time()
        state = LaneState.FILLING if is_filled else LaneState.FOLLOWING
        self._follow(sink, generation, self._target, state, is_read=is_read)
        if not is_read:
            self._inherit(sink, generation)
        if self.is_shown and not is_read:
            self._show(generation)
        self._report.stale, self._whole = ("", 0.0), generation
        self._say(LaneState.RIDING)

    def _inherit(self, sink: Sink, generation: int) -> None:
        """What the generation that is read knows of the past is not lost with it."""
        current = self.kind.current(self.shape.source, self.shape.view)
        if not isinstance(sink, HistorySink) or current in (None, generation):
            return
        with closing(self.kind.open(self.shape, current)) as other:
            began, taken_over = time.monotonic(), 0
            for versions in sink.inherit(other):
                taken_over += versions
                self._say(self.status.state, f"takes over the versions before it: {taken_over:,} so far")
                self._stopping.wait(self._rest(time.monotonic() - began, versions))
                self._end_if_over()
                began = time.monotonic()

    def _lacking(self, current: int | None, generation: int) -> str:
        """Nothing is said of what is filled for the first time: nobody had it before."""
        if current == generation:
            return "it was emptied and is being filled again: rows are missing"
        if current is not None:
            return f"it stands still as it was: generation {generation} is being filled"
        is_first = generation == FIRST and self._whole is None
        return "" if is_first else "it was emptied and is being filled again: there is nothing to be read"

    def _show(self, generation: int) -> None:
        source, view = self.shape.source, self.shape.view
        before = self.kind.current(source, view)
        self.kind.switch(source, view, generation)
        if before not in (None, generation):
            self._remove(before)

    # Riding and following

    def _take(self, sink: Sink, generation: int, delivery: Delivery) -> None:
        assert self._mark is not None
        self._target = delivery.mark
        if not is_same(self._mark, delivery.mark):
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
            holding = Holding(set(self._held.keys))
            holding.apply(sink, fresh, delivery.mark)
            self._told_off(holding.told)
            self._written_at = time.monotonic()
        self._mark = delivery.mark
        self._say(LaneState.RIDING)

    def _gathered(self, delivery: Delivery) -> Delivery:
        """What came until the place is due again, or somebody is in a hurry, as one stretch of the topic."""
        due_s = self._written_at + self.kind.interval_s - time.monotonic()
        self._in_a_hurry.wait(max(0.0, due_s))
        self._end_if_over()
        while (later := self._arrived(0)) is not None:
            delivery = later
        return delivery._replace(changes=None)

    def _follow(self, sink: Sink, generation: int, target: Mark, state: LaneState, *, is_read: bool = True) -> None:
        """What is not read yet is filled at leisure, and seen at its end."""
        assert self._mark is not None
        self._say(state)
        self._moved_at = time.monotonic()
        moved: Moved = lambda mark, records: self._moved(mark, state, records, is_read=is_read)  # noqa: E731
        self._follower.follow(sink, generation, self._mark, target, self._held, moved, self._told_off, is_read=is_read)
        self._written_at = time.monotonic()

    def _moved(self, mark: Mark, state: LaneState, records: int, *, is_read: bool) -> None:
        self._mark = mark
        self.read += records
        self._say(state)
        if not is_read:
            self._stopping.wait(self._rest(time.monotonic() - self._moved_at, records))
            self._moved_at = time.monotonic()
        self._end_if_over()

    def _check(self, sink: Sink) -> None:
        """A place that was emptied behind our back says so: it has no mark, or an older one."""
        if time.monotonic() - self._checked_at < self._limits.check_s:
            return
        self._checked_at = time.monotonic()
        self._require_kept(sink)
        self._held.tell()
        if self._held.keys:
            self._held.look()
        if isinstance(sink, TendedSink):
            sink.tend()

    def _require_kept(self, sink: Sink) -> None:
        found = sink.mark()
        if found is None or self._mark is None or found.next_offset < self._mark.next_offset:
            raise _Over

    def _told_off(self, told: list[Told]) -> None:
        self._report.refused(self._held.add(told))

    def _say(self, state: LaneState, reason: str = "") -> None:
        self._report.say(state, reason, self._mark, self._target, len(self._held.keys))
        if self.is_shown:
            self._tell(self.status)
