"""What the captured tables look like, and so how rows are decoded: between envelope.py and all that is typed. Pure.

`Catalog.apply` follows the captured table headwater.catalog: a schema change is an event in the log, in its order, so
a row is decoded by the shape that its table had when it was written, however late it is read. catalog_reader.py asks
Postgres for the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from cdc.errors import DecodeError
from cdc.events import UNCHANGED, ChangeEvent, Op, Row, TableName
from cdc.pgtypes import PgType, TypeSpec, pg_type, unsupported_reason

CATALOG_TABLE: Final = TableName("headwater", "catalog")
FULL: Final = "f"
"""REPLICA IDENTITY FULL: the old row is whole."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: PgType
    not_null: bool = False
    generated: bool = False

    @property
    def may_be_absent(self) -> bool:
        """Generated columns are published from Postgres 18 on, and only stored ones; unsupported ones never arrive."""
        return self.generated or unsupported_reason(self.type) is not None


@dataclass(frozen=True)
class Table:
    """One shape of one table."""

    relation: int
    """Its oid, which stays when it is renamed."""
    name: TableName
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    replica_identity: str = "d"

    @cached_property
    def by_name(self) -> Mapping[str, Column]:
        return {column.name: column for column in self.columns}

    @cached_property
    def _required(self) -> frozenset[str]:
        return frozenset(column.name for column in self.columns if not column.may_be_absent)

    @classmethod
    def parse(cls, row: Mapping[str, Any]) -> Table:
        """From a row of headwater.catalog. Raises DecodeError for one that is not."""
        try:
            described = row["columns"]
            columns = json.loads(described) if isinstance(described, str) else described
            return cls(
                relation=int(row["relation"]),
                name=TableName(row["schema_name"], row["table_name"]),
                columns=tuple(
                    Column(c["name"], pg_type(TypeSpec.parse(c)), bool(c["not_null"]), bool(c["generated"]))
                    for c in columns
                ),
                key=tuple(row["key_columns"]),
                replica_identity=row["replica_identity"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DecodeError(
                "not a description of a table",
                detail=f"{type(error).__name__}: {error}, in {dict(row)!r:.300}",
                hint="select headwater.refresh_catalog()",
            ) from error

    def decode(self, row: Row) -> dict[str, object]:
        """Typed values by column, UNCHANGED where it was. A column that is missing, or not known, is a DecodeError."""
        if row.keys() != self._required:
            self._check_columns(row)
        return {name: self._read(name, value) for name, value in row.items()}

    def decode_before(self, row: Row) -> dict[str, object]:
        """The old row. Without REPLICA IDENTITY FULL only its key is true, and only that is returned."""
        if self.replica_identity == FULL:
            return self.decode(row)
        return self.decode_key({name: row[name] for name in self.key if name in row})

    def decode_key(self, key: Row) -> dict[str, object]:
        """Any part of a row, such as a record's key."""
        if unknown := key.keys() - self.by_name.keys():
            raise self._differs(unknown=unknown, missing=set())
        return {name: self._read(name, value) for name, value in key.items()}

    def _read(self, name: str, value: object) -> object:
        if value is None or value is UNCHANGED:
            return value
        kind = self.by_name[name].type
        try:
            return kind.from_wire(value)
        except (ValueError, KeyError, ArithmeticError) as error:
            raise DecodeError(
                f"a value of {self.name}.{name} is not a {kind}",
                detail=f"{error}: {value!r:.200}",
                hint=f"headwater log tail --table {self.name}",
            ) from error

    def _check_columns(self, row: Row) -> None:
        unknown, missing = row.keys() - self.by_name.keys(), self._required - row.keys()
        if unknown or missing:
            raise self._differs(unknown, missing)

    def _differs(self, unknown: Iterable[str], missing: Iterable[str]) -> DecodeError:
        changes = [f"+{name}" for name in sorted(unknown)] + [f"-{name}" for name in sorted(missing)]
        return DecodeError(
            f"a row of {self.name} does not have the columns that the catalog says",
            detail=f"against the catalog: {', '.join(changes)}",
            hint="select headwater.refresh_catalog()",
        )


@dataclass(frozen=True)
class Catalog:
    """The tables at one position of the log."""

    tables: Mapping[int, Table] = field(default_factory=dict)
    """By relation."""

    @classmethod
    def of(cls, tables: Iterable[Table]) -> Catalog:
        return cls({table.relation: table for table in tables})

    @cached_property
    def by_name(self) -> Mapping[TableName, Table]:
        return {table.name: table for table in self.tables.values()}

    def table(self, name: TableName) -> Table:
        found = self.by_name.get(name)
        if found is None:
            raise DecodeError(
                f"no description of table {name}",
                detail=f"described are {', '.join(sorted(map(str, self.by_name))) or 'none'}",
                hint="select headwater.refresh_catalog()",
            )
        return found

    def apply(self, event: ChangeEvent) -> Catalog:
        """The catalog after the event; itself unless the event is a change of headwater.catalog. Idempotent."""
        if event.table != CATALOG_TABLE:
            return self
        if event.op is Op.TRUNCATE:
            return Catalog()
        if event.op is Op.DELETE:
            return self._without(event.before)
        return self._with(event.after or {})

    def _with(self, row: Row) -> Catalog:
        if UNCHANGED not in row.values():
            table = Table.parse(row)
            return replace(self, tables={**self.tables, table.relation: table})
        raise DecodeError(
            "a change of headwater.catalog does not carry the whole row",
            detail=", ".join(name for name, value in row.items() if value is UNCHANGED),
            hint="alter table headwater.catalog replica identity full",
        )

    def _without(self, row: Row | None) -> Catalog:
        gone = (row or {}).get("relation")
        return replace(self, tables={oid: table for oid, table in self.tables.items() if oid != gone})
