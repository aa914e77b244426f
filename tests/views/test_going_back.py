"""Switched and gone back sink by sink: what one cannot do stops no other, and is not done later by itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from cdc.errors import SinkUnavailable
from tests.waiting import eventually
from views.generation import Generation, GenerationState
from views.maintain.booking import BookKeeper
from views.maintain.going_back import chosen, entry
from views.maintain.obeying import Obeying
from views.maintain.orders import Answer, Order, Orders, Verb
from views.maintain.rebuilding import Rebuilder
from views.maintain.registry import Registry
from views.maintain.sinking import Sinking
from views.rebuild import Checked, Origin, Rebuild, RebuildState, Stage

AWAY = SinkUnavailable("Postgres does not answer", detail="it is starting")
NOW_S = 2_000_000_000.0
SINKS = ("cache", "search", "warehouse")


@dataclass
class Places:
    """Of one view: which generation each sink's readers use, and which sinks cannot go over now."""

    shows: dict[str, int]
    away: set[str] = field(default_factory=set)
    asked: list[tuple[str, int]] = field(default_factory=list)
    left: list[tuple[str, int]] = field(default_factory=list)
    removed: list[tuple[str, int]] = field(default_factory=list)
    made: list[object] = field(default_factory=list)
    """Lanes, as far as they tell which generation readers use."""

    def lanes(self) -> list[object]:
        return self.made

    def mismatched(self) -> list[tuple[str, str, int]]:
        return []

    def is_unlisted(self, *_name: object) -> bool:
        return False

    def shown(self, view: str, sink: str) -> object:
        return SimpleNamespace(number=self.shows[sink]) if sink in self.shows else None

    def side(self, *_name: object) -> None:
        return None

    def is_used(self, view: str, sink: str, number: int) -> bool:
        return self.shows.get(sink) == number

    def remove(self, view: str, sink: str, number: int) -> bool:
        self.removed.append((sink, number))
        return True

    def leave(self, view: str, sink: str, number: int) -> None:
        self.left.append((sink, number))

    def switch(self, view: str, sink: str, number: int) -> int:
        self.asked.append((sink, number))
        if sink in self.away:
            raise SinkUnavailable(f"generation {number} of the {sink} is behind", detail="it is down")
        before, self.shows[sink] = self.shows[sink], number
        return before


def made_by_itself(view: str, sink: str, number: int) -> object:
    """A lane that is fed, as who has just started finds it."""
    shape, kind = SimpleNamespace(view=view), SimpleNamespace(name=sink)
    return SimpleNamespace(number=number, is_whole=True, shape=shape, kind=kind)


