"""Who is told what, when all of it was committed while the views were not kept: in epochs as long as they can be."""

from __future__ import annotations

import pytest

from alerts import quiet
from alerts.sink import AlertKind
from tests.maintain.rig import Rig, limits
from tests.maintain.test_alerts import riding, save, told
from tests.waiting import eventually

pytestmark = [pytest.mark.stack, pytest.mark.spark]

CARDS = "create materialized view cards with (sinks = 'alerts') as select id, price, kind from items"
LONG = 4_500
"""Rows of a transaction."""


@pytest.fixture(scope="module")
def ddl() -> str:
    return "create table items (id integer primary key, price numeric(12,2), kind text)"


@pytest.fixture
def away(rig: Rig) -> Rig:
    """Views that are kept, but not at the moment."""
    rig.sinks = {"alerts": AlertKind(rig.capture.postgres, rig.capture.kafka)}
    rig.want(CARDS)
    with rig.kept(limits()):
        rig.settled(timeout_s=120)
        eventually(lambda: riding(rig))
    return rig


def put(rig: Rig, first: int, rows: int = 1) -> None:
    rig.connection.execute(
        "insert into items select n, 1, 'villa' from generate_series(%s::int, %s::int) n", [first, first + rows - 1]
    )


def numbers(rig: Rig, owner: str) -> list[int]:
    with rig.kept(limits()):
        return sorted(int(item) for _, item, _ in told(rig, owner).elements())


def test_just_what_is_committed_after_a_search_and_outside_of_quiet_stretches(away: Rig) -> None:
    conn = away.connection
    put(away, 10_000, LONG)
    save(away, "ada", {"equals": {"field": "kind", "value": "villa"}})
    put(away, 1)
    quiet.begin(conn, "cards", "bulk load")
    put(away, 20_000, LONG)
    quiet.end(conn, "cards")
    put(away, 2)
    with conn.transaction():
        quiet.begin(conn)
        put(away, 30_000, 3)
        quiet.end(conn)
    put(away, 3)
    assert numbers(away, "ada") == [1, 2, 3]

    put(away, 4)
    quiet.begin(conn)
    put(away, 40_000, 3)
    assert numbers(away, "ada") == [1, 2, 3, 4], "what was committed before it began is told"
