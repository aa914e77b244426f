"""Readers go over at once, or are told at once why not. Without servers: the view's topic is in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from cdc.addresses import KafkaAddress
from cdc.errors import SinkUnavailable
from cdc.reader import Raw
from tests.sinks.places import TOPIC, MemoryKind, MemoryPlace, MemorySink, shape
from tests.waiting import eventually
from views.sinks.following import ViewTopic
from views.sinks.inbox import Delivery
from views.sinks.lane import Lane, LaneLimits, LaneState
from views.sinks.sink import Change, Mark, Refused, ViewShape
from views.sinks.switching import STILL_S_MAX, switch

LIMITS = LaneLimits(check_s=0.05, backoff_s=0.05, backoff_s_max=0.1, side_pause_s=0.01)


@dataclass(frozen=True)
class MemoryTopic(ViewTopic):
    written: list[Raw] = field(default_factory=list)

    def records(self, start: int, end: int) -> Iterator[list[Raw]]:
        yield self.written[start:end]


class SeldomKind(MemoryKind):
    interval_s = 30.0


class SlowlyKind(MemoryKind):
    def open(self, shape: ViewShape, generation: int) -> MemorySink:
        return SlowSink(self.place, (shape.view, generation))


class SlowSink(MemorySink):
    def apply(self, changes: Sequence[Change], mark: Mark) -> list[Refused]:
        threading.Event().wait(0.5)
        return super().apply(changes, mark)


class LosingKind(MemoryKind):
    """What it answers to a switch is lost; and the switch itself while it is down."""

    def switch(self, source: str, view: str, generation: int | None) -> None:
        if generation == 2:
            if not self.place.is_down:
                super().switch(source, view, generation)
            raise SinkUnavailable("it did not answer in time")
        super().switch(source, view, generation)


@dataclass
class Two:
    """One that is shown, and one beside it."""

    topic: MemoryTopic = field(default_factory=lambda: MemoryTopic(KafkaAddress("nowhere:1"), "lab.view.items"))
    place: MemoryPlace = field(default_factory=MemoryPlace)
    beside: MemoryPlace = field(default_factory=MemoryPlace)
    lanes: list[Lane] = field(default_factory=list)

    def started(self, side: type[MemoryKind], shown_kind: type[MemoryKind] = MemoryKind) -> tuple[Lane, Lane]:
        view = shape("lab")
        shown = Lane(shown_kind(self.place), view, self.topic, LIMITS)
        self.lanes.append(shown)
        self.epoch()
        eventually(lambda: shown.is_whole)
        self.lanes.append(Lane(side(self.beside), view, self.topic, LIMITS, number=2))
        self.lanes[1].offer(self.delivery())
        eventually(lambda: self.lanes[1].status.state is LaneState.RIDING)
        return shown, self.lanes[1]

    def beside_again(self) -> Lane:
        again = Lane(SlowlyKind(self.beside), shape("lab"), self.topic, LIMITS, number=2)
        self.lanes[1] = again
        again.offer(self.delivery())
        eventually(lambda: again.status.state is LaneState.FILLING)
        return again

    def delivery(self) -> Delivery:
        end = len(self.topic.written)
        return Delivery(Mark(TOPIC, end, published_at_us=time.time_ns() // 1000), end, None)

    def epoch(self) -> None:
        row = b'{"before":null,"after":{"id":1},"position":"1:1","lsn":"0/1","committed_at_us":1,"published_at_us":1}'
        self.topic.written.append(Raw(len(self.topic.written), 1, b'{"id":1}', row))
        delivery = self.delivery()
        for lane in self.lanes:
            lane.offer(delivery)
        eventually(lambda: self.lanes[0].mark is not None and self.lanes[0].mark.next_offset == delivery.after)


@pytest.fixture
def two() -> Iterator[Two]:
    made = Two()
    yield made
    for lane in made.lanes:
        lane.stop()


def test_one_that_is_written_every_30_seconds_is_written_when_somebody_waits_for_it(two: Two) -> None:
    shown, side = two.started(SeldomKind)
    two.epoch()
    began = time.monotonic()
    switch(shown, side)
    assert time.monotonic() - began < SeldomKind.interval_s / 10
    assert (shown.is_shown, side.is_shown) == (False, True)
    assert side.mark is not None
    assert side.mark.next_offset == 2


@pytest.mark.parametrize("how", ["down", "being filled"])
def test_nobody_stands_still_for_one_that_cannot_come(two: Two, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown, side = two.started(MemoryKind)
    if how == "down":
        two.beside.is_down = True
    else:
        side._rest = lambda worked_s, records: 60.0  # it was emptied, and is filled at leisure
        two.beside.marks.clear()
    eventually(lambda: side.status.state is (LaneState.DOWN if how == "down" else LaneState.FILLING))

    def stood(timeout_s: float) -> None:
        raise AssertionError("what readers use stood still")

    monkeypatch.setattr(shown, "standing_still", stood)
    began = time.monotonic()
    with pytest.raises(SinkUnavailable, match="generation 2 of the memory of items is behind"):
        switch(shown, side, timeout_s=STILL_S_MAX if how == "down" else 0.1)
    assert time.monotonic() - began < STILL_S_MAX / 2
    assert shown.is_shown


@pytest.mark.parametrize("is_down", [False, True])
def test_a_place_whose_answer_was_lost_is_asked(two: Two, *, is_down: bool) -> None:
    shown, side = two.started(MemoryKind, LosingKind)
    two.place.is_down = is_down
    if is_down:
        with pytest.raises(SinkUnavailable, match="did not answer"):
            switch(shown, side)
    else:
        switch(shown, side)
    assert (side.is_shown, two.place.pointers) == (not is_down, {"items": 1 if is_down else 2})


def test_one_that_has_just_been_begun_is_waited_for(two: Two) -> None:
    """It says that it is filled, because nobody reads it, until it has looked at where it is."""
    shown, side = two.started(MemoryKind)
    side.stop()
    two.epoch()
    again = two.beside_again()
    switch(shown, again)
    assert again.is_shown
