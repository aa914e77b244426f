"""Through the real Debezium, as the capture role: schema changes, canary and generated columns, in the log's order."""

from __future__ import annotations

import psycopg
import pytest

from cdc.capture import Capture
from cdc.changelog import ChangeLog
from cdc.events import ChangeEvent, Op, TableName
from cdc.guardian import SlotGuardian, judge
from cdc.preflight import check
from tests.waiting import eventually

pytestmark = pytest.mark.stack

LISTINGS = TableName("public", "listings")
CATALOG = TableName("headwater", "catalog")
CANARY = TableName("headwater", "canary")
TABLE = "create table listings (id int primary key, price int, twice int generated always as (price * 2) stored)"


def changes(log: ChangeLog) -> list[ChangeEvent]:
    low, high = log.bounds()
    return [entry for entry in log.entries(low, high) if isinstance(entry, ChangeEvent) and entry.op is not Op.READ]


def ticks(events: list[ChangeEvent]) -> list[object]:
    return [event.after["number"] for event in events if event.table == CANARY and event.after]


def test_the_log_says_how_a_table_looks_before_it_carries_such_rows(capture: Capture) -> None:
    guardian = SlotGuardian(capture.source)
    log = ChangeLog(capture.kafka, capture.source)
    with psycopg.connect(capture.postgres.conninfo(), autocommit=True) as conn:
        conn.execute(TABLE)
        capture.ensure()
        eventually(lambda: guardian.observe(conn).state.active)
        conn.execute("select headwater.tick_canary()")
        with conn.transaction():
            conn.execute("insert into listings values (1, 10)")
            conn.execute("alter table listings add column city text")
            conn.execute("insert into listings (id, price, city) values (2, 20, 'Lyon')")
        with conn.transaction():
            conn.execute("select headwater.tick_canary()")
            conn.execute("alter table listings add column never text")
            raise psycopg.Rollback
        conn.execute("select headwater.tick_canary()")
    eventually(lambda: 2 in ticks(changes(log)))

    seen = changes(log)
    assert ticks(seen) == [1, 2]
    told = [event for event in seen if event.table in (LISTINGS, CATALOG)]
    assert [event.table for event in told] == [LISTINGS, CATALOG, LISTINGS]
    before, catalog, after = (event.after or {} for event in told)
    assert before == {"id": 1, "price": 10, "twice": 20}
    assert after == {"id": 2, "price": 20, "twice": 40, "city": "Lyon"}
    assert '"city"' in str(catalog["columns"])
    assert "never" not in str(told)


def test_a_running_capture_is_well_and_not_in_its_own_way(capture: Capture) -> None:
    guardian = SlotGuardian(capture.source)
    with psycopg.connect(capture.postgres.conninfo(), autocommit=True) as conn:
        conn.execute(TABLE)
        capture.ensure()
        eventually(lambda: guardian.observe(conn).state.active)
        beats = conn.execute("select beats from headwater.heartbeat").fetchone()
        assert beats is not None
        eventually(lambda: conn.execute("select beats > %s from headwater.heartbeat", beats).fetchone() == (True,))
        seen = guardian.observe(conn, "RUNNING")
        assert [f for f in judge(seen.state, "RUNNING", seen.forecast) if f.level == "fail"] == []
        reader = conn.execute("select usename from pg_stat_replication where pid = %s", [seen.state.active_pid])
        assert reader.fetchone() == (capture.capture.user,)
    assert [f for f in check(capture.postgres, capture.source, capture.tables) if f.level == "fail"] == []
