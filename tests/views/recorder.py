"""What was done to tables in Postgres, as the log would tell it: triggers write down every change of a row.

So a test may say anything in SQL and hand the engine the events of it, without Debezium. As in the log: a change of key
is a delete and an insert of one place, the old row of a table with a key is its key only, a large value that an update
left alone is a placeholder, and what was rolled back is not there.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import psycopg

from cdc.catalog import Catalog, Column, Table
from cdc.catalog_reader import load
from cdc.events import UNCHANGED, ChangeEvent, Op, TableName
from cdc.position import Lsn, Position

LARGE_CHARACTERS: Final = 100
"""From here on a text that stays counts as one that Postgres keeps out of line."""
_AT: Final = datetime(2025, 1, 1, tzinfo=UTC)
_SETUP: Final = """
    create schema if not exists recorder;
    create table if not exists recorder.changes (
        number bigint generated always as identity primary key,
        xid bigint, op text, name text, before json, after json);
    create or replace function recorder.record() returns trigger language plpgsql as $$
    begin
        insert into recorder.changes (xid, op, name, before, after) values (
            txid_current(), tg_op, tg_table_name,
            case when tg_op in ('UPDATE', 'DELETE') then to_json(old) end,
            case when tg_op in ('UPDATE', 'INSERT') then to_json(new) end);
        return null;
    end $$;
"""
_TRIGGERS: Final = """
    create trigger recorded after insert or update or delete on {0} for each row execute function recorder.record();
    create trigger emptied after truncate on {0} for each statement execute function recorder.record();
"""
_SPECIAL: Final = {"NaN": "NAN", "Infinity": "POSITIVE_INFINITY", "-Infinity": "NEGATIVE_INFINITY"}

_JAVA: Final = {"infinity": -2_147_472_692, "-infinity": -2_147_472_691}
"""What Java leaves of a date without end."""


@dataclass
class Recorder:
    connection: psycopg.Connection
    catalog: Catalog
    offset: int = 0
    by_name: dict[str, Table] = field(init=False)

    def __post_init__(self) -> None:
        self.by_name = {name.name: table for name, table in self.catalog.by_name.items()}

    @classmethod
    def install(cls, connection: psycopg.Connection, tables: Iterable[str]) -> Recorder:
        """On tables of the schema public that are there already, and not watched yet."""
        names = [TableName("public", name) for name in tables]
        connection.execute(_SETUP)
        for name in names:
            connection.execute(_TRIGGERS.format(f'public."{name.name}"'))
        return cls(connection, load(connection, names))

    def events(self) -> list[ChangeEvent]:
        """Of what was committed since the last call."""
        taken = self.connection.execute(
            "with taken as (delete from recorder.changes returning *)"
            " select xid, op, name, before::text, after::text from taken order by number"
        ).fetchall()
        return [event for change in taken for event in self._told(*change)]

    def _told(self, xid: int, op: str, name: str, before: str | None, after: str | None) -> Iterator[ChangeEvent]:
        table = self.by_name[name]
        old, new = _image(table, before), _image(table, after)
        if old is not None and new is not None and _key(table, old) != _key(table, new):
            lsn = Lsn(self.offset + 1)
            yield self._event(Op.DELETE, table, _known(table, old), None, xid, lsn)
            yield self._event(Op.INSERT, table, None, _left_alone(old, new), xid, lsn)
            return
        if old is not None and new is not None:
            # An old row that is told whole fills the new one.
            yield self._event(
                Op.UPDATE, table, None if table.key else old, _left_alone(old, new) if table.key else new, xid
            )
            return
        yield self._event(Op(op.lower()), table, _known(table, old), new, xid)

    def _event(
        self,
        op: Op,
        table: Table,
        before: dict[str, object] | None,
        after: dict[str, object] | None,
        xid: int,
        lsn: Lsn | None = None,
    ) -> ChangeEvent:
        self.offset += 1
        return ChangeEvent(
            Position(1, self.offset), op, table.name, before, after, lsn or Lsn(self.offset), xid, _AT, _AT
        )


def _image(table: Table, text: str | None) -> dict[str, object] | None:
    """As Debezium writes it. Numbers are read as they stand, so that no digit and no sign of a zero is lost."""
    if text is None:
        return None
    row = json.loads(text, parse_int=Decimal, parse_float=Decimal)
    return {column.name: _wire(column, row[column.name]) for column in table.columns}


def _key(table: Table, row: dict[str, object]) -> list[object]:
    return [row[name] for name in table.key]


def _known(table: Table, row: dict[str, object] | None) -> dict[str, object] | None:
    if row is None or not table.key:
        return row
    return {name: value if name in table.key else None for name, value in row.items()}


def _left_alone(old: dict[str, object], new: dict[str, object]) -> dict[str, object]:
    return {name: UNCHANGED if _is_large(value) and old[name] == value else value for name, value in new.items()}


def _is_large(value: object) -> bool:
    return isinstance(value, str) and len(value) >= LARGE_CHARACTERS


def _wire(column: Column, value: Any) -> object:
    if value is None:
        return None
    if column.type.spec.dims:
        return [None if item is None else _scalar(column, item) for item in value]
    return _scalar(column, value)


def _scalar(column: Column, value: Any) -> object:
    match column.type.spec.name:
        case "smallint" | "integer" | "bigint":
            return int(value)
        case "numeric":
            return _SPECIAL.get(str(value), f"{value:f}" if isinstance(value, Decimal) else str(value))
        case "real" | "double precision":
            return value if isinstance(value, str) else float(value)
        case "date" | "timestamp without time zone" | "time without time zone":
            return _JAVA.get(value) or int(column.type.from_text(value.replace("T", " ")))  # type: ignore[call-overload]
        case "timestamp with time zone":
            return value.replace("+00:00", "Z")
        case "bytea":
            return b64encode(bytes.fromhex(value.removeprefix("\\x"))).decode()
    return value
