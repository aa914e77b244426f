"""The versions that a view's rows had since an instant, from the warehouse: what a preview looks at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa

from alerts.previewing import Version
from headwater.warehouse_sql import KeptView, kept_views
from views.json_rows import json_rows
from views.plan import Field
from views.sinks.sink import ViewShape
from views.sinks.warehouse_folders import HISTORY
from views.sinks.warehouse_types import COMMITTED_AT, GONE, VERSION, Layout


@dataclass(frozen=True)
class History:
    since: datetime
    """From here on it is complete: later than asked for where there were too many versions, or some were let go."""
    versions: Iterator[Version]


def read_history(folder: str | Path, shape: ViewShape, since: datetime, versions_max: int) -> History | None:
    """None for a view that is not in the warehouse. A row's last version before that time comes with it."""
    kept = next((view for view in kept_views(folder, shape.source) if view.name == shape.view), None)
    if kept is None:
        return None
    table = kept.table(HISTORY)
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        db.register("history", table.to_pyarrow_dataset())
        start = _start(db, max(since, _whole_since(db, kept)), versions_max)
        db.register("silent", _silent(kept))
        found = db.sql(_query(shape), params={"since": start}).to_arrow_table()
    return History(start, _versions(shape, found))


def _silent(kept: KeptView) -> pa.Table:
    """Stretches of versions that no change of the source made."""
    note = kept.note(HISTORY)
    stretches = note.silent if note is not None else ()
    kinds = pa.schema([("first", pa.int64()), ("until", pa.int64())])
    return pa.table({"first": [first for first, _ in stretches], "until": [until for _, until in stretches]}, kinds)


def _whole_since(db: duckdb.DuckDBPyConnection, kept: KeptView) -> datetime:
    """When the last version came that others, now gone, may have come before."""
    [[at_us]] = db.execute(
        f"SELECT max(epoch_us({COMMITTED_AT})) FROM history WHERE {VERSION} < {kept.whole_from() or 0}"
    ).fetchall()
    return datetime.fromtimestamp((at_us or 0) / 1e6, UTC)


def _start(db: duckdb.DuckDBPyConnection, since: datetime, versions_max: int) -> datetime:
    """The instant asked for, or the oldest from which there are no more versions than may be looked at."""
    newest = f"SELECT {COMMITTED_AT} AS moment FROM history WHERE {COMMITTED_AT} >= $since ORDER BY 1 DESC"
    found = db.execute(
        f"SELECT epoch_us(moment) FROM ({newest} LIMIT 1 OFFSET $most)", {"since": since, "most": versions_max}
    ).fetchall()
    if not found:
        return since
    # That one and those of its commit are one too many.
    return datetime.fromtimestamp((found[0][0] + 1) / 1e6, since.tzinfo)


def _query(shape: ViewShape) -> str:
    keys = ", ".join(f'"{column.name}"' for column in Layout.of(shape).key_columns)
    columns = ", ".join(f'"{column.name}"' for column in Layout.of(shape).columns)
    recent = f"SELECT DISTINCT {keys} FROM history WHERE {COMMITTED_AT} >= $since"
    # What came with the first write is what was there when the view was built: nobody's news, whatever commit it names.
    # So is what a changed definition or a rebuild made of its rows.
    built = f"(SELECT {COMMITTED_AT} FROM history ORDER BY {VERSION} LIMIT 1)"
    told = f"NOT EXISTS (SELECT 1 FROM silent WHERE {VERSION} >= silent.first AND {VERSION} < silent.until)"
    is_news = f"{COMMITTED_AT} >= $since AND {COMMITTED_AT} IS DISTINCT FROM {built} AND {told}"
    following = f"lead({COMMITTED_AT}) OVER (PARTITION BY {keys} ORDER BY {VERSION})"
    return (
        f"SELECT {columns}, {GONE}, coalesce({is_news}, false) AS is_news, {COMMITTED_AT}"
        f" FROM (SELECT *, {following} AS next_at FROM history SEMI JOIN ({recent}) USING ({keys}))"
        f" WHERE {COMMITTED_AT} >= $since OR next_at >= $since ORDER BY {keys}, {VERSION}"
    )


def _versions(shape: ViewShape, found: pa.Table) -> Iterator[Version]:
    layout = Layout.of(shape)
    names = [column.field.name for column in layout.columns]
    fields = [Field(column.field.name, column.stored) for column in layout.columns]
    rows = json_rows(fields, found.select([column.name for column in layout.columns]).rename_columns(names)).to_pylist()
    keys = zip(*(found[column.name].to_pylist() for column in layout.key_columns), strict=True)
    marks = zip(*(found[name].to_pylist() for name in (GONE, "is_news", COMMITTED_AT)), strict=True)
    for key, row, (is_gone, is_news, at) in zip(keys, rows, marks, strict=True):
        text = row if isinstance(row, bytes) else str(row).encode()
        yield Version(key, None if is_gone else text, is_news, at)
