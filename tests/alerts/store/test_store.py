"""Saved searches in a real Postgres: whose they are, how many, and what cannot be saved."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import psycopg
import pytest

from alerts import store
from alerts.notifier import notify
from alerts.refusals import NoSuchSearch, QueryTooBroad, TooManySearches
from alerts.saved_search import SavedSearch, Wish
from alerts.store import Limits
from alerts.unsubscribing import suppress, unsubscribe
from alerts.waiting import Waiting, Wanted, would_tell
from cdc.errors import ConfigurationError
from tests.alerts.store.conftest import Connect
from tests.alerts.store.wishes import definition, match, record, row, wish

pytestmark = pytest.mark.stack

FULL = {
    "events": ["dropped", "changed"],
    "columns": ["price", "title"],
    "watched_column": "price",
    "threshold": "2.50",
    "threshold_unit": "percent",
    "reenter_s": 7_200,
    "channel": "webhook",
    "target": "https://example.com/hook",
    "frequency": "weekly",
    "time_zone": "Europe/Paris",
    "digest_hour": 18,
    "digest_weekday": 5,
    "quiet_from": "22:00",
    "quiet_to": "07:30",
    "cap_per_day": 3,
    "label": "Paris ☕",
    "paused": True,
    "expires_at": "2030-01-01T00:00:00Z",
}


def changed(**given: Any) -> Any:
    return lambda old: msgspec.structs.replace(old.wish, **given)


def test_what_is_saved_is_what_is_read(conn: psycopg.Connection) -> None:
    wanted = wish(query="price:..500000.25 city:paris -bedrooms:1", **FULL)
    made = store.create(conn, "ada", wanted)
    assert made.wish == wanted
    assert store.read(conn, "ada", made.id) == made
    assert store.listed(conn, "ada") == [made]
    assert store.by_ids(conn, [made.id, 99]) == {made.id: made}
    assert made.unsubscribe_token not in repr(made)


def test_nobody_touches_what_is_somebody_elses(conn: psycopg.Connection) -> None:
    made = store.create(conn, "ada", wish())
    for attempt in (
        lambda: store.read(conn, "bob", made.id),
        lambda: store.update(conn, "bob", made.id, changed(label="mine")),
        lambda: store.remove(conn, "bob", made.id),
    ):
        with pytest.raises(NoSuchSearch, match=f"no saved search {made.id}"):
            attempt()
    assert store.listed(conn, "bob") == []
    assert store.read(conn, "ada", made.id) == made
    store.remove(conn, "ada", made.id)
    with pytest.raises(NoSuchSearch):
        store.read(conn, "ada", made.id)


def test_an_update_changes_what_it_says(conn: psycopg.Connection) -> None:
    made = store.create(conn, "ada", wish(**FULL))
    found = store.update(conn, "ada", made.id, changed(label="new", quiet_from=None, quiet_to=None))
    assert found.wish == msgspec.structs.replace(made.wish, label="new", quiet_from=None, quiet_to=None)
    assert found.updated_at > made.updated_at
    assert replace(found, wish=made.wish, updated_at=made.updated_at) == made


def test_an_update_that_fails_changes_nothing(conn: psycopg.Connection) -> None:
    made = store.create(conn, "ada", wish())

    def fail(_old: SavedSearch) -> Wish:
        raise ConfigurationError("no")

    with pytest.raises(ConfigurationError):
        store.update(conn, "ada", made.id, fail)
    assert store.read(conn, "ada", made.id) == made


def test_an_owner_has_so_many_and_no_more_however_many_ask_at_once(connect: Connect) -> None:
    limits, refused = Limits(searches_per_owner_max=5), list[TooManySearches]()

    def save() -> None:
        mine = connect()
        for _ in range(3):
            try:
                store.create(mine, "ada", wish(), limits)
            except TooManySearches as error:
                refused.append(error)

    threads = [threading.Thread(target=save) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    conn = connect()
    assert len(store.listed(conn, "ada")) == 5
    assert len(refused) == 7
    store.create(conn, "bob", wish(), limits)
    store.remove(conn, "ada", store.listed(conn, "ada")[0].id)
    store.create(conn, "ada", wish(), limits)


def test_a_search_that_is_too_broad_is_refused_with_the_estimate(conn: psycopg.Connection) -> None:
    limits = Limits(hits_max=10)
    with pytest.raises(QueryTooBroad, match="too broad") as caught:
        store.create(conn, "ada", wish(), limits, lambda: 11)
    assert caught.value.figures == {"hits": 11, "hits_max": 10}
    assert "11" in caught.value.detail
    assert store.listed(conn, "ada") == []
    made = store.create(conn, "ada", wish(), limits, lambda: 10)
    with pytest.raises(QueryTooBroad):
        store.update(conn, "ada", made.id, changed(query={"match_all": {}}), limits, lambda _: lambda: 99)
    assert store.update(conn, "ada", made.id, changed(label="x"), limits, lambda _: lambda: 99).wish.label == "x"


def test_a_target_that_wants_nothing_is_refused(conn: psycopg.Connection) -> None:
    suppress(conn, "email", "ada@example.com", "bounced")
    mail = {"channel": "email", "target": "ada@example.com"}
    with pytest.raises(ConfigurationError, match="nothing is sent to ada"):
        store.create(conn, "ada", wish(**mail))
    made = store.create(conn, "ada", wish())
    with pytest.raises(ConfigurationError, match="nothing is sent"):
        store.update(conn, "ada", made.id, changed(**mail))


def test_a_webhook_has_a_secret_of_its_own_and_keeps_it(conn: psycopg.Connection) -> None:
    hook = {"channel": "webhook", "target": "https://example.com/hook"}
    store.create(conn, "ada", wish(**hook))
    [secret] = store.endpoint_secrets(conn, "ada", **hook)
    assert secret.startswith("whsec_")
    store.create(conn, "ada", wish(label="another", **hook))
    store.create(conn, "bob", wish(**hook))
    assert store.endpoint_secrets(conn, "ada", **hook) == (secret,)
    assert store.endpoint_secrets(conn, "bob", **hook) != (secret,)


def test_what_cannot_be_stored_is_told(conn: psycopg.Connection) -> None:
    for given in ({"query": {"equals": {"field": "city", "value": "\ud800"}}}, {"label": "\ud800"}, {"label": "\x00"}):
        with pytest.raises(ConfigurationError, match="cannot be stored"):
            store.create(conn, "ada", wish(**given))


def test_what_waits_waits_by_the_new_wish(conn: psycopg.Connection) -> None:
    made = store.create(conn, "ada", wish(frequency="weekly"))
    now = datetime(2026, 6, 1, 12, tzinfo=UTC)  # a Monday
    record(conn, "listing", 1, [match(made.id)], clock=lambda: now)
    due = "select due_at from headwater.outbox"
    assert conn.execute(due).fetchone() == (datetime(2026, 6, 8, 8, tzinfo=UTC),)
    store.update(conn, "ada", made.id, changed(frequency="instant"))
    assert conn.execute(due).fetchone() == (now,)
    store.update(conn, "ada", made.id, changed(frequency="daily", time_zone="Asia/Tokyo"))
    assert conn.execute(due).fetchone() == (datetime(2026, 6, 1, 23, tzinfo=UTC),)


def pending_and_dropped(conn: psycopg.Connection) -> list[tuple[str, str | None]]:
    return conn.execute("select event, dropped_reason from headwater.outbox order by sequence").fetchall()


@pytest.mark.parametrize("why", ["paused", "unsubscribed", "expired"])
def test_what_waited_when_a_search_ended_is_not_told_when_it_goes_on(conn: psycopg.Connection, why: str) -> None:
    made, other = (store.create(conn, "ada", wish(frequency="daily")) for _ in range(2))
    record(conn, "listing", 1, [match(made.id), match(other.id)])
    if why == "unsubscribed":
        unsubscribe(conn, made.unsubscribe_token)
        assert pending_and_dropped(conn) == [("entered", why), ("entered", None)]
    elif why == "paused":
        store.update(conn, "ada", made.id, changed(paused=True))
        assert pending_and_dropped(conn) == [("entered", why), ("entered", None)]
    else:
        conn.execute("update headwater.subscriptions set expires_at = now() where id = %s", [made.id])
    store.update(conn, "ada", made.id, changed(paused=False, expires_at=None))
    assert pending_and_dropped(conn) == [("entered", why), ("entered", None)]
    tomorrow = datetime.now(UTC) + timedelta(days=2)
    assert notify(conn, clock=lambda: tomorrow).told == 1


def test_what_waits_is_told_only_if_the_search_still_asks_for_it(conn: psycopg.Connection) -> None:
    made = store.create(conn, "ada", wish(events=["entered", "left"], frequency="daily"))
    cheap, dear = row(1, 100), row(2, 900)
    record(
        conn,
        "listing",
        4,
        [match(made.id, 1, version=0, after=cheap), match(made.id, 2, version=1, after=dear)]
        + [match(made.id, key, "left", key + 1, before, None) for key, before in ((1, cheap), (2, dear))],
    )

    def wants(wish_: Wish) -> Wanted:
        return would_tell(wish_, definition(), datetime.now(UTC))

    def edit(**given: Any) -> list[str | None]:
        store.update(conn, "ada", made.id, changed(**given), wants=wants)
        return [reason for _, reason in pending_and_dropped(conn)]

    assert edit(label="Paris", frequency="weekly") == [None] * 4, "how it is told changes, and not what"
    assert edit(query=wish(query="city:paris price:..500").query) == [None, "changed", None, "changed"]
    assert edit(events=("entered",)) == [None, "changed", "changed", "changed"]
    assert edit(query=wish(query="city:lyon").query) == ["changed"] * 4


def test_nobody_waits_for_news_that_is_judged(connect: Connect) -> None:
    """Much may wait: others' news is recorded meanwhile, and what comes of the same search is judged after it."""
    conn, other = connect(), connect()
    made = store.create(conn, "ada", wish(frequency="daily"))
    record(conn, "listing", 3, [match(made.id, 1), match(made.id, 2, version=1), match(made.id, 3, version=2)])
    came = list[int]()
    other.execute("set lock_timeout = '2s'")

    def wants(_wish: Wish) -> Wanted:
        def is_wanted(row: Waiting) -> bool:
            if not came:
                came.append(record(other, "listing", 6, [match(made.id, key, version=key) for key in (4, 5)]).rows)
            return '"id": 2' in str(row.after) or '"id": 5' in str(row.after)

        return is_wanted

    store.update(conn, "ada", made.id, changed(query=wish(query="city:lyon").query), wants=wants)
    assert came == [2]
    assert [reason for _, reason in pending_and_dropped(conn)] == ["changed", None, "changed", "changed", None]


