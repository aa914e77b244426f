"""A book that cannot be read is set aside, and begun anew with what is known without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater import views_status
from views.generation import Generation, GenerationState
from views.maintain.book import Book, Held
from views.maintain.booking import BookKeeper
from views.maintain.registry import Registry, State, ViewState, ViewStatus, Wanted
from views.sinks.lane import LaneState, SinkStatus

DAMAGED = b'{"generations":[{"view":'
AT_S = 1_800_000_000.0
PAUSED = (Held("cards", "", "ada", AT_S), Held("stats", "", "", AT_S), Held("stats", "search", "bob", AT_S))


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    """Two views and a sink that people have paused, one that changed under its table, and a damaged book."""
    registry = Registry(tmp_path)
    registry.want(Wanted())
    registry.note(
        State(
            AT_S,
            views={
                "cards": ViewStatus(ViewState.HELD, reason="paused by ada"),
                "stats": ViewStatus(ViewState.HELD, reason="paused"),
                "other": ViewStatus(ViewState.PAUSED, reason="table public.t changed"),
            },
            sinks=[
                SinkStatus("stats", "search", LaneState.PAUSED, reason="paused by bob"),
                SinkStatus("stats", "cache", LaneState.RIDING),
            ],
        )
    )
    (tmp_path / "book.json").write_bytes(DAMAGED)
    return registry


def test_what_people_have_paused_stays_paused(registry: Registry) -> None:
    keeper = BookKeeper(registry)
    assert keeper.book == Book(held=PAUSED)
    assert registry.book() == keeper.book, "who looks from outside can read it again"
    assert keeper.set_aside is not None
    assert keeper.set_aside.read_bytes() == DAMAGED


def test_it_is_told_until_somebody_has_looked(registry: Registry) -> None:
    aside = BookKeeper(registry).set_aside
    assert aside is not None
    again = BookKeeper(registry)
    assert again.set_aside is None, "it can be read now"
    assert again.is_begun_anew
    _, findings = views_status.look(registry.folder, AT_S)
    [told] = [each for each in findings if each.name == "book"]
    assert told.level == "warn"
    assert str(aside) in told.detail
    aside.unlink()
    assert not again.is_begun_anew
    assert "book" not in [each.name for each in views_status.look(registry.folder, AT_S)[1]]


def test_cut_off_before_the_new_one_was_written_it_is_begun_again(registry: Registry) -> None:
    registry.set_book_aside()
    assert BookKeeper(registry).book.held == PAUSED


def test_without_anything_that_can_be_read_it_begins_empty(registry: Registry) -> None:
    (registry.folder / "state.json").write_bytes(DAMAGED)
    assert BookKeeper(registry).book == Book()


def test_one_that_can_be_read_stays(registry: Registry) -> None:
    book = Book((Generation("cards", "search", 3, GenerationState.LIVE, AT_S),))
    registry.note_book(book)
    keeper = BookKeeper(registry)
    assert (keeper.book, keeper.set_aside, keeper.is_begun_anew) == (book, None, False)
