"""Arrangements: an epoch is applied once however often it is run, nothing damaged is used, and copies are whole."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from cdc.errors import StateError, StateFenced
from views.arrangement import Arrangement, Owner, Writing, environment, restore, snapshot
from views.arrangement import arrangement as arrangement_module


def opened(folder: Path, **options: object) -> Arrangement:
    return Arrangement.open(folder, ("rows",), **options)  # type: ignore[arg-type]


def adding(*rows: bytes, weight: int = 1) -> object:
    """Work that adds rows under one key, and says so."""

    def work(writing: Writing) -> Iterable[pa.Table]:
        multiset = writing.multiset("rows")
        multiset.write(multiset.changes([b"key"] * len(rows), rows, [weight] * len(rows)))
        yield pa.table({"row": pa.array(rows, pa.binary())})

    return work


def step(arrangement: Arrangement, epoch: int, *rows: bytes, weight: int = 1) -> list[bytes]:
    output = arrangement.step(epoch, adding(*rows, weight=weight))  # type: ignore[arg-type]
    return [row for table in output.tables() for row in table["row"].to_pylist()]


def stored(arrangement: Arrangement) -> list[tuple[bytes, int]]:
    found: list[tuple[bytes, int]] = []

    def work(writing: Writing) -> Iterable[pa.Table]:
        rows = writing.multiset("rows").read([b"key"])
        found[:] = sorted(zip(rows.rows, rows.counts, strict=True))
        return ()

    arrangement.step((arrangement.epoch or 0) + 1, work)
    return found


def test_a_repeated_epoch_returns_what_it_gave(tmp_path: Path) -> None:
    with opened(tmp_path) as state:
        assert step(state, 7, b"a", b"b") == [b"a", b"b"]
        assert step(state, 7, b"other") == [b"a", b"b"]
        assert state.epoch == 7
    with opened(tmp_path) as state:
        assert step(state, 7) == [b"a", b"b"]
        assert stored(state) == [(b"a", 1), (b"b", 1)]


def test_an_older_epoch_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as state:
        step(state, 7, b"a")
        with pytest.raises(StateError, match="epoch 6 is older than the state"):
            step(state, 6, b"a")


def test_an_epoch_that_fails_changes_nothing(tmp_path: Path) -> None:
    def failing(writing: Writing) -> Iterable[pa.Table]:
        writing.multiset("rows").write(writing.multiset("rows").changes([b"key"], [b"a"], [1]))
        yield pa.table({"row": [b"a"]})
        raise ValueError("cut off")

    with opened(tmp_path) as state:
        with pytest.raises(ValueError, match="cut off"):
            state.step(1, failing)
        assert state.epoch is None
        assert stored(state) == []


def test_counts_beyond_one_byte(tmp_path: Path) -> None:
    with opened(tmp_path) as state:
        step(state, 1, b"a", weight=300)
        step(state, 2, b"a", weight=-50)
        assert stored(state) == [(b"a", 250)]


def test_taking_away_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as state:
        step(state, 1, b"a")
        with pytest.raises(StateError, match="never there"):
            step(state, 2, b"a", weight=-2)
        assert stored(state) == [(b"a", 1)]


def test_the_map_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "MAP_BYTES_FIRST", 1 << 20)
    with opened(tmp_path, durable=False) as state:
        many = [number.to_bytes(4, "big") * 50 for number in range(20_000)]
        assert step(state, 1, *many) == many
        assert len(stored(state)) == len(many)
    monkeypatch.setattr(environment, "MAP_BYTES_MAX", 16 << 20)
    with opened(tmp_path, durable=False) as state, pytest.raises(StateError, match="has reached its limit"):
        step(state, 9, *[number.to_bytes(4, "big") * 50 for number in range(20_000, 90_000)])


def test_large_outputs_are_read_back_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrangement_module, "OUTPUT_KEPT_BYTES_MAX", 10)

    def work(writing: Writing) -> Iterable[pa.Table]:
        for number in range(5):
            yield pa.table({"n": [number] * 10})

    with opened(tmp_path) as state:
        output = state.step(1, work)
        assert [table["n"][0].as_py() for table in output.tables()] == [0, 1, 2, 3, 4]
        step(state, 2, b"a")
        with pytest.raises(StateError, match="no longer saved"):
            list(output.tables())
        assert step(state, 2) == [b"a"]


def test_a_state_of_another_stage_is_refused(tmp_path: Path) -> None:
    opened(tmp_path, identity="join").close()
    with pytest.raises(StateError, match="is of another stage"):
        opened(tmp_path, identity="aggregate")


def test_a_missing_state_is_told(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no state in"):
        opened(tmp_path / "none", create=False)


def test_a_damaged_state_is_told(tmp_path: Path) -> None:
    with opened(tmp_path) as state:
        step(state, 1, b"a")
    (tmp_path / "data.mdb").write_bytes(b"\xff" * 40_000)
    with pytest.raises(StateError, match="is damaged"):
        opened(tmp_path)


def test_a_truncated_state_is_told(tmp_path: Path) -> None:
    with opened(tmp_path) as state:
        step(state, 1, *(number.to_bytes(4, "big") * 100 for number in range(2000)))
    whole = (tmp_path / "data.mdb").read_bytes()
    (tmp_path / "data.mdb").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StateError, match="is damaged"):
        opened(tmp_path)


def test_a_later_writer_fences_the_earlier(tmp_path: Path) -> None:
    with opened(tmp_path, owner=1) as first, opened(tmp_path, owner=2) as second:
        step(second, 1, b"a")
        with pytest.raises(StateFenced, match="another writer owns"):
            step(first, 2, b"b")
    with pytest.raises(StateFenced):
        opened(tmp_path, owner=1)


def test_one_owner_at_a_time(tmp_path: Path) -> None:
    with Owner.acquire(tmp_path) as first, pytest.raises(StateFenced, match="another writer owns"):
        Owner.acquire(tmp_path)
    with Owner.acquire(tmp_path) as second:
        assert second.number > first.number


def _hold(folder: Path, ready: object) -> None:
    Owner.acquire(folder)
    ready.send(True)  # type: ignore[attr-defined]
    multiprocessing.Event().wait()


def test_a_killed_owner_leaves_nothing_behind(tmp_path: Path) -> None:
    mine, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_hold, args=(tmp_path, theirs), daemon=True)
    process.start()
    try:
        assert mine.poll(30)
        with pytest.raises(StateFenced, match=f"another writer owns.*\n.*{process.pid}"):
            Owner.acquire(tmp_path)
    finally:
        process.kill()
        process.join()
    Owner.acquire(tmp_path).release()


def test_snapshot_and_back(tmp_path: Path) -> None:
    live, copy = tmp_path / "live", tmp_path / "copies" / "one"
    with opened(live) as state:
        step(state, 1, b"a")
        assert snapshot(state, copy) == 1
        step(state, 2, b"b")
    restore(copy, live)
    with opened(live) as state:
        assert state.epoch == 1
        assert step(state, 1) == [b"a"]
        assert stored(state) == [(b"a", 1)]


def test_a_snapshot_replaces_the_older_one(tmp_path: Path) -> None:
    with opened(tmp_path / "live") as state:
        step(state, 1, b"a")
        snapshot(state, tmp_path / "copy")
        step(state, 2, b"b")
        assert snapshot(state, tmp_path / "copy") == 2
    assert [file.name for file in (tmp_path / "copy").iterdir()] == ["data.mdb"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["copy", "live"]


def test_no_snapshot_to_restore(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no snapshot in"):
        restore(tmp_path / "none", tmp_path / "live")


def test_statistics(tmp_path: Path) -> None:
    with opened(tmp_path) as state:
        step(state, 1, b"a", b"b")
        found = state.statistics()
    assert found.rows == {"rows": 2}
    assert found.bytes > 0
