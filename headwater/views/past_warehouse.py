"""A view's history in the warehouse as its past: rows at a version, what changed between two, the versions of a key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa

from headwater.warehouse_sql import KeptView, kept_views
from views.json_rows import json_rows
from views.plan import Field
from views.sinks.sink import Change, Mark, ViewShape
from views.sinks.warehouse import CURRENT, HISTORY, Note
from views.sinks.warehouse_rows import RowParser
from views.sinks.warehouse_types import COMMITTED_AT, GONE, LSN, POSITION, VERSION, Layout


@dataclass(frozen=True)
class PastVersion:
    version: int
    row: bytes | None
    """None: it was gone."""
    position: str
    lsn: str
    committed_at: datetime | None


@dataclass(frozen=True)
class PastWarehouse:
    shape: ViewShape
    kept: KeptView

    @classmethod
    def of(cls, folder: str | Path, shape: ViewShape) -> PastWarehouse | None:
        """None for a view that is not in the warehouse."""
        found = next((view for view in kept_views(folder, shape.source) if view.name == shape.view), None)
        return cls(shape, found) if found else None

    def mark(self) -> Mark | None:
        """What it includes."""
        from cdc.archive_delta import DeltaFolder

        commit = DeltaFolder(self.kept.folder / CURRENT).last()
        return None if commit is None else msgspec.json.decode(commit.note, type=Note).mark

    def first_version(self) -> int | None:
        with self._opened() as db:
            [[found]] = db.execute(f"SELECT min({VERSION}) FROM history").fetchall()
            return None if found is None else int(found)

    def rows(self, before: int, rows_max: int | None = None) -> tuple[int, list[bytes]]:
        """How many there were before that version, and the first of them by key."""
        rank = f"row_number() OVER ({self._by} ORDER BY {VERSION} DESC)"
        newest = f"FROM history WHERE {VERSION} < {before} QUALIFY {rank} = 1"
        limit = "" if rows_max is None else f" LIMIT {rows_max}"
        with self._opened() as db:
            [[count]] = db.execute(f"SELECT count(*) FROM ({newest}) WHERE NOT {GONE}").fetchall()
            found = db.sql(f"FROM ({newest}) WHERE NOT {GONE} ORDER BY {self._keys or '1'}{limit}").to_arrow_table()
        return int(count), list(self._json(found))

    def changes(self, start: int, end: int) -> Iterator[tuple[bytes | None, bytes | None]]:
        """The row before the one version, and before the other, of keys that had versions in between."""
        touched = f"SELECT DISTINCT {self._keys or '1'} FROM history WHERE {VERSION} >= {start} AND {VERSION} < {end}"
        same = " AND ".join(f"h.{name} IS NOT DISTINCT FROM t.{name}" for name in self._names) or "true"
        known = f"SELECT h.* FROM history h JOIN ({touched}) t ON {same} WHERE h.{VERSION} < {end}"
        ranked = f"row_number() OVER (PARTITION BY {self._keys or 'true'}, {VERSION} < {start} ORDER BY {VERSION} DESC)"
        query = f"SELECT *, {VERSION} < {start} AS is_old FROM ({known}) QUALIFY {ranked} = 1"
        with self._opened() as db:
            found = db.sql(query).to_arrow_table()
        pairs: dict[bytes, list[bytes | None]] = {}
        marks = zip(found[GONE].to_pylist(), found["is_old"].to_pylist(), strict=True)
        for row, (is_gone, is_old) in zip(self._json(found), marks, strict=True):
            pairs.setdefault(self._key_of(row), [None, None])[0 if is_old else 1] = None if is_gone else row
        yield from ((before, after) for before, after in pairs.values())

    def versions(self, key: bytes) -> list[PastVersion]:
        """Of one key, oldest first."""
        layout = Layout.of(self.shape)
        asked, _ = RowParser(layout).parse([Change(key, None, 0)], [Mark("", 0)])
        same = " AND ".join(f"h.{name} IS NOT DISTINCT FROM k.{name}" for name in self._names) or "true"
        with self._opened() as db:
            db.register("wanted", asked)
            told = f"SELECT h.*, epoch_us(h.{COMMITTED_AT}) AS at_us FROM history h, wanted k WHERE {same}"
            found = db.sql(f"{told} ORDER BY h.{VERSION}").to_arrow_table()
        columns = (found[name].to_pylist() for name in (VERSION, GONE, POSITION, LSN, "at_us"))
        return [
            PastVersion(
                version,
                None if is_gone else row,
                position,
                lsn,
                None if at_us is None else datetime.fromtimestamp(at_us / 1e6, UTC),
            )
            for row, (version, is_gone, position, lsn, at_us) in zip(
                self._json(found), zip(*columns, strict=True), strict=True
            )
        ]

    @property
    def _names(self) -> list[str]:
        return ['"' + column.name.replace('"', '""') + '"' for column in Layout.of(self.shape).key_columns]

    @property
    def _keys(self) -> str:
        return ", ".join(self._names)

    @property
    def _by(self) -> str:
        return f"PARTITION BY {self._keys}" if self._names else ""

    @contextmanager
    def _opened(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with duckdb.connect() as db:
            db.execute("SET TimeZone = 'UTC'")
            db.register("history", self.kept.table(HISTORY).to_pyarrow_dataset())
            yield db

    def _json(self, found: pa.Table) -> Iterator[bytes]:
        layout = Layout.of(self.shape)
        names = [column.field.name for column in layout.columns]
        fields = [Field(column.field.name, column.stored) for column in layout.columns]
        table = found.select([column.name for column in layout.columns]).rename_columns(names)
        yield from json_rows(fields, table).to_pylist()

    def _key_of(self, row: bytes) -> bytes:
        values = msgspec.json.decode(row, type=dict[str, msgspec.Raw])
        return msgspec.json.encode({name: values[name] for name in self.shape.key})
