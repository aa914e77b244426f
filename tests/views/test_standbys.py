"""What the book keeps of generations that are over, and since when those beside the one that is shown are not fed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from cdc.addresses import Source
from views.generation import Generation, GenerationState
from views.maintain.book import RETIRED_MAX, Book
from views.maintain.sinking import Sinking
from views.sinks.lane import Lane, LaneState, SinkStatus

LONG_AGO_S = 1.0


def test_what_is_still_to_be_removed_is_never_forgotten() -> None:
    left = Generation("cards", "search", 1, GenerationState.RETIRED, LONG_AGO_S, is_left=True)
    book = Book().with_generation(left)
    for number in range(2, RETIRED_MAX + 10):
        book = book.with_generation(Generation("cards", "search", number, GenerationState.RETIRED, LONG_AGO_S))
    assert book.left() == [left]
    assert len(book.generations) == RETIRED_MAX + 2
    assert book.without_view("cards").generations == (left,)


def test_it_is_known_since_when_what_is_not_shown_is_not_fed() -> None:
    @dataclass
    class Beside:
        status: SinkStatus

        def comes_to(self, state: LaneState, reason: str = "") -> SinkStatus:
            self.status = SinkStatus("cards", "cache", state, next_offset=7, reason=reason)
            [told] = sinking.statuses_beside()
            return told

    sinking = Sinking(kafka=None, source=Source("lab"), kinds={})  # type: ignore[arg-type]
    lane = Beside(SinkStatus("cards", "cache", LaneState.WAITING))
    sinking._sides["cards", "cache", 3] = cast(Lane, lane)
    assert (lane.comes_to(LaneState.RIDING).stale, sinking.statuses_beside()[0].generation) == ("", 3)
    down = lane.comes_to(LaneState.DOWN, "no room")
    assert (down.stale, down.reason, down.stale_since_s > 0) == ("it is down", "no room", True)
    again = lane.comes_to(LaneState.FOLLOWING)
    assert again.stale_since_s == down.stale_since_s, "it tries, and was not brought up to the view yet"
    assert lane.comes_to(LaneState.RIDING).stale == ""
    assert lane.comes_to(LaneState.FOLLOWING).stale == "", "a moment behind"