def test_what_was_judged_for_another_change_is_judged_again(connect: Connect) -> None:
    """Two change a search at once: the second finds what waits as the first has left it."""
    conn, other = connect(), connect()
    made = store.create(conn, "ada", wish(events=["entered", "left"], frequency="daily"))
    record(conn, "listing", 2, [match(made.id, 1), match(made.id, 2, "left", 1, row(2), None)])
    lyon, labels = wish(query="city:lyon").query, list[str]()
    other.execute("set lock_timeout = '2s'")

    def wants(_wish: Wish) -> Wanted:
        if not labels:
            labels.append(store.update(other, "ada", made.id, changed(label="another")).wish.label)
            return lambda _row: True
        return lambda row: row.event == "left"

    store.update(conn, "ada", made.id, changed(query=lyon), wants=wants)
    assert labels == ["another"]
    assert pending_and_dropped(conn) == [("entered", "changed"), ("left", None)]


def test_a_move_that_waits_is_not_told_to_who_watches_another_column(conn: psycopg.Connection) -> None:
    given = {"events": ["entered", "dropped"], "watched_column": "price", "frequency": "daily"}
    made = store.create(conn, "ada", wish(**given))
    moved = match(made.id, event="dropped", version=1, before=row(1, 100), after=row(1, 90))
    record(conn, "listing", 2, [match(made.id, 2), moved])
    store.update(conn, "ada", made.id, changed(watched_column="bedrooms"), wants=lambda _wish: lambda _row: True)
    assert [reason for _, reason in pending_and_dropped(conn)] == [None, "changed"]


