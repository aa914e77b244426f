"""Which group a new one takes the place of, and what it tells: with groups that only say where they are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from views.maintain import showing
from views.maintain.registry import Review, ViewState, ViewStatus, Wanted, WantedView
from views.maintain.runner import GroupRunner
from views.maintain.showing import Showing
from views.maintain.standing_by import StandingBy
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
    columns: str = "id integer"
    text: str = "select"

    @property
    def group(self) -> Any:
        spec = SimpleNamespace(id=self.id, era=self.era, definitions={"u": "select", "v": self.text})
        return SimpleNamespace(
            id=self.id, spec=spec, live=self.live, store=lambda _view: SimpleNamespace(identity=self.columns)
        )

    @property
    def is_idle(self) -> bool:
        return not self.live

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

    def difference(old: Any, new: Any, _view: str, *, every: bool) -> str:
        return f"{old.id} to {new.id}" + (", every row" if every else "")

    monkeypatch.setattr(showing, "difference", difference)


@dataclass
class Beside:
    """Who keeps what readers leave."""

    is_prepared: bool = True
    kept: list[tuple[str, str]] = field(default_factory=list)
    standing: Collection[str] = ()

    def is_kept(self, runner: Runner) -> bool:
        return runner.id in self.standing

    def prepare(self, _replaced: Runner, _views: Collection[str]) -> bool:
        return self.is_prepared

    def keep(self, replaced: Runner, view: str) -> None:
        self.kept.append((replaced.id, view))

    def go_on(self, replaced: Runner, view: str) -> None:
        replaced.live = [*replaced.live, view]


def run(runner: GroupRunner, end: int) -> None:
    cast(Runner, runner).offset = max(end, runner.offset)


def shown(
    new: Runner, *others: Runner, beside: Beside | None = None, run: Callable[[GroupRunner, int], None] = run
) -> list[str]:
    """Goes live; which groups are let go of."""
    runners = {each.id: cast(GroupRunner, each) for each in (*others, new)}
    retired: list[str] = []
    views = Statuses({"v": ViewStatus(ViewState.BUILDING, new.id)})
    standing_by = cast(StandingBy, beside or Beside())
    Showing(views, runners, retired.append, run, standing_by).go_live(cast(GroupRunner, new))
    assert (views["v"].state is ViewState.LIVE) == (new.published is not None and "v" in new.live)
    return sorted(retired)


def test_it_takes_the_place_of_the_one_that_published_last() -> None:
    first, second, new = Runner("a", live=[]), Runner("b"), Runner("c", is_live=False, last="b")
    assert shown(new, first, second) == ["a", "b"]
    assert (new.published, set(new.whole)) == ({"v": "b to c"}, set())
    assert second.live == [], "nobody publishes beside it"
    assert new.offset == REACHED, "no reader goes back in time"


@pytest.mark.parametrize("columns", ["id bigint", "id integer, name text"])
def test_one_with_other_columns_or_types_tells_every_row_anew(columns: str) -> None:
    new = Runner("b", is_live=False, last="a", columns=columns)
    shown(new, Runner("a"))
    assert (new.published, set(new.whole)) == ({"v": "a to b, every row"}, {"v"})


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


def test_one_that_has_still_to_tell_what_the_new_one_has_read_is_waited_for() -> None:
    """Else the changes between the two were part of what is told silently."""
    old, new = Runner("a", offset=REACHED - 1), Runner("b", is_live=False, last="a", offset=REACHED)
    shown(new, old)
    assert (new.published, old.live) == (None, ["v"])
    old.offset = REACHED
    shown(new, old)
    assert new.published == {"v": "a to b"}


def test_what_was_published_and_cannot_be_read_yet_counts() -> None:
    """Kafka shows a transaction a moment after it was committed: the frontier may still be the one before."""
    old, new = Runner("a", offset=REACHED + 20), Runner("b", is_live=False, last="a")
    shown(new, old)
    assert new.published == {"v": "a to b"}
    assert new.offset == old.offset, "no reader goes back in time, and nothing is told twice"


def test_those_that_stand_apart_are_stopped_together_or_not_at_all() -> None:
    one, other = Runner("a", offset=REACHED), Runner("b", offset=REACHED + 5)
    new = Runner("c", is_live=False, last="b")
    shown(new, one, other)
    assert (new.published, one.live, other.live) == (None, ["v"], ["v"])
    one.offset = other.offset
    shown(new, one, other)
    assert (new.published, one.live, other.live) == ({"v": "b to c"}, [], [])


def test_one_that_nobody_wants_any_more_is_not_shown() -> None:
    new = Runner("a", is_live=False)
    views = Statuses({"v": ViewStatus(ViewState.BUILDING, "b")})
    standing_by = cast(StandingBy, Beside())
    assert not Showing(views, {}, lambda group: None, run, standing_by).go_live(cast(GroupRunner, new))
    assert new.published is None


@pytest.mark.parametrize("old", [Runner("a", told=False, era=ERA - 1), Runner("a", told=False, live=[])])
def test_where_nobody_will_tell_what_was_begun_all_is_told(old: Runner) -> None:
    new = Runner("b", is_live=False, last="a")
    shown(new, old)
    assert (new.published, set(new.whole)) == ({"v": "all of b"}, {"v"})


def test_what_was_defined_otherwise_is_kept_beside_it() -> None:
    beside = Beside()
    shown(Runner("b", is_live=False, last="a"), Runner("a"), beside=beside)
    assert beside.kept == [], "the same, computed anew"
    shown(Runner("c", is_live=False, last="a", text="select other"), Runner("a"), beside=beside)
    assert beside.kept == [("a", "v")]


def test_readers_leave_a_group_that_goes_on_when_what_they_had_is_secured() -> None:
    beside = Beside(is_prepared=False)
    old, new = Runner("a", live=["u", "v"]), Runner("b", is_live=False, last="a", text="select other")
    shown(new, old, beside=beside)
    assert (new.published, old.live) == (None, ["u", "v"])
    beside.is_prepared = True
    shown(new, old, beside=beside)
    assert (new.published, old.live, beside.kept) == ({"v": "a to b"}, ["u"], []), "it goes on with the other"


def fails(runner: GroupRunner, end: int) -> None:
    runner.pause(["v"], "division by zero")
    if not runner.is_idle:
        run(runner, end)


@pytest.mark.parametrize("live", [["v"], ["u", "v"]], ids=["alone", "with others"])
def test_what_readers_still_have_is_not_put_aside(live: list[str]) -> None:
    """It would read on untold, while its frontier stays where its readers are. It goes on for them."""
    old, new = Runner("a"), Runner("b", is_live=False, last="a", live=live, text="select other")
    beside = Beside()
    shown(new, old, beside=beside, run=fails)
    assert (new.live, old.live, beside.kept) == (live[:-1], ["v"], [])
    assert (new.published is None) == (live == ["v"])


def test_one_that_was_put_back_on_the_way_is_not_shown_yet() -> None:
    old, new = Runner("a"), Runner("b", is_live=False, last="a", text="select other")
    beside = Beside()
    shown(new, old, beside=beside, run=lambda runner, end: None)
    assert (new.published, old.live, beside.kept) == (None, ["v"], [])
    shown(new, old, beside=beside)
    assert (new.published, old.live, beside.kept) == ({"v": "a to b"}, [], [("a", "v")])


def test_what_would_change_is_asked_of_what_is_built_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of a definition that stands by meanwhile: it looked again with every turn, at all rows."""
    reviewed: list[str] = []
    monkeypatch.setattr(showing, "review", lambda old, new, _view: reviewed.append(f"{old.id} to {new.id}") or Review())
    stands_by, live, new = (Runner(name, is_live=name == "b", last="b") for name in "abc")
    views = Statuses({"v": ViewStatus(ViewState.BUILDING, "c", serving="b")})
    runners = {each.id: cast(GroupRunner, each) for each in (stands_by, live, new)}
    beside = cast(StandingBy, Beside(standing="a"))
    shows = Showing(views, runners, lambda group: None, run, beside, unreviewed={"v"})
    for each in (stands_by, new, stands_by, new):
        assert not shows.may_show(cast(GroupRunner, each))
    assert (reviewed, views["v"].state) == (["b to c"], ViewState.READY)
    shows.unreviewed = set()
    assert shows.may_show(cast(GroupRunner, new))
    assert not shows.may_show(cast(GroupRunner, stands_by))


