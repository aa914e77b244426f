"""The dataflow: what plans share is computed once, shards change nothing, and a heavy key is streamed."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cdc.errors import StateError, ViewError
from cdc.pgtypes import Date
from tests.views.plans import (
    BIGINT,
    LEFT,
    LONG,
    NODES,
    RIGHT,
    TEXT,
    aggregate,
    delta,
    integrated,
    join,
    open_state,
    ordered,
    sql,
)
from views.changes import changes, python_values
from views.dataflow import Dataflow, Graph
from views.fingerprint import fingerprint
from views.plan import Field, Filter, JoinKind, Node, Project, TopK, UnionAll
from views.sql.typed import column
from views.stages import join as join_module
from views.stages import stage as stage_module
from views.stages import stage_for
from views.zset import WEIGHT

JOINED = join(JoinKind.INNER)
CHEAP = Filter(JOINED.fields, JOINED, sql("l.price < 2"))
CITIES = Project(
    (Field("id", LEFT.fields[0].type), Field("City", TEXT), Field("city", TEXT)),
    CHEAP,
    (("id", sql("l.id")), ("City", sql("l.city")), ("city", sql("r.city || '!'"))),
)


def rows(alias: str, *values: tuple[int, int | None, str | None]) -> pa.Table:
    scan = {"l": LEFT, "r": RIGHT}[alias]
    given = delta(scan, [((id_, k, city, 1, 0.5), 1) for id_, k, city in values])
    return given.rename_columns([*scan.columns, WEIGHT])


def run(folder: Path, plans: dict[str, Node], *epochs: dict[str, pa.Table], shards: int = 1) -> list[dict[str, Any]]:
    with Dataflow.build(plans, folder, shards=shards, durable=False) as flow:
        return [
            flow.step(number, {{"l": LEFT, "r": RIGHT}[alias].table: d for alias, d in epoch.items()})
            for number, epoch in enumerate(epochs)
        ]


def test_a_chain_of_filters_and_projections(tmp_path: Path) -> None:
    [found] = run(tmp_path, {"v": CITIES}, {"l": rows("l", (1, 1, "A")), "r": rows("r", (9, 1, "b"))})
    assert found["v"].to_pylist() == [{"id": 1, "City": "A", "city": "b!", WEIGHT: 1}]


def test_equal_parts_are_shared() -> None:
    other = Filter(JOINED.fields, join(JoinKind.INNER), sql("l.price > 2"))
    graph = Graph.of({"one": CITIES, "two": other, "three": join(JoinKind.LEFT)})
    assert len(graph.stages) == 2
    assert graph.columns == {LEFT.table: frozenset(LEFT.columns), RIGHT.table: frozenset(RIGHT.columns)}


def test_fingerprints_tell_plans_apart() -> None:
    assert fingerprint(join(JoinKind.INNER)) == fingerprint(JOINED)
    assert len({fingerprint(node) for node in NODES.values()}) == len(NODES)


def test_union_of_different_names(tmp_path: Path) -> None:
    fields = (Field("n", BIGINT), Field("where", TEXT))
    left, right = (
        Project(fields, scan, (("n", column(scan.fields[1])), ("where", column(scan.fields[2]))))
        for scan in (LEFT, RIGHT)
    )
    union = UnionAll(fields, (left, replace(right, fields=(Field("m", BIGINT), Field("place", TEXT)))))
    [found] = run(tmp_path, {"v": union}, {"l": rows("l", (1, 1, "a")), "r": rows("r", (2, 2, "b"), (3, 1, "a"))})
    assert sorted(tuple(row.values()) for row in found["v"].to_pylist()) == [(1, "a", 2), (2, "b", 1)]


@pytest.mark.parametrize("name", ["counts of all", "ends of all", "lists of all"])
@pytest.mark.parametrize("shards", [1, 3])
def test_one_row_over_nothing(tmp_path: Path, name: str, shards: int) -> None:
    first, again, later = run(tmp_path, {"v": NODES[name]}, {}, {}, {"l": rows("l", (1, 1, "a"))}, shards=shards)
    assert first["v"][WEIGHT].to_pylist() == [1]
    assert again["v"].num_rows == 0
    assert sorted(later["v"][WEIGHT].to_pylist()) == [-1, 1]


@pytest.mark.parametrize("name", NODES)
def test_shards_change_nothing(tmp_path: Path, name: str) -> None:
    node = NODES[name]
    lefts = rows("l", (1, 1, "a"), (2, 1, None), (3, None, "b"), (4, 2, "a"), (4, 2, "a"))
    epochs = [{"l": lefts}, {"r": rows("r", (1, 1, "a"), (2, 2, "c"), (3, None, None))}]
    whole = [run(tmp_path / str(n), {"v": node}, *epochs, shards=n) for n in (1, 3)]
    schema = stage_for(node).schema
    one, three = (integrated([found["v"] for found in steps], schema) for steps in whole)
    assert one == three


def test_a_state_of_other_shards_is_refused(tmp_path: Path) -> None:
    run(tmp_path, {"v": JOINED}, {}, shards=2)
    with pytest.raises(StateError, match="another stage"):
        Dataflow.build({"v": JOINED}, tmp_path, shards=3, durable=False)


@pytest.mark.parametrize("kind", JoinKind)
def test_a_heavy_key_is_streamed(tmp_path: Path, kind: JoinKind, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row meets many: no piece of the way is larger than its limit, and the result is the same."""
    node = join(kind)
    stage = stage_for(node)
    many = delta(LEFT, [((n, 1, "a", None, None), 1) for n in range(1000)])
    one = delta(RIGHT, [((7, 1, "old", None, None), 1)])
    other = delta(RIGHT, [((7, 1, "old", None, None), -1), ((7, 1, "new", None, None), 1)])
    nothing = delta(LEFT, [])
    outputs = {}
    for limit in (10_000, 64):
        monkeypatch.setattr(join_module, "STORED_ROWS_MAX", limit)
        monkeypatch.setattr(stage_module, "OUTPUT_ROWS_MAX", limit)
        with open_state(tmp_path / str(limit), stage) as state:
            stage.apply(1, [many, one], state)
            chunks = list(stage.run(2, [nothing, other], state).tables())
            assert stage.run(2, [nothing, other], state).table(stage.schema).equals(pa.concat_tables(chunks))
        outputs[limit] = integrated(chunks, stage.schema)
        assert max(chunk.num_rows for chunk in chunks) <= 2 * limit
    assert outputs[64] == outputs[10_000]
    assert len(outputs[64]) == 2000


