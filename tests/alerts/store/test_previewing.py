"""A preview counts what the real thing would have recorded."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from alerts.matcher.matcher import Matcher
from alerts.moves import NOTHING, decoded, judged
from alerts.previewing import Version, count_events, unless_quiet
from alerts.quiet import Stretch
from alerts.saved_row import entry_of
from alerts.saved_search import Wish
from alerts.subscription import Event
from alerts.wish_reading import read_wish
from search.index import decode_row, define
from tests.alerts.store.wishes import FIELDS, definition, row, wish
from views import sqltypes
from views.plan import Field
from views.sinks.sink import ViewShape

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
        wish(query="city:paris", reenter_s=7_200),
        wish(query="price:..20", reenter_s=0),
        wish(query="city:paris", events=["changed"], columns=["title"]),
        wish(query="city:paris", events=["entered", "changed", "left"]),
        wish(query="city:paris", events=["dropped"], watched_column="price", threshold=5),
        wish(query="price:..20", events=["entered", "dropped", "rose"], watched_column="price"),
    ]
)


def at(number: int) -> datetime:
    """A version every twenty minutes: some entries are soon after another, some are not."""
    return NOW + timedelta(minutes=20 * number)


def recorded(asked: Wish, versions: list[bytes | None]) -> dict[str, int]:
    """By the matcher, and by what is judged of its matches when they are recorded."""
    matcher = Matcher(definition())
    fields = {**asked.fields(), "query": json.dumps(asked.query)}
    matcher.put(entry_of(1, fields, definition()))
    told, counted = NOTHING, dict.fromkeys(asked.events, 0)
    for number, (before, after) in enumerate(pairwise(versions), 1):
        pair = tuple(None if each is None else decode_row(definition(), each) for each in (before, after))
        found = matcher.match([pair], NOW) if before != after else None
        names = [str(e.name).lower() for bits in (found.event.tolist() if found else []) for e in Event(bits)]
        if names:
            verdict = judged(asked, names, decoded(before), decoded(after), told, at(number))
            told = verdict.memory
            for event in verdict.reasons:
                counted[event] += 1
    return counted


@settings(max_examples=50)
@given(wishes, st.lists(rows, min_size=1, max_size=12))
def test_a_preview_is_what_is_recorded(asked: Wish, versions: list[bytes | None]) -> None:
    past = [Version("a", each, number > 0, at(number)) for number, each in enumerate(versions)]
    assert count_events(asked, past, definition(), NOW) == recorded(asked, versions)


def told_moves(versions: list[bytes | None], threshold: int) -> dict[str, int]:
    """As the docs say it of a price in Paris, of which just drops and rises are told."""
    told: int | None = None
    counted = {"dropped": 0, "rose": 0}
    for before, after in pairwise([None if each is None else json.loads(each) for each in versions]):
        if before is None or after is None or after["city"] != "paris" or after["price"] is None:
            continue
        old, new = before["price"], after["price"]
        base = old if told is None else told
        if base is not None and new != base and abs(new - base) >= threshold:
            counted["dropped" if new < base else "rose"] += 1
            told = new
        elif told is None and old != new:
            told = old
    return counted


@given(st.lists(rows.filter(bool), min_size=1, max_size=12), st.sampled_from([0, 5]))
@example([row(1, 20), row(1, 10), row(1, 10, city="lyon"), row(1, 5, city="lyon"), row(1, 5)], 0)
@example([row(1, 20), row(1, 10), row(1, None), row(1, 5)], 0)
@example([row(1, 20, city="lyon"), row(1, 10)], 0)
def test_a_move_is_told_however_the_value_came_there(versions: list[bytes | None], threshold: int) -> None:
    """Also where it moved while the row did not match, or was unknown in between."""
    asked = wish(query="city:paris", events=["dropped", "rose"], watched_column="price", threshold=threshold)
    assert recorded(asked, versions) == told_moves(versions, threshold)


def test_what_it_was_before_it_matched_is_no_price_that_counts() -> None:
    """It rose into the range, which this search is not told of; then it drops within it."""
    asked = wish(query="price:10..", events=["dropped"], watched_column="price", threshold=2)
    versions = [row(1, 5), row(1, 20), row(1, 15)]
    assert recorded(asked, versions) == {"dropped": 1}  # type: ignore[arg-type]


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


def test_relative_instants_mean_the_moment_of_each_commit() -> None:
    """Each was new when it was committed, however long ago that is at the preview."""
    dated = define(
        ViewShape("market", "listing", (*FIELDS, Field("listed", sqltypes.named("timestamp with time zone"))), ("id",))
    )
    asked = read_wish({"query": "listed:now-1d..", "events": ["entered"]}, dated)
    past = [
        Version(number, row(number, listed=at(-number).isoformat()), committed_at=at(-number))
        for number in range(0, 60, 10)
    ]
    assert count_events(asked, past, dated, NOW) == {"entered": 6}


@pytest.mark.parametrize("columns", [[], ["doc"]])
def test_true_in_a_document_is_not_one(columns: list[str]) -> None:
    documents = define(ViewShape("market", "listing", (*FIELDS, Field("doc", sqltypes.JSONB)), ("id",)))
    asked = read_wish({"query": "city:paris", "events": ["changed"], "columns": columns}, documents)
    past = [Version(1, row(1, doc=[each]), number > 0) for number, each in enumerate((True, 1, 1.0, False))]
    assert count_events(asked, past, documents, NOW) == {"changed": 2}


def test_what_was_committed_in_a_quiet_stretch_is_no_news() -> None:
    asked = wish(query="city:paris", events=["entered"])
    past = [Version(number, row(number), committed_at=at(number)) for number in range(6)]
    stretches = [Stretch(1, None, "import", at(1), at(2)), Stretch(2, "listing", "", at(5), None)]
    assert count_events(asked, unless_quiet(past, stretches), definition(), NOW) == {"entered": 3}
    assert count_events(asked, unless_quiet(past, []), definition(), NOW) == {"entered": 6}


def test_an_entry_in_a_quiet_stretch_is_no_entry_later() -> None:
    """The row is remembered as it was there, as by the matcher."""
    asked = wish(query="city:paris", events=["entered", "changed"])
    past = [Version(1, row(1), committed_at=at(1)), Version(1, row(1, 20), committed_at=at(3))]
    stretches = [Stretch(1, None, "import", at(0), at(2))]
    assert count_events(asked, unless_quiet(past, stretches), definition(), NOW) == {"entered": 0, "changed": 1}


def test_a_search_counts_by_its_own_window() -> None:
    """In stock, sold out, and back every three hours."""
    past = [
        Version(1, row(1, city="paris" if number % 2 == 0 else "lyon"), number > 0, NOW + timedelta(hours=1.5 * number))
        for number in range(8)
    ]
    counted = [
        count_events(wish(reenter_s=window), past, definition(), NOW)["entered"] for window in (None, 0, 14_400, 86_400)
    ]
    assert counted == [3, 3, 2, 1]
