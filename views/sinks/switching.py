"""Readers go over from one generation to another, and never back in time.

    the shown lane stands still at m ─▶ the other, in a hurry, includes m ─▶ the place's pointer moves ─▶ both go on

Whatever an answer included before the switch, answers after it include, too. The lane that was left is fed as before,
so going back is the same, the other way round.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from cdc.errors import SinkUnavailable
from views.sinks.lane import Lane, LaneState
from views.sinks.sink import Mark

MEET_S_MAX: Final = 0.3
"""How long to wait for a moment at which nobody has to stand still."""
STILL_S_MAX: Final = 5.0
"""How long what readers use may stand still: it costs them freshness."""
_POLL_S: Final = 0.005
_AWAY: Final = (LaneState.DOWN, LaneState.FAILED)
"""Who is in one of these does not come soon. One that is filled may: who was just begun says so for a moment."""


def switch(shown: Lane, other: Lane, timeout_s: float = STILL_S_MAX) -> None:
    """Raises SinkUnavailable, and leaves everything as it was, when the two do not meet in time."""
    with other.hurried():
        _wait(other, None, timeout_s)  # nobody stands still for one that cannot come
        with _met(shown, other, timeout_s):
            # The other may go on meanwhile: what it includes only grows.
            _point(shown, other.number)
            shown.hide()
            other.show()


def _point(shown: Lane, number: int | None) -> None:
    """A place may have moved its pointer although its answer was lost: it is asked."""
    source, view = shown.shape.source, shown.shape.view
    try:
        shown.kind.switch(source, view, number)
    except SinkUnavailable:
        if shown.kind.current(source, view) != number:
            raise


@contextmanager
def _met(shown: Lane, other: Lane, timeout_s: float) -> Iterator[None]:
    """The shown one stands still, and the other includes what it does: as it happens between two epochs, or made to."""
    by_themselves_until = time.monotonic() + MEET_S_MAX
    while time.monotonic() < by_themselves_until:
        with shown.standing_still_now() as is_still:
            if is_still and _includes(other, shown.mark):
                yield
                return
        time.sleep(_POLL_S)
    with shown.standing_still(timeout_s):
        _wait(other, shown.mark, timeout_s)
        yield


def _wait(lane: Lane, mark: Mark | None, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not _includes(lane, mark):
        if lane.status.state in _AWAY or time.monotonic() > deadline:
            raise SinkUnavailable(
                f"generation {lane.number} of the {lane.kind.name} of {lane.shape.view} is behind",
                detail=lane.status.reason or f"it is {lane.status.state}",
                hint=f"headwater generations {lane.shape.view}",
            )
        time.sleep(_POLL_S)


def _includes(lane: Lane, mark: Mark | None) -> bool:
    if lane.status.state is not LaneState.RIDING or lane.mark is None:
        return False
    return mark is None or (lane.mark.since == mark.since and lane.mark.next_offset >= mark.next_offset)
