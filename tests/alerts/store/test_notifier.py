"""Due rows become messages and deliveries once: two processes at once, cut off anywhere, unsubscribed in between."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import msgspec
import psycopg
import pytest

from alerts import inbox, notifier, posting, store
from alerts.grouping import Decision, Pending, decide
from alerts.notifier import Pace, Round, next_due_at, notify
from alerts.refusals import NoSuchSearch
from alerts.saved_search import SavedSearch
from alerts.suppressions import lift, suppress
from alerts.suppressions import listed as suppressed
from alerts.unsubscribing import _MEANT, meant, unsubscribe
from tests.alerts.store.conftest import Connect
from tests.alerts.store.wishes import match, record, row, wish

pytestmark = pytest.mark.stack

NOW = datetime(2026, 6, 1, 12, 30, tzinfo=UTC)
MAIL = {"channel": "email", "target": "ada@example.com"}
PACE = Pace(burst_s=60, base_url="https://example.com")


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Desk:
    """Matches that come in, one version after the other."""

    def __init__(self, conn: psycopg.Connection, clock: Clock) -> None:
        self.conn, self.clock, self.version = conn, clock, 0

    def save(self, owner: str = "ada", **given: Any) -> SavedSearch:
        return store.create(self.conn, owner, wish(**{**MAIL, **given}))

    def change(self, search: SavedSearch, **given: Any) -> None:
        store.update(
            self.conn,
            search.owner,
            search.id,
            lambda old: msgspec.structs.replace(old.wish, **given),
            names_target="target" in given,
        )

    def hit(self, *searches: SavedSearch, key: int = 1) -> None:
        matches = [match(search.id, key, version=self.version) for search in searches]
        self.version += 1
        record(self.conn, "listing", self.version, matches, clock=self.clock)

    def notify(self) -> Round:
        return notify(self.conn, PACE, self.clock)

    def all(self, columns: str, table: str) -> list[Any]:
        return self.conn.execute(f"select {columns} from headwater.{table} order by created_at, id").fetchall()

    def settled(self) -> list[str | None]:
        rows = self.conn.execute(
            "select case when told_at is not null then 'told' else dropped_reason end from headwater.outbox order by id"
        )
        return [what for (what,) in rows]


@pytest.fixture
def desk(conn: psycopg.Connection, clock: Clock) -> Desk:
    return Desk(conn, clock)


def test_news_becomes_a_message_with_a_delivery(desk: Desk) -> None:
    one, two = desk.save(label="Paris"), desk.save(label="Flats")
    desk.hit(one, two)
    assert desk.notify() == Round(owners=1, notifications=1, told=2)
    [(id_, owner, ids, first, last, body, token)] = desk.all(
        "id, owner, subscription_ids, first_sequence, last_sequence, body::text, unsubscribe_token", "notifications"
    )
    assert (owner, ids, first, last) == ("ada", [one.id, two.id], 1, 2)
    told = json.loads(body)
    assert (told["id"], told["owner"], told["sequence"], len(told["items"])) == (id_, "ada", 1, 1)
    assert [search["label"] for search in told["items"][0]["searches"]] == ["Paris", "Flats"]
    assert told["unsubscribe_url"] == f"https://example.com/v1/alerts/unsubscribe/{token}"
    assert desk.all("notification_id, channel, target, state, attempts, next_attempt_at", "deliveries") == [
        (id_, "email", "ada@example.com", "pending", 0, NOW)
    ]
    assert desk.notify() == Round(), "once"


def test_bursts_and_digests_come_when_they_are_due(desk: Desk, clock: Clock) -> None:
    instant, daily = desk.save(), desk.save(frequency="daily", channel="feed", target="", digest_hour=18)
    desk.hit(instant)
    assert desk.notify().notifications == 1
    clock.now += timedelta(seconds=1)
    for key in (2, 3, 4):
        desk.hit(instant, daily, key=key)
    assert desk.notify() == Round(1, postponed=6), "the rows of the digest were looked at with them"
    assert next_due_at(desk.conn) == NOW + timedelta(seconds=60)
    clock.now = NOW + timedelta(seconds=60)
    assert desk.notify() == Round(1, 1, 3, postponed=3)
    assert next_due_at(desk.conn) == datetime(2026, 6, 1, 18, tzinfo=UTC)
    clock.now = datetime(2026, 6, 1, 18, tzinfo=UTC)
    assert desk.notify() == Round(1, 1, 3)
    assert next_due_at(desk.conn) is None


def test_more_than_is_looked_at_is_one_message_all_the_same(desk: Desk, clock: Clock) -> None:
    daily, other = desk.save(frequency="daily"), desk.save(frequency="daily", channel="feed", target="")
    quiet = desk.save(quiet_from="00:00", quiet_to="23:59")
    for key in range(9):
        desk.hit(daily, key=key)
    desk.hit(other, key=50)
    desk.hit(daily, quiet, key=60)
    clock.now += timedelta(days=1)
    desk.hit(daily, key=70)
    made = notify(desk.conn, replace(PACE, rows_per_owner_max=4), clock)
    assert (made.notifications, made.told) == (1, 10), "what came today is in tomorrow's"
    [body] = [json.loads(text) for (text,) in desk.all("body::text", "notifications")]
    assert (len(body["items"]), body["items_left_out"]) == (4, 6), "the items of keys 4 to 8 and 60"
    assert desk.all("events, first_sequence, last_sequence", "notifications") == [(10, 1, 11)]
    assert desk.settled() == ["told"] * 9 + [None, "told", None, None]
    assert desk.notify().told == 1, "the other's"


def test_rows_are_read_only_of_the_items_that_are_shown(
    desk: Desk, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    daily, looked_at, read = desk.save(frequency="daily", events=["changed"]), list[Pending](), list[int]()

    def deciding(rows: list[Pending], *given: Any) -> Decision:
        looked_at.extend(rows)
        return decide(rows, *given)

    def reading(conn: psycopg.Connection, items: Any) -> Iterator[list[Pending]]:
        for item in imaged(conn, items):
            read.append(len(item))
            yield item

    imaged = notifier._imaged
    monkeypatch.setattr(notifier, "decide", deciding)
    monkeypatch.setattr(notifier, "_imaged", reading)
    monkeypatch.setattr(notifier, "IMAGES_AT_ONCE", 1)
    for version, (key, old, new) in enumerate([(1, 10, 20), (2, 70, 80), (1, 20, 30), (3, 1, 2), (1, 30, 40)], 1):
        changed = match(daily.id, key, "changed", version, row(key, old), row(key, new))
        record(desk.conn, "listing", version + 1, [changed], clock=clock)
    clock.now += timedelta(days=2)
    assert notify(desk.conn, replace(PACE, items_per_notification_max=2), clock) == Round(1, 1, 5)
    [(body,)] = desk.all("body::text", "notifications")
    told = json.loads(body)
    prices = [(item["before"]["price"], item["after"]["price"]) for item in told["items"]]
    assert (prices, told["items_left_out"]) == ([(10, 40), (70, 80)], 1)
    assert {(each.before, each.after) for each in looked_at} == {(None, None)}
    assert read == [3, 1], "of the third nothing was read"


def test_more_rows_of_the_same_changes_than_are_looked_at_are_told_later(
    desk: Desk, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "JOINED_ROWS_MAX", 1)
    searches = [desk.save() for _ in range(4)]
    desk.hit(*searches)
    pace = replace(PACE, rows_per_owner_max=1, burst_s=0)
    rounds = [notify(desk.conn, pace, clock) for _ in range(4)]
    assert [each.told for each in rounds] == [2, 2, 0, 0]
    assert rounds[-1] == Round()
    assert desk.settled() == ["told"] * 4


def test_a_cap_counts_messages_of_the_day(desk: Desk, clock: Clock) -> None:
    capped = desk.save(cap_per_day=1)
    for hours, expected in ((0, Round(1, 1, 1)), (1, Round(1, postponed=1)), (2, Round(1, postponed=1))):
        clock.now = NOW + timedelta(hours=hours)
        desk.hit(capped, key=hours)
        assert desk.notify() == expected
    clock.now = datetime(2026, 6, 2, tzinfo=UTC)
    assert desk.notify() == Round(1, 1, 2)


@pytest.mark.parametrize("silence", ["paused", "expired", "removed", "unsubscribed", "suppressed"])
def test_nothing_is_told_to_those_who_want_nothing(desk: Desk, silence: str) -> None:
    search = desk.save()
    desk.hit(search)
    if silence == "paused":
        desk.change(search, paused=True)
    if silence == "expired":
        desk.change(search, expires_at=NOW)
    if silence == "removed":
        store.remove(desk.conn, "ada", search.id)
    if silence == "unsubscribed":
        unsubscribe(desk.conn, search.unsubscribe_token)
    if silence == "suppressed":
        suppress(desk.conn, "email", "ada@example.com", "bounced")
    at_once = silence not in ("removed", "suppressed")
    assert desk.notify() == (Round() if at_once else Round(1, dropped=1))
    assert desk.settled() == [silence]
    assert desk.all("id", "notifications") == []


def test_two_at_once_tell_each_row_once(connect: Connect, desk: Desk, clock: Clock) -> None:
    searches = [desk.save(f"owner {n}") for n in range(20)]
    stop, made = threading.Event(), list[Round]()

    def keep_on() -> None:
        mine = connect()
        while not stop.is_set():
            made.append(notify(mine, Pace(burst_s=0, owners_per_round_max=3), clock))

    threads = [threading.Thread(target=keep_on) for _ in range(3)]
    for thread in threads:
        thread.start()
    for key in range(5):
        desk.hit(*searches, key=key)
    stop.set()
    for thread in threads:
        thread.join()
    while (last := notify(desk.conn, Pace(burst_s=0), clock)).owners:
        made.append(last)
    assert sum(each.told for each in made) == 100
    assert desk.settled() == ["told"] * 100
    [(rows, distinct)] = desk.conn.execute(
        "select sum(events), count(distinct n.id) from headwater.notifications n join headwater.deliveries d"
        " on d.notification_id = n.id"
    ).fetchall()
    assert rows == 100
    assert distinct == sum(each.notifications for each in made)


def test_an_owner_whom_another_looks_at_is_left_to_them(connect: Connect, desk: Desk, clock: Clock) -> None:
    ada, bob = desk.save("ada"), desk.save("bob")
    desk.hit(ada, bob)
    other = connect()
    with other.transaction():
        other.execute("select from headwater.owners where owner = 'ada' for update")
        assert desk.notify() == Round(1, 1, 1)
        assert desk.all("owner", "notifications") == [("bob",)]
    assert desk.notify() == Round(1, 1, 1)


@pytest.mark.parametrize(("module", "step"), [(posting, "_NOTIFICATION"), (posting, "DUE"), (notifier, "_TELL")])
def test_what_is_cut_off_leaves_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, module: ModuleType, step: str
) -> None:
    desk.hit(desk.save(), desk.save("bob"))
    asked = getattr(module, step)
    broken = asked.replace("(%s", "(1 / 0, %s").replace("returning id", "returning id / 0 as id")
    monkeypatch.setattr(module, step, f"{asked} and 1 / 0" if "where" in asked else broken)
    with pytest.raises(psycopg.Error):
        desk.notify()
    monkeypatch.undo()
    assert desk.all("id", "notifications") == desk.all("id", "deliveries") == []
    assert desk.settled() == [None, None]
    assert desk.notify() == Round(2, 2, 2)


def test_an_endpoint_that_is_switched_off_gets_dead_letters_until_its_owner_saves_it_again(
    desk: Desk, clock: Clock
) -> None:
    search = desk.save(channel="webhook", target="https://hooks.example/")
    desk.conn.execute("update headwater.endpoints set disabled_reason = '410 Gone', failing_since = now()")
    desk.hit(search)
    assert desk.notify().notifications == 1
    assert desk.all("state, last_error, settled_at", "deliveries") == [("dead", "410 Gone", NOW)]
    for given, found in (
        ({"label": "another name"}, ("dead", "410 Gone")),
        ({"target": search.wish.target}, ("pending", "")),
    ):
        desk.change(search, **given)
        clock.now += timedelta(minutes=2)
        desk.hit(search, key=clock.now.minute)
        desk.notify()
        assert desk.all("state, last_error", "deliveries")[-1] == found
    assert desk.conn.execute("select failing_since from headwater.endpoints").fetchall() == [(None,)]


# Unsubscribing


def test_the_token_of_a_message_ends_what_it_named_and_nothing_else(desk: Desk) -> None:
    one, two, other = desk.save(label="Paris"), desk.save(), desk.save()
    desk.hit(one, two)
    desk.notify()
    [[token]] = desk.all("unsubscribe_token", "notifications")
    assert [each.name for each in meant(desk.conn, token)] == ["Paris", f"listing ({two.id})"]
    assert [store.read(desk.conn, "ada", each.id) for each in (one, two)] == [one, two], "looking ends nothing"
    unsubscribe(desk.conn, token)
    unsubscribe(desk.conn, token)
    states = [store.read(desk.conn, "ada", each.id).silence(NOW) for each in (one, two, other)]
    assert states == ["unsubscribed", "unsubscribed", None]
    desk.hit(one, two, key=2)
    assert desk.settled() == ["told", "told"]
    desk.change(one, paused=False)
    assert store.read(desk.conn, "ada", one.id).silence(NOW) is None, "their owner may go on"


def test_messages_are_read_within_bounds_one_at_least(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    search = desk.save(channel="feed", target="")
    for key in range(1, 4):
        desk.hit(search, key=key)
        desk.clock.now += timedelta(hours=1)
        desk.notify()
    everything = inbox.notifications(desk.conn, "ada")
    assert len(everything) == 3
    monkeypatch.setattr("alerts.inbox.SAID_BYTES_MAX", 1)
    assert inbox.notifications(desk.conn, "ada") == everything[:1]
    assert inbox.notifications(desk.conn, "ada", everything[0].sequence) == everything[1:2]
    assert inbox.notifications(desk.conn, "ada", everything[-1].sequence) == []
    desk.conn.execute("update headwater.notifications set body = '{}' where sequence < %s", [everything[2].sequence])
    assert inbox.notifications(desk.conn, "ada") == everything[2:], "what cannot be read hides nothing behind it"


def test_a_token_is_looked_up_and_not_looked_for(desk: Desk) -> None:
    """Anybody may ask for one."""
    first = desk.save()
    desk.hit(first)
    desk.notify()
    desk.conn.execute(
        "insert into headwater.subscriptions overriding system value"
        " select (jsonb_populate_record(s, jsonb_build_object("
        " 'id', 1000000 + n, 'owner', 'o' || n, 'unsubscribe_token', 't' || n))).*"
        " from headwater.subscriptions s, generate_series(1, 5000) n"
    )
    desk.conn.execute("analyze headwater.subscriptions")
    [[token]] = desk.all("unsubscribe_token", "notifications")
    for given, named in ((token, first.id), ("t7", 1_000_007), (first.unsubscribe_token, first.id)):
        assert [each.id for each in meant(desk.conn, given)] == [named]
        plan = desk.conn.execute(f"explain {_MEANT}", {"token": given}).fetchall()
        assert not any("Seq Scan on subscriptions" in line for (line,) in plan), plan


def test_a_token_that_is_none(desk: Desk) -> None:
    desk.save()
    for token in ("", "nonsense"):
        with pytest.raises(NoSuchSearch, match="not one of ours"):
            unsubscribe(desk.conn, token)


def test_a_message_of_searches_that_were_all_removed_is_still_ours(desk: Desk) -> None:
    search = desk.save()
    desk.hit(search)
    desk.notify()
    [[token]] = desk.all("unsubscribe_token", "notifications")
    store.remove(desk.conn, "ada", search.id)
    assert unsubscribe(desk.conn, token) == []


@pytest.mark.parametrize("how", ["unsubscribed", "paused", "removed"])
def test_what_was_not_sent_yet_is_withdrawn(desk: Desk, how: str) -> None:
    search, other = desk.save(), desk.save(target="bob@example.com")
    desk.hit(search)
    desk.hit(other, key=2)
    desk.notify()
    if how == "unsubscribed":
        unsubscribe(desk.conn, search.unsubscribe_token)
    elif how == "paused":
        desk.change(search, paused=True)
    else:
        store.remove(desk.conn, "ada", search.id)
    found = sorted(desk.all("target, state", "deliveries"))
    assert found == [("ada@example.com", "suppressed"), ("bob@example.com", "pending")]


def test_a_target_can_be_closed_for_all_and_opened_again(desk: Desk, clock: Clock) -> None:
    mine, theirs = desk.save(), desk.save("bob")
    desk.hit(mine, theirs)
    desk.notify()
    [[token]] = desk.conn.execute(
        "select unsubscribe_token from headwater.notifications where owner = 'ada'"
    ).fetchall()
    unsubscribe(desk.conn, token, everything=True)
    assert desk.all("state", "deliveries") == [("suppressed",), ("suppressed",)], "whoever they are for"
    clock.now += timedelta(minutes=2)
    desk.hit(theirs, key=3)
    assert desk.notify().dropped == 1
    assert lift(desk.conn, "email", "ada@example.com")
    assert not lift(desk.conn, "email", "ada@example.com")
    desk.hit(theirs, key=2)
    assert desk.notify().notifications == 1


@pytest.mark.parametrize("moved", [{"target": "bob@example.com"}, {"channel": "kafka", "target": ""}, None])
def test_a_message_closes_where_it_went_and_nothing_else(desk: Desk, moved: dict[str, str] | None) -> None:
    mine, theirs = desk.save(), desk.save("bob", target="bob@example.com")
    desk.hit(mine, theirs)
    desk.notify()
    [[token]] = desk.conn.execute(
        "select unsubscribe_token from headwater.notifications where owner = 'ada'"
    ).fetchall()
    if moved is None:
        store.remove(desk.conn, "ada", mine.id)
    else:
        desk.change(mine, **moved)
    assert {(each.channel, each.target) for each in meant(desk.conn, token)} <= {("email", "ada@example.com")}
    unsubscribe(desk.conn, token, everything=True)
    assert [(each.channel, each.target) for each in suppressed(desk.conn)] == [("email", "ada@example.com")]
    states = sorted(desk.all("target, state", "deliveries"))
    assert states == [("ada@example.com", "suppressed"), ("bob@example.com", "pending")]


@pytest.mark.parametrize("channel", ["feed", "kafka"])
def test_a_place_that_is_everybodys_cannot_be_closed(desk: Desk, channel: str) -> None:
    search = desk.save(channel=channel, target="")
    desk.hit(search)
    desk.notify()
    [[token]] = desk.all("unsubscribe_token", "notifications")
    for each in (token, search.unsubscribe_token):
        unsubscribe(desk.conn, each, everything=True)
    assert suppressed(desk.conn) == []


def test_a_feed_is_read_by_the_numbers_of_its_messages(desk: Desk, clock: Clock) -> None:
    """The digest tells of news that are older than what was told at once, and is not missed."""
    feed = {"channel": "feed", "target": ""}
    daily, instant = desk.save(frequency="daily", digest_hour=18, **feed), desk.save(**feed)
    desk.hit(daily)
    desk.hit(instant, key=2)
    desk.hit(desk.save(), key=3)
    desk.notify()
    clock.now = datetime(2026, 6, 1, 18, tzinfo=UTC)
    desk.notify()
    first, second = inbox.notifications(desk.conn, "ada")
    assert [item.key for item in (*first.items, *second.items)] == [{"id": 2}, {"id": 1}]
    assert inbox.notifications(desk.conn, "ada", first.sequence) == [second]
    assert inbox.notifications(desk.conn, "bob") == []


def test_a_message_that_cannot_be_read_does_not_end_a_feed(desk: Desk, clock: Clock) -> None:
    search = desk.save(channel="feed", target="")
    for key in (1, 2):
        desk.hit(search, key=key)
        desk.notify()
        clock.now += timedelta(minutes=2)
    desk.conn.execute("update headwater.notifications set body = '{}' where sequence = 1")
    assert [each.sequence for each in inbox.notifications(desk.conn, "ada")] == [2]
