"""A column's type on its way through a view: as Postgres names it, as Arrow carries it, as DuckDB computes with it.

Numerics have a scale that is known before a row is seen, so DuckDB's decimals hold them exactly. Those that have none
(a column declared `numeric`, the result of a division or of avg) travel as Postgres' text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from functools import lru_cache
from typing import Final

import pyarrow as pa

from cdc.pgtypes import PgType, TypeSpec, pg_type

NUMERIC_DIGITS_MAX: Final = 38
"""What DuckDB's widest decimal holds."""

_MODIFIER: Final = re.compile(r"\([\d,\s-]+\)")


class Family(Enum):
    """Types that share their rules."""

    UNKNOWN = "unknown"
    """A quoted literal or NULL whose type its surroundings decide."""
    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMERIC = "numeric"
    FLOAT = "float"
    TEXT = "text"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    TIME = "time"
    INTERVAL = "interval"
    UUID = "uuid"
    BYTES = "bytes"
    JSON = "json"
    ENUM = "enum"
    ARRAY = "array"
    OTHER = "other"
    """Carried as it is, and not computed with."""


class Comparable(IntEnum):
    """What may be asked of two values. Text that Postgres prints is not always a stand-in for the value."""

    NOT = 0
    BY_EQUALITY = 1
    BY_ORDER = 2


@dataclass(frozen=True, slots=True)
class SqlType:
    postgres: str
    """As format_type prints it, such as numeric(12,2)."""
    arrow: pa.DataType
    duckdb: str
    family: Family = Family.OTHER
    scale_varies: bool = False
    """A numeric whose values may be of a smaller scale in Postgres than here: equal, but printed with fewer zeros."""

    def __str__(self) -> str:
        return self.postgres

    @property
    def name(self) -> str:
        """Without its modifier."""
        return _MODIFIER.sub("", self.postgres)

    @property
    def precision(self) -> int | None:
        return self.arrow.precision if pa.types.is_decimal(self.arrow) else None

    @property
    def scale(self) -> int | None:
        """Of a numeric; None if it has none that is known."""
        return self.arrow.scale if pa.types.is_decimal(self.arrow) else None

    @property
    def has_no_scale(self) -> bool:
        return self.family is Family.NUMERIC and self.scale is None

    @property
    def comparable(self) -> Comparable:
        if self.family is Family.ARRAY:
            return self.element.comparable
        if self.family is Family.OTHER:
            return _OTHERS_COMPARABLE.get(self.name, Comparable.NOT)
        if self.family is Family.JSON or self.name in _PADDED:
            return Comparable.NOT
        return Comparable.BY_EQUALITY if self.family is Family.ENUM else Comparable.BY_ORDER

    @property
    def is_key(self) -> bool:
        """Whether equal values are carried as equal bytes: what groups, joins and DISTINCT go by."""
        if self.has_no_scale or self.family is Family.INTERVAL:
            return False
        return self.comparable >= Comparable.BY_EQUALITY and (self.family is not Family.ARRAY or self.element.is_key)

    @property
    def element(self) -> SqlType:
        """Of an array."""
        inner = self.arrow.value_type
        name = self.postgres.removesuffix("[]")
        return SqlType(name, inner, self.duckdb.removesuffix("[]"), _family(name))


_PADDED: Final = frozenset({"character", "bpchar", "citext"})
"""Compared by rules of their own: blanks at the end, or case."""
_OTHERS_COMPARABLE: Final = {
    **dict.fromkeys(("inet", "cidr", "macaddr", "macaddr8", "bit", "int4range", "int8range"), Comparable.BY_EQUALITY),
    **dict.fromkeys(("oid", "money"), Comparable.BY_ORDER),
}
_FAMILIES: Final = {
    "boolean": Family.BOOLEAN,
    **dict.fromkeys(("smallint", "integer", "bigint"), Family.INTEGER),
    "numeric": Family.NUMERIC,
    **dict.fromkeys(("real", "double precision"), Family.FLOAT),
    **dict.fromkeys(("text", "character varying", "character", "bpchar", "name", '"char"', "citext"), Family.TEXT),
    "date": Family.DATE,
    "timestamp without time zone": Family.TIMESTAMP,
    "timestamp with time zone": Family.TIMESTAMPTZ,
    "time without time zone": Family.TIME,
    "interval": Family.INTERVAL,
    "uuid": Family.UUID,
    "bytea": Family.BYTES,
    **dict.fromkeys(("json", "jsonb"), Family.JSON),
}


