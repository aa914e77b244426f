"""Views come, change, fail and go, while others run on and stay exact."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from cdc.topics import find_topic
from tests.maintain.rig import Rig, limits
from tests.waiting import eventually
from views.maintain.publisher import read_frontiers, view_topic
from views.maintain.registry import ViewState

pytestmark = [pytest.mark.stack, pytest.mark.spark]

TABLES = """
    create table items (id integer primary key, shelf integer, price integer);
    create table shelves (id integer primary key, label text);
    insert into shelves values (1, 'top'), (2, 'middle');
    insert into items select n, 1 + n % 2, n from generate_series(1, 20) n;
"""
HOLD_S = 3.0
WORKERS_GROWTH_MB_MAX = 1_500.0
"""Of all of them together, pages that they share counted for each; how many there are depends on what ran before."""


@pytest.fixture(scope="module")
def ddl() -> str:
    return TABLES


@pytest.fixture(scope="module")
def kept(rig: Rig) -> Iterator[Rig]:
    rig.want("create materialized view totals as select shelf, sum(price) as total from items group by shelf")
    with rig.kept(limits(shards=2, hold_s_max=HOLD_S)):
        rig.settled(timeout_s=120)
        yield rig


def test_a_view_added_later_joins_the_others(kept: Rig) -> None:
    kept.want("create materialized view labelled as select i.id, s.label from items i join shelves s on s.id = i.shelf")
    kept.connection.execute("insert into items values (21, 1, 5)")
    kept.settled()
    eventually(lambda: not any(group.is_following for group in kept.registry.state().groups.values()))
    kept.connection.execute("update shelves set label = 'bottom' where id = 2")
    kept.settled()


def test_a_changed_view_tells_only_what_differs(kept: Rig) -> None:
    kept.reached("labelled")
    before = kept.chained("labelled")
    kept.want(
        "create materialized view labelled as"
        " select i.id, s.label from items i join shelves s on s.id = i.shelf where i.id <> 3"
    )
    kept.settled()
    assert kept.chained("labelled") == before + 1
    kept.connection.execute("delete from items where id = 4")
    kept.settled()


def test_a_changed_view_with_other_columns(kept: Rig) -> None:
    kept.want("create materialized view labelled as select id, shelf, price * 2 as twice from items where id > 10")
    kept.settled()
    kept.chained("labelled")


def test_a_dropped_view_leaves_nothing(kept: Rig) -> None:
    folder = kept.group("labelled").folder
    topic = view_topic(kept.capture.source, "labelled")
    kept.drop("labelled")
    eventually(lambda: find_topic(kept.capture.kafka, topic) is None)
    eventually(lambda: not folder.exists())
    eventually(lambda: "labelled" not in read_frontiers(kept.capture.kafka, kept.capture.source))
    kept.connection.execute("insert into items values (30, 2, 1)")
    kept.settled()


def test_a_view_that_fails_is_paused_and_the_others_go_on(kept: Rig) -> None:
    kept.want(
        "create materialized view risky as select id, 100 / price as share from items;"
        "create materialized view calm as select id, price from items"
    )
    kept.settled()
    kept.connection.execute("insert into items values (40, 1, 0)")
    assert "zero" in kept.paused("risky")
    kept.settled("totals", "calm")
    told = kept.compacted("risky")
    kept.connection.execute("update items set price = 2 where id = 40")
    kept.settled("totals", "calm")
    assert kept.compacted("risky") == told


def test_a_row_joined_to_very_many_holds_nobody_up(kept: Rig) -> None:
    """In a group of its own: the small view beside it is not held up longer than the limit, and all are exact."""
    kept.connection.execute("insert into items select n, 9, 1 from generate_series(1000, 101000) n")
    kept.want("create materialized view wide as select i.id, s.label from items i join shelves s on s.id = i.shelf")
    kept.settled("wide", "totals", timeout_s=240)
    before_mb = kept.registry.state().rss_mb["workers"]
    kept.connection.execute("insert into shelves values (9, 'cellar')")
    began = time.monotonic()
    kept.connection.execute("insert into items values (41, 1, 7)")
    kept.reached("totals")
    assert time.monotonic() - began < HOLD_S + 15
    kept.settled("wide", "totals", timeout_s=240)
    assert kept.registry.state().rss_mb["workers"] - before_mb < WORKERS_GROWTH_MB_MAX
    status = kept.status("wide")
    assert status is not None
    assert status.state is ViewState.LIVE
