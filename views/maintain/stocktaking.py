"""What the places say of generations, for a book that had to be begun anew (booking.py).

What readers use is live. What else lies there was being filled, waited to be switched to, or was left: nobody can say
which any more, and nobody feeds it, so nobody may go over to it. It is removed, and its number is not given again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from cdc.errors import HeadwaterError
from views.generation import Generation, GenerationState
from views.maintain.booking import BookKeeper
from views.maintain.sinking import Sinking
from views.sinks.lane import Lane, LaneState

NEAR: Final = 20
"""Numbers are given one by one: others are looked for so far from the one that readers use."""
UNKNOWN: Final = "the book was damaged: nobody knew what it was"


class Stocktaking:
    """One place after the other, as soon as it says what readers use."""

    def __init__(self, keeper: BookKeeper, sinking: Sinking) -> None:
        self._keeper, self._sinking = keeper, sinking
        self._done: set[tuple[str, str]] = set()

    def look(self) -> None:
        """Idempotent: what the book knows stays. A place that is away is looked at later."""
        for lane in self._sinking.lanes() if self._keeper.is_begun_anew else ():
            name = lane.shape.view, lane.kind.name
            is_read = lane.status.state in (LaneState.RIDING, LaneState.FOLLOWING)
            if name not in self._done and is_read and lane.kind.holds_rows and lane.number is not None:
                with suppress(HeadwaterError):
                    self._take(lane, lane.number)
                    self._done.add(name)

    def _take(self, lane: Lane, shown: int) -> None:
        view, sink = lane.shape.view, lane.kind.name
        known = {each.number for each in self._keeper.book.of(view, sink)}
        if shown not in known:
            self._put(Generation(view, sink, shown, GenerationState.LIVE, time.time()))
        for number in _written(lane, shown):
            if number not in known and self._sinking.remove(view, sink, number):
                self._put(Generation(view, sink, number, GenerationState.RETIRED, time.time(), reason=UNKNOWN))

    def _put(self, generation: Generation) -> None:
        self._keeper.keep(self._keeper.book.with_generation(generation))


def _written(lane: Lane, shown: int) -> Iterator[int]:
    """Beside the one that is shown."""
    for number in range(max(1, shown - NEAR), shown + NEAR + 1):
        place = lane.kind.open(lane.shape, number)
        try:
            if number != shown and place.mark() is not None:
                yield number
        finally:
            place.close()
