"""Saved searches, on the real thing: from a commit to the outbox, once, and just of what came after they were saved."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from alerts.sink import AlertKind
from alerts.sweep import Sweep, Swept
from cdc.epochs import CUTS_MAX
from tests.maintain.rig import Rig, limits
from tests.waiting import eventually
from views.maintain.publisher import view_topic
from views.sinks.following import ViewTopic
from views.sinks.lane import LaneState

pytestmark = [pytest.mark.stack, pytest.mark.spark]

CARDS = """
create materialized view cards with (sinks = 'alerts') as
    select i.id, i.price, i.kind, s.label from items i join shelves s on s.id = i.shelf
"""
SAVE = """
    insert into headwater.subscriptions (owner, view, query, events, channel, unsubscribe_token, watched_column)
    values (%s, 'cards', %s, %s, 'feed', gen_random_uuid()::text, 'price') returning id
"""


@pytest.fixture(scope="module")
def ddl() -> str:
    return """
        create table items (id integer primary key, shelf integer, price numeric(12,2), kind text);
        create table shelves (id integer primary key, label text);
        insert into shelves values (1, 'top'), (2, 'middle');
        insert into items select n, 1 + n % 2, n, 'flat' from generate_series(1, 20) n;
    """


@pytest.fixture(scope="module")
def kept(rig: Rig) -> Iterator[Rig]:
    rig.sinks = {"alerts": AlertKind(rig.capture.postgres, rig.capture.kafka)}
    save(rig, "early", {"equals": {"field": "kind", "value": "flat"}})
    rig.want(CARDS)
    with rig.kept(limits()):
        rig.settled(timeout_s=120)
        eventually(lambda: riding(rig))
        yield rig


def riding(rig: Rig) -> bool:
    return [status.state for status in rig.registry.state().sinks] == [LaneState.RIDING]


def save(rig: Rig, owner: str, query: dict[str, Any], events: tuple[str, ...] = ("entered",)) -> int:
    [[number]] = rig.connection.execute(SAVE, [owner, json.dumps(query), list(events)]).fetchall()
    return int(number)


def told(rig: Rig, *owners: str) -> Counter[tuple[str, str, str]]:
    """(owner, item, event) of every row of the outbox, once it includes what is committed now."""
    lsn = rig.marked()

    def included() -> None:
        [[mark]] = rig.connection.execute("select mark->>'lsn' from headwater.alert_places").fetchall()
        rows = rig.connection.execute("select %s::pg_lsn >= %s::pg_lsn", [mark, str(lsn)]).fetchall()
        assert rows == [(True,)], f"alerts are at {mark}, not at {lsn}"

    eventually(included)
    rows = rig.connection.execute(
        "select owner, key, event from headwater.outbox where owner = any(%s)", [list(owners)]
    ).fetchall()
    return Counter((owner, str(json.loads(key)["id"]), event) for owner, key, event in rows)


def test_what_was_there_before_is_no_news(kept: Rig) -> None:
    assert told(kept, "early") == Counter()


def test_each_event_is_told_once(kept: Rig) -> None:
    cheap = {"range": {"field": "price", "lte": 100}}
    save(kept, "ada", {"and": [cheap, {"equals": {"field": "kind", "value": "house"}}]}, ("entered", "left"))
    kept.connection.execute("insert into items values (101, 1, 90, 'house'), (102, 1, 200, 'house')")
    assert told(kept, "ada") == Counter([("ada", "101", "entered")])
    kept.connection.execute("update items set price = 80 where id = 102")
    kept.connection.execute("update items set price = 300 where id = 101")
    assert told(kept, "ada") == Counter([("ada", "101", "entered"), ("ada", "102", "entered"), ("ada", "101", "left")])


def test_a_sweep_finds_what_was_missed_and_what_was_wrong(kept: Rig) -> None:
    save(kept, "eve", {"equals": {"field": "kind", "value": "castle"}}, ("entered", "left"))
    for number in range(300, 306):
        kept.connection.execute("insert into items values (%s, 1, 5, 'castle')", [number])
        assert len(told(kept, "eve")) == number - 299  # an epoch each: the first of a sweep only says where it begins
    found = swept(kept)
    assert (found.missed, found.wrong) == ((), ())
    assert found.expected >= 5

    kept.connection.execute("delete from headwater.outbox where owner = 'eve' and key = '{\"id\":304}'")
    kept.connection.execute("update headwater.outbox set event = 'left' where owner = 'eve' and key = '{\"id\":305}'")
    found = swept(kept)
    assert [(each.key, each.event) for each in found.missed] == [('{"id":304}', "entered"), ('{"id":305}', "entered")]
    assert [(each.key, each.event) for each in found.wrong] == [('{"id":305}', "left")]


def swept(rig: Rig) -> Swept:
    """What a sweep finds of a search that was saved a moment before."""
    source, kafka = rig.capture.source, rig.capture.kafka
    topic = ViewTopic(kafka, view_topic(source, "cards"))
    return Sweep(rig.capture.postgres, kafka, source, topic, rig.group("cards").shape("cards", source))()


def test_a_search_sees_just_what_is_committed_after_it(kept: Rig) -> None:
    """Saved in the midst of a burst, each in a transaction of its own."""
    saved_at = random.Random(3).sample(range(1000, 1110), CUTS_MAX)
    expected, wanted = Counter[tuple[str, str, str]](), dict[str, int]()
    for number in range(1000, 1120):
        if number in saved_at:
            owner = f"burst {number}"
            wanted[owner] = save(kept, owner, {"equals": {"field": "kind", "value": "villa"}})
        kept.connection.execute("insert into items values (%s, 1, 1, 'villa')", [number])
        expected.update((owner, str(number), "entered") for owner in wanted)
    assert told(kept, *wanted) == expected
