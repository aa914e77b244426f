"""Exactly once: the outbox under replay, overlap, crash and two writers at once, in a real Postgres."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alerts import inbox, matched, outbox, store
from alerts.judging import News, worth_telling
from alerts.matched import MATCHES_MAX, Match
from alerts.outbox import Recorded
from cdc.errors import StateError
from tests.alerts.store.conftest import Connect, empty
from tests.alerts.store.wishes import match, record, row, wish

pytestmark = pytest.mark.stack

MINUTE_US = 60_000_000
ROWS = "select owner, sequence, subscription_id, key, event, version from headwater.outbox order by owner, sequence"


def rows(conn: psycopg.Connection) -> list[tuple[Any, ...]]:
    return conn.execute(ROWS).fetchall()


def saved(conn: psycopg.Connection, owner: str = "ada", **given: Any) -> int:
    return store.create(conn, owner, wish(**given)).id


def test_matches_become_rows_with_all_that_they_say(conn: psycopg.Connection) -> None:
    one = saved(conn, events=["entered", "left"])
    found = record(conn, "listing", 5, [match(one, 1, version=3), match(one, 2, "left", 4, row(2), None)])
    assert found == Recorded(2)
    first, second = inbox.after(conn, "ada")
    assert (first.sequence, first.key, first.event, first.reason) == (1, '{"id":1}', "entered", "is new")
    assert (first.before, first.after, first.position) == (None, row(1).decode(), "7:3")
    assert first.committed_at == datetime.fromtimestamp(1_800_000_000, UTC)
    assert (second.sequence, second.event, second.before, second.after) == (2, "left", row(2).decode(), None)
    assert inbox.after(conn, "ada", 1) == [second]
    assert inbox.after(conn, "bob") == []
    assert outbox.mark(conn, "listing") == ("", 5)


def test_news_is_read_within_bounds_one_at_least(conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    search = store.create(conn, "ada", wish())
    for number in range(1, 6):
        record(conn, "listing", number, [match(search.id, number, version=number - 1)])
    everything = inbox.after(conn, "ada")
    assert len(everything) == 5
    for bytes_max in (1, 100, 1_000, 2_000):
        monkeypatch.setattr(inbox, "BYTES_MAX", bytes_max)
        seen, some = list[inbox.News](), inbox.after(conn, "ada", 0, 3)
        while some:
            sizes = [len(news.before or "") + len(news.after or "") for news in some]
            assert sum(sizes[:-1]) < bytes_max
            assert len(some) <= 3
            seen += some
            some = inbox.after(conn, "ada", seen[-1].sequence, 3)
        assert seen == everything


def test_a_replay_does_nothing(conn: psycopg.Connection) -> None:
    one = saved(conn)
    matches = [match(one, n, version=n) for n in range(3)]
    record(conn, "listing", 3, matches)
    before = rows(conn)
    assert record(conn, "listing", 3, matches) == Recorded(0, is_replay=True)
    assert record(conn, "listing", 2, matches[:2]) == Recorded(0, is_replay=True)
    assert record(conn, "listing", 5, [*matches, match(one, 9, version=4)]) == Recorded(1)
    assert rows(conn)[:3] == before
    assert outbox.mark(conn, "listing") == ("", 5)


def test_the_row_itself_is_unique_whatever_the_mark_says(conn: psycopg.Connection) -> None:
    one = saved(conn)
    record(conn, "listing", 3, [match(one, version=2)])
    conn.execute("delete from headwater.outbox_marks")
    assert (
        record(conn, "listing", 4, [match(one, version=2), match(one, version=2), match(one, 2, version=3)]).rows == 1
    )
    assert [each[1:2] + each[5:] for each in rows(conn)] == [(1, 2), (2, 3)]


def test_a_topic_that_was_made_anew_begins_anew(conn: psycopg.Connection) -> None:
    one = saved(conn)
    record(conn, "listing", 9, [match(one, version=8)], topic_id="a")
    assert record(conn, "listing", 1, [match(one, 2, version=0)], topic_id="b").rows == 1
    assert outbox.mark(conn, "listing") == ("b", 1)


def test_a_match_beyond_the_mark_is_refused(conn: psycopg.Connection) -> None:
    one = saved(conn)
    with pytest.raises(StateError, match="beyond the mark"):
        record(conn, "listing", 5, [match(one, version=5)])
    assert outbox.mark(conn, "listing") is None


def test_what_is_cut_off_leaves_nothing(connect: Connect) -> None:
    conn, other = connect(), connect()
    one = saved(conn, events=["entered", "dropped"], watched_column="price")
    with conn.transaction():
        record(conn, "listing", 1, [match(one)])
        assert rows(other) == []
        raise psycopg.Rollback
    assert rows(other) == []
    assert outbox.mark(other, "listing") is None
    assert inbox.last_sequence(other, "ada") == 0
    assert other.execute("select count(*) from headwater.told_values").fetchone() == (0,)
    assert record(conn, "listing", 1, [match(one)]).rows == 1


@pytest.mark.parametrize("step", ["_MOVE", "_WRITE"])
def test_a_crash_between_the_steps_leaves_nothing(
    conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    one = saved(conn)
    monkeypatch.setattr(outbox, step, "select 1 / 0")
    with pytest.raises((psycopg.errors.DivisionByZero, psycopg.ProgrammingError)):
        record(conn, "listing", 1, [match(one)])
    assert rows(conn) == []
    monkeypatch.undo()
    assert record(conn, "listing", 1, [match(one)]).rows == 1
    assert [each[:2] for each in rows(conn)] == [("ada", 1)]


@pytest.mark.parametrize("silence", ["paused", "expired", "removed", "unwanted event", "another view"])
def test_nothing_is_recorded_of_a_search_that_is_silent(conn: psycopg.Connection, silence: str) -> None:
    one = saved(conn)
    if silence == "paused":
        store.update(conn, "ada", one, lambda old: msgspec.structs.replace(old.wish, paused=True))
    if silence == "expired":
        past = datetime.now(UTC) - timedelta(seconds=1)
        store.update(conn, "ada", one, lambda old: msgspec.structs.replace(old.wish, expires_at=past))
    if silence == "removed":
        store.remove(conn, "ada", one)
    event = "left" if silence == "unwanted event" else "entered"
    view = "house" if silence == "another view" else "listing"
    assert record(conn, view, 1, [match(one, event=event)]) == Recorded(0)
    assert rows(conn) == []
    assert outbox.mark(conn, view) == ("", 1)


def test_a_price_that_hovers_is_told_once(conn: psycopg.Connection) -> None:
    one = saved(conn, events=["dropped"], watched_column="price", threshold=5)
    prices = [100, 98, 96, 95, 97, 95, 99, 94, 90]
    for version, (old, new) in enumerate(pairwise(prices)):
        if new < old:
            moved = match(one, 1, "dropped", version, row(1, old), row(1, new))
            record(conn, "listing", version + 1, [moved])
            record(conn, "listing", version + 1, [moved])
    assert [news.reason for news in inbox.after(conn, "ada")] == [
        "price dropped from 100 to 95",
        "price dropped from 95 to 90",
    ]


def test_steps_of_one_item_in_one_batch_are_taken_in_order(conn: psycopg.Connection) -> None:
    one = saved(conn, events=["entered", "dropped"], watched_column="price", threshold=5)
    steps = [
        match(one, 1, "dropped", 2, row(1, 97), row(1, 94)),
        match(one, 1, "entered", 0, None, row(1, 100)),
        match(one, 1, "dropped", 1, row(1, 100), row(1, 97)),
    ]
    record(conn, "listing", 3, steps)
    assert [(news.event, news.reason) for news in inbox.after(conn, "ada")] == [
        ("entered", "is new"),
        ("dropped", "price dropped from 100 to 94"),
    ]


def run_at_once(works: Sequence[Any]) -> None:
    failures: list[BaseException] = []

    def run(work: Any) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.fixture(params=[MATCHES_MAX, 2], ids=["all at once", "in parts"])
def parts(request: pytest.FixtureRequest) -> Iterator[int]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matched, "MATCHES_MAX", request.param)
        yield request.param


def test_several_writers_of_several_views_at_once(connect: Connect, parts: int) -> None:
    """Everything twice, in two orders of owners, while a reader follows: each once, no number seen out of its order."""
    conn = connect()
    owners, views, epochs = ["ada", "bob", "cy"], ["listing", "house"], 15
    ids = {(owner, view): saved(conn, owner, view=view) for owner in owners for view in views}
    done, seen = threading.Event(), list[int]()

    def write(view: str, order: list[str]) -> None:
        mine = connect()
        for epoch in range(epochs):
            record(mine, view, epoch + 1, [match(ids[owner, view], epoch, version=epoch) for owner in order])

    def follow() -> None:
        mine = connect()
        while not done.is_set():
            seen.extend(news.sequence for news in inbox.after(mine, "ada", seen[-1] if seen else 0))

    reader = threading.Thread(target=follow)
    reader.start()
    run_at_once([lambda v=view, o=order: write(v, o) for view in views for order in (owners, owners[::-1])])
    done.set()
    reader.join()
    seen.extend(news.sequence for news in inbox.after(conn, "ada", seen[-1] if seen else 0))
    total = epochs * len(views)
    assert seen == list(range(1, total + 1))
    assert len(rows(conn)) == total * len(owners)


def test_the_next_number_waits_for_the_one_before(connect: Connect) -> None:
    """A commit that is under way holds its owner's sequence: nobody sees 2 and then 1."""
    conn, slow, fast = connect(), connect(), connect()
    one, two = saved(conn), saved(conn, view="house")
    with slow.transaction():
        record(slow, "listing", 1, [match(one)])
        fast.execute("set lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            record(fast, "house", 1, [match(two)])
    fast.execute("set lock_timeout = 0")
    record(fast, "house", 1, [match(two)])
    assert [each[1:3] for each in rows(conn)] == [(1, one), (2, two)]


def news_among(changes: Sequence[Match]) -> list[Match]:
    """All but those that enter again within an hour."""
    found, entered_us = list[Match](), dict[tuple[int, bytes], int]()
    for each in changes:
        assert each.committed_at_us is not None
        if each.event == "entered" and each.committed_at_us - entered_us.get(each.item, 0) < 60 * MINUTE_US:
            continue
        if each.event != "changed":
            entered_us[each.item] = each.committed_at_us if each.event == "entered" else 0
        found.append(each)
    return found


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_replay_gives_what_one_run_gives(conn: psycopg.Connection, parts: int, data: st.DataObject) -> None:
    """Matches come in chunks that are cut off, repeated and overlap; the outbox is that of a single pass."""
    empty(conn)
    names = ["entered", "left", "changed"]
    mine = [saved(conn, owner, events=names) for owner in ("ada", "ada", "bob")]
    drawn = st.tuples(st.sampled_from(mine), st.integers(1, 3), st.sampled_from(names), st.integers(0, 100))
    changes, at_us = [], 1_800_000_000_000_000
    for version, (s, key, event, minutes) in enumerate(data.draw(st.lists(drawn, max_size=20))):
        at_us += minutes * MINUTE_US
        changes.append(match(s, key, event, version, at_us=at_us))
    reached = 0
    for _ in range(data.draw(st.integers(0, 5))):
        start = data.draw(st.integers(0, reached))
        end = data.draw(st.integers(start, len(changes)))
        if data.draw(st.booleans()):
            with conn.transaction():
                record(conn, "listing", end, changes[start:end])
                raise psycopg.Rollback
        else:
            record(conn, "listing", end, changes[start:end])
            reached = max(reached, end)
    record(conn, "listing", len(changes), changes[data.draw(st.integers(0, reached)) :])
    found = [(id_, key, event, version) for _, _, id_, key, event, version in rows(conn)]
    expected = [(m.subscription_id, m.key.decode(), m.event, m.version) for m in changes if m in news_among(changes)]
    assert sorted(found) == sorted(expected)
    for owner in ("ada", "bob"):
        numbers = [news.sequence for news in inbox.after(conn, owner)]
        assert numbers == list(range(1, len(numbers) + 1))


def test_what_was_left_out_stays_out_when_it_comes_again(conn: psycopg.Connection) -> None:
    one = saved(conn, paused=True)
    record(conn, "listing", 1, [match(one)])
    store.update(conn, "ada", one, lambda old: msgspec.structs.replace(old.wish, paused=False))
    record(conn, "listing", 2, [match(one), match(one, 2, version=1)])
    assert [each[5] for each in rows(conn)] == [1]


def test_only_what_hangs_on_what_was_told_is_looked_at_one_by_one(
    conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are arrays all the way; what is said of them is the same."""
    looked_at: list[tuple[int, str]] = []

    def noting(conn: psycopg.Connection, matches: Sequence[Match], *given: Any) -> list[News]:
        looked_at.extend((each.subscription_id, each.event) for each in matches)
        return worth_telling(conn, matches, *given)

    monkeypatch.setattr(outbox, "worth_telling", noting)
    plain = saved(conn, "ada", events=["entered", "changed", "left"])
    narrow = saved(conn, "bob", events=["changed"], columns=["price"], frequency="daily", time_zone="Asia/Tokyo")
    watching = saved(conn, "bob", events=["changed", "dropped"], watched_column="price")
    moved = [match(id_, 1, "changed", 0, row(1, 100), row(1, 90, bedrooms=2)) for id_ in (plain, narrow, watching)]
    now = datetime(2026, 6, 1, 12, tzinfo=UTC)
    others = [match(plain, 2, version=1), match(plain, 3, "left", 2, row(3), None)]
    found = [*moved, match(watching, 1, "dropped", 0, row(1, 100), row(1, 90, bedrooms=2)), *others]
    assert record(conn, "listing", 3, found, clock=lambda: now).rows == 6
    assert looked_at == [(watching, "changed"), (watching, "dropped")]
    told = conn.execute("select sequence, reason, due_at from headwater.outbox order by owner, sequence").fetchall()
    assert told == [
        (1, "changed: price, bedrooms", now),
        (2, "is new", now),
        (3, "is gone", now),
        (1, "changed: price", datetime(2026, 6, 1, 23, tzinfo=UTC)),
        (2, "changed: price, bedrooms", now),
        (3, "price dropped from 100 to 90", now),
    ]
    assert record(conn, "listing", 5, [match(plain, 2, version=3), match(plain, 2, "left", 4)]).rows == 1
    assert looked_at[2:] == [(plain, "entered"), (plain, "left")], "the row changed twice"


HOUR_AGO = datetime.now(UTC) - timedelta(hours=1)


@pytest.mark.parametrize(
    ("given", "change", "event", "reasons"),
    [
        ({}, {"query": wish(query="city:lyon").query}, "entered", []),
        ({}, {"query": wish(query="city:paris price:..100").query}, "entered", ["is new"]),
        ({}, {"label": "Paris"}, "entered", ["is new"]),
        ({"columns": ["price"]}, {"columns": ("title",)}, "changed", []),
        ({"columns": ["price"]}, {"columns": ("title", "price")}, "changed", ["changed: price"]),
        ({"watched_column": "price"}, {"watched_column": "bedrooms"}, "dropped", []),
    ],
)
def test_what_was_not_matched_when_a_search_was_changed_is_told_if_it_would_tell_it_now(
    conn: psycopg.Connection, given: dict[str, Any], change: dict[str, Any], event: str, reasons: list[str]
) -> None:
    """Alerts lag: it is matched by the search as it was at the commit."""
    one = saved(conn, events=[event], **given)
    store.update(conn, "ada", one, lambda old: msgspec.structs.replace(old.wish, **change))
    before = None if event == "entered" else row(1, 200)
    record(conn, "listing", 1, [match(one, 1, event, before=before, at_us=int(HOUR_AGO.timestamp() * 1e6))])
    assert [news.reason for news in inbox.after(conn, "ada")] == reasons
