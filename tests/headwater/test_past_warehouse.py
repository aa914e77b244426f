"""A view's past from a real warehouse, on disk: rows before a version, what changed between two, versions of a key."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import cast
from unittest.mock import Mock

import pytest

from cdc.errors import ViewError
from cdc.position import Lsn, Position
from headwater.views.past import Past, diff, differs, view_at
from headwater.views.past_warehouse import PastWarehouse
from tests.headwater.test_past_topic import HOUR_US, MemoryTopic, topic
from tests.headwater.test_view_history import SHAPE, filled
from views.maintain.publisher import Frontier
from views.plan import Field
from views.sinks.following import ViewTopic, change, step
from views.sinks.sink import Mark, ViewShape
from views.sinks.warehouse import WarehouseKind
from views.sqltypes import named


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
    assert past.position_before(3, "1:11") == Position(1, 10)
    assert past.position_before(1, "1:0") is None
    mark = past.mark()
    assert mark is not None
    assert mark.next_offset == 6


def compacted_past(folder: Path, monkeypatch: pytest.MonkeyPatch, *, late: bool) -> None:
    """Three versions of a row, days ago, of which the topic has the last only; the warehouse saw all, or came late."""
    ago_us = int(time.time() * 1e6) - 100 * HOUR_US
    mine = tuple(raw for piece in topic(3, ago_us).records(0, 99) for raw in piece if raw.key == b'{"id":1}')
    left = cast("ViewTopic", MemoryTopic(mine[-1:]))
    at = Frontier("listing", 7, 120, str(Lsn(1020)), None, 0, "g", mine[-1].offset + 1)
    kind = WarehouseKind(str(folder), 0.0)
    shape = ViewShape("market", "listing", (Field("id", named("integer")), Field("n", named("integer"))), ("id",))
    sink = kind.open(shape, 1)
    sink.prepare()
    goal = Mark("t", at.next_offset, 0, 7, 120, at.lsn, None, ago_us + HOUR_US)
    with monkeypatch.context() as then:
        if not late:
            then.setattr(time, "time_ns", lambda: (ago_us + HOUR_US) * 1000)
        steps: list[Mark] = []
        for raw in mine[-1:] if late else mine:
            step(steps, raw, goal)
        assert sink.apply([change(raw) for raw in (mine[-1:] if late else mine)], goal, steps) == []
    kind.switch("market", "listing", 1)
    past = Past(Mock(), Mock(view="listing", store=Mock(key=("id",))), at, left, PastWarehouse.of(folder, shape))
    monkeypatch.setattr(Past, "open", classmethod(lambda cls, place, view: past))


def test_a_past_is_whole_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compacted_past(tmp_path / "in time", monkeypatch, late=False)
    for when, n in ((Lsn(1000), 0), (Position(7, 115), 1), (Lsn(1020), 2)):
        assert [json.loads(row)["n"] for row in view_at(Mock(), "listing", str(when)).rows] == [n]
    found = diff(Mock(), "listing", str(Lsn(1000)), str(Lsn(1010)))
    assert (found.added, found.removed, found.changed, found.source) == (0, 0, 1, "warehouse")
    compacted_past(tmp_path / "late", monkeypatch, late=True)
    for when in (Lsn(1000), Position(7, 115)):
        with pytest.raises(ViewError, match=r"reach back|no longer kept"):
            view_at(Mock(), "listing", str(when))
        with pytest.raises(ViewError, match=r"reach back|no longer kept"):
            diff(Mock(), "listing", str(when))
    assert [json.loads(row)["n"] for row in view_at(Mock(), "listing", str(Lsn(1020))).rows] == [2]


def test_a_view_that_is_not_there(tmp_path: Path) -> None:
    assert PastWarehouse.of(tmp_path, SHAPE) is None
