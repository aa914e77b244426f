"""Which columns of a table are tied to which of the view, in the plans of the demo's own views."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.views.kept import planned
from tests.views.sql.tables import demo_catalog
from views.lineage import parts

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
