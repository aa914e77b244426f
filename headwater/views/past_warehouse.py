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

from cdc.position import Lsn, Position
from headwater.warehouse_sql import AsOf, KeptView, kept_views
from views.json_rows import json_rows
from views.plan import Field
from views.sinks.sink import Change, Mark, ViewShape
from views.sinks.warehouse_folders import CURRENT, HISTORY
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
        note = self.kept.note(CURRENT)
        return None if note is None else note.mark

    def whole_from(self) -> int | None:
        """From which version on its history has every one; None if nobody knows."""
        return self.kept.whole_from()

    def whole_since(self) -> datetime | None:
        """When the first of them was committed."""
        with self._opened() as db:
            first = f"SELECT epoch_us({COMMITTED_AT}) FROM history WHERE {VERSION} >= {self.whole_from() or 0}"
            found = db.execute(f"{first} ORDER BY {VERSION} LIMIT 1").fetchall()
        return datetime.fromtimestamp(found[0][0] / 1e6, UTC) if found and found[0][0] is not None else None

    def before(self, when: AsOf, era: int) -> int | None:
        """One past the last version that belongs to that point; None if the point lies before all that is known."""
        position = f"[split_part({POSITION}, ':', 1)::BIGINT, split_part({POSITION}, ':', 2)::BIGINT]"
        lsn = f"(('0x' || split_part({LSN}, '/', 1))::UBIGINT << 32) + ('0x' || split_part({LSN}, '/', 2))::UBIGINT"
        if isinstance(when, Position):
            fits = f"{position} <= [{when.era}, {when.offset}]"
        elif isinstance(when, Lsn):  # those of earlier eras mean nothing in this one, and came before
            fits = f"split_part({POSITION}, ':', 1)::BIGINT < {era} OR {lsn} <= {when.value}"
        else:
            fits = f"epoch_us({COMMITTED_AT}) <= {round(when.timestamp() * 1e6)}"
        with self._opened() as db:
            [[found]] = db.execute(f"SELECT max({VERSION}) FROM history WHERE {fits}").fetchall()
        return None if found is None else int(found) + 1

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

    def versions(self, key: bytes, newest: int | None = None) -> list[PastVersion]:
        """Of one key, oldest first; all of them, or the newest."""
        layout = Layout.of(self.shape)
        asked, _ = RowParser(layout).parse([Change(key, None, 0)], [Mark("", 0)])
        same = " AND ".join(f"h.{name} IS NOT DISTINCT FROM k.{name}" for name in self._names) or "true"
        with self._opened() as db:
            db.register("wanted", asked)
            told = f"SELECT h.*, epoch_us(h.{COMMITTED_AT}) AS at_us FROM history h, wanted k WHERE {same}"
            limit = "" if newest is None else f" ORDER BY h.{VERSION} DESC LIMIT {newest}"
            found = db.sql(f"FROM ({told}{limit}) ORDER BY {VERSION}").to_arrow_table()
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

    def position_before(self, version: int, position: str) -> Position | None:
        """Of the epoch that changed the view before the one that brought this version."""
        earlier = f"SELECT {POSITION} FROM history WHERE {VERSION} < {version} AND {POSITION} <> $position"
        with self._opened() as db:
            found = db.execute(f"{earlier} ORDER BY {VERSION} DESC LIMIT 1", {"position": position}).fetchall()
        return Position.parse(found[0][0]) if found else None

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
