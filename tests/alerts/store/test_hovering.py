"""A row that crosses the edge of a search again and again is told once a window, whatever is cut off and replayed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts import inbox, store
from alerts.matched import Match
from alerts.moves import Memory, judged
from tests.alerts.store.wishes import match, record, row, wish

AT = datetime(2026, 6, 1, tzinfo=UTC)
MINUTE_US = 60_000_000
BUDGET = 500


def crossings(one: int, prices: list[int], events: tuple[str, ...] = ("entered",), minutes: int = 1) -> list[Match]:
    """What the matcher says of an item around a budget, a change every few minutes."""
    found, old = list[Match](), BUDGET + 1
    for version, new in enumerate(prices):
        event = "entered" if new <= BUDGET < old else "left" if old <= BUDGET < new else ""
        if event in events:
            at_us = 1_800_000_000_000_000 + version * minutes * MINUTE_US
            found.append(match(one, 1, event, version, row(1, old), row(1, new), at_us))
        old = new
    return found


def told(conn: psycopg.Connection) -> list[tuple[str, int]]:
    return [(news.event, int(news.position.partition(":")[2])) for news in inbox.after(conn, "ada")]


def saved(conn: psycopg.Connection, **given: Any) -> int:
    return store.create(conn, "ada", wish(query="price:..500", **given)).id


HOVERING = [499, 501, 499, 501, 499, 501, 499]


@pytest.mark.stack
@pytest.mark.parametrize("at_once", [True, False])
def test_a_price_at_the_edge_of_a_budget_is_told_once(conn: psycopg.Connection, at_once: bool) -> None:
    found = crossings(saved(conn), HOVERING)
    if at_once:
        record(conn, "listing", len(HOVERING), found)
    for each in found:
        record(conn, "listing", each.version + 1, [each])
        record(conn, "listing", each.version + 1, [each])
    assert told(conn) == [("entered", 0)]


@pytest.mark.stack
def test_it_is_told_again_when_the_window_is_over(conn: psycopg.Connection) -> None:
    found = crossings(saved(conn), HOVERING, minutes=15)
    record(conn, "listing", len(HOVERING), found)
    assert told(conn) == [("entered", 0), ("entered", 4)]


@pytest.mark.stack
def test_a_window_can_be_set(conn: psycopg.Connection) -> None:
    found = crossings(saved(conn), HOVERING)
    for each in found:
        record(conn, "listing", each.version + 1, [each], reenter_s=0)
    assert told(conn) == [("entered", at) for at in (0, 2, 4, 6)]


@pytest.mark.stack
def test_each_search_may_have_a_window_of_its_own(conn: psycopg.Connection) -> None:
    """Back in stock after six hours is told, unless somebody wants it less often; and at once to who wants that."""
    usual, seldom, always = (saved(conn, reenter_s=window) for window in (None, 86_400, 0))
    hours = {one: crossings(one, HOVERING, minutes=6 * 60) for one in (usual, seldom)}
    minutes = [each._replace(key=b'{"id":2}') for each in crossings(always, HOVERING)]
    found = sorted((*hours[usual], *hours[seldom], *minutes), key=lambda each: each.version)
    for version in range(len(HOVERING)):
        record(conn, "listing", version + 1, [each for each in found if each.version == version])
    entered = [(news.subscription_id, int(news.position.partition(":")[2])) for news in inbox.after(conn, "ada")]
    assert {one: [at for id_, at in entered if id_ == one] for one in (usual, seldom, always)} == {
        usual: [0, 2, 4, 6], seldom: [0, 4], always: [0, 2, 4, 6],
    }  # fmt: skip


@pytest.mark.stack
def test_who_is_told_that_it_left_is_told_that_it_is_back(conn: psycopg.Connection) -> None:
    found = crossings(saved(conn, events=["entered", "left"]), HOVERING[:4], ("entered", "left"))
    for each in found:
        record(conn, "listing", each.version + 1, [each])
    assert told(conn) == [("entered", 0), ("left", 1), ("entered", 2), ("left", 3)]


@pytest.mark.stack
def test_searches_and_items_have_windows_of_their_own(conn: psycopg.Connection) -> None:
    one, two = saved(conn), saved(conn)
    record(conn, "listing", 1, [match(one, 1, version=0)])
    record(conn, "listing", 4, [match(one, 2, version=1), match(two, 1, version=2), match(one, 1, version=3)])
    assert [(news.subscription_id, news.key) for news in inbox.after(conn, "ada")] == [
        (one, '{"id":1}'), (one, '{"id":2}'), (two, '{"id":1}'),
    ]  # fmt: skip


@pytest.mark.stack
def test_a_row_that_was_gone_and_is_back_is_no_news_either(conn: psycopg.Connection) -> None:
    """Back in stock, in a view that has just what is in stock."""
    one = saved(conn)
    record(conn, "listing", 1, [match(one, 1, version=0)])
    record(conn, "listing", 3, [match(one, 1, version=2)])
    assert told(conn) == [("entered", 0)]


def test_a_move_that_is_wanted_tells_of_it_again() -> None:
    cheaper = wish(events=["entered", "dropped"], watched_column="price", threshold=10)
    before = Memory(Decimal(499), AT)

    def again(price: int) -> dict[str, str]:
        return judged(
            cheaper, ["entered"], {"price": 501}, {"price": price}, before, AT + timedelta(minutes=10)
        ).reasons

    assert again(498) == {}
    assert again(500) == {}
    assert again(489) == {"entered": "matches now"}


def test_a_commit_that_has_no_time_is_told() -> None:
    plain = wish()
    assert judged(plain, ["entered"], None, {"price": 1}, Memory(None, AT), None).reasons == {"entered": "is new"}


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(0, 100))
def test_two_entries_told_are_apart_by_the_window(gaps: list[int], window: int) -> None:
    """And the first after it is told."""
    memory, at, found, expected, last = Memory(), AT, [], [], None
    for gap in gaps:
        at += timedelta(seconds=gap)
        verdict = judged(wish(), ["entered"], None, {"price": 1}, memory, at, window)
        memory = verdict.memory
        found += [at] * len(verdict.reasons)
        if last is None or (at - last).total_seconds() >= window:
            last = at
            expected.append(at)
    assert found == expected