class Bench:
    """Every sink was rebuilt from generation 1 to 2."""

    def __init__(self, folder: Path) -> None:
        self.keeper, self.places = BookKeeper(Registry(folder)), Places(dict.fromkeys(SINKS, 2))
        for sink in SINKS:
            for number, state in ((1, GenerationState.STANDBY), (2, GenerationState.LIVE)):
                generation = Generation("cards", sink, number, state, NOW_S, keep_until_s=NOW_S * 2)
                self.keeper.keep(self.keeper.book.with_generation(generation))
        self.verdicts: list[Checked | Exception] = []
        self.never_ends: set[str] = set()
        """Sinks whose comparison goes on until it is stopped."""
        self.rebuilder = Rebuilder(self.keeper, cast(Sinking, self.places), {}.get, self._check, keep_s=NOW_S)
        self.orders = Orders(folder)
        self.obeying = Obeying(self.orders, self.keeper, self.rebuilder)

    def _check(self, view: str, sink: str, number: int, stop: threading.Event) -> Checked:
        if sink in self.never_ends:
            assert stop.wait(90)
            raise AWAY
        verdict = self.verdicts.pop(0)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    def asked(self, verb: Verb, sink: str = "", number: int | None = None) -> Answer:
        order = Order(verb, "cards", sink, number=number)
        self.orders.give(order)
        self.obeying.look()
        answer = self.keeper.book.answer(order.id)
        assert answer is not None
        return answer

    def rolled_back(self, sink: str = "") -> dict[str, bool]:
        return {each.sink: each.is_done for each in self.asked(Verb.ROLLBACK, sink).sinks}

    def begun(
        self, stage: Stage, state: RebuildState = RebuildState.RUNNING, *, switches: bool = True, at_s: float = NOW_S
    ) -> str:
        """A rebuild of the cache as far as that, to generation 3."""
        of = {"verify": GenerationState.CATCHING_UP, "switch": GenerationState.VERIFIED}[stage.value]
        made = Generation("cards", "cache", 3, of, NOW_S, NOW_S, "r1")
        self.keeper.keep(self.keeper.book.with_generation(made))
        began = {stage: at_s}
        self.keeper.put(Rebuild("r1", "cards", "cache", 3, Origin.TOPIC, 1.0, "", stage, state, switches, began=began))
        return "r1"

    def going_back(self, at_s: float = NOW_S) -> Rebuild:
        """Of the cache, begun and cut off."""
        (back,) = chosen(self.keeper.book, "cards", "cache").back
        entered = entry(Order(Verb.ROLLBACK, "cards", "cache"), back, at_s)
        self.keeper.put(entered)
        return entered

    def told(self, verb: Verb, rebuild: str = "r1") -> None:
        order = Order(verb, rebuild=rebuild)
        self.orders.give(order)
        self.obeying.look()
        answer = self.keeper.book.answer(order.id)
        assert answer is not None
        assert answer.is_done, answer

    def rebuild(self) -> Rebuild:
        found = self.keeper.book.rebuild("r1")
        assert found is not None
        return found

    def looks(self, id_: str, reason: str, state: RebuildState | None = None) -> None:
        self.obeying.look()
        found = self.keeper.book.rebuild(id_)
        assert found is not None
        assert (found.reason, found.state) == (reason, state or found.state)

    def look(self, times: int = 20) -> None:
        for _ in range(times):
            self.obeying.look()
            for asked in list(self.rebuilder._checks._asked.values()):
                asked.future.exception(10)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.rebuilder.close()


# Back


def test_one_that_cannot_go_back_stops_no_other(bench: Bench) -> None:
    bench.places.away = {"cache"}
    answer = bench.asked(Verb.ROLLBACK)
    assert not answer.is_done
    assert answer.fact == "readers of the cache of cards stay where they are"
    assert "cache: generation 1 of the cache is behind (it is down)" in answer.detail
    assert "search: readers of the search use generation 1 again" in answer.detail
    assert {each.sink: each.is_done for each in answer.sinks} == {"cache": False, "search": True, "warehouse": True}
    assert bench.places.shows == {"cache": 2, "search": 1, "warehouse": 1}


def test_a_retry_sends_nobody_forward_who_has_just_gone_back(bench: Bench) -> None:
    bench.places.away = {"search"}
    assert bench.rolled_back() == {"cache": True, "search": False, "warehouse": True}
    assert bench.rolled_back() == {"cache": True, "search": False, "warehouse": True}
    assert bench.places.shows == {"cache": 1, "search": 2, "warehouse": 1}
    bench.places.away = set()
    bench.rolled_back()
    assert set(bench.places.shows.values()) == {1}
    bench.rolled_back()
    assert set(bench.places.shows.values()) == {2}, "all had gone back: now they go forward, together"


def test_a_retry_on_the_way_forward_goes_on_forward(bench: Bench) -> None:
    bench.rolled_back()
    bench.places.away = {"search"}
    bench.rolled_back()
    assert bench.places.shows == {"cache": 2, "search": 1, "warehouse": 2}
    bench.places.away = set()
    bench.rolled_back()
    assert set(bench.places.shows.values()) == {2}


def test_a_sink_that_went_back_by_itself_stays_when_the_view_goes_back(bench: Bench) -> None:
    bench.rolled_back("cache")
    told = bench.asked(Verb.ROLLBACK)
    assert told.is_done
    assert "readers of the cache use generation 1 already" in told.fact
    assert set(bench.places.shows.values()) == {1}


