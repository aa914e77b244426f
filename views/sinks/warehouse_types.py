"""How a view's columns lie in the warehouse's Delta tables: names, types, what files are told apart by. Pure.

    boolean, smallint, integer, bigint, real, double   the same
    numeric(p,s), money                                decimal(p,s)
    numeric without a scale                            string, as Postgres prints it: its digits have no bound
    date, timestamp, timestamptz                       date, timestamp_ntz, timestamp; microseconds, UTC
    json, jsonb, hstore, composites                    string, the JSON text (a JSON null is NULL, as in row_to_json)
    bytea                                              binary
    an array                                           array of the above
    text, uuid, enum, time, interval and all else      string, as Postgres prints it

The infinities of dates and timestamps are the ends of the range, ±(2³¹-1) days and ±(2⁶³-1) microseconds: DuckDB reads
them as infinity. Instants have no minimum and maximum in Delta's log: readers of those end in the year 9999.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

import pyarrow as pa

from cdc.errors import ConfigurationError
from views.plan import Field
from views.sinks.sink import ViewShape
from views.sqltypes import JSON, NUMERIC_DIGITS_MAX, TEXT, Family, SqlType, array_of

VERSION, GONE, POSITION, LSN, COMMITTED_AT = "_version", "_gone", "_position", "_lsn", "_committed_at"
_UTC: Final = pa.timestamp("us", "UTC")
PLACED: Final = ((VERSION, pa.int64()), (POSITION, pa.string()), (LSN, pa.string()), (COMMITTED_AT, _UTC))
"""What stands beside a row: its offset in the view's topic, and the commit that it came with."""
SKIPPED_BY_MAX: Final = 32
_PARTITION: Final = "partition_by"
_PARTITIONED: Final = (pa.types.is_integer, pa.types.is_string, pa.types.is_boolean, pa.types.is_date)
"""Not decimals: delta-rs names the partition of -1.5 by -1.-5, and cannot read it."""
_PLAIN: Final = re.compile(r"\W")


@dataclass(frozen=True)
class Column:
    field: Field

    @property
    def name(self) -> str:
        """Delta refuses blanks, commas, brackets and = in a name: what is no letter, digit or _ is percent-encoded."""
        return encoded_name(self.field.name)

    @property
    def stored(self) -> SqlType:
        return stored_type(self.field.type)

    @property
    def arrow(self) -> pa.Field:
        return pa.field(self.name, self.stored.arrow)


@dataclass(frozen=True)
class Layout:
    """Of one view's tables."""

    columns: tuple[Column, ...]
    key: tuple[str, ...]
    """By stored name."""
    partition_by: tuple[str, ...] = ()

    @classmethod
    def of(cls, shape: ViewShape) -> Layout:
        columns = tuple(Column(field) for field in shape.fields)
        _refuse_names(shape.view, [column.name for column in columns])
        listed = shape.options.get(_PARTITION, "").split(",")
        wanted = tuple(encoded_name(name.strip()) for name in listed if name.strip())
        _refuse_partitions(shape.view, wanted, {column.name: column.stored.arrow for column in columns})
        return cls(columns, tuple(encoded_name(name) for name in shape.key), wanted)

    @property
    def key_columns(self) -> tuple[Column, ...]:
        named = {column.name: column for column in self.columns}
        return tuple(named[name] for name in self.key)

    @property
    def current(self) -> pa.Schema:
        return pa.schema([*(column.arrow for column in self.columns), *PLACED])

    @property
    def history(self) -> pa.Schema:
        return self.current.append(pa.field(GONE, pa.bool_()))

    def skipped_by(self) -> list[str]:
        """The columns whose least and greatest value Delta's log keeps for each file."""
        useful = [c.name for c in self.columns if _is_bounded(c.stored.arrow) and c.name not in self.partition_by]
        first = [name for name in useful if name in self.key]
        return [VERSION, *first, *(name for name in useful if name not in first)][:SKIPPED_BY_MAX]


def stored_type(kind: SqlType) -> SqlType:
    """The type of which a stored value is one."""
    arrow = kind.arrow
    if kind.family is Family.ARRAY:
        return array_of(stored_type(kind.element))
    if kind.family in (Family.TIME, Family.INTERVAL):
        return TEXT
    if pa.types.is_nested(arrow):
        return JSON
    if pa.types.is_decimal(arrow) and arrow.precision > NUMERIC_DIGITS_MAX:
        return SqlType("numeric", pa.string(), "VARCHAR", Family.NUMERIC)
    if pa.types.is_integer(arrow) and kind.family is not Family.INTEGER:
        return TEXT  # oid: row_to_json prints it in quotes
    return kind


def encoded_name(name: str) -> str:
    return _PLAIN.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), name)


def decoded_name(name: str) -> str:
    return unquote(name)


def _is_bounded(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_decimal(kind))


def _refuse_names(view: str, names: Sequence[str]) -> None:
    own = {GONE, *(name for name, _ in PLACED)}
    folded = [name.casefold() for name in names]
    for name in names:
        if name.casefold() in own or folded.count(name.casefold()) > 1:
            raise ConfigurationError(
                f"column {decoded_name(name)} of {view} cannot be kept in the warehouse",
                detail="its name is one of the warehouse's own, or differs from another only in case",
                hint="give it another name with AS",
            )


def _refuse_partitions(view: str, wanted: Sequence[str], types: dict[str, pa.DataType]) -> None:
    for name in wanted:
        kind = types.get(name)
        if kind is None or not any(may(kind) for may in _PARTITIONED):
            raise ConfigurationError(
                f"the warehouse cannot partition {view} by {decoded_name(name)}",
                detail="it has no such column" if kind is None else f"its type is {kind}",
                hint=f"{_PARTITION} names columns that are integers, text, dates or booleans",
            )
    if wanted and len(set(wanted)) == len(types):
        raise ConfigurationError(
            f"the warehouse cannot partition {view} by all its columns", hint=f"leave one out of {_PARTITION}"
        )
