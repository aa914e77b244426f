"""The property that alerts rest on: whatever is subscribed and however it churns, the matcher finds what the evaluator
finds on every subscription, one by one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alerts.matcher import Change, Matcher, Matches, Naive
from alerts.matcher.probes import value_key
from alerts.subscription import Entry, Event, Watched
from cdc.errors import ConfigurationError
from search.geo import Point, distance_m
from search.index import decode_row, define
from search.query import And, Equals, MatchAll, Near, Not, Query, Range, Text
from search.query_check import check
from tests.alerts import asked
from tests.search import market

NOW = datetime(2026, 5, 31, 12, tzinfo=UTC)
LATER = datetime(2026, 6, 1, 12, tzinfo=UTC)
DEFINITION = market.DEFINITION
ENTERED = Watched()


def _set(found: Matches) -> set[tuple[int, int, int]]:
    made = set(zip(found.delta.tolist(), found.subscription.tolist(), found.event.tolist(), strict=True))
    assert len(made) == len(found)
    return made


def _agree(matcher: Matcher, naive: Naive, changes: list[Change], now: datetime = NOW) -> None:
    assert _set(matcher.match(changes, now)) == _set(naive.match(changes, now))


def _subscribed(queries: list[Query], watched: Watched = asked.ALL) -> list[Entry]:
    return [Entry(number, check(query, DEFINITION), watched) for number, query in enumerate(queries)]


def test_every_kind_of_clause_and_its_negation(tmp_path: Path) -> None:
    clauses = list(market.every_clause())
    entries = _subscribed([*clauses, *map(Not, clauses)])
    rows: list[Any] = [decode_row(DEFINITION, row) for row in market.SPECIAL_ROWS]
    rows += [asked.row(seed) for seed in range(17)]
    changes = [(None, rows[0]), *zip(rows, [*rows[1:], None], strict=True)]
    for number, name in enumerate(DEFINITION.by_name):  # most columns are as they were, as in most changes
        for row, other in list(pairwise(rows))[number % 15 :: 15]:
            changes.append((row, {**row, name: other.get(name)}))
    naive = Naive(DEFINITION)
    for entry in entries:
        naive.put(entry)
    wanted = _set(naive.match(changes, NOW))
    assert len(wanted) > 10_000
    assert _set(Matcher.build(tmp_path / "seen", DEFINITION, entries, rows).match(changes, NOW)) == wanted
    assert _set(Matcher.build(tmp_path / "blind", DEFINITION, entries).match(changes, NOW)) == wanted


_puts = st.tuples(st.just("put"), st.integers(0, 12), asked.queries, asked.watched)
_removes = st.tuples(st.just("remove"), st.integers(0, 12), st.none(), st.none())
_others = st.tuples(st.sampled_from(["compact", "reopen", "match"]), st.just(0), st.none(), st.none())
churn = st.lists(st.one_of(_puts, _puts, _puts, _removes, _others), min_size=1, max_size=25)


@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(
    first=st.lists(asked.queries, max_size=8),
    steps=churn,
    changes=st.lists(asked.changes(), min_size=1, max_size=6),
    now=st.sampled_from([NOW, LATER]),
)
def test_it_finds_what_the_evaluator_finds_under_churn(
    first: list[Query], steps: list[Any], changes: list[Change], now: datetime
) -> None:
    naive = Naive(DEFINITION)
    entries = [Entry(number, query, asked.ALL) for number, query in enumerate(first)]
    with TemporaryDirectory() as folder:
        matcher = Matcher.build(Path(folder), DEFINITION, entries)
        for entry in entries:
            naive.put(entry)
        for step, number, query, watched in steps:
            if step == "put":
                matcher.put(entry := Entry(number, query, watched))
                naive.put(entry)
            elif step == "remove":
                matcher.remove(number)
                naive.remove(number)
            elif step == "match":
                _agree(matcher, naive, changes, now)
            else:
                matcher = matcher.compact(Path(folder), "next")
                if step == "reopen":
                    matcher = Matcher.open(Path(folder), DEFINITION)
        _agree(matcher, naive, changes, now)
        assert len(matcher) == len(list(matcher.entries()))


def _matcher(tmp_path: Path, *queries: Query, watched: Watched = ENTERED) -> Matcher:
    return Matcher.build(tmp_path, DEFINITION, _subscribed(list(queries), watched), version="7")


def test_what_is_put_changed_or_removed_counts_at_once(tmp_path: Path) -> None:
    matcher = _matcher(tmp_path, Equals("kind", "flat"))
    flat: Change = (None, {"kind": "flat"})
    matcher.put(Entry(5, Text("sea")))
    assert _set(matcher.match([flat, (None, {"title": "by the sea"})], NOW)) == {(0, 0, 1), (1, 5, 1)}
    matcher.put(Entry(0, Equals("kind", "house")))
    matcher.remove(5)
    matcher.remove(99)
    assert _set(matcher.match([flat, (None, {"kind": "house", "title": "sea"})], NOW)) == {(1, 0, 1)}
    assert (len(matcher), matcher.later) == (1, 1)


def test_queries_that_say_the_same_are_evaluated_once(tmp_path: Path) -> None:
    flat, cheap = Equals("kind", "flat"), Range("price", None, 100)
    matcher = _matcher(tmp_path, And((flat, cheap)), And((cheap, flat)), Not(Not(And((cheap, flat, cheap)))))
    found = matcher.match([(None, {"kind": "flat", "price": 7})], NOW)
    assert _set(found) == {(0, 0, 1), (0, 1, 1), (0, 2, 1)}
    assert matcher.candidates == 1


def test_a_row_that_meets_no_anchor_is_not_looked_at(tmp_path: Path) -> None:
    matcher = _matcher(tmp_path, *(And((Equals("number", n), Range("price", 1, None))) for n in range(500)))
    matcher.match([(None, {"number": 7, "price": 7}), (None, {"number": -1, "price": 7})], NOW)
    assert matcher.candidates == 1


def test_each_event_is_told_to_those_who_watch_it(tmp_path: Path) -> None:
    cheap = check(Range("price", None, 100), DEFINITION)
    every = (
        Watched(),
        Watched(False, True),
        Watched(False, changed=True),
        Watched(False, changed=True, columns=("title",)),
    )
    moves = (Watched(False, dropped=("price",)), Watched(False, rose=("number", "price")))
    matcher = Matcher.build(tmp_path, DEFINITION, [Entry(n, cheap, w) for n, w in enumerate((*every, *moves))])
    changes: list[Change] = [
        (None, {"price": 50}),
        ({"price": 50}, None),
        ({"price": 150}, {"price": 90}),
        ({"price": 90}, {"price": 95, "title": None}),
        ({"price": 95}, {"price": 150}),
        ({"price": 95, "title": "a"}, {"price": 95, "title": "b"}),
    ]
    assert _set(matcher.match(changes, NOW)) == {
        (0, 0, Event.ENTERED), (1, 1, Event.LEFT), (2, 0, Event.ENTERED), (2, 4, Event.DROPPED), (2, 5, Event.ROSE),
        (3, 2, Event.CHANGED), (3, 5, Event.ROSE), (4, 1, Event.LEFT), (5, 2, Event.CHANGED), (5, 3, Event.CHANGED),
    }  # fmt: skip


def test_a_point_on_a_circle_is_judged_as_the_evaluator_does(tmp_path: Path) -> None:
    centre, place = Point(48.85, 2.35), Point(48.9, 2.4)
    far = distance_m(centre, place)
    radii = [far * (1 + step * 1e-16) for step in range(-20, 21)]
    matcher = _matcher(tmp_path, *(Near(*centre, radius) for radius in radii))
    found = matcher.match([(None, {"lat": place.lat, "lon": place.lon})], NOW)
    assert _set(found) == {(0, number, 1) for number, radius in enumerate(radii) if far <= radius}


def test_more_matches_than_room_are_told_all(tmp_path: Path) -> None:
    matcher = _matcher(tmp_path, *(Range("number", n, None) for n in range(3_000)))
    changes: list[Change] = [(None, {"number": 10_000})] * 60
    assert len(_set(matcher.match(changes, NOW))) == 180_000


def test_small_segments_are_joined(tmp_path: Path) -> None:
    matcher = Matcher(DEFINITION)
    for number in range(100):
        matcher.put(Entry(number, MatchAll()))
        assert len(matcher.match([(None, {})], NOW)) == number + 1
    assert len(matcher._later) < 8


def test_a_base_is_opened_as_it_was_stamped_and_only_for_its_view(tmp_path: Path) -> None:
    matcher = _matcher(tmp_path, MatchAll())
    assert Matcher.open(tmp_path, DEFINITION).version == matcher.version == "7"
    assert len(Matcher.open(tmp_path, DEFINITION)) == 1
    for number in range(3):
        matcher = matcher.compact(tmp_path, str(number))
    assert sorted(folder.name for folder in tmp_path.glob("base-*")) == ["base-3", "base-4"]
    with pytest.raises(ConfigurationError, match="another shape"):
        Matcher.open(tmp_path, define(market.shape(language="french")))
    with pytest.raises(ConfigurationError, match="no base"):
        Matcher.open(tmp_path / "elsewhere", DEFINITION)


def test_matches_as_arrow(tmp_path: Path) -> None:
    batch = _matcher(tmp_path, MatchAll()).match([({}, None), (None, {})], NOW).arrow()
    assert batch.to_pylist() == [{"delta": 1, "subscription": 0, "event": 1}]


BOTH = Watched(changed=True, dropped=("loose",), rose=("loose",))
DOC, LOOSE = (replace(BOTH, columns=(name,)) for name in ("doc", "loose"))
CHANGED, DROPPED, ROSE = int(Event.CHANGED), int(Event.DROPPED), int(Event.ROSE)


@pytest.mark.parametrize(
    ("before", "after", "bits"),
    [  # of one that watches any column, the json column, the number
        ('"doc":true', '"doc":1', (CHANGED, CHANGED, 0)),
        ('"doc":0', '"doc":false', (CHANGED, CHANGED, 0)),
        ('"doc":{"a":[1,{"b":true}]}', '"doc":{"a":[1,{"b":1}]}', (CHANGED, CHANGED, 0)),
        ('"doc":{"a":[1,{"b":true}]}', '"doc":{"a":[1.0,{"b":true}]}', (0, 0, 0)),
        ('"doc":{"a":1,"b":2}', '"doc":{"b":2,"a":1}', (0, 0, 0)),
        ('"doc":[1,2]', '"doc":[2,1]', (CHANGED, CHANGED, 0)),
        ('"doc":null', '"doc":false', (CHANGED, CHANGED, 0)),
        ('"doc":null', '"doc":0', (CHANGED, CHANGED, 0)),
        ('"doc":"1"', '"doc":1', (CHANGED, CHANGED, 0)),
        ('"doc":true,"loose":1', '"doc":1,"loose":2', (CHANGED | ROSE, CHANGED | ROSE, CHANGED | ROSE)),
        ('"loose":1.0', '"loose":1.00', (0, 0, 0)),
        ('"loose":1.0,"title":"a"', '"loose":1.00,"title":"b"', (CHANGED, 0, 0)),
        ('"loose":2', '"loose":1.9', (CHANGED | DROPPED, DROPPED, CHANGED | DROPPED)),
        ('"loose":"NaN","ratio":"NaN"', '"loose":"NaN","ratio":"NaN"', (0, 0, 0)),
        ('"loose":"NaN"', '"loose":1', (CHANGED | DROPPED, DROPPED, CHANGED | DROPPED)),
        ('"loose":null', '"loose":null', (0, 0, 0)),
        ('"loose":null', '"loose":0', (CHANGED | DROPPED | ROSE, DROPPED | ROSE, CHANGED | DROPPED | ROSE)),
        ('"loose":0', '"loose":null', (CHANGED, 0, CHANGED)),
        ('"flag":false', '"flag":null', (CHANGED, 0, 0)),
    ],
)
def test_what_differs_is_as_postgres_has_it(before: str, after: str, bits: tuple[int, ...]) -> None:
    """By hand, because the evaluator asks what the matcher asks."""
    matcher = Matcher(DEFINITION)
    for number, watched in enumerate((BOTH, DOC, LOOSE)):
        matcher.put(Entry(number, MatchAll(), watched))
    one, other = (decode_row(DEFINITION, f'{{"id":1,{row}}}') for row in (before, after))
    found = {id_: event for _, id_, event in _set(matcher.match([(one, other)], NOW))}
    assert tuple(found.get(number, 0) for number in range(3)) == bits


def test_a_number_that_is_and_stays_nan_has_not_changed() -> None:
    nan = Decimal("NaN")
    row = {**asked.row(1), "price": nan}
    watched = Watched(changed=True, columns=("price",))
    naive = Naive(DEFINITION)
    naive.put(Entry(1, check(MatchAll(), DEFINITION), watched))
    assert not len(naive.match([(row, {**row, "title": "another", "price": Decimal("NaN")})], NOW))
    assert len(naive.match([(row, {**row, "price": Decimal(1)})], NOW)) == 1


@given(st.decimals(allow_nan=False, allow_infinity=False), st.integers(0, 5))
def test_equal_numbers_have_one_key(number: Decimal, zeros: int) -> None:
    sign, digits, exponent = number.as_tuple()
    longer = Decimal((sign, (*digits, *[0] * zeros), int(exponent) - zeros))
    assert value_key(number) == value_key(longer)
    if number == number.to_integral_value() and number.adjusted() < 200:
        assert value_key(int(number)) == value_key(number)


@pytest.mark.parametrize("far", ["1e999999999", "-1e999999999", "1e-999999999", "0e999999999"])
def test_a_number_with_a_thousand_million_zeros_is_not_written_out(far: str) -> None:
    assert len(value_key(Decimal(far))) < 20
