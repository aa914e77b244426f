"""A rebuild whose view is computed anew: what pausing, resuming and cancelling it ask of who computes it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from cdc.errors import ViewError
from tests.waiting import eventually
from views.maintain import rebuilding, trying
from views.maintain.booking import BookKeeper
from views.maintain.comparing import may_be_shown
from views.maintain.computing import Computing, is_cancelled, is_paused
from views.maintain.obeying import Obeying
from views.maintain.orders import Order, Orders, Verb
from views.maintain.rebuilding import Rebuilder
from views.maintain.registry import Registry, ViewState, ViewStatus
from views.maintain.sinking import Sinking
from views.rebuild import Checked, Origin, Rebuild, RebuildState, Stage
from views.sinks.lane import LaneState

AT_S = 5.0


class Bench:
    def __init__(self, folder: Path) -> None:
        self.registry = Registry(folder)
        self.given_up: list[tuple[str, float]] = []
        self.gone_on: list[str] = []
        self.can_be_taken_back = True
        self.status = ViewStatus(ViewState.BUILDING, "new", AT_S, serving="old")
        lane = SimpleNamespace(
            number=1, status=SimpleNamespace(state=LaneState.RIDING), kind=SimpleNamespace(holds_rows=True)
        )
        sinking = SimpleNamespace(
            shown=lambda view, sink: lane,
            lanes=list,
            leave=lambda *name: None,
            mismatched=list,
            side=lambda *name: None,
            remove=lambda *name: True,
            is_used=lambda *name: False,
            is_unlisted=lambda *name: False,
        )
        self.compared: list[tuple[str, str]] = []
        self.may_end = threading.Event()
        self.may_end.set()
        self.verdict: Checked | ViewError = Checked(True, 7)
        computing = Computing(lambda view: (30, 120), self._take_back, self.gone_on.append, compare=self._compare)
        self.keeper = BookKeeper(self.registry)
        self.rebuilder = Rebuilder(self.keeper, cast(Sinking, sinking), lambda view: self.status, computing=computing)
        self.orders = Orders(folder)
        self.obeying = Obeying(self.orders, self.keeper, self.rebuilder)

    def _take_back(self, view: str, applied_at_s: float) -> bool:
        assert is_cancelled(self.keeper.book, view, applied_at_s), "who is cut off here does it again"
        self.given_up.append((view, applied_at_s))
        return self.can_be_taken_back

    def _compare(self, view: str, group: str, stop: threading.Event) -> Checked:
        self.compared.append((view, group))
        assert self.may_end.wait(30)
        if isinstance(self.verdict, ViewError):
            raise self.verdict
        return self.verdict

    def is_computed(self) -> None:
        self.status = ViewStatus(ViewState.BUILDING, "new", AT_S, serving="old", is_computed=True)

    def until(self, is_so: Callable[[], bool]) -> None:
        def looked() -> None:
            self.obeying.look()
            assert is_so()

        eventually(looked, 10)

    def found(self, id_: str) -> Rebuild:
        rebuild = self.keeper.book.rebuild(id_)
        assert rebuild is not None
        return rebuild

    @property
    def may_be_shown(self) -> bool:
        return may_be_shown(self.keeper.book, "v", AT_S)

    def asked(self, order: Order) -> str:
        self.orders.give(order)
        self.obeying.look()
        answer = self.keeper.book.answer(order.id)
        assert answer is not None
        assert answer.is_done, answer
        return answer.fact

    def begun(self, sink: str, *, switches: bool = True) -> str:
        order = Order(Verb.REBUILD, "v", sink, origin=Origin.LOG, applied_at_s=AT_S, switches=switches)
        self.asked(order)
        return order.id


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_how_far_it_is_follows_from_the_log(bench: Bench) -> None:
    id_ = bench.begun("cache")
    bench.obeying.look()
    found = bench.keeper.book.rebuild(id_)
    assert found is not None
    assert (found.stage, found.done, found.total) == (Stage.COMPUTE, 30, 120)
    assert found.rows_per_s > 0
    assert found.left_s is not None
    bench.status = ViewStatus(ViewState.LIVE, "new", AT_S, serving="new")
    bench.obeying.look()
    found = bench.keeper.book.rebuild(id_)
    assert found is not None
    assert (found.stage, found.done, found.total) == (Stage.FILL, 0, 0)


def test_cancelling_takes_the_view_back(bench: Bench) -> None:
    id_ = bench.begun("cache")
    assert "no reader has seen it" in bench.asked(Order(Verb.CANCEL, rebuild=id_))
    assert bench.given_up == [("v", AT_S)]


def test_what_others_still_wait_for_is_computed_on(bench: Bench) -> None:
    one, other = bench.begun("cache"), bench.begun("search")
    assert f"computed on for rebuild {other}" in bench.asked(Order(Verb.CANCEL, rebuild=one))
    assert bench.given_up == []
    assert "no reader has seen it" in bench.asked(Order(Verb.CANCEL, rebuild=other))
    assert bench.given_up == [("v", AT_S)]


def test_what_comes_too_late_says_so(bench: Bench) -> None:
    id_ = bench.begun("cache")
    bench.can_be_taken_back = False
    assert "no reader" not in bench.asked(Order(Verb.CANCEL, rebuild=id_))


def test_one_that_is_cancelled_later_leaves_the_view_alone(bench: Bench) -> None:
    id_ = bench.begun("cache")
    bench.status = ViewStatus(ViewState.LIVE, "new", AT_S, serving="new")
    bench.obeying.look()
    bench.asked(Order(Verb.CANCEL, rebuild=id_))
    assert bench.given_up == []
    assert not is_cancelled(bench.keeper.book, "v", AT_S)


def test_computing_stands_still_when_all_who_wait_for_it_are_paused(bench: Bench) -> None:
    one, other = bench.begun("cache"), bench.begun("search")
    assert f"computed on for rebuild {other}" in bench.asked(Order(Verb.PAUSE, rebuild=one))
    assert not is_paused(bench.keeper.book, "v", AT_S)
    assert bench.asked(Order(Verb.PAUSE, rebuild=other)) == f"rebuild {other} is paused"
    assert is_paused(bench.keeper.book, "v", AT_S)
    assert not is_paused(bench.keeper.book, "v", AT_S + 1), "another application is another matter"
    bench.asked(Order(Verb.RESUME, rebuild=one))
    assert (bench.gone_on, is_paused(bench.keeper.book, "v", AT_S)) == (["v"], False)
    found = bench.keeper.book.rebuild(one)
    assert found is not None
    assert found.state is RebuildState.RUNNING


def test_what_was_computed_is_shown_when_it_was_compared(bench: Bench) -> None:
    """Once, for all that wait for it; and nobody is sent on before readers have it."""
    one, other = bench.begun("cache"), bench.begun("search")
    bench.obeying.look()
    assert (bench.compared, bench.may_be_shown) == ([], False)
    bench.is_computed()
    bench.may_end.clear()
    bench.obeying.look()
    bench.may_end.set()
    bench.until(lambda: bench.may_be_shown)
    assert [each.computed for each in bench.keeper.book.rebuilds] == [Checked(True, 7)] * 2
    assert bench.compared == [("v", "new")]
    assert {bench.found(id_).stage for id_ in (one, other)} == {Stage.COMPUTE}
    bench.status = ViewStatus(ViewState.LIVE, "new", AT_S, serving="new")
    bench.obeying.look()
    assert {bench.found(id_).stage for id_ in (one, other)} == {Stage.FILL}
    assert bench.may_be_shown, "it is, and goes on being so"


def test_what_was_computed_and_is_not_equal_is_given_up_by_all_who_wait_for_it(bench: Bench) -> None:
    one, other = bench.begun("cache"), bench.begun("search")
    bench.verdict = Checked(False, 7, 1, detail="1 rows of the view are missing in Postgres")
    bench.is_computed()
    bench.until(lambda: bench.found(other).is_over)
    assert {bench.found(id_).state for id_ in (one, other)} == {RebuildState.FAILED}
    assert "missing in Postgres" in bench.found(one).reason
    assert (bench.given_up, bench.may_be_shown) == ([("v", AT_S)], False)


def test_what_cannot_be_compared_is_tried_again_and_then_waits(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage is no verdict: what was computed is kept, and compared when somebody says so."""
    monkeypatch.setattr(trying, "PAUSE_S", 0.01)
    monkeypatch.setattr(rebuilding, "CHECKING_S_MAX", 0.0)
    id_ = bench.begun("cache")
    bench.verdict = ViewError("Postgres does not answer", hint="headwater status")
    bench.is_computed()
    bench.until(lambda: bench.found(id_).state is RebuildState.PAUSED)
    assert len(bench.compared) == rebuilding.CHECKS_MIN
    assert "Postgres does not answer" in bench.found(id_).reason
    assert (bench.given_up, bench.may_be_shown) == ([], False)
    bench.verdict = Checked(True, 7)
    bench.asked(Order(Verb.RESUME, rebuild=id_))
    bench.until(lambda: bench.may_be_shown)


