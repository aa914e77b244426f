"""Views kept on Spark are what their SQL gives in Postgres, whatever is committed and however it is cut into epochs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.maintain.rig import Rig, limits
from tests.views.shop import DDL, Shop
from tests.views.test_exactness import VIEWS
from views.maintain import jobs

pytestmark = [pytest.mark.stack, pytest.mark.spark]

CHOSEN = (
    "plain",
    "outer_card",
    "spent",
    "document",
    "everything",
    "idle",
    "top_each",
    "running",
    "both",
    "seen",
    "pairs",
)
"""One of each kind of stage; the in-process engine is tested with all of them."""


@pytest.fixture(scope="module")
def ddl() -> str:
    return DDL


@pytest.fixture(scope="module")
def views(rig: Rig) -> Iterator[Rig]:
    rig.connection.execute(
        "insert into customers values (1, 'Bonn', true, '2024-01-01'), (2, null, null, null);"
        "insert into orders (id, line, customer_id, amount) values (1, 1, 1, 1.50), (1, 2, 2, null)"
    )
    rig.want(VIEWS, only=CHOSEN)
    with rig.kept(limits(shards=2)):
        rig.settled(timeout_s=120)
        yield rig


@pytest.mark.parametrize("single_records_max", [4_000, 0], ids=["in one task", "level by level"])
@settings(max_examples=2, phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_transactions(data: st.DataObject, views: Rig, single_records_max: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "SINGLE_RECORDS_MAX", single_records_max)
        views.connection.execute("truncate customers, orders, visits")
        shop = Shop(views.connection)
        for _ in range(data.draw(st.integers(1, 2))):
            for number in range(data.draw(st.integers(1, 12))):
                shop.transaction(data.draw, number)  # type: ignore[arg-type]
            views.settled()


def test_one_large_transaction(views: Rig) -> None:
    views.connection.execute("truncate customers, orders, visits")
    views.connection.execute(
        """
        begin;
        insert into customers select n, 'c' || n % 7, n % 2 = 0, date '2020-01-01' + n from generate_series(1, 300) n;
        insert into orders select n, l, n % 400, n + 0.25, n, n * 0.5, timestamptz '2025-01-01' + n * interval '1 hour',
            'note ' || n, array['a', 'b'] from generate_series(1, 1500) n, generate_series(1, 2) l;
        insert into visits select '/' || n % 5, n % 400, n from generate_series(1, 2000) n;
        update orders set amount = amount + 1 where id % 3 = 0;
        delete from orders where id % 5 = 0;
        update customers set id = id + 1000 where id % 50 = 0;
        commit
        """
    )
    views.settled(timeout_s=120)


def test_every_change_is_told_once(views: Rig) -> None:
    views.reached(*views.definitions)
    assert sum(views.chained(view) for view in views.definitions) > 0
