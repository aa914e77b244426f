"""Which group a new one takes the place of, and what it tells: with groups that only say where they are."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from views.maintain import showing
from views.maintain.registry import ViewState, ViewStatus
from views.maintain.runner import GroupRunner
from views.maintain.showing import Showing
from views.maintain.statuses import Statuses

ERA = 7
REACHED = 40
"""Where whoever published last has published up to."""


@dataclass
class Runner:
    """Of one view, v."""

    id: str
    told: bool = True
    era: int = ERA
    is_live: bool = True
    last: str = ""
    """Who published the view last."""
    published: dict[str, Any] | None = None
    whole: Collection[str] = ()
    offset: int = REACHED - 3
    lock: threading.RLock = field(default_factory=threading.RLock)
    live: list[str] = field(default_factory=lambda: ["v"])

    @property
    def group(self) -> Any:
        spec = SimpleNamespace(id=self.id, era=self.era, definitions={"v": "select"})
        return SimpleNamespace(
            id=self.id, spec=spec, live=self.live, store=lambda _view: SimpleNamespace(columns=("id",))
        )

    @property
    def progress(self) -> Any:
        return SimpleNamespace(is_live=self.is_live, gap="")

    def holders(self) -> dict[str, Any]:
        return {"v": SimpleNamespace(group=self.last, era=ERA, offset=REACHED)} if self.last else {}

    def is_told(self, _view: str) -> bool:
        return self.told

    def pause(self, views: Iterable[str], _why: str) -> None:
        self.live = [view for view in self.live if view not in views]

    def go_live(self, told: Mapping[str, Any], whole: Collection[str]) -> None:
        self.published, self.whole, self.is_live = dict(told), whole, True


@pytest.fixture(autouse=True)
def contents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showing, "as_changes", lambda new, _view: f"all of {new.id}")
    monkeypatch.setattr(showing, "difference", lambda old, new, _view: f"{old.id} to {new.id}")


def run(runner: GroupRunner, end: int) -> None:
    cast(Runner, runner).offset = max(end, runner.offset)


def shown(new: Runner, *others: Runner) -> list[str]:
    """Goes live; which groups are let go of."""
    runners = {each.id: cast(GroupRunner, each) for each in (*others, new)}
    retired: list[str] = []
    views = Statuses({"v": ViewStatus(ViewState.BUILDING, new.id)})
    Showing(views, runners, retired.append, run).go_live(cast(GroupRunner, new))
    assert (views["v"].state is ViewState.LIVE) == (new.published is not None)
    return sorted(retired)


def test_it_takes_the_place_of_the_one_that_published_last() -> None:
    first, second, new = Runner("a", live=[]), Runner("b"), Runner("c", is_live=False, last="b")
    assert shown(new, first, second) == ["a", "b"]
    assert (new.published, set(new.whole)) == ({"v": "b to c"}, set())
    assert second.live == [], "nobody publishes beside it"
    assert new.offset == REACHED, "no reader goes back in time"


def test_the_first_one_tells_all() -> None:
    new = Runner("a", is_live=False)
    assert shown(new) == []
    assert (new.published, set(new.whole)) == ({"v": "all of a"}, {"v"})


def test_one_within_an_epoch_is_waited_for() -> None:
    old, new = Runner("a", told=False), Runner("b", is_live=False, last="a")
    assert shown(new, old) == []
    assert new.published is None
    assert old.live == ["v"], "else it could not tell what it has begun"
    old.told = True
    shown(new, old)
    assert new.published == {"v": "a to b"}


@pytest.mark.parametrize("old", [Runner("a", told=False, era=ERA - 1), Runner("a", told=False, live=[])])
def test_where_nobody_will_tell_what_was_begun_all_is_told(old: Runner) -> None:
    new = Runner("b", is_live=False, last="a")
    shown(new, old)
    assert (new.published, set(new.whole)) == ({"v": "all of b"}, {"v"})
