"""The demo's tables as a catalog, without a database: for tests that only plan."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from cdc.catalog import Catalog, Column, Table
from cdc.events import TableName
from cdc.pgtypes import TypeSpec, pg_type

SCHEMA = Path(__file__).parents[3] / "headwater" / "demo" / "schema.sql"
_TYPES = {"timestamptz": "timestamp with time zone", "public.listing_kind": "", "public.listing_status": ""}


@cache
def demo_catalog() -> Catalog:
    return catalog_of(SCHEMA.read_text())


def catalog_of(ddl: str) -> Catalog:
    """Of plain CREATE TABLE statements; types in a schema are enums."""
    found = re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(?:public\.)?(\w+) \((.*?)\n?\);", ddl, re.DOTALL | re.I)
    return Catalog.of(_table(number, name, body) for number, (name, body) in enumerate(found, 1))


def _table(relation: int, name: str, body: str) -> Table:
    columns, key = [], []
    for line in re.split(r",\s*(?![^()]*\))", body.strip()):
        if re.match(r"CHECK", line, re.I):
            continue
        if found := re.match(r"PRIMARY KEY \((.*)\)", line, re.I):
            key = [part.strip() for part in found[1].split(",")]
            continue
        column, type_ = re.match(r"\s*(\w+)\s+(.*)", line, re.DOTALL).groups()
        word = re.match(r"(double precision|character varying|[\w.]+)(\s*\([\d, ]+\))?(\[\])?", type_, re.I)
        is_key = "primary key" in type_.lower()
        key += [column] if is_key else []
        columns.append(Column(column, pg_type(_spec(*word.groups())), is_key or "not null" in type_.lower()))
    not_null = [Column(c.name, c.type, c.not_null or c.name in key) for c in columns]
    return Table(relation, TableName("public", name), tuple(not_null), tuple(key))


def _spec(word: str, modifier: str | None, array: str | None) -> TypeSpec:
    if "." in word:
        return TypeSpec(word, word, kind="e")
    base = {
        "timestamptz": "timestamp with time zone",
        "timestamp": "timestamp without time zone",
        "int": "integer",
    }.get(word.lower(), word.lower()) + (modifier or "").replace(" ", "")
    return TypeSpec(base + (array or ""), base, dims=1 if array else 0)
