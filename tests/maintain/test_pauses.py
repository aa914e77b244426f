"""Views of one group stand at one position: they are paused, and go on, together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from cdc.errors import ViewError
from views.maintain.pauses import Pauses
from views.maintain.registry import ViewState, ViewStatus
from views.maintain.runner import GroupRunner
from views.maintain.statuses import Statuses


def runner(*live: str) -> GroupRunner:
    return cast(GroupRunner, SimpleNamespace(group=SimpleNamespace(live=dict.fromkeys(live))))


def pauses(**views: ViewStatus) -> tuple[Pauses, list[GroupRunner]]:
    left: list[GroupRunner] = []
    runners = {"old": runner("a", "b"), "new": runner("b")}
    return Pauses(set(), Statuses(views), runners, left.append), left


def test_neither_is_done_by_halves() -> None:
    live = ViewStatus(ViewState.LIVE, "old", serving="old")
    made, left = pauses(a=live, b=live)
    with pytest.raises(ViewError, match="a is kept together with b") as refused:
        made.hold(["a"], "paused")
    assert refused.value.hint.startswith("headwater pause a b")
    made.hold(["a", "b"], "paused")
    assert left[0] is made.runners["old"]
    with pytest.raises(ViewError, match="a is kept together with b") as refused:
        made.release(["a"])
    assert refused.value.hint == "headwater resume a b"
    assert (made.held, made.views["a"].state) == ({"a", "b"}, ViewState.HELD)
    made.release(["a", "b"])
    assert (made.held, made.views["a"].state) == (set(), ViewState.LIVE)


def test_what_readers_are_served_from_goes_on_with_what_is_built() -> None:
    """One that was applied again while it was paused waits for the one that it replaces."""
    made, _ = pauses(
        a=ViewStatus(ViewState.HELD, "old", serving="old"), b=ViewStatus(ViewState.BUILDING, "new", serving="old")
    )
    made.held |= {"a", "b"}
    assert made.release(["a", "b"]) == list(made.runners.values())
