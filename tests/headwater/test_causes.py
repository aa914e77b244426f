"""No cause is ever ruled out: over drawn transactions and views of every kind, whatever changed in a view has a change
of a table that may have caused it. And where it can be told, the cause is told."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cdc.catalog import Catalog
from cdc.catalog_reader import load
from headwater.views.causes import Concerned, Role, role_of
from tests.views.conftest import scratch  # noqa: F401  # a fixture
from tests.views.kept import Kept, planned
from tests.views.shop import CUSTOMERS, DDL, ORDERS, ROWS, Shop
from tests.views.test_exactness import VIEWS
from views.lineage import parts
from views.sql import ViewPlan

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def connection(scratch: psycopg.Connection) -> psycopg.Connection:  # noqa: F811
    scratch.execute(DDL)
    return scratch


@pytest.fixture(scope="module")
def catalog(connection: psycopg.Connection) -> Catalog:
    return load(connection, list(ROWS))


@pytest.fixture(scope="module")
def plans(catalog: Catalog) -> dict[str, ViewPlan]:
    return planned(VIEWS, catalog)


@settings(max_examples=15, phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_changed_has_a_cause(
    data: st.DataObject, connection: psycopg.Connection, catalog: Catalog, plans: dict[str, ViewPlan]
) -> None:
    connection.execute("truncate customers, orders, visits")
    shop = Shop(connection)
    uses = {name: parts(plan.root) for name, plan in plans.items()}
    with Kept(plans, catalog) as kept:
        kept.epoch([])  # a count over nothing is there without a cause
        for epoch in range(data.draw(st.integers(1, 4))):
            events = [
                event
                for number in range(data.draw(st.integers(1, 2)))
                for event in shop.transaction(data.draw, epoch * 10 + number)  # type: ignore[arg-type]
            ]
            for name, deltas in kept.epoch(events).items():
                for delta in deltas:
                    rows = [row for row in (delta.before, delta.after) if row is not None]
                    concerned = Concerned(uses[name], plans[name].key, rows)
                    roles = [role_of(event, concerned) for event in events]
                    if set(roles) <= {Role.NONE}:
                        pytest.fail(f"{name}: {delta} after {events}")


def links(plans: dict[str, ViewPlan], view: str) -> dict[str, dict[str, set[str]]]:
    return {
        str(part.table): {name: set(columns) for name, columns in part.links.items()}
        for part in parts(plans[view].root)
    }


def test_links(plans: dict[str, ViewPlan]) -> None:
    assert links(plans, "spent")[str(ORDERS)] == {"customer_id": {"id"}}, "through the join, to the left"
    assert links(plans, "spent")[str(CUSTOMERS)]["id"] == {"id"}
    assert links(plans, "nested")[str(ORDERS)]["customer_id"] == {"id"}
    assert links(plans, "idle")[str(ORDERS)]["customer_id"] == {"id"}
    assert links(plans, "strangers")[str(ORDERS)] == {}, "a NULL there concerns everybody"
    assert links(plans, "top")[str(ORDERS)] == {}, "any row may push another out"
    assert links(plans, "top_each")[str(ORDERS)] == {"customer_id": {"customer_id"}}
    assert links(plans, "everything")[str(ORDERS)] == {}
    assert "city" not in links(plans, "outer_card")[str(CUSTOMERS)], "NULL where there is no partner"
