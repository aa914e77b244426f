"""A view that rebuilds have computed anew: what they ask of who computes it, and which application of it they wait for.

There is one at a time: whoever asks again has it computed once more, and those that waited before wait for that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from views.maintain.book import Book
from views.maintain.comparing import Compare, asked_for, no_compare
from views.maintain.registry import ViewState, ViewStatus
from views.rebuild import Rebuild, RebuildState, Stage


@dataclass(frozen=True)
class Computing:
    """What a rebuild asks of who computes its view anew."""

    position: Callable[[str], tuple[int, int] | None] = lambda view: None
    """Records of the log that it has read, and that there are; None while it is not at it."""
    take_back: Callable[[str, float], bool] = lambda view, applied_at_s: False
    """Gives that application of the view up: what readers use stays. False if it is too late, or what is wanted is not
    what they use."""
    go_on: Callable[[str], None] = lambda view: None
    held_back: Callable[[], str] = lambda: ""
    """Why it is computed slower than it could be; empty while it is not."""
    rows: Callable[[str], int] = lambda view: 0
    """Of a view, as readers are given it."""
    compare: Compare = no_compare


def waiting_for(book: Book, view: str, applied_at_s: float) -> list[Rebuild]:
    """Those that asked for that application of the view and have not gone on, also those that are over."""
    return [each for each in asked_for(book, view, applied_at_s) if each.stage is Stage.COMPUTE]


def is_paused(book: Book, view: str, applied_at_s: float) -> bool:
    """Whether all that wait for that application of the view are paused."""
    waiting = [each for each in waiting_for(book, view, applied_at_s) if not each.is_over]
    return bool(waiting) and all(each.state is RebuildState.PAUSED for each in waiting)


def is_cancelled(book: Book, view: str, applied_at_s: float) -> bool:
    """Whether all that asked for that application of the view gave it up, or failed, before it was shown."""
    asked = asked_for(book, view, applied_at_s)
    return bool(asked) and all(each.stage is Stage.COMPUTE and each.is_over for each in asked)


def adopted(book: Book, rebuild: Rebuild, status: ViewStatus) -> Rebuild:
    """A rebuild whose view somebody had computed anew once more: that is compared, shown and given up with it, too."""
    is_built = status.state not in (ViewState.LIVE, ViewState.PAUSED)
    is_for_rebuilds = status.is_computed or bool(asked_for(book, rebuild.view, status.applied_at_s))
    if status.applied_at_s <= rebuild.applied_at_s or not is_built or not is_for_rebuilds:
        return rebuild
    return msgspec.structs.replace(rebuild, applied_at_s=status.applied_at_s, computed=None)


def came_to_nothing(book: Book, view: str, status: ViewStatus) -> bool:
    """Whether readers have what they had, because that application was for rebuilds, and was given up."""
    return bool(status.failed) or is_cancelled(book, view, status.applied_at_s)
