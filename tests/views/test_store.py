"""A view's store follows any delta in any pieces: what it holds and what it tells are what the delta says."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc.errors import ViewError
from views import store as store_module
from views.arrangement import Arrangement
from views.plan import Field
from views.sqltypes import named
from views.store import SCHEMA, ViewStore
from views.zset import weighted

FIELDS = (Field("id", named("integer")), Field("note", named("text")))
STORE = ViewStore("v", FIELDS, ("id",))

Row = tuple[int | None, str | None]
rows = st.dictionaries(
    st.none() | st.integers(0, 12), st.none() | st.sampled_from(["a", "b", 'q"\\', "ü", ""]), max_size=10
)


def delta(changes: list[tuple[Row, int]]) -> pa.Table:
    ids = pa.array([row[0] for row, _ in changes], pa.int32())
    notes = pa.array([row[1] for row, _ in changes], pa.string())
    table = pa.Table.from_arrays([ids, notes], names=["id", "note"])
    return weighted(table, np.array([weight for _, weight in changes], np.int64))


def pieces(
    before: dict[int | None, str | None], after: dict[int | None, str | None], draw: random.Random
) -> list[pa.Table]:
    """The way from one to the other, with detours, shuffled and cut anywhere."""
    changes: list[tuple[Row, int]] = [((k, v), -1) for k, v in before.items() if after.get(k, ...) != v]
    changes += [((k, v), 1) for k, v in after.items() if before.get(k, ...) != v]
    for _ in range(draw.randrange(4)):
        there_and_back: Row = (draw.randrange(12), "detour")
        changes += [(there_and_back, 1), (there_and_back, -1)]
    draw.shuffle(changes)
    found = []
    while changes:
        size = draw.randint(1, 4)
        found.append(delta(changes[:size]))
        changes = changes[size:]
    return found


def opened(folder: str) -> Arrangement:
    return Arrangement.open(Path(folder), STORE.tables, identity=STORE.identity, durable=False)


def held(arrangement: Arrangement) -> dict[object, object]:
    with arrangement.reading() as reading:
        found = [msgspec.json.decode(row) for _, row in reading.entries("rows").all()]
        assert reading.entries("pending").count() == 0
    return {row["id"]: row["note"] for row in found}


@pytest.mark.parametrize("in_memory_max", [100_000, 3, 0], ids=["in memory", "spilled", "all spilled"])
@settings(max_examples=40)
@given(versions=st.lists(rows, min_size=1, max_size=4), seed=st.integers(0, 10_000))
def test_contents_and_output_follow(
    in_memory_max: int, versions: list[dict[int | None, str | None]], seed: int
) -> None:
    draw = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder, opened(folder) as arrangement:
        patch.setattr(store_module, "ROWS_IN_MEMORY_MAX", in_memory_max)
        patch.setattr(store_module, "ROWS_PER_CHUNK", 2)
        before: dict[int | None, str | None] = {}
        for epoch, after in enumerate(versions):
            cut = pieces(before, after, draw)
            told = STORE.run(epoch, cut, arrangement).table(SCHEMA).to_pylist()
            assert held(arrangement) == after
            expected = Counter(
                (k, k in before, before.get(k), k in after, after.get(k))
                for k in before.keys() | after.keys()
                if before.get(k, ...) != after.get(k, ...)
            )
            assert Counter(map(_read, told)) == expected
            assert STORE.run(epoch, cut, arrangement).table(SCHEMA).to_pylist() == told, "a repeated epoch differs"
            before = after


def _read(change: dict[str, bytes | None]) -> tuple[object, ...]:
    assert change["key"] is not None
    key = msgspec.json.decode(change["key"])["id"]
    sides = [None if change[side] is None else msgspec.json.decode(change[side] or b"") for side in ("before", "after")]
    assert all(side is None or side["id"] == key for side in sides)
    return (key, *(part for side in sides for part in (side is not None, side and side["note"])))


@pytest.mark.parametrize("in_memory_max", [100_000, 0], ids=["in memory", "spilled"])
def test_a_key_that_two_rows_share_is_refused(
    in_memory_max: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "ROWS_IN_MEMORY_MAX", in_memory_max)
    with opened(str(tmp_path)) as arrangement:
        STORE.run(0, [delta([((1, "a"), 1)])], arrangement)
        for wrong in ([((1, "b"), 1)], [((2, "a"), 1), ((2, "b"), 1)], [((2, "a"), 2)]):
            with pytest.raises(ViewError, match="two rows of v have the same key"):
                STORE.run(1, [delta([change]) for change in wrong], arrangement)
        with pytest.raises(ViewError, match="goes that was never there"):
            STORE.run(1, [delta([((3, "a"), -1)])], arrangement)
        assert held(arrangement) == {1: "a"}
        STORE.run(1, [delta([((1, "b"), 1)]), delta([((1, "a"), -1)])], arrangement)
        assert held(arrangement) == {1: "b"}


def test_a_key_is_on_one_shard() -> None:
    table = delta([((n, note), 1) for n in range(50) for note in ("a", "b")])
    shards = STORE.shards(table, 3)
    by_id: dict[int, set[int]] = {}
    for number, shard in zip(table["id"].to_pylist(), shards, strict=True):
        by_id.setdefault(number, set()).add(shard)
    assert all(len(found) == 1 for found in by_id.values())
    assert {shard for found in by_id.values() for shard in found} == {0, 1, 2}
