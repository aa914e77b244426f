"""Who stood still so long that the view's topic was compacted says so, and tells what is left; in a real Postgres."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
import pytest

from alerts.sink import AlertKind, AlertSink, lacking
from cdc.addresses import KafkaAddress, PostgresAddress
from tests.alerts.store.conftest import Connect
from tests.alerts.store.wishes import FIELDS
from views.sinks.sink import Change, Mark, Refused, ViewShape

pytestmark = pytest.mark.stack

HOUR_US = 3_600_000_000
NOW_US = time.time_ns() // 1000


class Nobody:
    """A watch that finds nobody."""

    def __init__(self) -> None:
        self.unread: list[Any] = []

    def ready(self, *_given: Any) -> None: ...

    def matches(self, *_given: Any) -> Iterator[Any]:
        return iter(())

    def close(self) -> None: ...


def mark(next_offset: int, hours_ago: int) -> Mark:
    return Mark("t", next_offset, era=7, offset=next_offset, published_at_us=NOW_US - hours_ago * HOUR_US)


def change(version: int) -> Change:
    return Change(b'{"id":1}', b"{}", version)


@pytest.fixture
def conn(connect: Connect) -> psycopg.Connection:
    made = connect()
    made.execute("delete from headwater.alert_places")
    return made


@pytest.fixture
def kind(alerts_address: PostgresAddress) -> AlertKind:
    return AlertKind(alerts_address, KafkaAddress("nowhere:9"))


@pytest.fixture
def sink(conn: psycopg.Connection, kind: AlertKind) -> Iterator[AlertSink]:
    """Shown, and at Friday, 60 hours ago."""
    made = opened(kind)
    made.prepare()
    made.apply([change(4)], mark(5, 60))
    kind.switch("market", "listing", 1)
    yield made
    made.close()


def opened(kind: AlertKind, generation: int = 1) -> AlertSink:
    made = kind.open(ViewShape("market", "listing", FIELDS, ("id",)), generation)
    made._watch = Nobody()  # type: ignore[assignment]
    return made


def test_what_nobody_was_told_is_said_with_its_time(conn: psycopg.Connection, kind: AlertKind, sink: AlertSink) -> None:
    sink.apply([change(9), change(11)], mark(12, 1), [mark(10, 40), mark(12, 1)])
    found = lacking(conn, "listing")
    assert found is not None
    assert (found.from_us, found.until_us) == (NOW_US - 60 * HOUR_US, NOW_US - 40 * HOUR_US)
    assert sink.mark() == mark(12, 1), "it goes on from there"
    later = opened(kind)
    later.apply([change(13)], mark(14, 0), [mark(14, 0)])
    assert lacking(conn, "listing") == found, "for some days"
    later.close()
    conn.execute("update headwater.alert_places set mark = jsonb_set(mark::jsonb, '{lacks,noticed_at_us}', '0')")
    assert lacking(conn, "listing") is None


def test_who_stood_still_while_nothing_was_forgotten_says_nothing(conn: psycopg.Connection, sink: AlertSink) -> None:
    sink.apply([change(6), change(7), change(9)], mark(10, 1), [mark(8, 40), mark(10, 1)])
    sink.apply([change(20)], mark(21, 0), [mark(21, 0)])  # an epoch was aborted: nothing so young is forgotten
    assert lacking(conn, "listing") is None


def replacing(kind: AlertKind, since: int, generation: int = 2) -> None:
    """Another shape of the view takes over, which begins there: an hour ago."""
    made = opened(kind, generation)
    assert made.mark() is None
    made.prepare()
    first = msgspec.structs.replace(mark(since + 1, 0), since=since, published_at_us=0)  # it is being filled
    made.apply([change(since)], first, [mark(since + 1, 1)])
    made.apply([], msgspec.structs.replace(mark(since + 1, 1), since=since), [])
    kind.switch("market", "listing", generation)
    made.close()


def test_what_was_not_matched_before_a_changed_view_took_over_is_said(
    conn: psycopg.Connection, kind: AlertKind, sink: AlertSink
) -> None:
    """After the mark come a commit's own offset, a change and that of its commit."""
    replacing(kind, since=8)
    found = lacking(conn, "listing")
    assert found is not None
    assert (found.from_us, found.until_us) == (NOW_US - 60 * HOUR_US, NOW_US - HOUR_US)
    replacing(kind, since=10, generation=3)
    assert lacking(conn, "listing") == found, "what the one before lacked is said on"


def test_who_had_matched_all_when_a_changed_view_took_over_says_nothing(
    conn: psycopg.Connection, kind: AlertKind, sink: AlertSink
) -> None:
    replacing(kind, since=6)
    assert lacking(conn, "listing") is None


def test_a_dead_letter_that_is_replayed_is_refused_again_and_touches_no_mark(
    kind: AlertKind, sink: AlertSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is told of what is past. A mark read and written again takes back what the lane did between."""
    beside, letters = opened(kind), [change(3), change(4)]
    monkeypatch.setattr(beside, "mark", lambda: mark(5, 60))
    sink.apply([change(6)], mark(7, 59))
    refused = beside.again(letters)
    beside.close()
    assert sink.mark() == mark(7, 59)
    assert refused == [Refused(each, "what it would have told is past: drop the letter") for each in letters]
