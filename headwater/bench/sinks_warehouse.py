"""The warehouse's part of `headwater bench sinks`: Delta tables filled, and changes merged into them.

The raw figures are delta-rs' own: the same rows, typed and in Arrow already, into a table of every version and one of
the newest, as the sink keeps them. Both are written to a temporary folder.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from headwater.deployment import Deployment
from headwater.sinks import sink_kinds
from views.sinks.sink import Change, Mark, ViewShape
from views.sinks.warehouse import WarehouseKind
from views.sinks.warehouse_rows import RowParser
from views.sinks.warehouse_types import GONE, Layout

MERGES: Final = 5
MERGED_ROWS: Final = 1_000
_MARK: Final = Mark("bench", 1 << 40)


def filled(deployment: Deployment, shape: ViewShape, changes: Sequence[Change]) -> float:
    """Rows a second into empty tables."""
    with tempfile.TemporaryDirectory(prefix="headwater-bench-warehouse-") as folder:
        return len(changes) / _fill(_kind(deployment, folder), shape, changes)


def merged(deployment: Deployment, shape: ViewShape, changes: Sequence[Change]) -> float:
    """Changes a second that come to tables which hold the rows, MERGED_ROWS at a time."""
    with tempfile.TemporaryDirectory(prefix="headwater-bench-warehouse-") as folder:
        kind = _kind(deployment, folder)
        _fill(kind, shape, changes)
        sink = kind.open(shape, 1)
        later = [_later(changes, number) for number in range(MERGES)]
        began = time.monotonic()
        for each in later:
            sink.apply(each, _MARK)
        return sum(map(len, later)) / (time.monotonic() - began)


def raw_filled(_deployment: Deployment, shape: ViewShape, changes: Sequence[Change]) -> float:
    with tempfile.TemporaryDirectory(prefix="headwater-bench-warehouse-") as folder:
        return len(changes) / _raw_fill(Path(folder), shape, changes)


def raw_merged(_deployment: Deployment, shape: ViewShape, changes: Sequence[Change]) -> float:
    from deltalake import DeltaTable, write_deltalake

    with tempfile.TemporaryDirectory(prefix="headwater-bench-warehouse-") as folder:
        history, current = (Path(folder) / name for name in ("history", "current"))
        _raw_fill(Path(folder), shape, changes)
        later = [_typed(shape, _later(changes, number)) for number in range(MERGES)]
        began = time.monotonic()
        for each in later:
            write_deltalake(history, each, mode="append")
            rows = each.drop_columns([GONE])
            merging = DeltaTable(current).merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
            merging.when_matched_update_all().when_not_matched_insert_all().execute()
        count: int = sum(each.num_rows for each in later)
        return count / (time.monotonic() - began)


def _kind(deployment: Deployment, folder: str) -> WarehouseKind:
    kind = sink_kinds(deployment)["warehouse"]
    assert isinstance(kind, WarehouseKind)
    return replace(kind, folder=folder)


def _fill(kind: WarehouseKind, shape: ViewShape, changes: Sequence[Change]) -> float:
    sink = kind.open(shape, 1)
    sink.prepare()
    began = time.monotonic()
    for part in _parts(changes, kind.rows_per_apply_max):
        sink.apply(part, _MARK)
    return time.monotonic() - began


def _raw_fill(folder: Path, shape: ViewShape, changes: Sequence[Change]) -> float:
    """Without merging: the rows are new."""
    from deltalake import write_deltalake

    tables = [_typed(shape, part) for part in _parts(changes, WarehouseKind.rows_per_apply_max)]
    began = time.monotonic()
    for table in tables:
        write_deltalake(folder / "history", table, mode="append")
        write_deltalake(folder / "current", table.drop_columns([GONE]), mode="append")
    return time.monotonic() - began


def _parts(changes: Sequence[Change], size: int) -> list[Sequence[Change]]:
    return [changes[start : start + size] for start in range(0, len(changes), size)]


def _typed(shape: ViewShape, changes: Sequence[Change]) -> pa.Table:
    return RowParser(Layout.of(shape)).parse(changes, [_MARK])[0]


def _later(changes: Sequence[Change], number: int) -> list[Change]:
    """Some rows, spread over all, at a later version."""
    step = max(1, len(changes) // MERGED_ROWS)
    return [change._replace(version=change.version + (number + 1) * len(changes)) for change in changes[number::step]]
