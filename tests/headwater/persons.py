"""Tables of people, by the types of their keys."""

from __future__ import annotations

from cdc.catalog import Column, Table
from cdc.events import TableName
from cdc.pgtypes import TypeSpec, pg_type


def shape(table: str, **key: str) -> Table:
    columns = tuple(Column(name, pg_type(TypeSpec(type_, type_)), not_null=True) for name, type_ in key.items())
    return Table(1, TableName("public", table), columns, tuple(key))