def test_what_was_told_of_one_column_does_not_count_for_another(conn: psycopg.Connection) -> None:
    moves = {"events": ["dropped"], "watched_column": "price"}
    made, other = store.create(conn, "ada", wish(**moves)), store.create(conn, "ada", wish(**moves))

    def dropped(version: int, bedrooms: tuple[int, int], price: tuple[int, int]) -> int:
        before, after = (row(1, price[n], bedrooms=bedrooms[n]) for n in (0, 1))
        matches = [
            match(each.id, event="dropped", version=version, before=before, after=after) for each in (made, other)
        ]
        return record(conn, "listing", version + 1, matches).rows

    assert dropped(0, bedrooms=(5, 5), price=(100, 90)) == 2
    store.update(conn, "ada", made.id, changed(label="another"))
    assert dropped(1, bedrooms=(5, 5), price=(90, 90)) == 0
    store.update(conn, "ada", made.id, changed(watched_column="bedrooms"))
    assert dropped(2, bedrooms=(5, 5), price=(90, 90)) == 0, "5 bedrooms are no drop from a price of 90"
    assert dropped(3, bedrooms=(5, 4), price=(90, 90)) == 1
    [[reason]] = conn.execute("select reason from headwater.outbox order by id desc limit 1").fetchall()
    assert reason == "bedrooms dropped from 5 to 4"


def test_states() -> None:
    now = datetime.now(UTC)
    active = SavedSearch(1, "ada", wish(), "", now, now)
    assert active.silence(now) is None
    assert replace(active, wish=wish(paused=True)).silence(now) == "paused"
    assert replace(active, wish=wish(paused=True), unsubscribed_at=now).silence(now) == "unsubscribed"
    for expires_at, silence in ((now, "expired"), (now + timedelta(seconds=1), None)):
        assert replace(active, wish=wish(expires_at=expires_at)).silence(now) == silence
