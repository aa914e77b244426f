"""A sweep finds what was missed and what was wrong, of every event, and nothing else; in a real log and outbox."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from alerts.sink import AlertKind, AlertSink
from alerts.sweep import Sweep, Swept
from headwater.deployment import Deployment
from tests.alerts.crash.items import DDL, SEARCHES, VIEW, Items, shape
from tests.maintain.conftest import rigged
from tests.waiting import eventually
from views.maintain.publisher import read_frontiers, view_topic
from views.sinks.following import ViewTopic, change, step
from views.sinks.sink import Change, Mark

pytestmark = pytest.mark.stack

ROWS = "select id, subscription_id, key, event from headwater.outbox"


@dataclass
class Desk:
    items: Items
    kind: AlertKind
    sink: AlertSink
    sweep: Sweep

    def go_on(self, transactions: int) -> None:
        for _ in range(transactions):
            self.items.churn()
        self.items.publish_all()
        self.match()

    def match(self) -> None:
        """All that is published, as a lane that follows does."""
        source = self.items.capture.source
        published_to = self.items.published_to.offset
        eventually(lambda: read_frontiers(self.kind.kafka, source)[VIEW].offset >= published_to)  # a moment after it
        frontier, mark = read_frontiers(self.kind.kafka, source)[VIEW], self.sink.mark()
        times = frontier.committed_at_us, frontier.published_at_us
        end = Mark("t", frontier.next_offset, frontier.since, frontier.era, frontier.offset, frontier.lsn, *times)
        changes, steps = list[Change](), list[Mark]()
        for piece in self.sweep.topic.records(mark.next_offset if mark else end.since, end.next_offset):
            for raw in piece:
                changes.append(change(raw))
                step(steps, raw, end)
        self.sink.apply(changes, end, steps)

    def all(self, statement: str) -> list[tuple[Any, ...]]:
        return self.items.conn.execute(statement).fetchall()  # type: ignore[call-overload, no-any-return]

    def lose(self, row: tuple[Any, ...]) -> tuple[int, str, str]:
        self.items.conn.execute("delete from headwater.outbox where id = %s", [row[0]])
        return row[1:]  # type: ignore[return-value]


def named(found: Any) -> list[tuple[int, str, str]]:
    return sorted(each[:3] for each in found)


def is_right(swept: Swept) -> bool:
    assert (swept.missed, swept.wrong) == ((), ())
    return True


@pytest.fixture(scope="module")
def kept(deployment: Deployment) -> Iterator[Desk]:
    with rigged(deployment, None, DDL) as rig:
        capture = rig.capture
        topic = ViewTopic(capture.kafka, view_topic(capture.source, VIEW))
        kind, place = AlertKind(capture.postgres, capture.kafka), shape(capture.source.name)
        sweep = Sweep(capture.postgres, capture.kafka, capture.source, topic, place)
        desk = Desk(Items(capture, rig.connection, "https://example.com"), kind, kind.open(place, 1), sweep)
        desk.sink.prepare()
        desk.go_on(3)
        kind.switch(capture.source.name, VIEW, 1)
        for owner in ("ada", "bob"):
            desk.items.save(owner)
        desk.go_on(60)
        yield desk
        desk.sink.close()


@pytest.fixture
def desk(kept: Desk) -> Iterator[Desk]:
    """As it was before, afterwards."""
    kept.items.conn.execute("create temp table kept_outbox as select * from headwater.outbox")
    yield kept
    kept.items.conn.execute(
        "delete from headwater.outbox;"
        "insert into headwater.outbox overriding system value select * from kept_outbox; drop table kept_outbox"
    )


def test_what_was_told_rightly_is_right(desk: Desk) -> None:
    found = desk.sweep()
    assert is_right(found)
    assert (found.searches, found.next_search) == (2 * len(SEARCHES), 0)
    events = [event for *_, event in desk.all(ROWS)]
    assert {"entered", "left", "changed", "dropped"} == {*events}
    assert found.expected > len(events) / 2


def test_what_was_missed_is_found_once(desk: Desk) -> None:
    lost = [desk.lose(desk.all(f"{ROWS} where event = '{event}' order by id desc")[0]) for event in ("left", "changed")]
    assert named(desk.sweep().missed) == sorted(lost)


def test_a_drop_that_was_missed_is_found(desk: Desk) -> None:
    """Of an item of which something was told before."""
    lost = desk.lose(desk.all(f"{ROWS} where event = 'dropped' order by id desc")[0])
    assert named(desk.sweep().missed) == [lost]


def test_an_entry_told_too_often_is_wrong(desk: Desk) -> None:
    """The next change of the same row by which it entered again, which nobody was told of."""
    always = replace(desk.sweep, reenter_s=0.0)()
    assert always.wrong == ()
    came = {
        version: rest for version, *rest in desk.all("select version, position, committed_at from headwater.outbox")
    }
    told = next(each for each in always.missed if each.event == "entered" and each.version in came)
    desk.items.conn.execute(
        "insert into headwater.outbox (owner, sequence, subscription_id, view, key, key_hash, event, version,"
        " position, committed_at, due_at)"
        " select owner, 1000000, id, view, %s, ''::bytea, 'entered', %s, %s, %s, now() from headwater.subscriptions"
        " where id = %s",
        [told.key, told.version, *came[told.version], told.subscription_id],
    )
    found = desk.sweep()
    assert (found.missed, found.wrong) == ((), (told,))


def test_what_was_forgotten_is_not_missed(desk: Desk) -> None:
    desk.items.conn.execute("delete from headwater.outbox")
    assert desk.sweep().missed
    assert is_right(replace(desk.sweep, keep_s=desk.sweep.reenter_s + 3600)())


def test_searches_take_turns_and_no_wrong_row_waits_for_one(desk: Desk) -> None:
    ids = sorted(desk.items.searches)
    first, last = ids[0], ids[-1]
    lost = desk.lose(desk.all(f"{ROWS} where subscription_id = {last} order by id desc")[0])
    row = desk.all(f"{ROWS} where subscription_id = {first} and event = 'left' order by id desc")[0]
    desk.items.conn.execute("update headwater.outbox set event = 'changed' where id = %s", [row[0]])
    after, missed, wrong = 0, list[Any](), list[Any]()
    for _ in range(3):
        found = desk.sweep(searches_max=2, after_search=after)
        assert found.searches == 2
        after = found.next_search
        missed.append(named(found.missed))
        wrong.append(named(found.wrong))
    assert missed == [[(row[1], row[2], "left")], [], [lost]]
    assert wrong == [[(row[1], row[2], "changed")]] * 3
    assert desk.sweep(searches_max=4, after_search=ids[3]).next_search == ids[1]
