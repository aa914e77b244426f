"""Generations whose time is over go, whatever their places do; how far a rebuild is, and why it does not go on."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

import pytest

from cdc.addresses import Source
from cdc.errors import SinkUnavailable
from tests.sinks.places import MemoryKind, MemoryPlace, mark, shape, upsert
from views.generation import Generation, GenerationState
from views.maintain.book import Held
from views.maintain.booking import BookKeeper
from views.maintain.computing import Computing
from views.maintain.rebuild_progress import LATELY_S, Rates, RebuildProgress
from views.maintain.rebuilding import Rebuilder
from views.maintain.registry import Registry, ViewState, ViewStatus
from views.maintain.sinking import Sinking
from views.rebuild import Origin, Rebuild, RebuildState, Stage
from views.sinks.lane import Lane, LaneState
from views.sinks.wholeness import records_between

LONG_AGO_S = 1.0


@dataclass
class Places:
    """Of the views' sinks, one that is away for a while."""

    is_away: bool = True
    removed: list[tuple[str, str, int]] = field(default_factory=list)

    def lanes(self) -> list[Lane]:
        return []

    def mismatched(self) -> list[tuple[str, str, int]]:
        return []

    def is_unlisted(self, *_name: object) -> bool:
        return False

    def side(self, *_name: object) -> None:
        return None

    def is_used(self, *_name: object) -> bool:
        return False

    def shown(self, *_name: object) -> None:
        return None

    def held_back(self) -> str:
        return "gives way"

    def remove(self, view: str, sink: str, number: int) -> bool:
        if self.is_away and sink == "search":
            raise SinkUnavailable("the place does not answer", hint="headwater status")
        self.removed.append((view, sink, number))
        return True


