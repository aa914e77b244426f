"""Three small tables in Postgres and in the log's form at once: what a random transaction does to both."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import psycopg
from hypothesis import strategies as st

from cdc.events import UNCHANGED, ChangeEvent, Op, TableName
from cdc.position import Lsn, Position

DDL: Final = """
    create table customers (id integer primary key, city text, vip boolean, joined date);
    create table orders (
        id integer, line smallint, customer_id integer, amount numeric(10, 2), units bigint, weight double precision,
        placed_at timestamptz, note text, tags text[], primary key (id, line)
    );
    create table visits (page text, customer_id integer, seconds integer);
    alter table visits replica identity full;
"""
CUSTOMERS, ORDERS, VISITS = (TableName("public", name) for name in ("customers", "orders", "visits"))
KEYS: Final = {CUSTOMERS: ("id",), ORDERS: ("id", "line"), VISITS: ()}

_ids = st.integers(1, 4)
_places = st.sampled_from([None, "Bonn", "Oslo", "", "Ümeå"])
_money = st.sampled_from([None, "0.00", "1.50", "-2.25", "100.00", "99999999.99"])
_instants = st.sampled_from([None, "2024-02-29T23:59:59.5Z", "2025-01-01T00:00:00Z", "2025-01-31T12:00:00Z"])
ROWS: Final = {
    CUSTOMERS: st.fixed_dictionaries(
        {
            "id": _ids,
            "city": _places,
            "vip": st.sampled_from([None, True, False]),
            "joined": st.sampled_from([None, 19000, 20000]),
        }
    ),
    ORDERS: st.fixed_dictionaries(
        {
            "id": _ids,
            "line": st.integers(1, 2),
            "customer_id": st.none() | st.integers(1, 5),
            "amount": _money,
            "units": st.sampled_from([None, 0, 1, -7, 2**40]),
            "weight": st.sampled_from([None, 0.5, 2.0, -1.25]),
            "placed_at": _instants,
            "note": st.sampled_from([None, "n", "long " * 300, "other " * 300]),
            "tags": st.sampled_from([None, [], ["a"], ["b", None, "a"]]),
        }
    ),
    VISITS: st.fixed_dictionaries(
        {
            "page": st.sampled_from(["/", "/a"]),
            "customer_id": st.none() | _ids,
            "seconds": st.sampled_from([None, 1, 30]),
        }
    ),
}
_SQL: Final = {
    "joined": "date '1970-01-01' + %s::integer",
    "tags": "%s::text[]",
    "placed_at": "%s::timestamptz",
    "amount": "%s::numeric",
    "weight": "%s::double precision",
    **dict.fromkeys(("id", "line", "customer_id", "units", "seconds"), "%s::bigint"),
    **dict.fromkeys(("city", "note", "page"), "%s::text"),
    "vip": "%s::boolean",
}


@dataclass
class Shop:
    """Does to Postgres what the events say."""

    connection: psycopg.Connection
    offset: int = 0
    rows: dict[TableName, list[dict[str, object]]] = field(default_factory=lambda: {t: [] for t in ROWS})

    def event(self, op: Op, table: TableName, before: object, after: object, xid: int) -> ChangeEvent:
        self.offset += 1
        at = datetime(2025, 1, 1, tzinfo=UTC)
        return ChangeEvent(Position(1, self.offset), op, table, before, after, Lsn(self.offset), xid, at, at)  # type: ignore[arg-type]

    def transaction(self, draw: st.DrawFn, xid: int) -> list[ChangeEvent]:
        events: list[ChangeEvent] = []
        with self.connection.transaction():
            for _ in range(draw(st.integers(1, 4))):
                table = draw(st.sampled_from([CUSTOMERS, ORDERS, ORDERS, VISITS]))
                action = draw(st.sampled_from(["insert", "insert", "update", "update", "delete", "move", "truncate"]))
                events += self._act(draw, table, action, xid)
        return events

    def _act(self, draw: st.DrawFn, table: TableName, action: str, xid: int) -> list[ChangeEvent]:
        rows = self.rows[table]
        if action == "truncate":
            if draw(st.integers(0, 3)):
                return []
            rows.clear()
            self.connection.execute(f"truncate {table.name}")
            return [self.event(Op.TRUNCATE, table, None, None, xid)]
        if action == "insert" or not rows:
            return self._insert(table, draw(ROWS[table]), xid)
        row = rows[draw(st.integers(0, len(rows) - 1))]
        if action == "delete":
            return self._delete(table, row, xid)
        return self._update(draw, table, row, xid, moves=action == "move")

    def _key(self, table: TableName, row: dict[str, object]) -> tuple[object, ...]:
        return tuple(row[name] for name in KEYS[table])

    def _taken(self, table: TableName, row: dict[str, object]) -> bool:
        return bool(KEYS[table]) and any(self._key(table, r) == self._key(table, row) for r in self.rows[table])

    def _insert(self, table: TableName, row: dict[str, object], xid: int) -> list[ChangeEvent]:
        if self._taken(table, row):
            return []
        self.rows[table].append(row)
        values = ", ".join(_SQL.get(name, "%s") for name in row)
        self.connection.execute(f"insert into {table.name} ({', '.join(row)}) values ({values})", list(row.values()))
        return [self.event(Op.INSERT, table, None, dict(row), xid)]

    def _delete(self, table: TableName, row: dict[str, object], xid: int) -> list[ChangeEvent]:
        self.rows[table].remove(row)
        where = " and ".join(f"{name} is not distinct from {_SQL.get(name, '%s')}" for name in row)
        one = f"ctid = (select ctid from {table.name} where {where} limit 1)"
        self.connection.execute(f"delete from {table.name} where {one}", list(row.values()))
        before = row if not KEYS[table] else {name: row[name] if name in KEYS[table] else None for name in row}
        return [self.event(Op.DELETE, table, dict(before), None, xid)]

    def _update(
        self, draw: st.DrawFn, table: TableName, row: dict[str, object], xid: int, *, moves: bool
    ) -> list[ChangeEvent]:
        """A change of key arrives as a delete and an insert; a large value that stays may arrive as a placeholder."""
        new = {**draw(ROWS[table]), **({} if moves else {name: row[name] for name in KEYS[table]})}
        keeps = table == ORDERS and isinstance(row["note"], str) and len(row["note"]) > 100 and draw(st.booleans())
        if keeps:
            new["note"] = row["note"]
        if self._key(table, new) != self._key(table, row) and self._taken(table, new):
            return []
        deleted = self._delete(table, row, xid)
        inserted = self._insert(table, new, xid)
        image = {**new, "note": UNCHANGED} if keeps else new
        if self._key(table, new) != self._key(table, row):
            [event] = inserted
            return [*deleted, ChangeEvent(**{**_parts(event), "after": image, "lsn": deleted[0].lsn})]
        before = dict(row) if not KEYS[table] else None
        return [ChangeEvent(**{**_parts(inserted[0]), "op": Op.UPDATE, "before": before, "after": image})]


def _parts(event: ChangeEvent) -> dict[str, object]:
    return {name: getattr(event, name) for name in ChangeEvent.__dataclass_fields__}
