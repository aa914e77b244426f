"""A preview counts what the real thing would have recorded."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.matcher.matcher import Matcher
from alerts.moves import decoded, judged
from alerts.previewing import Version, count_events
from alerts.saved_row import entry_of
from alerts.saved_search import Wish
from alerts.subscription import Event
from search.index import decode_row
from tests.alerts.store.wishes import definition, row, wish

NOW = datetime(2026, 6, 1, tzinfo=UTC)
rows = st.one_of(
    st.none(),
    st.builds(
        lambda price, city, title: row(1, price, city=city, title=title),
        st.one_of(st.none(), st.integers(0, 30)),
        st.sampled_from(["paris", "lyon"]),
        st.sampled_from(["Flat", "House"]),
    ),
)
wishes = st.sampled_from(
    [
        wish(query="city:paris price:..20", events=["entered", "left"]),
        wish(query="city:paris", events=["changed"], columns=["title"]),
        wish(query="city:paris", events=["entered", "changed", "left"]),
        wish(query="city:paris", events=["dropped"], watched_column="price", threshold=5),
        wish(query="price:..20", events=["entered", "dropped", "rose"], watched_column="price"),
    ]
)


def recorded(asked: Wish, versions: list[bytes | None]) -> dict[str, int]:
    """By the matcher, and by what is judged of its matches when they are recorded."""
    matcher = Matcher(definition())
    fields = {**asked.fields(), "query": json.dumps(asked.query)}
    matcher.put(entry_of(1, fields, definition()))
    told, counted = None, dict.fromkeys(asked.events, 0)
    for before, after in pairwise(versions):
        pair = tuple(None if each is None else decode_row(definition(), each) for each in (before, after))
        found = matcher.match([pair], NOW) if before != after else None
        names = [str(e.name).lower() for bits in (found.event.tolist() if found else []) for e in Event(bits)]
        if names:
            verdict = judged(asked, names, decoded(before), decoded(after), told)
            told = verdict.told
            for event in verdict.reasons:
                counted[event] += 1
    return counted


@settings(max_examples=50)
@given(wishes, st.lists(rows, min_size=1, max_size=12))
def test_a_preview_is_what_is_recorded(asked: Wish, versions: list[bytes | None]) -> None:
    past = [Version("a", versions[0], is_news=False), *(Version("a", each) for each in versions[1:])]
    assert count_events(asked, past, definition(), NOW) == recorded(asked, versions)


def test_rows_are_looked_at_one_by_one() -> None:
    asked = wish(query="city:paris", events=["entered", "left"])
    past = [
        Version(1, row(1)),
        Version(2, row(2)),
        Version(3, row(3), is_news=False),
        Version(3, None),
        Version(4, row(4, city="lyon")),
    ]
    assert count_events(asked, past, definition(), NOW) == {"entered": 2, "left": 1}
