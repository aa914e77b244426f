"""What the book keeps of generations that are over, since when those beside the one that is shown are not fed, and what
becomes of those of a place that a view is taken off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

import pytest

from cdc.addresses import Source
from tests.sinks.places import MemoryKind, MemoryPlace, mark, shape, upsert
from views.generation import Generation, GenerationState
from views.maintain.book import RETIRED_MAX, Book, Held
from views.maintain.booking import BookKeeper
from views.maintain.group import Group
from views.maintain.obeying import Obeying
from views.maintain.orders import Orders
from views.maintain.publisher import Frontier, Published
from views.maintain.rebuilding import Rebuilder
from views.maintain.registry import Registry, Wanted
from views.maintain.sinking import Sinking
from views.maintain.wanting import Wanting
from views.rebuild import Origin, Rebuild, RebuildState
from views.sinks.lane import Lane, LaneState, SinkStatus
from views.sinks.letters import Letters, NoLetters

LONG_AGO_S = 1.0


def test_what_is_still_to_be_removed_is_never_forgotten() -> None:
    left = Generation("cards", "search", 1, GenerationState.RETIRED, LONG_AGO_S, is_left=True)
    book = Book().with_generation(left)
    for number in range(2, RETIRED_MAX + 10):
        book = book.with_generation(Generation("cards", "search", number, GenerationState.RETIRED, LONG_AGO_S))
    assert book.left() == [left]
    assert len(book.generations) == RETIRED_MAX + 2
    assert [(each.number, each.is_left) for each in book.without_view("cards", 2.0).generations] == [(1, True)]


def test_it_is_known_since_when_what_is_not_shown_is_not_fed() -> None:
    @dataclass
    class Beside:
        status: SinkStatus

        def comes_to(self, state: LaneState, reason: str = "") -> SinkStatus:
            self.status = SinkStatus("cards", "cache", state, next_offset=7, reason=reason)
            [told] = sinking.statuses_beside()
            return told

    sinking = Sinking(kafka=None, source=Source("lab"), kinds={})  # type: ignore[arg-type]
    lane = Beside(SinkStatus("cards", "cache", LaneState.WAITING))
    sinking._sides["cards", "cache", 3] = cast(Lane, lane)
    assert (lane.comes_to(LaneState.RIDING).stale, sinking.statuses_beside()[0].generation) == ("", 3)
    down = lane.comes_to(LaneState.DOWN, "no room")
    assert (down.stale, down.reason, down.stale_since_s > 0) == ("it is down", "no room", True)
    again = lane.comes_to(LaneState.FOLLOWING)
    assert again.stale_since_s == down.stale_since_s, "it tries, and was not brought up to the view yet"
    assert lane.comes_to(LaneState.RIDING).stale == ""
    assert lane.comes_to(LaneState.FOLLOWING).stale == "", "a moment behind"


# Taken off, or dropped


@dataclass
class Bench:
    """Readers use generation 2, and could go back to 1; the place is real to everybody, but nobody is fed."""

    folder: Path
    place: MemoryPlace = field(default_factory=MemoryPlace)
    board: Mock = field(default_factory=Mock)

    def __post_init__(self) -> None:
        kind = MemoryKind(self.place)
        for number, state in ((1, GenerationState.STANDBY), (2, GenerationState.LIVE)):
            kind.open(shape("lab"), number).apply([upsert(1, 1)], mark(2))
            keeper = BookKeeper(Registry(self.folder))
            keeper.keep(keeper.book.with_generation(Generation("items", "memory", number, state, LONG_AGO_S)))
        kind.switch("lab", "items", 2)
        self.start()

    def start(self) -> None:
        self.keeper = BookKeeper(Registry(self.folder))
        self.sinking = Sinking(kafka=None, source=Source("lab"), kinds={"memory": MemoryKind(self.place)})  # type: ignore[arg-type]
        self.sinking._told, self.sinking._refused = self.board, cast(Letters, NoLetters())
        self.sinking._topic_ids["items"] = "topic-1"
        self.rebuilder = Rebuilder(self.keeper, self.sinking, lambda view: None)
        self.obeying = Obeying(Orders(self.folder), self.keeper, self.rebuilder)

    def stop(self) -> None:
        self.rebuilder.close()
        self.sinking.close()

    def published(self, *sinks: str) -> None:
        declared = {"items": SimpleNamespace(sinks=sinks)}
        group = SimpleNamespace(declared=declared, shape=lambda view, source: shape(source.name))
        news = Published(Frontier("items", 1, 1, "0/1", None, 1, "", 0), 0, None, 0)
        self.sinking.published(cast(Group, group), [news])

    def nothing_wanted(self) -> None:
        wanting = SimpleNamespace(showing=Mock(unreviewed=set()), views={}, rebuilder=self.rebuilder)
        assert Wanting.apply(cast(Wanting, wanting), Wanted({}))

    def dropped(self) -> None:
        self.rebuilder.forget("items", self.sinking.forget("items"))

    @property
    def problem(self) -> str:
        return Wanting.problem.fget(SimpleNamespace(rebuilder=self.rebuilder))  # type: ignore[attr-defined]

    @property
    def is_nothing_left(self) -> bool:
        return not (self.place.rows or self.place.pointers or self.keeper.book.generations)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr("views.maintain.tallying.LEFT_AGAIN_S", 0.0)
    made = Bench(tmp_path)
    yield made
    made.place.is_down = False
    made.stop()


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_sink_that_is_taken_off_while_it_is_paused_leaves_nothing(bench: Bench, is_restarted: bool) -> None:
    under_way = Rebuild("r1", "items", "memory", 3, Origin.TOPIC, LONG_AGO_S)
    bench.keeper.keep(bench.keeper.book.with_held([Held("items", "memory")]).with_rebuild(under_way))
    bench.stop()
    bench.start()
    if not is_restarted:
        bench.published("memory")
    assert bench.place.pointers == {"items": 2}
    bench.published()
    bench.obeying.look()
    assert bench.is_nothing_left
    assert (bench.sinking.statuses(), bench.keeper.book.held) == ([], ())
    assert bench.board.mock_calls[-1][:2] == ("forget", ("items", "memory"))
    assert [each.state for each in bench.keeper.book.rebuilds] == [RebuildState.CANCELLED]


def test_a_sink_that_is_taken_off_while_its_place_is_away_goes_later(bench: Bench) -> None:
    bench.published("memory")
    bench.place.is_down = True
    bench.published()
    bench.obeying.look()
    assert [each.number for each in bench.keeper.book.left()] == [1, 2]
    assert bench.sinking.statuses() == []
    bench.stop()
    bench.start()
    bench.obeying.look()
    assert bench.place.rows
    bench.place.is_down = False
    bench.obeying.look()
    assert bench.is_nothing_left


def test_one_that_is_wanted_again_keeps_what_readers_use(bench: Bench) -> None:
    bench.published("memory")
    bench.place.is_down = True
    bench.published()
    bench.obeying.look()
    bench.published("memory")
    bench.sinking.hold("items", "memory", "paused", LONG_AGO_S)  # so that only the book is at work
    bench.place.is_down = False
    bench.obeying.look()
    assert (bench.place.pointers, set(bench.place.rows)) == ({"items": 2}, {("items", 2)})


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_view_that_is_dropped_leaves_nothing_at_once(bench: Bench, is_paused: bool) -> None:
    bench.published("memory")
    if is_paused:
        bench.sinking.hold("items", "memory", "paused", LONG_AGO_S)
    bench.dropped()
    assert bench.is_nothing_left
    assert bench.problem == ""


def test_what_is_in_the_book_of_a_view_that_nobody_knows_is_removed(bench: Bench) -> None:
    """Who dropped it was cut off, or could not remove it and noted no more than that."""
    left = Generation("items", "memory", 1, GenerationState.RETIRED, LONG_AGO_S, is_left=True)
    bench.keeper.keep(bench.keeper.book.with_generation(left))
    bench.stop()
    bench.start()
    bench.obeying.look()
    assert bench.place.pointers == {"items": 2}, "nobody said that it is not wanted"
    bench.nothing_wanted()
    bench.obeying.look()
    assert bench.is_nothing_left


@pytest.mark.parametrize("is_fed", [False, True])
def test_a_view_that_is_dropped_while_its_place_is_away_is_removed_later(bench: Bench, is_fed: bool) -> None:
    """Also by who has just started, and knows of it by the book alone."""
    bench.place.is_down = True
    if is_fed:
        bench.published("memory")
    bench.dropped()
    bench.obeying.look()
    assert bench.problem == "the memory of items could not be removed yet: it is tried again"
    assert bench.place.pointers == {"items": 2}
    bench.stop()
    bench.start()
    bench.place.is_down = False
    bench.obeying.look()
    assert bench.is_nothing_left
    assert bench.problem == ""