def _family(name: str) -> Family:
    if name.endswith("[]"):
        return Family.ARRAY
    bare = _MODIFIER.sub("", name)
    known = _FAMILIES.get(bare if '"' in bare else bare.rpartition(".")[2])
    return known or Family.OTHER


def duckdb_type(arrow: pa.DataType) -> str:
    """The type that DuckDB gives a column of this Arrow type. Raises KeyError for one that it has not."""
    if pa.types.is_decimal128(arrow):
        return f"DECIMAL({arrow.precision},{arrow.scale})"
    if pa.types.is_list(arrow):
        return f"{duckdb_type(arrow.value_type)}[]"
    if pa.types.is_struct(arrow):
        fields = (f'"{field.name}" {duckdb_type(field.type)}' for field in arrow)
        return f"STRUCT({', '.join(fields)})"
    if pa.types.is_map(arrow):
        return f"MAP({duckdb_type(arrow.key_type)}, {duckdb_type(arrow.item_type)})"
    return _DUCKDB[arrow]


_DUCKDB: Final = {
    pa.bool_(): "BOOLEAN",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP",
    pa.timestamp("us", "UTC"): "TIMESTAMP WITH TIME ZONE",
}


@lru_cache(maxsize=4096)
def of_column(type_: PgType) -> SqlType:
    """The type of a captured column, domains looked through. Raises KeyError for one that views cannot carry."""
    spec = type_.spec
    name = f"{spec.base}[]" if spec.dims else spec.base
    family = _family(name)
    if spec.kind == "e" and not spec.dims:
        family = Family.ENUM
    return SqlType(name, type_.arrow, duckdb_type(type_.arrow), family)


def named(name: str) -> SqlType:
    """A built-in type by the name that format_type prints. Raises KeyError for one that views cannot carry."""
    dims = 1 if name.endswith("[]") else 0
    return of_column(pg_type(TypeSpec(name, name.removesuffix("[]"), dims=dims)))


def numeric(digits: int, scale: int, *, scale_varies: bool = False) -> SqlType:
    """A numeric that Postgres calls just that, and whose scale is known all the same."""
    arrow = pa.decimal128(min(digits, NUMERIC_DIGITS_MAX), scale)
    return SqlType("numeric", arrow, duckdb_type(arrow), Family.NUMERIC, scale_varies)


def array_of(element: SqlType) -> SqlType:
    return SqlType(f"{element.postgres}[]", pa.list_(element.arrow), f"{element.duckdb}[]", Family.ARRAY)


def without_modifier(type_: SqlType) -> SqlType:
    """As an expression's result: a varchar(20) is a text of any length."""
    return TEXT if type_.family is Family.TEXT else replace(type_, postgres=type_.name)


UNKNOWN: Final = SqlType("unknown", pa.string(), "VARCHAR", Family.UNKNOWN)
BOOLEAN: Final = named("boolean")
SMALLINT: Final = named("smallint")
INTEGER: Final = named("integer")
BIGINT: Final = named("bigint")
REAL: Final = named("real")
DOUBLE: Final = named("double precision")
TEXT: Final = named("text")
VARCHAR: Final = named("character varying")
DATE: Final = named("date")
TIMESTAMP: Final = named("timestamp without time zone")
TIMESTAMPTZ: Final = named("timestamp with time zone")
TIME: Final = named("time without time zone")
INTERVAL: Final = named("interval")
UUID: Final = named("uuid")
BYTEA: Final = named("bytea")
JSON: Final = named("json")
JSONB: Final = named("jsonb")
NUMERIC: Final = named("numeric")
"""Without a scale: Postgres' text."""
