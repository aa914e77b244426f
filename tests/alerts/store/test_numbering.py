"""A database that was put back to an earlier point gives no number again that somebody has had."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from alerts import inbox, numbering, store, trial
from alerts.notifier import notify
from tests.alerts.store.wishes import match, record, wish

pytestmark = pytest.mark.stack
LAST_SEEN = 500
"""By a feed, before the database was put back to where the last number was 2."""
SAFE = 2**53
"""In a browser numbers are exact up to there."""


def put_back(conn: psycopg.Connection) -> int:
    one = store.create(conn, "ada", wish()).id
    record(conn, "listing", 2, [match(one, 1, version=0), match(one, 2, version=1)])
    assert inbox.last_sequence(conn, "ada") == 2
    conn.execute("update headwater.numbering set history = '7/00000001/16384'")
    return one


def numbers(conn: psycopg.Connection) -> list[int]:
    rows = conn.execute("select last_sequence, last_notification from headwater.owners").fetchall()
    return [number for row in rows for number in row]


def test_news_after_it_comes_after_all_that_was_seen(conn: psycopg.Connection) -> None:
    with conn.transaction():
        one = put_back(conn)
        assert inbox.after(conn, "ada", LAST_SEEN) == []
        record(conn, "listing", 4, [match(one, 3, version=2), match(one, 4, version=3)])
        news = inbox.after(conn, "ada", LAST_SEEN)
        [[first]] = conn.execute("select first from headwater.numbering").fetchall()
        assert [each.sequence for each in news] == [first + 1, first + 2]
        assert 10**15 < first < SAFE
        record(conn, "listing", 5, [match(one, 5, version=4)])
        assert inbox.last_sequence(conn, "ada") == first + 3, "once, and without gaps from there"
        lost = store.create(conn, "bob", wish()).id
        record(conn, "listing", 6, [match(lost, 5, version=5)])
        assert inbox.last_sequence(conn, "bob") == first + 1, "of whom nothing was left there is no other trace"
        raise psycopg.Rollback


def test_a_second_time_is_beyond_the_first(conn: psycopg.Connection) -> None:
    with conn.transaction():
        one, firsts = put_back(conn), []
        for _ in range(2):
            with conn.transaction():
                record(conn, "listing", 3, [match(one, 3, version=2)])
                firsts += inbox.after(conn, "ada", 2)
                raise psycopg.Rollback
        assert firsts[0].sequence < firsts[1].sequence
        raise psycopg.Rollback


@pytest.mark.parametrize(
    "give",
    [
        lambda conn, one: notify(conn),
        lambda conn, one: trial.send(conn, store.by_ids(conn, [one])[one], ""),
        lambda conn, one: numbering.move_on(conn),
    ],
    ids=["notifier", "trial", "recover"],
)
def test_whoever_gives_numbers_sees_it(
    conn: psycopg.Connection, give: Callable[[psycopg.Connection, int], object]
) -> None:
    with conn.transaction():
        give(conn, put_back(conn))
        assert min(numbers(conn)) > LAST_SEEN
        raise psycopg.Rollback


def test_as_long_as_nothing_was_put_back_numbers_go_on(conn: psycopg.Connection) -> None:
    one = store.create(conn, "ada", wish()).id
    for version in range(3):
        record(conn, "listing", version + 1, [match(one, version, version=version)])
        notify(conn)
    assert inbox.last_sequence(conn, "ada") == 3