def test_what_waits_for_a_person_is_compared_again_when_they_switch(bench: Bench) -> None:
    id_ = bench.begun("cache", switches=False)
    bench.is_computed()
    bench.until(lambda: bench.found(id_).state is RebuildState.READY)
    assert not bench.may_be_shown
    bench.asked(Order(Verb.PAUSE, rebuild=id_))
    bench.asked(Order(Verb.RESUME, rebuild=id_))
    assert bench.found(id_).state is RebuildState.READY
    assert "compared again" in bench.asked(Order(Verb.SWITCH, "v"))
    bench.until(lambda: bench.may_be_shown)
    assert len(bench.compared) == 2


EARLIER_S = AT_S - 1
"""When the view was to be computed anew for a rebuild that was asked for just before another one."""


def earlier(bench: Bench, *, sink: str = "cache") -> str:
    order = Order(Verb.REBUILD, "v", sink, origin=Origin.LOG, applied_at_s=EARLIER_S)
    bench.asked(order)
    return order.id


def test_who_cancels_a_second_one_leaves_the_first_what_is_computed(bench: Bench) -> None:
    one = earlier(bench)
    other = bench.begun("search")
    assert f"computed on for rebuild {one}" in bench.asked(Order(Verb.CANCEL, rebuild=other))
    assert bench.given_up == []
    bench.is_computed()
    bench.until(lambda: bench.may_be_shown)
    assert bench.found(one).computed == Checked(True, 7)


