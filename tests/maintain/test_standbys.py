"""Which definitions are kept that readers left, and which go: with groups that only say where they are."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc.errors import LogError
from views.maintain.book import Book
from views.maintain.groups import _needs
from views.maintain.registry import Registry, ViewState, ViewStatus, Wanted, WantedView
from views.maintain.runner import GroupRunner
from views.maintain.showing import Showing
from views.maintain.standing_by import StandingBy, stands_by
from views.maintain.statuses import Statuses
from views.maintain.wanting import Wanting

ERA = 7
TEXT = "select"


@dataclass
class Lock:
    """Somebody else comes first, once."""

    before: list[Callable[[], object]] = field(default_factory=list)

    def __enter__(self) -> None:
        while self.before:
            self.before.pop()()

    def __exit__(self, *_error: object) -> None: ...


@dataclass
class Runner:
    """Of one view, v, which stands by."""

    id: str
    live: list[str] = field(default_factory=lambda: ["v"])
    kept_since_s: float = 0.0
    keep_until_s: float = math.inf
    era: int = ERA
    lock: Lock = field(default_factory=Lock)
    is_live: bool = False
    seed_from: str = ""

    @property
    def group(self) -> Any:
        given: dict[str, Any] = {"definitions": {"v": TEXT}, "tables": [], "skip_before": {}}
        given["seed_from"] = self.seed_from
        kept = {"kept_since_s": self.kept_since_s, "keep_until_s": self.keep_until_s}
        spec = SimpleNamespace(id=self.id, era=self.era, start=0, **kept, **given)
        return SimpleNamespace(spec=spec, live=self.live)

    @property
    def is_idle(self) -> bool:
        return not self.live

    @property
    def progress(self) -> Any:
        return SimpleNamespace(is_live=self.is_live)

    def pause(self, views: Iterable[str], _why: str) -> None:
        with self.lock:
            self.live = [view for view in self.live if view not in views]

    def step_forward(self) -> None:
        with self.lock:
            self.keep_until_s = 0.0

    def go_on(self, view: str) -> None:
        self.live.append(view)

    def stand_by(self, view: str, _since_s: float, until_s: float) -> None:
        with self.lock:
            self.live, self.keep_until_s, self.is_live = [view], until_s, False


@dataclass
class Kept:
    """What is asked of the others, in order."""

    runners: dict[str, Runner] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def standing_by(self, *runners: Runner) -> StandingBy:
        self.runners = {each.id: each for each in runners}
        return StandingBy(
            Registry(cast(Any, None)),
            cast(dict[str, GroupRunner], self.runners),
            60.0,
            open=cast(Any, None),
            leave=lambda runner: self.asked.append(f"{_seen(runner)} leaves"),
            follow=lambda runner: self.asked.append(f"{_seen(runner)} follows"),
            retire=self._retire,
        )

    def _retire(self, group: str) -> None:
        self.runners.pop(group, None)


def _seen(runner: GroupRunner) -> str:
    return f"{'live' if runner.progress.is_live else 'unseen'} {runner.group.spec.id}"


def back(standing_by: StandingBy) -> str | None:
    found = standing_by.back("v", WantedView(TEXT, [], 0.0, "batch"), ERA)
    return found.group.spec.id if found is not None else None


def test_what_readers_have_left_is_fed_by_itself() -> None:
    """It leaves those that ride when it is live no more, or it could come to them right after."""
    kept, old = Kept(), Runner("a", live=[], keep_until_s=0.0, is_live=True)
    kept.standing_by(old).keep(cast(GroupRunner, old), "v")
    assert (kept.asked, old.live) == (["unseen a leaves", "unseen a follows"], ["v"])


def test_what_readers_have_not_left_after_all_is_fed_and_told_again() -> None:
    kept, old = Kept(), Runner("a", live=[], keep_until_s=0.0, is_live=True)
    kept.standing_by(old).go_on(cast(GroupRunner, old), "v")
    assert (kept.asked, old.live, old.keep_until_s) == (["live a leaves", "live a follows"], ["v"], 0.0)


def test_what_was_taken_back_is_not_let_go() -> None:
    """Else the view would wait for a group that is gone."""
    kept, old = Kept(), Runner("a")
    standing_by = kept.standing_by(old)
    taken: list[str | None] = []
    old.lock.before.append(lambda: taken.append(back(standing_by)))
    standing_by._let_go_others("v")
    assert (taken, old.live, list(kept.runners)) == (["a"], ["v"], ["a"])


def test_what_was_let_go_is_not_taken_back() -> None:
    kept, old = Kept(), Runner("a")
    standing_by = kept.standing_by(old)
    old.lock.before.append(lambda: standing_by._let_go_others("v"))
    assert back(standing_by) is None
    assert (old.live, kept.runners) == ([], {})


def test_who_stands_by_goes_when_its_time_is_over_or_it_cannot_go_on() -> None:
    """One that is paused never reads on: the log would be kept for it, and what it holds of anybody."""
    now, kept = time.time(), Kept()
    runners = [
        Runner("stands by"),
        Runner("has failed", live=[]),
        Runner("has just failed", live=[], kept_since_s=now),
        Runner("over", keep_until_s=now - 1),
        Runner("over and failed", live=[], kept_since_s=now, keep_until_s=now - 1),
        Runner("built, failed", live=[], keep_until_s=0.0),
    ]
    kept.standing_by(*runners).let_go_old()
    assert list(kept.runners) == ["stands by", "has just failed", "built, failed"]


@pytest.mark.parametrize(
    ("group", "is_fed"),
    [
        (Runner("a"), True),
        (Runner("paused", live=[]), False),
        (Runner("over", keep_until_s=1.0), False),
        (Runner("of another era", era=ERA - 1), False),
        (Runner("of a view", keep_until_s=0.0), False),
    ],
    ids=lambda given: given.id if isinstance(given, Runner) else "",
)
def test_who_stands_by_after_a_restart(group: Runner, is_fed: bool) -> None:
    assert stands_by(group.group, ERA) is is_fed
    for state in (ViewState.WAITING, ViewState.BUILDING):
        needs = _needs("v", ViewStatus(state, "new", serving="served"), group.group)
        assert needs == (not group.keep_until_s), "what is built replaces what readers have, not what they left"


def wanting(standing_by: StandingBy, kept: Kept) -> tuple[Wanting, Any]:
    """Readers of v are served from a, which goes on with u; b is built, and somebody takes that back."""
    readers = Runner("a", live=["u", "v"], keep_until_s=0.0, is_live=True)
    kept.runners |= {"a": readers, "b": Runner("b", keep_until_s=0.0)}
    views = Statuses({"v": ViewStatus(ViewState.READY, "b", 1.0, serving="a")})
    nobody = cast(Any, None)
    showing = Showing(views, nobody, nobody, nobody, standing_by, unreviewed={"v"})
    rebuilder = SimpleNamespace(keeper=SimpleNamespace(book=Book()), tally=SimpleNamespace(views=lambda: {"v"}))
    before: list[Any] = [None, None, None, None, 1, views, kept.runners]
    others: list[Any] = [showing, standing_by, None, rebuilder, None, None]
    made = Wanting(*before, *others, open=cast(Any, None), retire=kept._retire, note=lambda: None)
    return made, showing


TAKEN_BACK = Wanted({"v": WantedView(TEXT, [], 0.5, "batch")})


def test_what_was_begun_for_readers_who_stay_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it stood by with the definition that they have, and answered for who wants it computed anew."""
    kept = Kept()
    standing_by = kept.standing_by(Runner("begun", seed_from="a"), Runner("left"))
    made, showing = wanting(standing_by, kept)
    monkeypatch.setattr(made, "era", lambda: SimpleNamespace(era=ERA))
    assert made.apply(TAKEN_BACK)
    assert (sorted(kept.runners), made.views["v"].group, showing.unreviewed) == (["a", "left"], "a", set())


def test_what_is_taken_back_while_kafka_is_away_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept()
    made, showing = wanting(kept.standing_by(), kept)

    def away() -> None:
        raise LogError("Kafka cannot be reached")

    monkeypatch.setattr(made, "era", away)
    assert not made.apply(TAKEN_BACK), "it is tried again"
    assert (sorted(kept.runners), made.views["v"].group, showing.unreviewed) == (["a", "b"], "b", {"v"})
