"""Whether a search, as it asks now, would tell what waits: by the evaluator. Pure."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from alerts.waiting import Waiting, would_tell
from alerts.wish_reading import read_wish
from search.index import define
from tests.alerts.store.wishes import definition, row, wish
from views import sqltypes
from views.plan import Field
from views.sinks.sink import ViewShape

NOW = datetime(2026, 6, 1, tzinfo=UTC)
MOVES = {"events": ["entered", "dropped"], "watched_column": "price"}


@pytest.mark.parametrize(
    ("given", "event", "before", "after", "wanted"),
    [
        ({}, "entered", None, row(1), True),
        ({"query": "city:lyon"}, "entered", None, row(1), False),
        ({"query": "price:..50"}, "entered", None, row(1, 60), False),
        ({"query": "price:..500"}, "entered", row(1, 400), row(1, 300), False),
        ({"events": ["left"]}, "entered", None, row(1), False),
        ({"events": ["left"]}, "left", row(1), None, True),
        ({"events": ["left"], "query": "city:lyon"}, "left", row(1), None, False),
        ({"events": ["changed"], "columns": ["title"]}, "changed", row(1), row(1, title="House"), True),
        ({"events": ["changed"], "columns": ["price"]}, "changed", row(1), row(1, title="House"), False),
        (MOVES, "dropped", row(1, 100), row(1, 90), True),
        ({**MOVES, "watched_column": "bedrooms"}, "dropped", row(1, 100), row(1, 90), False),
        ({}, "entered", None, b'{"id":1,"city":"paris","price":[1]}', False),
    ],
)
def test_what_a_search_would_tell(
    given: dict[str, Any], event: str, before: bytes | None, after: bytes | None, wanted: bool
) -> None:
    texts = [None if each is None else each.decode() for each in (before, after)]
    waiting = Waiting(1, event, NOW, *texts)
    assert would_tell(wish(**given), definition(), NOW)(waiting) is wanted


@pytest.mark.parametrize(
    ("type_", "query", "value"),
    [
        ("date", "sold:2026-01-01", "soon"),
        ("integer", "sold:1..5", "many"),
        ("double precision", "sold:1.5", "many"),
        ("text", "sold:paris", 7),
        ("text", "sold:paris", {"city": "paris"}),
        ("numeric(12,2)", "sold:1..5", ["1"]),
        ("timestamp with time zone", "sold:2026-01-01..", 7),
    ],
)
def test_news_is_not_told_where_the_view_has_changed_so_that_it_does_not_fit(
    type_: str, query: str, value: Any
) -> None:
    """What waits is a row of the view as it was, in which the column had another type."""
    fields = (Field("id", sqltypes.BIGINT, nullable=False), Field("sold", sqltypes.named(type_)))
    changed = define(ViewShape("market", "listing", fields, ("id",)))
    waiting = Waiting(1, "entered", NOW, None, json.dumps({"id": 1, "sold": value}))
    wanted = read_wish({"view": "listing", "query": query}, changed)
    assert would_tell(wanted, changed, NOW)(waiting) is False
