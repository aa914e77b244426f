"""A price is told when it has moved from what was last told, and not each time it crosses a line."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.moves import NOTHING, Memory, decoded, judged
from tests.alerts.store.wishes import wish

PRICES = st.lists(st.integers(0, 40), min_size=2, max_size=30)


def told_prices(prices: list[int], threshold: int, unit: str = "amount") -> list[tuple[str, int]]:
    """What is told of an item that goes through these prices."""
    watching = wish(events=["dropped", "rose"], watched_column="price", threshold=threshold, threshold_unit=unit)
    told, found = NOTHING, []
    for old, new in pairwise(prices):
        events = ["dropped"] if new < old else ["rose"] if new > old else []
        verdict = judged(watching, events, {"price": old}, {"price": new}, told)
        told = verdict.memory
        found += [(event, new) for event in verdict.reasons]
    return found


@pytest.mark.parametrize(
    ("prices", "threshold", "unit", "expected"),
    [
        ([100, 95, 100, 95, 100, 95], 5, "amount", [("dropped", 95), ("rose", 100)] * 2 + [("dropped", 95)]),
        ([100, 96, 100, 96, 100], 5, "amount", []),
        ([100, 98, 96, 94], 5, "amount", [("dropped", 94)]),
        ([100, 94, 96, 93, 90], 5, "amount", [("dropped", 94)]),
        ([200, 190, 181, 180], 10, "percent", [("dropped", 180)]),
        ([0, 1], 50, "percent", [("rose", 1)]),
        ([100, 100], 0, "amount", []),
    ],
)
def test_moves(prices: list[int], threshold: int, unit: str, expected: list[tuple[str, int]]) -> None:
    assert told_prices(prices, threshold, unit) == expected


@given(PRICES, st.integers(1, 20))
def test_two_told_values_in_a_row_are_apart_by_the_threshold(prices: list[int], threshold: int) -> None:
    """And nothing that is that far from the last told value goes untold."""
    last, expected = prices[0], []
    for price in prices[1:]:
        if abs(price - last) >= threshold:
            expected.append(("dropped" if price < last else "rose", price))
            last = price
    assert told_prices(prices, threshold) == expected


def test_one_direction_alone_does_not_hover() -> None:
    watching = wish(events=["dropped"], watched_column="price")
    told, found = NOTHING, []
    for old, new in ((100, 90), (90, 100), (100, 90), (90, 89)):
        verdict = judged(watching, ["dropped"] if new < old else [], {"price": old}, {"price": new}, told)
        told, found = verdict.memory, [*found, *([new] if verdict.reasons else [])]
    assert found == [90, 89]


def test_events_of_one_change_are_judged_against_the_same_value() -> None:
    both = wish(events=["changed", "dropped"], watched_column="price", threshold=5)
    verdict = judged(both, ["changed", "dropped"], {"price": 100}, {"price": 90})
    assert set(verdict.reasons) == {"changed", "dropped"}
    assert verdict.memory.value == 90


def test_what_was_told_by_another_event_counts() -> None:
    both = wish(events=["entered", "dropped"], watched_column="price", threshold=5)
    assert judged(both, ["entered"], None, {"price": 96}).memory.value == 96
    assert judged(both, ["dropped"], {"price": 96}, {"price": 94}, Memory(Decimal(96))).reasons == {}


@pytest.mark.parametrize("price", ["null", '"NaN"', '"Infinity"', "true"])
def test_what_is_no_number_moves_nowhere(price: str) -> None:
    watching = wish(events=["dropped", "rose"], watched_column="price")
    none, some = decoded(b'{"price":' + price.encode() + b"}"), decoded(b'{"price":5.10}')
    assert judged(watching, ["dropped", "rose"], some, none).reasons == {}
    assert judged(watching, ["dropped", "rose"], none, some).reasons == {}


def test_what_only_came_to_match_is_not_remembered() -> None:
    """Neither that it did not move, nor that it moved as nobody wants to be told."""
    watching = wish(events=["dropped"], watched_column="price")
    for old in (90, 70, None):
        assert judged(watching, ["dropped"], {"price": old}, {"price": 90}).memory == NOTHING
    assert judged(watching, ["dropped"], {"price": 90}, {"price": 90}, Memory(Decimal(100))).reasons == {
        "dropped": "price dropped from 100 to 90"
    }


def test_reasons() -> None:
    any_, named = wish(events=["changed"]), wish(events=["changed"], columns=["price"])
    old, new = {"id": 1, "price": 2, "title": "a"}, {"id": 1, "price": 3, "title": "b"}
    assert judged(any_, ["changed"], old, new).reasons == {"changed": "changed: price, title"}
    assert judged(named, ["changed"], old, new).reasons == {"changed": "changed: price"}
    true_to_one = [{"id": 1, "doc": {"is_new": each}} for each in (True, 1)]
    assert judged(any_, ["changed"], *true_to_one).reasons == {"changed": "changed: doc"}
    assert judged(any_, ["entered"], None, new).reasons == {"entered": "is new"}
    assert judged(any_, ["entered"], old, new).reasons == {"entered": "matches now"}
    assert judged(any_, ["left"], old, None).reasons == {"left": "is gone"}
    watching = wish(events=["dropped"], watched_column="price")
    exact = judged(watching, ["dropped"], decoded(b'{"price":7.50}'), decoded(b'{"price":7.10}'))
    assert exact.reasons == {"dropped": "price dropped from 7.50 to 7.10"}