def test_a_sink_that_is_named_goes_back_and_forth(bench: Bench) -> None:
    bench.places.away = {"search"}
    bench.rolled_back()
    bench.rolled_back("cache")
    assert bench.places.shows == {"cache": 2, "search": 2, "warehouse": 1}
    bench.places.away = set()
    bench.rolled_back()
    assert set(bench.places.shows.values()) == {1}, "what is left of the request, and what went forward since"


def test_who_names_the_generation_goes_there_once(bench: Bench) -> None:
    """A form that is sent twice, or by two people."""
    assert bench.asked(Verb.ROLLBACK, "cache", 1).fact == "readers of the cache use generation 1 again"
    again = bench.asked(Verb.ROLLBACK, "cache", 1)
    assert (again.is_done, again.fact) == (True, "readers of the cache use generation 1 already")
    assert bench.places.shows["cache"] == 1
    assert bench.asked(Verb.ROLLBACK, "cache", 2).is_done, "forward again, because it is asked for"
    assert bench.places.shows["cache"] == 2


def test_nobody_goes_back_to_another_generation_than_was_shown(bench: Bench) -> None:
    refused = bench.asked(Verb.ROLLBACK, "cache", 7)
    assert (refused.is_done, bench.places.shows["cache"]) == (False, 2)
    assert refused.fact == "generation 7 of the cache of cards is not the one to go back to"
    assert refused.detail == "its readers use generation 2; they left generation 1 last"
    retired = Generation("cards", "cache", 1, GenerationState.RETIRED, NOW_S)
    bench.keeper.keep(bench.keeper.book.with_generation(retired))
    refused = bench.asked(Verb.ROLLBACK, "cache", 1)
    assert refused.detail == "its readers use generation 2; none that they left is kept fed"


def test_what_can_no_longer_go_back_keeps_nobody_there(bench: Bench) -> None:
    bench.places.away = {"search"}
    bench.rolled_back()
    retired = Generation("cards", "search", 1, GenerationState.RETIRED, NOW_S)
    bench.keeper.keep(bench.keeper.book.with_generation(retired))
    bench.rolled_back()
    assert bench.places.shows == {"cache": 2, "search": 2, "warehouse": 2}


def test_a_rollback_that_was_refused_is_not_made_later(bench: Bench) -> None:
    bench.places.away = {"cache"}
    refused = bench.asked(Verb.ROLLBACK, "cache")
    assert (refused.is_done, refused.detail) == (False, "it is down")
    bench.places.away = set()
    bench.look()
    assert bench.places.shows["cache"] == 2


def test_one_that_was_cut_off_goes_back_in_every_sink(bench: Bench) -> None:
    """All that is to go back was written down before the first went."""
    order = Order(Verb.ROLLBACK, "cards")
    for each in chosen(bench.keeper.book, "cards").back:
        bench.keeper.put(entry(order, each, NOW_S))
    bench.orders.give(order)
    bench.look()
    assert set(bench.places.shows.values()) == {1}
    answer = bench.keeper.book.answer(order.id)
    assert answer is not None
    assert answer.is_done
    bench.look()
    assert set(bench.places.shows.values()) == {1}


def test_one_that_was_cut_off_ends_beside_a_rebuild_that_waits(bench: Bench) -> None:
    """Readers have gone back, and nobody has written that down yet: what they left is a standby, not an accident."""
    bench.begun(Stage.SWITCH, RebuildState.READY, switches=False)
    entered = bench.going_back()
    bench.keeper.put(msgspec.structs.replace(entered, replaces=2))
    bench.places.shows["cache"] = 1
    bench.places.made = [made_by_itself("cards", "cache", 1)]
    bench.look()
    found = {each.number: each.state for each in bench.keeper.book.of("cards", "cache")}
    assert found == {1: GenerationState.LIVE, 2: GenerationState.STANDBY, 3: GenerationState.VERIFIED}
    ended = bench.keeper.book.rebuild(entered.id)
    assert ended is not None
    assert (ended.state, bench.rebuild().state, bench.places.removed) == (RebuildState.DONE, RebuildState.READY, [])


