"""Which columns of a table are tied to which of the view, in the plans of the demo's own views."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.views.kept import planned
from tests.views.shop import DDL
from tests.views.sql.tables import catalog_of, demo_catalog
from tests.views.test_exactness import VIEWS
from views.lineage import parts, sources

EXAMPLES = Path(__file__).parents[2] / "examples" / "market"


def links(view: str) -> dict[str, list[dict[str, set[str]]]]:
    plan = planned((EXAMPLES / f"{view}.sql").read_text(), demo_catalog())[view]
    found: dict[str, list[dict[str, set[str]]]] = {}
    for part in parts(plan.root):
        found.setdefault(part.table.name, []).append({name: set(each) for name, each in part.links.items()})
    return found


@pytest.mark.parametrize("view", ["listing_card", "listing_search"])
def test_a_document_is_tied_to_its_parts_by_its_key(view: str) -> None:
    found = links(view)
    assert all(each["id"] == {"id"} for each in found["listings"])
    assert all(each == {"listing_id": {"id"}} for each in found["photos"])
    assert all(each["listing_id"] == {"id"} for each in found["price_history"])
    assert "id" not in found["agents"][0], "the card does not have the agent's number as a column"


def test_a_group_is_tied_by_what_it_is_grouped_by() -> None:
    assert links("city_stats") == {"listings": [{"country": {"country"}, "city": {"city"}}]}


def test_the_first_ten_may_change_with_any_row() -> None:
    assert links("top_agents") == {"agents": [{}], "listings": [{}]}


def made_of(view: str) -> dict[str, set[str]]:
    plan = planned((EXAMPLES / f"{view}.sql").read_text(), demo_catalog())[view]
    return {name: {table.name for table in tables} for name, tables in sources(plan.root).items()}


def test_a_column_is_made_of_tables() -> None:
    card = made_of("listing_card")
    assert (card["price"], card["agent"]) == ({"listings"}, {"agents"})
    assert (card["photos"], card["prices"]) == ({"photos"}, {"price_history"})


def test_what_is_counted_is_made_of_all_that_could_be() -> None:
    stats = made_of("city_stats")
    assert stats["city"] == stats["listings"] == {"listings"}
    assert set(map(frozenset, made_of("top_agents").values())) == {frozenset({"agents", "listings"})}


def test_every_column_of_a_view_of_any_kind_is_made_of_its_tables() -> None:
    for name, plan in planned(VIEWS, catalog_of(DDL.replace("create table", "CREATE TABLE"))).items():
        tables = {part.table for part in parts(plan.root)}
        found = sources(plan.root)
        assert set(found) == set(plan.root.names), name
        assert all(each <= tables for each in found.values()), name
