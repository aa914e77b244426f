"""What was to be computed anew and came to nothing: readers' own group goes on, so the view is as live as before."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc.errors import LogError
from views.maintain.book import Book
from views.maintain.registry import ViewState, ViewStatus, WantedView
from views.maintain.runner import GroupRunner
from views.maintain.standing_by import StandingBy
from views.maintain.statuses import Statuses
from views.maintain.wanting import LOG_LOST, Wanting
from views.rebuild import Origin, Rebuild

ERA = 7


@dataclass
class Runner:
    id: str
    text: str = "select"
    era: int = ERA
    live: list[str] = field(default_factory=lambda: ["v"])
    is_live: bool = True
    until_s: float = 0.0
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def is_idle(self) -> bool:
        return not self.live

    @property
    def progress(self) -> Any:
        return SimpleNamespace(is_live=self.is_live)

    @property
    def group(self) -> Any:
        spec = SimpleNamespace(
            id=self.id,
            era=self.era,
            definitions={"v": self.text},
            tables=[],
            skip_before={},
            keep_until_s=self.until_s,
        )
        return SimpleNamespace(spec=spec, live=self.live)

    def pause(self, views: Iterable[str], _why: str) -> None:
        self.live = [view for view in self.live if view not in views]

    def step_forward(self) -> None:
        self.until_s = 0.0


def wanting(status: ViewStatus, *runners: Runner, book: Book | None = None) -> tuple[Wanting, list[str]]:
    retired: list[str] = []
    made = object.__new__(Wanting)
    made.views = Statuses({"v": status})
    made.runners = {each.id: cast(GroupRunner, each) for each in runners}
    made.retire = retired.append
    made.standing_by = cast(Any, SimpleNamespace(spare=lambda stayed, view: None))
    made.rebuilder = cast(Any, SimpleNamespace(keeper=SimpleNamespace(book=book or Book())))
    made.era = lambda: cast(Any, SimpleNamespace(era=ERA))  # type: ignore[method-assign]
    return made, retired


def wanted(applied_at_s: float, **given: Any) -> WantedView:
    return WantedView("select", [], applied_at_s, "b", **given)


def test_one_that_failed_while_it_was_computed_is_live_as_it_was() -> None:
    new = Runner("new", is_live=False, live=[])
    made, retired = wanting(
        ViewStatus(ViewState.PAUSED, "new", 5.0, "division by zero", serving="old"), Runner("old"), new
    )
    made.look()
    found = made.views["v"]
    assert (found.state, found.group, found.applied_at_s, found.reason) == (ViewState.LIVE, "old", 5.0, "")
    assert found.failed == "division by zero"
    assert (found.stale, retired) == ("", ["new"])


@pytest.mark.parametrize(
    "old", [Runner("old", text="select other"), Runner("old", live=[]), Runner("old", era=ERA - 1)]
)
def test_where_readers_have_something_else_or_nothing_more_it_stays_paused(old: Runner) -> None:
    status = ViewStatus(ViewState.PAUSED, "new", 5.0, "division by zero", serving="old")
    made, retired = wanting(status, old, Runner("new", is_live=False, live=[]))
    made.look()
    assert (made.views["v"], retired) == (status, [])


@pytest.mark.parametrize("state", [ViewState.LIVE, ViewState.HELD])
def test_one_that_cannot_be_begun_changes_nothing(state: ViewState) -> None:
    made, _ = wanting(ViewStatus(state, "old", 4.0, "as it was", serving="old"), Runner("old"))
    assert not made._not_begun({"v": wanted(5.0)}, LogError(LOG_LOST, hint="headwater recover"))
    found = made.views["v"]
    assert (found.state, found.group, found.applied_at_s, found.reason) == (state, "old", 5.0, "as it was")
    assert LOG_LOST in found.failed
    made.views.renew("v", ViewState.BUILDING, "new", 6.0)
    assert made.views["v"].failed == "", "the next one is another matter"


def test_another_definition_that_cannot_be_begun_says_so() -> None:
    made, _ = wanting(ViewStatus(ViewState.LIVE, "old", 4.0, serving="old"), Runner("old", text="select other"))
    made._not_begun({"v": wanted(5.0)}, LogError(LOG_LOST, hint="headwater recover"))
    assert (made.views["v"].state, made.views["v"].group) == (ViewState.PAUSED, "old")


def test_what_nobody_has_asked_for_is_given_up_after_a_while() -> None:
    """Who wanted it was cut off before they asked for the rebuild."""
    asked_at_s = time.time() - 100

    def after(applied_at_s: float, book: Book) -> ViewStatus:
        status = ViewStatus(ViewState.BUILDING, "new", applied_at_s, serving="old", is_computed=True)
        made, _ = wanting(status, Runner("old"), Runner("new", is_live=False), book=book)
        made.look()
        return made.views["v"]

    asked = Rebuild("r1", "v", "cache", 2, Origin.LOG, asked_at_s, applied_at_s=asked_at_s)
    assert after(asked_at_s, Book(rebuilds=(asked,))).state is ViewState.BUILDING
    assert after(time.time(), Book()).state is ViewState.BUILDING
    assert (after(asked_at_s, Book()).state, after(asked_at_s, Book()).group) == (ViewState.LIVE, "old")


def test_to_compute_anew_is_never_to_take_back_what_readers_left() -> None:
    """Though that is defined alike: only who names it gets it."""
    left = Runner("left", is_live=False, until_s=time.time() + 100)
    standing = StandingBy(
        cast(Any, None),
        {"left": cast(GroupRunner, left)},
        100.0,
        open=lambda group: cast(GroupRunner, left),
        leave=lambda runner: None,
        follow=lambda runner: None,
        retire=lambda group: None,
    )
    assert standing.back("v", wanted(5.0, is_compared=True), ERA, "select") is None
    assert standing.back("v", wanted(5.0, goes_back_to="left"), ERA, "select") is not None
    left.until_s = time.time() + 100
    assert standing.back("v", wanted(5.0), ERA, "select other") is not None, "readers have another definition now"
