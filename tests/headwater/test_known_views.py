"""What saved searches ask of views, as far as it is decided here."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from alerts.explaining import LastChange
from cdc.errors import ViewError
from headwater import known_views
from headwater.deployment import Deployment
from headwater.known_views import KnownViews, last_change
from headwater.settings import Settings
from headwater.stack.state import StackState
from headwater.views.key_text import words_of
from headwater.views.past_warehouse import PastVersion
from search.query import Equals, MatchAll

AT = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        (["name"], "Smith, Ada", ["Smith, Ada"]),
        (["name"], "name=Ada", ["name=Ada"]),
        (["id", "line"], "5,2", ["5", "2"]),
        (["id", "line"], "id=5,line=2", ["id=5", "line=2"]),
    ],
)
def test_a_comma_in_a_key_of_one_column_is_its_own(key: list[str], text: str, words: list[str]) -> None:
    store: Any = SimpleNamespace(key=key)
    assert words_of(store, text) == words


def test_a_row_that_is_told_again_as_it_is_has_not_changed() -> None:
    rows = [b"a", b"b", b"b", None, b"b", b"b"]
    versions = [PastVersion(n, row, f"7:{n}", "", AT + timedelta(hours=n)) for n, row in enumerate(rows)]
    assert last_change(versions) == LastChange("7:4", AT + timedelta(hours=4))
    assert last_change(versions[:3]) == LastChange("7:1", AT + timedelta(hours=1))
    assert last_change(versions[:1]) == LastChange("7:0", AT)
    assert last_change([]) is None


def test_who_asks_for_every_row_of_a_view_that_is_not_in_the_search_is_told_how_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unsearched: Any = SimpleNamespace(has=lambda _view, _sink: False)
    views = KnownViews(Deployment.of(Settings(), StackState()), unsearched)
    views._frontiers = SimpleNamespace(look=dict)  # type: ignore[assignment]
    kept = SimpleNamespace(occupied=lambda: SimpleNamespace(rows=61_207))
    monkeypatch.setattr(known_views, "open_view", lambda *_given: kept)
    assert views.count("listing", MatchAll()) == 61_207
    assert views.count("listing", Equals("city", "paris")) is None

    def building(*_given: Any) -> Any:
        raise ViewError("view listing is building")

    monkeypatch.setattr(known_views, "open_view", building)
    assert views.count("listing", MatchAll()) is None