def test_a_place_that_is_away_keeps_nobody_else_from_going(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("views.maintain.tallying.LEFT_AGAIN_S", 0)
    keeper, places = BookKeeper(Registry(tmp_path)), Places()
    for sink in ("search", "cache"):
        standby = Generation("cards", sink, 1, GenerationState.STANDBY, LONG_AGO_S, keep_until_s=2 * LONG_AGO_S)
        keeper.keep(keeper.book.with_generation(standby))
    rebuilder = Rebuilder(keeper, cast(Sinking, places), {}.get)
    try:
        rebuilder.look()
        assert places.removed == [("cards", "cache", 1)]
        places.is_away = False
        rebuilder.look()
    finally:
        rebuilder.close()
    assert places.removed == [("cards", "cache", 1), ("cards", "search", 1)]
    assert {each.state for each in keeper.book.generations} == {GenerationState.RETIRED}


def test_what_readers_use_is_never_removed() -> None:
    """Who has just started does not know yet what that is: the place does."""
    kind, view = MemoryKind(MemoryPlace()), shape("lab")
    written = kind.open(view, 1)
    written.apply([upsert(1, 1, "x")], mark(2))
    kind.switch("lab", view.view, 1)

    @dataclass
    class Starting:
        kind: MemoryKind
        shape: object
        number: int | None = None

    sinking = Sinking(kafka=None, source=Source("lab"), kinds={kind.name: kind})  # type: ignore[arg-type]
    sinking._shapes[view.view, kind.name] = view
    sinking._lanes[view.view, kind.name] = cast(Lane, Starting(kind, view))
    assert not sinking.remove(view.view, kind.name, 1)
    assert len(list(written.rows())) == 1
    assert sinking.remove(view.view, kind.name, 2)


def test_how_fast_it_goes_is_of_the_last_minute_and_of_work() -> None:
    at = 100.0
    rates = Rates(lambda: at)
    assert (rates.per_s("r", 0), rates.worked_s("r")) == (None, 0.0)
    for second in range(1, 121):
        at = 100.0 + second
        rate = rates.per_s("r", 1_000 * second if second <= 60 else 60_000 + 10 * (second - 60))
        assert rates.worked_s("r") == 1.0
        if second == 60:
            assert rate == 1_000
    assert rate == 10, "what was fast before says nothing"
    rates.stands("r")
    at += 3_600
    assert (rates.per_s("r", 61_000), rates.worked_s("r")) == (None, 0.0), "an hour without work is none"
    at += 10
    assert (rates.per_s("r", 62_000), rates.worked_s("r")) == (100.0, 10.0)
    assert LATELY_S < 3_600


@dataclass(eq=False)
class Filler:
    """Fills a generation from a topic that was compacted."""

    rows: int
    read: int = 0
    at: int = 0
    end: int = 1_000_000
    all_from: int = 999_000

    def left(self, rows: int) -> int:
        return records_between(self.at, self.end, rows, self.all_from)


def test_how_far_it_is_is_said_in_records_and_survives_a_pause() -> None:
    at = 100.0
    progress = RebuildProgress(lambda view: 5_000, Rates(lambda: at))
    rebuild, lane = Rebuild("r1", "cards", "search", 2, Origin.TOPIC, 1.0), Filler(5_000)

    def looked(read: int, offset: int) -> Rebuild:
        nonlocal rebuild
        lane.read, lane.at = read, offset
        rebuild = progress.filled(rebuild, cast(Lane, lane), "")
        return rebuild

    assert (looked(0, 0).done, rebuild.total) == (0, 6_000), "not a million offsets"
    at += 10
    assert (looked(2_500, 400_000).done, rebuild.total, rebuild.rows_per_s) == (2_500, 6_000, 250.0)
    assert rebuild.left_s == 14.0
    rebuild = progress.standing(rebuild, "")
    at += 10_000
    lane = Filler(5_000)
    assert (looked(0, 400_000).done, rebuild.rows_per_s) == (2_500, 250.0)
    at += 10
    assert (looked(2_500, 999_000).done, rebuild.total) == (5_000, 6_000)
    assert rebuild.left_s == 4.0, "the pause is not of the time that it takes"
    at += 4
    assert (looked(3_400, 1_000_000).done, rebuild.total) == (5_900, 5_900)
    assert (rebuild.filled, rebuild.filled_s) == (5_900, 24.0)


def _rebuilder(folder: Path, rebuild: Rebuild, status: ViewStatus | None = None) -> tuple[BookKeeper, Rebuilder]:
    keeper = BookKeeper(Registry(folder))
    keeper.put(rebuild)
    computing = Computing(lambda view: (1, 2), held_back=lambda: "gives way")
    return keeper, Rebuilder(keeper, cast(Sinking, Places()), lambda view: status, computing=computing)


@pytest.mark.parametrize("stage", [Stage.FILL, Stage.CATCH_UP, Stage.SWITCH])
def test_a_rebuild_of_a_paused_sink_says_that_it_waits(tmp_path: Path, stage: Stage) -> None:
    keeper, rebuilder = _rebuilder(tmp_path, Rebuild("r1", "cards", "search", 2, Origin.TOPIC, 1.0, stage=stage))
    for held, reason in (
        ([], "waits until the search of cards is fed"),
        ([Held("cards", "search")], "the search is paused: headwater resume cards --sink search"),
    ):
        keeper.keep(keeper.book.with_held(held))
        rebuilder.look()
        found = keeper.book.rebuild("r1")
        assert found is not None
        assert (found.state, found.reason) == (RebuildState.RUNNING, reason)
    rebuilder.close()


def test_computing_anew_says_why_it_is_slow_or_stands(tmp_path: Path) -> None:
    building = ViewStatus(ViewState.BUILDING, "new", 5.0)
    asked = Rebuild("r1", "cards", "search", 2, Origin.LOG, 1.0, stage=Stage.COMPUTE, applied_at_s=5.0)
    keeper, rebuilder = _rebuilder(tmp_path, asked, building)
    for held, reason in (([], "gives way"), ([Held("cards")], "the view is paused: headwater resume cards")):
        keeper.keep(keeper.book.with_held(held))
        rebuilder.look()
        found = keeper.book.rebuild("r1")
        assert found is not None
        assert found.reason == reason
    rebuilder.close()


def test_a_stage_begins_without_the_progress_of_the_one_before(tmp_path: Path) -> None:
    full = Rebuild("r1", "cards", "search", 2, Origin.TOPIC, 1.0, done=9, total=9, rows_per_s=3.0, filled=9)
    keeper, rebuilder = _rebuilder(tmp_path, full)
    keeper.enter(full, Stage.VERIFY)
    found = keeper.book.rebuild("r1")
    assert found is not None
    assert (found.done, found.total, found.left_s, found.filled) == (0, 0, None, 9), (
        "a full bar would say that it is done"
    )
    rebuilder.close()


def test_what_it_is_held_back_by_is_said_while_it_is_filled(tmp_path: Path) -> None:
    keeper, rebuilder = _rebuilder(tmp_path, Rebuild("r1", "cards", "search", 2, Origin.TOPIC, 1.0))
    lane = Mock(
        target=mark(9),
        mark=mark(3),
        read=3,
        left=lambda rows: 6,
        status=SimpleNamespace(state=LaneState.FILLING, reason=""),
    )
    rebuilder.sinking.side = lambda *name: cast(Lane, lane)  # type: ignore[method-assign]
    rebuilder.look()
    found = keeper.book.rebuild("r1")
    assert found is not None
    assert (found.done, found.total, found.reason) == (3, 9, "gives way")
    rebuilder.close()
