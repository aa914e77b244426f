"""Readers go over to a generation that includes what they have seen, soon, and nobody stands still for long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from cdc.errors import SinkUnavailable
from tests.sinks.places import MemoryKind, MemoryPlace, Publisher, shape, upsert
from tests.waiting import eventually
from views.sinks.following import ViewTopic
from views.sinks.inbox import Delivery
from views.sinks.lane import Lane, LaneLimits, LaneState
from views.sinks.switching import switch

pytestmark = pytest.mark.stack

LIMITS = LaneLimits(check_s=0.1, backoff_s=0.05, backoff_s_max=0.1)
FOREVER_S = 3_600.0


@dataclass
class Two:
    """One that is shown, and one beside it."""

    place: MemoryPlace
    published: Publisher
    lanes: list[Lane] = field(default_factory=list)

    def lane(self, number: int | None = None, side_pause_s: float = 0.01) -> Lane:
        topic = ViewTopic(self.published.kafka, self.published.topic)
        limits = replace(LIMITS, side_pause_s=side_pause_s)
        lane = Lane(MemoryKind(self.place), shape("lab"), topic, limits, number=number)
        self.lanes.append(lane)
        return lane

    def epoch(self, number: int) -> None:
        delivery: Delivery = self.published.epoch(upsert(1, 0, f"v{number}"))
        for lane in self.lanes:
            lane.offer(delivery)

    def upto(self, lane: Lane) -> Callable[[], bool]:
        return lambda: lane.mark is not None and lane.mark.next_offset == self.published.next_offset


@pytest.fixture
def two(published: Publisher) -> Iterator[Two]:
    made = Two(MemoryPlace(), published)
    yield made
    for lane in made.lanes:
        lane.stop()


def _beside(two: Two, side_pause_s: float = 0.01) -> tuple[Lane, Lane]:
    shown = two.lane()
    two.epoch(0)
    eventually(lambda: shown.status.state is LaneState.RIDING)
    side = two.lane(2, side_pause_s)
    two.epoch(1)
    eventually(lambda: side.status.state is LaneState.RIDING)
    eventually(two.upto(shown))
    return shown, side


def test_one_that_is_fed_seldom_hurries_when_it_is_to_be_shown(two: Two) -> None:
    shown, side = _beside(two, FOREVER_S)
    two.epoch(2)
    eventually(two.upto(shown))
    assert not two.upto(side)(), "it is not to be fed yet"
    switch(shown, side)
    assert two.place.pointers == {"items": 2}
    assert (shown.is_shown, side.is_shown) == (False, True)
    assert side.mark is not None
    assert shown.mark is not None
    assert side.mark.next_offset >= shown.mark.next_offset


def test_a_switch_among_epochs_never_goes_back_in_time(two: Two) -> None:
    """Seen before the switch is included after it, both ways, while epochs come as fast as they can."""
    shown, side = _beside(two)
    is_over = threading.Event()

    def come() -> None:
        number = 2
        while not is_over.is_set():
            two.epoch(number)
            number += 1

    coming = threading.Thread(target=come)
    coming.start()
    try:
        for _ in range(10):
            before = shown.mark
            switch(shown, side)
            assert before is not None
            assert side.mark is not None
            assert side.mark.next_offset >= before.next_offset
            shown, side = side, shown
    finally:
        is_over.set()
        coming.join()
    for lane in (shown, side):
        eventually(two.upto(lane))


def test_one_that_does_not_come_is_not_switched_to(two: Two) -> None:
    shown, side = _beside(two)
    side.stop()
    two.epoch(2)
    eventually(two.upto(shown))
    with pytest.raises(SinkUnavailable, match="generation 2 of the memory of items is behind"):
        switch(shown, side, timeout_s=0.2)
    assert two.place.pointers == {"items": 1}
    assert shown.is_shown
    two.epoch(3)
    eventually(two.upto(shown))