def test_pairs_come_in_portions() -> None:
    import numpy as np

    left, right = np.array([0, 1, -1, 0, 2]), np.array([1, 0, 0, -1, 0])
    portions = list(join_module.matches(left, right, 2))
    assert len(portions) > 1
    pairs = sorted((int(i), int(j)) for one, two in portions for i, j in zip(one, two, strict=True))
    assert pairs == [(0, 1), (0, 2), (0, 4), (1, 0), (3, 1), (3, 2), (3, 4)]


def test_changes_pair_before_and_after() -> None:
    fields = (Field("id", BIGINT), Field("City", TEXT))
    given = pa.table({"id": [1, 2, 1, 3], "City": ["a", "b", "c", None], WEIGHT: [-1, -1, 1, 1]})
    one, two, three = changes("v", fields, ("id",), given)
    assert (one.key, one.before, one.after) == ((1,), {"id": 1, "City": "a"}, {"id": 1, "City": "c"})
    assert (two.key, two.after) == ((2,), None)
    assert (three.before, three.after) == (None, {"id": 3, "City": None})


@pytest.mark.parametrize("weights", [[1, 1], [2, -1], [-1, -1]])
def test_a_shared_key_is_refused(weights: list[int]) -> None:
    given = pa.table({"id": [1, 1], WEIGHT: weights})
    with pytest.raises(ViewError, match="two rows of v have the same key"):
        changes("v", (Field("id", BIGINT),), ("id",), given)


def test_values_beyond_pythons_calendar() -> None:
    assert python_values(pa.array([2**31 - 1, None, 0], pa.int32()).view(pa.date32())) == [
        Date(2**31 - 1),
        None,
        Date(0),
    ]
    instants = python_values(pa.array([[2**63 - 1], None], pa.list_(pa.timestamp("us", "UTC"))))
    assert str(instants[0][0]) == "infinity"


def test_division_by_zero_is_told(tmp_path: Path) -> None:
    plan = Project((Field("n", BIGINT),), LEFT, (("n", sql("l.k / (l.id - 1)")),))
    with pytest.raises(ViewError, match="an expression of a view failed"):
        run(tmp_path, {"v": plan}, {"l": rows("l", (1, 1, "a"))})


def test_groups_of_what_is_equal_in_postgres(tmp_path: Path) -> None:
    node = aggregate({"score": (LEFT.fields[4].type, "l.score")}, {"n": (BIGINT, "count(*)")})
    given = delta(LEFT, [((1, 1, "a", None, value), 1) for value in (0.0, -0.0, float("nan"), float("nan"), None)])
    with open_state(tmp_path, stage_for(node)) as state:
        found = stage_for(node).apply(1, [given], state)
    assert sorted(found["n"].to_pylist()) == [1, 2, 2]


def test_a_graph_can_be_sent() -> None:
    """Spark sends it to its workers: nothing in it may hold on to this process."""
    graph = Graph.of(dict(NODES))
    sent = pickle.loads(pickle.dumps(graph))
    assert [placed.name for placed in sent.stages] == [placed.name for placed in graph.stages]
    assert [fingerprint(placed.stage.node) for placed in sent.stages] == [placed.name for placed in sent.stages]


@pytest.mark.parametrize(("order", "chosen"), [("l.city", [0, 1, 2]), ("l.city desc", [8, 7, 6])])
def test_the_first_rows_by_texts_that_differ_late(tmp_path: Path, order: str, chosen: list[int]) -> None:
    """Longer than a key may be: the rows that agree up to the cut are compared in full."""
    stage = stage_for(TopK(LEFT.fields, LEFT, (), ordered(f"{order}, l.id"), 3))
    given = delta(LEFT, [((n, n, LONG + str(n), None, None), 1) for n in range(9)])
    with open_state(tmp_path, stage) as state:
        found = stage.apply(1, [given], state)
    assert sorted(found["l.id"].to_pylist()) == sorted(chosen)
