"""Which changes of a batch the warehouse takes, and how they are merged. Decides, and writes nothing.

A change that is not older than everything in the history is new by its version alone. One that may be old (a replay, a
dead letter that was mended) is held against the history: it is not appended twice, and does not bring a row back that a
later change, a deletion included, has taken away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from cdc.archive_delta import Merge, quoted
from views.sinks.warehouse_types import GONE, VERSION, Layout

ROWS_RESTORED_AT_ONCE: Final = 50_000


class Taken(NamedTuple):
    append: pa.Table
    """For the history."""
    merge: pa.Table
    """For the current rows: the newest change of each key."""


def taken(layout: Layout, batch: pa.Table, known_before: int, history: Callable[[], Any]) -> Taken:
    """`history` gives the history as a dataset; it is asked only when there are versions before `known_before`."""
    if not batch.num_rows:
        return Taken(batch, batch)
    with duckdb.connect() as db:
        db.register("batch", _numbered(layout, batch))
        newest = set(_column(db, _newest(layout)))
        least = pc.min(batch[VERSION]).as_py()
        if least >= known_before:
            return Taken(batch, batch.take(pa.array(sorted(newest), pa.int64())))
        db.register("history", history())
        seen = set(_column(db, _matched(layout, "h._version = b._version", least)))
        outdated = set(_column(db, _matched(layout, "h._version > b._version", least)))
    append = [place for place in range(batch.num_rows) if place not in seen]
    return Taken(batch.take(pa.array(append, pa.int64())), batch.take(pa.array(sorted(newest - outdated), pa.int64())))


def merge_of(layout: Layout, rows: pa.Table) -> Merge:
    """Newer wins; a row that is gone leaves."""
    same = " AND ".join([*_same(layout), *_within(layout, rows)]) or "true"
    return Merge(same, f"s.{VERSION} > t.{VERSION}", f"s.{GONE}", layout.current.names)


def restored(layout: Layout, history: Any) -> Iterator[pa.RecordBatch]:
    """The current rows, all of them, out of the history: a dataset."""
    columns = ", ".join(quoted(name) for name in layout.current.names)
    by = ", ".join(quoted(name) for name in layout.key) or "true"
    newest = f"SELECT max({VERSION}) FROM history GROUP BY {by}"
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        db.register("history", history)
        found = db.sql(f"SELECT {columns} FROM history WHERE NOT {GONE} AND {VERSION} IN ({newest})")
        for batch in found.to_arrow_reader(ROWS_RESTORED_AT_ONCE):
            yield from pa.Table.from_batches([batch]).cast(layout.current).to_batches()


def _same(layout: Layout) -> list[str]:
    """A view without a key has one row. In brackets: delta-rs reads IS NOT DISTINCT FROM a AND b as FROM (a AND b)."""
    return [
        f"(t.{quoted(column.name)} {'IS NOT DISTINCT FROM' if column.field.nullable else '='} s.{quoted(column.name)})"
        for column in layout.key_columns
    ]


def _within(layout: Layout, rows: pa.Table) -> list[str]:
    """The range of the batch's keys, so that files with none of them are left alone."""
    found = []
    for column in layout.key_columns:
        values = rows[column.name]
        if pa.types.is_integer(values.type) and values.null_count == 0 and len(values):
            least, most = pc.min_max(values).as_py().values()
            found.append(f"t.{quoted(column.name)} BETWEEN {least} AND {most}")
    return found


def _numbered(layout: Layout, batch: pa.Table) -> pa.Table:
    keys = batch.select([*layout.key, VERSION])
    return keys.append_column("_place", pa.array(range(batch.num_rows), pa.int64()))


def _newest(layout: Layout) -> str:
    by = ", ".join(quoted(name) for name in layout.key) or "true"
    return f"SELECT _place FROM batch QUALIFY row_number() OVER (PARTITION BY {by} ORDER BY {VERSION} DESC) = 1"


def _matched(layout: Layout, versions: str, least_version: int) -> str:
    """The least version as a number: by it files of the history are left alone."""
    least = f"h.{VERSION} >= {least_version}"
    same = [f"h.{quoted(name)} IS NOT DISTINCT FROM b.{quoted(name)}" for name in layout.key]
    return f"SELECT DISTINCT _place FROM batch b JOIN history h ON {' AND '.join([*same, versions, least])}"


def _column(db: duckdb.DuckDBPyConnection, query: str) -> Sequence[int]:
    return [place for (place,) in db.execute(query).fetchall()]
