"""Generations whose time is over go, whatever their places do."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from cdc.errors import SinkUnavailable
from tests.sinks.places import MemoryKind, MemoryPlace, mark, shape, upsert
from views.generation import Generation, GenerationState
from views.maintain.booking import BookKeeper
from views.maintain.rebuilding import Rebuilder
from views.maintain.registry import Registry
from views.maintain.sinking import Sinking
from views.sinks.lane import Lane

LONG_AGO_S = 1.0


@dataclass
class Places:
    """Of the views' sinks, one that is away for a while."""

    is_away: bool = True
    removed: list[tuple[str, str, int]] = field(default_factory=list)

    def mismatched(self) -> list[tuple[str, str, int]]:
        return []

    def side(self, *_name: object) -> None:
        return None

    def remove(self, view: str, sink: str, number: int) -> bool:
        if self.is_away and sink == "search":
            raise SinkUnavailable("the place does not answer", hint="headwater status")
        self.removed.append((view, sink, number))
        return True


def test_a_place_that_is_away_keeps_nobody_else_from_going(tmp_path: Path) -> None:
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

    sinking = Sinking(kafka=None, source=None, kinds={kind.name: kind})  # type: ignore[arg-type]
    sinking._lanes[view.view, kind.name] = cast(Lane, Starting(kind, view))
    assert not sinking.remove(view.view, kind.name, 1)
    assert len(list(written.rows())) == 1
    assert sinking.remove(view.view, kind.name, 2)