def test_what_a_second_one_had_computed_and_was_refused_is_of_use_to_the_first(bench: Bench) -> None:
    """Two people asked at once: what is computed is what the second wanted, and the first is the one that waits."""
    one = earlier(bench)
    bench.is_computed()
    bench.until(lambda: bench.may_be_shown)
    assert (bench.found(one).applied_at_s, bench.found(one).stage) == (AT_S, Stage.COMPUTE)


@pytest.mark.parametrize("failed", ["nobody asked for it", ""])
def test_one_whose_view_was_not_computed_is_not_filled(bench: Bench, failed: str) -> None:
    one = earlier(bench)
    if not failed:  # a second one was, and is given up while the first is paused
        bench.asked(Order(Verb.PAUSE, rebuild=one))
        bench.asked(Order(Verb.CANCEL, rebuild=bench.begun("search")))
    bench.status = ViewStatus(ViewState.LIVE, "old", AT_S, serving="old", failed=failed)
    if not failed:
        bench.asked(Order(Verb.RESUME, rebuild=one))
    bench.obeying.look()
    assert (bench.found(one).stage, bench.found(one).state) == (Stage.COMPUTE, RebuildState.FAILED)
    assert "computed anew once more" in bench.found(one).reason


def test_one_that_was_paused_is_filled_with_what_another_had_computed(bench: Bench) -> None:
    """That one of those who asked for it was cancelled says nothing of the others."""
    one = earlier(bench)
    bench.asked(Order(Verb.PAUSE, rebuild=one))
    other = bench.begun("search")
    bench.asked(Order(Verb.CANCEL, rebuild=bench.begun("warehouse")))
    bench.status = ViewStatus(ViewState.LIVE, "new", AT_S, serving="new")
    bench.obeying.look()
    assert bench.found(other).stage is Stage.FILL
    bench.asked(Order(Verb.RESUME, rebuild=one))
    assert bench.found(one).stage is Stage.FILL


def test_one_of_two_that_are_shown_together_says_whom_it_waits_for(bench: Bench) -> None:
    """What it was compared with is no longer true when the other is switched: both are compared again."""
    one = bench.begun("cache", switches=False)
    other = Rebuild("u1", "u", "cache", 2, Origin.LOG, 1.0, stage=Stage.COMPUTE, applied_at_s=AT_S, switches=False)
    bench.is_computed()
    bench.until(lambda: bench.found(one).state is RebuildState.READY)
    bench.keeper.put(msgspec.structs.replace(other, state=RebuildState.READY, computed=Checked(True, 3)))
    assert "waits until u may be shown with it" in bench.asked(Order(Verb.SWITCH, "v"))
    bench.until(lambda: bench.may_be_shown)
    bench.obeying.look()
    assert "waits until u may be shown with it" in bench.found(one).reason
    assert len(bench.compared) == 2
    bench.asked(Order(Verb.SWITCH, "u"))
    bench.until(lambda: len(bench.compared) > 2 and bench.may_be_shown)
    assert bench.found(one).computed == Checked(True, 7)


def test_one_that_could_not_be_computed_says_why(bench: Bench) -> None:
    """Readers have what they had: the view is as live as before."""
    id_ = bench.begun("cache")
    bench.status = ViewStatus(ViewState.LIVE, "old", AT_S, serving="old", failed="division by zero")
    bench.obeying.look()
    assert bench.found(id_).state is RebuildState.FAILED
    assert "division by zero" in bench.found(id_).reason
