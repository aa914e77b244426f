"""What a rebuild computes anew is compared with its SQL in Postgres before any reader has a row of it.

    computed, unseen ─▶ compared ─▶ equal: it may be shown, at once or when somebody switches
                                 └▶ not: it is given up, and readers keep what they have

The verdict is in the book, with each rebuild that waits for the same computation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from cdc.errors import ViewError
from views.maintain.book import Book
from views.rebuild import Checked, Rebuild, RebuildState, Stage

COMPARED: Final = "what was computed is compared with Postgres"
Compare = Callable[[str, str, threading.Event], Checked]
"""Compares what a group has computed of a view, and nobody reads, with its SQL: (view, group, stop). Ends with
`stop`."""


def no_compare(view: str, group: str, stop: threading.Event) -> Checked:
    raise ViewError("nobody can compare here", detail=f"{view}, as group {group} has it", hint="headwater up")


def asked_for(book: Book, view: str, applied_at_s: float) -> list[Rebuild]:
    return [each for each in book.rebuilds if (each.view, each.applied_at_s) == (view, applied_at_s)]


def is_awaited(book: Book, view: str) -> bool:
    """Whether a rebuild waits for the view to be computed anew, whichever application of it."""
    return any(each.view == view and each.stage is Stage.COMPUTE and not each.is_over for each in book.rebuilds)


def may_be_shown(book: Book, view: str, applied_at_s: float) -> bool:
    """Whether that application of the view was found equal, and somebody who asked for it wants it shown."""
    return any(
        each.computed is not None
        and each.computed.is_equal
        and (each.stage is not Stage.COMPUTE or each.state is RebuildState.RUNNING)
        for each in asked_for(book, view, applied_at_s)
    )


def is_compared(book: Book, view: str, applied_at_s: float) -> bool:
    """Whether there is a verdict on it: nobody compares it now, or will before somebody asks."""
    return any(each.computed is not None for each in asked_for(book, view, applied_at_s))


def computed_with(book: Book, rebuild: Rebuild) -> list[Rebuild]:
    """Those of other views that one request had computed together with it, and that are not shown yet: all are shown at
    once."""
    return [
        each
        for each in book.rebuilds
        if (each.applied_at_s, each.stage) == (rebuild.applied_at_s, Stage.COMPUTE)
        and each.view != rebuild.view
        and not each.is_over
    ]


def held_by(book: Book, rebuild: Rebuild) -> str:
    """Why one that was found equal is not shown: others that are computed with it wait for somebody."""
    if rebuild.stage is not Stage.COMPUTE:
        return ""
    waiting = {each.view for each in computed_with(book, rebuild) if each.state is RebuildState.READY}
    told = " and ".join(sorted(view for view in waiting if not may_be_shown(book, view, rebuild.applied_at_s)))
    return f"waits until {told} may be shown with it: headwater switch, or headwater rebuild --cancel" if told else ""


def with_verdict(waiting: Iterable[Rebuild], computed: Checked) -> list[Rebuild]:
    """Those that wait for a computation which was found equal. Who asked to switch by hand is waited for."""
    return [
        msgspec.structs.replace(
            each,
            computed=computed,
            reason="",
            state=RebuildState.READY if each.state is RebuildState.RUNNING and not each.switches else each.state,
        )
        for each in waiting
    ]


def switched(ready: Rebuild) -> Rebuild:
    """Somebody wants it shown: it is compared once more, because that may be long ago, and goes on by itself."""
    return msgspec.structs.replace(ready, state=RebuildState.RUNNING, switches=True, computed=None)