def computing(new: Runner, *others: Runner, beside: Beside | None = None) -> Showing:
    """Of a view that a rebuild computes anew."""
    runners = {each.id: cast(GroupRunner, each) for each in (*others, new)}
    serving = others[0].id if others else ""
    views = Statuses({"v": ViewStatus(ViewState.BUILDING, new.id, 5.0, serving=serving)})
    made = Showing(views, runners, lambda group: None, run, cast(StandingBy, beside or Beside()))
    made.wants(Wanted({"v": WantedView("select", [], 5.0, "b", is_compared=True)}))
    return made


def test_what_a_rebuild_computes_is_not_shown_before_it_was_found_equal() -> None:
    old, new = Runner("a"), Runner("b", is_live=False, last="a")
    made, runner = computing(new, old), cast(GroupRunner, new)
    assert (made.may_show(runner), made.is_awaited(runner)) == (False, True)
    made.is_compared = lambda view, applied_at_s: True
    assert not made.is_awaited(runner), "a person who switches is, and it need not be close to the log's end for that"
    assert made.views["v"].is_computed
    assert made.views["v"].state is ViewState.BUILDING, "nobody is asked for a decision"
    made.is_equal = lambda view, applied_at_s: (view, applied_at_s) == ("v", 5.0)
    assert (made.may_show(runner), made.is_awaited(runner)) == (True, False)
    assert made.go_live(runner)
    assert not made.views["v"].is_computed


def test_what_takes_the_place_of_an_era_that_is_over_waits_for_no_comparison() -> None:
    """Its rows are known to be wrong, and who asked for the comparison may have given it up long ago."""
    new = Runner("b", is_live=False)
    assert computing(new, Runner("a", era=ERA - 1)).may_show(cast(GroupRunner, new))


def test_what_nobody_has_yet_waits_for_no_comparison() -> None:
    new = Runner("b", is_live=False)
    assert computing(new).may_show(cast(GroupRunner, new))


def test_who_stands_by_is_not_awaited() -> None:
    old, new = Runner("a", is_live=False), Runner("b")
    made = computing(new, old)
    made.shown(cast(GroupRunner, new))
    assert not made.is_awaited(cast(GroupRunner, old))


def test_what_was_computed_anew_leaves_one_to_go_back_to() -> None:
    """Of several views that leave a group together each would need tables of its own: they are let go."""
    beside = Beside()
    made = computing(new := Runner("b", is_live=False, last="a"), Runner("a"), beside=beside)
    made.go_live(cast(GroupRunner, new))
    assert beside.kept == [("a", "v")]
    both = Runner("a", live=["u", "v"])
    made = computing(new := Runner("b", is_live=False, last="a", live=["u", "v"]), both)
    made.compared = {"u", "v"}
    assert made._left(cast(GroupRunner, new)) == []
    made.compared = {"v"}
    assert [views for _, views in made._left(cast(GroupRunner, new))] == [["v"]]
