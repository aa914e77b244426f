"""Sentences for an owner who wonders why they were told nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from alerts.explaining import LastChange, notes, told_value
from alerts.inbox import News
from alerts.saved_search import SavedSearch
from tests.alerts.store.wishes import wish

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY_S = 86_400.0


def search(saved: datetime = AT, changed: datetime = AT) -> SavedSearch:
    return SavedSearch(1, "ada", wish(), "t", saved, changed)


def news(event: str, at: datetime, position: str = "7:1") -> News:
    given = (1, 1, "", "listing", '{"id":1}', event, "", None, None, position, at, at, at, None, None)
    return News(*given)


def said(last: LastChange | None, *told: News, of: SavedSearch | None = None) -> list[str]:
    return list(notes(of or search(), last, told, [], DAY_S))


def test_a_row_that_did_not_change_since() -> None:
    assert said(LastChange("7:9", AT - HOUR)) == [
        "it is as it was before the search was saved: nothing has changed since"
    ]
    assert said(LastChange("7:9", AT + HOUR), of=search(changed=AT + 2 * HOUR)) == [
        "it is as it was before the search was last changed: nothing has changed since"
    ]
    assert said(LastChange("7:9", AT + HOUR)) == []
    assert said(None) == said(LastChange("7:9", None)) == []


def test_a_row_that_entered_again_too_soon() -> None:
    last = LastChange("7:9", AT + 3 * HOUR)
    assert said(last, news("entered", AT + HOUR)) == [
        "it was told to have entered, which is not told again before 2026-06-02 13:00:00 UTC"
    ]
    assert said(last, news("left", AT + 2 * HOUR), news("entered", AT + HOUR)) == []
    assert said(LastChange("7:9", AT + 30 * HOUR), news("entered", AT + HOUR)) == []


def test_too_soon_is_what_the_search_says() -> None:
    each_time = replace(search(), wish=wish(reenter_s=0))
    assert said(LastChange("7:9", AT + 3 * HOUR), news("entered", AT + HOUR), of=each_time) == []


def test_of_what_was_told_there_is_nothing_to_say() -> None:
    assert said(LastChange("7:9", AT - HOUR), news("entered", AT - HOUR, "7:9")) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"events": ["dropped"], "threshold": 5}, "dropped is told at 95 or less"),
        ({"events": ["dropped", "rose"]}, "dropped is told below 100, rose is told above 100"),
        ({"events": ["rose"], "threshold": 10, "threshold_unit": "percent"}, "rose is told at 110 or more"),
    ],
)
def test_what_was_last_told_against_the_threshold(given: dict[str, object], expected: str) -> None:
    found = told_value(wish(watched_column="price", **given), Decimal(100), AT, {"price": Decimal("99.50")})
    assert str(found) == f"price was last told as 100, and is 99.50: {expected}"
    assert told_value(wish(), Decimal(100), AT, None) is None