@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_who_gives_going_back_up_can_still_go_back(bench: Bench, how: str) -> None:
    entered = bench.going_back()
    bench.places.away = {"cache"}
    bench.look()
    if how == "cancelled":
        bench.told(Verb.CANCEL, entered.id)
    else:
        bench.rebuilder.fail(entered, "it cannot")
    found = bench.keeper.book.rebuild(entered.id)
    assert found is not None
    assert (found.state, bench.places.removed) == (RebuildState(how), [])
    bench.places.away = set()
    bench.look()
    assert bench.places.shows["cache"] == 2
    assert bench.rolled_back("cache") == {"cache": True}


# Over


def test_a_switch_that_was_refused_is_not_made_later(bench: Bench) -> None:
    bench.begun(Stage.SWITCH, RebuildState.READY, switches=False)
    bench.places.away = {"cache"}
    refused = bench.asked(Verb.SWITCH)
    assert (refused.is_done, refused.detail) == (False, "it is down")
    assert (bench.rebuild().state, "it is down" in bench.rebuild().reason) == (RebuildState.READY, True)
    bench.places.away = set()
    bench.look()
    assert bench.places.shows["cache"] == 2
    assert bench.asked(Verb.SWITCH).is_done
    assert bench.places.shows["cache"] == 3


def test_nobody_goes_over_to_another_generation_than_was_shown(bench: Bench) -> None:
    bench.begun(Stage.SWITCH, RebuildState.READY, switches=False)
    refused = bench.asked(Verb.SWITCH, "cache", 4)
    assert (refused.is_done, bench.places.shows["cache"]) == (False, 2)
    assert refused.fact == "no rebuild of cards waits for a switch to generation 4"
    for fact in ("readers of the cache use generation 3", "readers of the cache use generation 3 already"):
        assert bench.asked(Verb.SWITCH, "cache", 3).fact == fact
    assert bench.places.shows["cache"] == 3


def test_a_switch_that_was_cut_off_is_made(bench: Bench) -> None:
    bench.begun(Stage.SWITCH, switches=False)
    assert bench.asked(Verb.SWITCH).fact == "readers of the cache go over to generation 3"
    assert bench.places.shows["cache"] == 3


def test_what_switches_by_itself_is_tried_ever_less_often(bench: Bench) -> None:
    bench.begun(Stage.SWITCH)
    bench.places.away = {"cache"}
    bench.look()
    assert bench.places.asked == [("cache", 3)]
    assert "it is down" in bench.rebuild().reason


def test_who_has_just_started_goes_over_as_soon_as_there_is_a_lane(bench: Bench) -> None:
    bench.begun(Stage.SWITCH)
    del bench.places.shows["cache"]
    refused = bench.asked(Verb.ROLLBACK, "cache")
    assert (refused.is_done, refused.fact) == (False, "the cache of cards is not fed")
    bench.look()
    bench.places.shows["cache"] = 2
    bench.look(1)
    assert bench.places.shows["cache"] == 3


# Before that: verified


