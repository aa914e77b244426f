"""Whether a search, as it asks now, would tell what waits: by the evaluator. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from alerts.waiting import Waiting, would_tell
from tests.alerts.store.wishes import definition, row, wish

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
