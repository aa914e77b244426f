"""What is old and settled goes; what waits stays, however old it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from alerts import quiet, store
from alerts.notifier import Pace, Round, notify
from alerts.outbox import mark
from alerts.pruning import prune
from tests.alerts.store.conftest import Connect
from tests.alerts.store.wishes import match, record, wish

pytestmark = pytest.mark.stack

OLD = datetime(2026, 1, 1, tzinfo=UTC)


def counts(conn: psycopg.Connection) -> list[int]:
    tables = ("outbox", "notifications", "deliveries", "quiet")
    return [conn.execute(f"select count(*) from headwater.{table}").fetchall()[0][0] for table in tables]


def test_what_is_settled_goes_and_what_waits_stays(conn: psycopg.Connection) -> None:
    told = store.create(conn, "ada", wish())
    weekly = store.create(conn, "ada", wish(frequency="weekly", channel="kafka"))
    for version in range(3):
        record(conn, "listing", version + 1, [match(told.id, version, version=version)], clock=lambda: OLD)
        notify(conn, Pace(burst_s=0), lambda: OLD)
    record(conn, "listing", 4, [match(weekly.id, 9, version=3)], clock=lambda: OLD)
    conn.execute(
        "update headwater.deliveries set state = 'delivered' where id <> (select max(id) from headwater.deliveries)"
    )
    quiet.begin(conn)
    assert counts(conn) == [4, 3, 3, 1]
    assert prune(conn, OLD) == 0
    later = OLD + timedelta(seconds=1)
    assert prune(conn, later, rows_max=1) == 2
    assert [prune(conn, later), prune(conn, later)] == [3, 0]
    assert counts(conn) == [1, 1, 1, 1], "what waits: a row of the digest, a message to be sent, a stretch that goes on"
    assert mark(conn, "listing") == ("", 4)
    assert record(conn, "listing", 4, [match(told.id)]).is_replay
    assert notify(conn, Pace(), lambda: OLD + timedelta(days=8)) == Round(1, 1, 1)


def test_a_told_value_is_forgotten_with_its_news(conn: psycopg.Connection) -> None:
    one = store.create(conn, "ada", wish(events=["entered", "dropped"], watched_column="price"))
    record(conn, "listing", 1, [match(one.id, 1)], clock=lambda: OLD)
    record(conn, "listing", 2, [match(one.id, 2, version=1)], clock=lambda: OLD + timedelta(days=2))
    assert prune(conn, OLD + timedelta(days=1)) == 1, "the row of the outbox was not told yet, and stays"
    assert conn.execute("select count(*) from headwater.told_values").fetchone() == (1,)


def test_an_endpoint_that_nobody_uses_is_forgotten(conn: psycopg.Connection, connect: Connect) -> None:
    hooks = [f"https://{name}.example.com/hook" for name in ("saved", "told", "unused", "young")]
    made = [store.create(conn, "ada", wish(channel="webhook", target=hook)) for hook in hooks]
    saved, told, _, young = hooks
    record(conn, "listing", 1, [match(made[1].id, 1)], clock=lambda: OLD)
    notify(conn, Pace(burst_s=0), lambda: OLD)
    for each in made[1:]:
        store.remove(conn, "ada", each.id)
    conn.execute("update headwater.endpoints set created_at = %s where target <> %s", [OLD, young])

    def known() -> list[str]:
        return sorted(target for (target,) in conn.execute("select target from headwater.endpoints"))

    later, other = OLD + timedelta(seconds=1), connect()
    conn.execute("update headwater.deliveries set state = 'pending'")
    assert prune(conn, OLD) == 0
    with other.transaction():
        other.execute("select from headwater.owners where owner = 'ada' for update")
        assert prune(conn, later) == 1, "the news that was told; of the targets somebody may be saving a search"
        assert known() == sorted(hooks)
    assert prune(conn, later) == 1
    assert known() == sorted((saved, told, young))
    conn.execute("update headwater.deliveries set state = 'delivered'")
    assert [prune(conn, later), prune(conn, later)] == [2, 0], "a message, and where it went"
    assert known() == sorted((saved, young))
