"""The book says what there is: also of generations that a lane makes by itself, and of those that cannot be removed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from cdc.addresses import Source
from cdc.topics import delete_topic
from tests.sinks.places import MemoryKind, MemoryPlace, Publisher, shape, upsert
from tests.waiting import eventually
from views.maintain.book import Book
from views.maintain.booking import BookKeeper
from views.maintain.group import Group
from views.maintain.obeying import Obeying
from views.maintain.orders import Answer, Order, Orders, Verb
from views.maintain.publisher import Frontier, Published
from views.maintain.rebuilding import VERDICT_S_MAX, Rebuilder
from views.maintain.registry import Registry
from views.maintain.sinking import Sinking
from views.rebuild import Checked, Rebuild, RebuildState, Stage
from views.sinks.board import board_topic
from views.sinks.lane import LaneLimits
from views.sinks.letters import letters_topic

pytestmark = pytest.mark.stack

LIMITS = LaneLimits(check_s=0.1, backoff_s=0.05, backoff_s_max=0.1, side_pause_s=0.01)


@dataclass
class Bench:
    """Everything is real but the engine and the place."""

    published: Publisher
    folder: Path
    place: MemoryPlace = field(default_factory=MemoryPlace)
    options: dict[str, str] = field(default_factory=dict)
    checked: Checked = field(default_factory=lambda: Checked(True, 3))
    checks: int = 0

    def __post_init__(self) -> None:
        self.source = Source(self.published.topic.partition(".")[0])
        self.start()

    def start(self) -> None:
        kinds = {"memory": MemoryKind(self.place)}
        self.sinking = Sinking(self.published.kafka, self.source, kinds, limits=LIMITS)
        keeper = BookKeeper(Registry(self.folder))
        self.rebuilder = Rebuilder(keeper, self.sinking, lambda view: None, self._check, keep_s=3600)
        self.obeying = Obeying(Orders(self.folder), keeper, self.rebuilder)

    def stop(self) -> None:
        self.rebuilder.close()
        self.sinking.close()

    def _check(self, view: str, sink: str, number: int, stop: threading.Event) -> Checked:
        self.checks += 1
        return self.checked

    @property
    def book(self) -> Book:
        return Registry(self.folder).book()

    def epoch(self) -> None:
        declared = {"items": SimpleNamespace(sinks=("memory",))}
        group = SimpleNamespace(declared=declared, shape=lambda view, source: shape(source.name, **self.options))
        upto = self.published.next_offset
        frontier = Frontier("items", 1, 1, "0/1", None, 1, "", upto)
        self.sinking.published(cast(Group, group), [Published(frontier, upto, None, 0)])

    def looked(self, states: dict[int, str], *, left: tuple[int, ...] = ()) -> None:
        """Looks again and again, until the book says that."""

        def equal() -> None:
            self.epoch()
            self.obeying.look()
            assert {each.number: each.state.value for each in self.book.generations} == states
            assert tuple(each.number for each in self.book.left()) == left

        eventually(equal)

    def asked(self, order: Order) -> Answer:
        Orders(self.folder).give(order)
        self.obeying.look()
        answer = self.book.answer(order.id)
        assert answer is not None
        return answer

    def rebuilt(self, *states: RebuildState, **given: object) -> Rebuild:
        order = Order(Verb.REBUILD, "items", "memory", **given)  # type: ignore[arg-type]
        assert self.asked(order).is_done
        return self.comes_to(order.id, *states)

    def comes_to(self, id_: str, *states: RebuildState) -> Rebuild:
        def there() -> Rebuild:
            self.epoch()
            self.obeying.look()
            found = self.book.rebuild(id_)
            assert found is not None
            assert found.state in states, found
            return found

        return eventually(there)


@pytest.fixture
def bench(published: Publisher, tmp_path: Path) -> Iterator[Bench]:
    published.epoch(*(upsert(n, 0, f"a{n}") for n in range(5)))
    made = Bench(published, tmp_path)
    made.looked({1: "live"})
    yield made
    made.stop()
    for topic in (board_topic(made.source), letters_topic(made.source)):
        delete_topic(published.kafka, topic)


def test_another_shape(bench: Bench) -> None:
    bench.options = {"lookup": "label"}
    bench.looked({1: "retired", 2: "live"})
    assert bench.place.pointers == {"items": 2}
    assert set(bench.place.rows) == {("items", 2)}


def test_an_emptied_place(bench: Bench) -> None:
    for kept in (bench.place.rows, bench.place.marks, bench.place.pointers):
        kept.clear()  # type: ignore[attr-defined]
    bench.looked({1: "retired", 2: "live"})
    assert bench.place.pointers == {"items": 2}


def test_one_that_was_begun_goes_on_under_its_number(bench: Bench) -> None:
    bench.sinking.rest = lambda worked_s, records: 60.0
    bench.options = {"lookup": "label"}
    bench.looked({1: "live", 2: "building"})
    bench.stop()
    bench.start()
    bench.looked({1: "retired", 2: "live"})
    assert set(bench.place.rows) == {("items", 2)}


def test_one_that_was_begun_and_is_not_wanted_any_more_goes(bench: Bench) -> None:
    bench.sinking.rest = lambda worked_s, records: 60.0
    bench.options = {"lookup": "label"}
    bench.looked({1: "live", 2: "building"})
    bench.options = {}
    bench.looked({1: "live", 2: "retired"})
    assert set(bench.place.rows) == {("items", 1)}


def test_a_rebuild_is_entered_as_before(bench: Bench) -> None:
    done = bench.rebuilt(RebuildState.DONE)
    assert (done.number, done.replaces) == (2, 1)
    bench.looked({1: "standby", 2: "live"})


@pytest.mark.parametrize("how", ["paused", "away"])
def test_what_cannot_be_removed_now_is_removed_later(bench: Bench, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("views.maintain.tallying.LEFT_AGAIN_S", 0.0)
    ready = bench.rebuilt(RebuildState.READY, switches=False)
    bench.place.is_down = how == "away"
    if how == "paused":
        bench.stop()
        bench.start()  # and nothing was published since
    assert bench.asked(Order(Verb.CANCEL, rebuild=ready.id)).is_done
    assert {each.number: each.state.value for each in bench.book.generations} == {1: "live", 2: "retired"}
    assert [each.number for each in bench.book.left()] == [2]
    assert ("items", 2) in bench.place.rows
    bench.place.is_down = False
    bench.looked({1: "live", 2: "retired"})
    assert ("items", 2) not in bench.place.rows


def test_what_is_cancelled_while_its_sink_is_paused_goes_at_once(bench: Bench) -> None:
    ready = bench.rebuilt(RebuildState.READY, switches=False)
    assert bench.asked(Order(Verb.HOLD, "items", "memory", by="ada")).is_done
    assert bench.asked(Order(Verb.CANCEL, rebuild=ready.id)).is_done
    assert set(bench.place.rows) == {("items", 1)}
    assert bench.book.left() == []


def _aged(bench: Bench, ready: Rebuild) -> None:
    long_ago = {**ready.began, Stage.SWITCH: time.time() - VERDICT_S_MAX - 1}
    bench.rebuilder.keeper.put(msgspec.structs.replace(ready, began=long_ago))
    bench.rebuilder.keeper.flush()


def test_an_old_verdict_is_made_again_before_the_switch(bench: Bench) -> None:
    ready = bench.rebuilt(RebuildState.READY, switches=False)
    assert bench.checks == 1
    _aged(bench, ready)
    answer = bench.asked(Order(Verb.SWITCH, "items"))
    assert "verified again" in answer.fact
    assert bench.place.pointers == {"items": 1}
    bench.comes_to(ready.id, RebuildState.DONE)
    assert (bench.checks, bench.place.pointers) == (2, {"items": 2})


def test_one_that_became_wrong_since_is_not_switched_to(bench: Bench) -> None:
    ready = bench.rebuilt(RebuildState.READY, switches=False)
    _aged(bench, ready)
    bench.checked = Checked(False, 3, 1, detail="one row differs")
    assert bench.asked(Order(Verb.SWITCH, "items")).is_done
    bench.comes_to(ready.id, RebuildState.FAILED)
    bench.looked({1: "live", 2: "failed"})
    assert bench.place.pointers == {"items": 1}
    assert set(bench.place.rows) == {("items", 1)}


def test_a_fresh_verdict_is_enough(bench: Bench) -> None:
    bench.rebuilt(RebuildState.READY, switches=False)
    assert bench.asked(Order(Verb.SWITCH, "items")).is_done
    assert (bench.checks, bench.place.pointers) == (1, {"items": 2})