def test_a_check_that_cannot_be_made_is_no_verdict(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.verdicts = [AWAY] * 6 + [Checked(True, 3)]
    bench.begun(Stage.VERIFY, switches=False)
    bench.look()
    assert len(bench.verdicts) == 6, "it is not tried again at once"
    assert "Postgres does not answer: it is starting" in bench.rebuild().reason
    monkeypatch.setattr("views.maintain.trying.PAUSE_S", 0.0)
    bench.rebuilder._tries.forget("r1")
    bench.look(30)
    assert (bench.rebuild().state, bench.rebuild().reason) == (RebuildState.READY, "")
    assert bench.places.removed == []


def test_after_an_hour_it_waits_for_a_person_and_nothing_is_lost(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("views.maintain.trying.PAUSE_S", 0.0)
    monkeypatch.setattr("views.maintain.rebuilding.CHECKING_S_MAX", 0.0)
    bench.verdicts = [AWAY] * 3 + [Checked(True, 3)]
    id_ = bench.begun(Stage.VERIFY)
    bench.look()
    assert (bench.rebuild().state, bench.verdicts) == (RebuildState.PAUSED, [Checked(True, 3)])
    assert "Postgres does not answer" in bench.rebuild().reason
    assert bench.places.removed == []
    order = Order(Verb.RESUME, rebuild=id_)
    bench.orders.give(order)
    bench.look()
    assert (bench.rebuild().state, bench.places.shows["cache"]) == (RebuildState.DONE, 3)


def test_a_verdict_that_it_differs_ends_it(bench: Bench) -> None:
    bench.verdicts = [Checked(False, 3, 1, detail="one row differs")]
    bench.begun(Stage.VERIFY)
    bench.look()
    assert (bench.rebuild().state, bench.places.removed) == (RebuildState.FAILED, [("cache", 3)])


# One after the other


@pytest.mark.parametrize("verb", [Verb.PAUSE, Verb.CANCEL])
def test_a_comparison_that_nobody_waits_for_keeps_no_other_waiting(bench: Bench, verb: Verb) -> None:
    bench.never_ends, bench.verdicts = {"cache"}, [Checked(True, 3)]
    bench.begun(Stage.VERIFY)
    bench.obeying.look()
    bench.keeper.keep(
        bench.keeper.book.with_generation(Generation("cards", "search", 3, GenerationState.CATCHING_UP, 1.0))
    )
    bench.keeper.put(Rebuild("r2", "cards", "search", 3, Origin.TOPIC, 2.0, stage=Stage.VERIFY))
    eventually(lambda: bench.looks("r2", "waits until the cache of cards (rebuild r1) is compared"))
    bench.told(verb)
    eventually(lambda: bench.looks("r2", ""))
    eventually(lambda: bench.looks("r2", "", RebuildState.DONE))
    assert bench.places.shows == {"cache": 2, "search": 3, "warehouse": 2}


def test_who_closes_waits_for_no_comparison(bench: Bench) -> None:
    bench.never_ends = {"cache"}
    bench.begun(Stage.VERIFY)
    bench.obeying.look()
    (asked,) = bench.rebuilder._checks._asked.values()
    bench.rebuilder.close()
    assert asked.stop.is_set()


# Again, because that was long ago

LONG_AGO_S = 1.0


@pytest.mark.parametrize("switches", [True, False])
def test_what_could_not_switch_for_long_is_compared_again_first(bench: Bench, switches: bool) -> None:
    bench.verdicts = [Checked(True, 4)]
    bench.begun(Stage.SWITCH, switches=switches, at_s=LONG_AGO_S)
    bench.look(1)
    assert (bench.rebuild().stage, bench.places.asked) == (Stage.VERIFY, [])
    made = bench.keeper.generation(bench.rebuild())
    assert made is not None
    assert made.state is GenerationState.CATCHING_UP
    bench.look()
    assert (bench.rebuild().state, bench.verdicts, bench.places.shows["cache"]) == (RebuildState.DONE, [], 3)


def test_a_verdict_from_before_a_pause_is_none(bench: Bench) -> None:
    bench.verdicts = [Checked(True, 3), Checked(False, 3, 1, detail="one row differs")]
    bench.begun(Stage.VERIFY)
    bench.look(1)
    bench.told(Verb.PAUSE)
    bench.told(Verb.RESUME)
    bench.look()
    assert (bench.rebuild().state, bench.places.shows["cache"]) == (RebuildState.FAILED, 2)


def test_one_that_was_switched_to_and_not_noted_is_not_compared_again(bench: Bench) -> None:
    bench.begun(Stage.SWITCH, at_s=LONG_AGO_S)
    bench.places.shows["cache"] = 3
    bench.look()
    assert bench.rebuild().state is RebuildState.DONE


def test_who_goes_back_is_not_compared(bench: Bench) -> None:
    bench.going_back(LONG_AGO_S)
    bench.look()
    assert bench.places.shows["cache"] == 1
