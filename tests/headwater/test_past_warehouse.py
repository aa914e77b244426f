"""A view's past from a real warehouse, on disk: rows before a version, what changed between two, versions of a key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.views.past import differs
from headwater.views.past_warehouse import PastWarehouse
from tests.headwater.test_view_history import SHAPE, filled


@pytest.fixture
def past(tmp_path: Path) -> PastWarehouse:
    """Two rows; 1 at 90 and 80, 3 comes, 2 goes."""
    filled(tmp_path)
    found = PastWarehouse.of(tmp_path, SHAPE)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("before", "prices"),
    [(0, {}), (2, {1: 100, 2: 7.5}), (3, {1: 90, 2: 7.5}), (5, {1: 80, 2: 7.5, 3: None}), (6, {1: 80, 3: None})],
)
def test_rows_before_a_version(past: PastWarehouse, before: int, prices: dict[int, float | None]) -> None:
    total, rows = past.rows(before)
    assert {row["id"]: row["price"] for row in map(json.loads, rows)} == prices
    assert total == len(prices)
    assert len(past.rows(before, 1)[1]) == min(1, len(prices))


def test_what_leads_from_one_to_the_other(past: PastWarehouse) -> None:
    def between(start: int, end: int) -> dict[str, tuple[str, tuple[str, ...]]]:
        found = [differs(SHAPE.key, before, after) for before, after in past.changes(start, end)]
        return {each.key: (each.kind, each.columns) for each in found if each is not None}

    assert between(2, 6) == {
        '{"id":1}': ("changed", ("price",)), '{"id":2}': ("removed", ()), '{"id":3}': ("added", ()),
    }  # fmt: skip
    assert between(3, 4) == {'{"id":1}': ("changed", ("price",))}
    assert between(4, 4) == {}
    assert between(0, 6).keys() == {'{"id":1}', '{"id":3}'}, "what came and went is no difference"


def test_the_versions_of_a_key(past: PastWarehouse) -> None:
    told = [
        (each.version, None if each.row is None else json.loads(each.row)["price"], each.lsn)
        for each in past.versions(b'{"id":1}')
    ]
    assert told == [(0, 100, "0/0"), (2, 90, "0/1"), (3, 80, "0/2")]
    assert [each.row is None for each in past.versions(b'{"id":2}')] == [False, True]
    assert past.versions(b'{"id":9}') == []
    mark = past.mark()
    assert mark is not None
    assert mark.next_offset == 6


def test_a_view_that_is_not_there(tmp_path: Path) -> None:
    assert PastWarehouse.of(tmp_path, SHAPE) is None
