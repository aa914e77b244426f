"""Keys of a table's rows as values: the change log writes a date as days and a numeric as text, the source and the
views write both as Postgres prints JSON, and one is to be known by the other. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, Final, TypeAlias

from cdc.catalog import Table
from cdc.errors import DecodeError
from cdc.events import Row
from cdc.pgtypes import Interval, TypeSpec, pg_type
from cdc.pgtypes.types import COMPOSITE

Key: TypeAlias = tuple[object, ...]
"""Hashable, and equal to another just where Postgres calls both equal."""

exact_json: Final = partial(json.loads, parse_float=str, parse_constant=str)
"""A numeric keeps its digits: Postgres takes it as text, too."""

_WHOLE: Final = ("smallint", "integer", "bigint")
_DAYS_PER_MONTH: Final = 30
_MICROS_PER_DAY: Final = 86_400_000_000


def logged_key(shape: Table, row: Row) -> Key | None:
    """Of a row, or of a record's key, as the log has it. None where the table's columns are of other types today."""
    try:
        found = shape.decode_key({name: row[name] for name in shape.key})
    except (KeyError, DecodeError):
        return None
    return tuple(_comparable(shape.by_name[name].type.spec, found[name]) for name in shape.key)


def printed_key(shape: Table, key: Mapping[str, Any]) -> Key | None:
    """Of a key as Postgres prints it in JSON. None for what is no value of the columns."""
    try:
        specs = [(name, shape.by_name[name].type.spec) for name in shape.key]
        return tuple(_comparable(spec, _printed(spec, key[name])) for name, spec in specs)
    except (KeyError, ValueError, ArithmeticError):
        return None


def for_postgres(value: object) -> Any:
    """A typed value as JSON that jsonb_populate_record takes for it."""
    match value:
        case None | bool():
            return value
        case bytes():
            return f"\\x{value.hex()}"
        case Interval(months, days, micros):
            return f"{months} months {days} days {micros} microseconds"
        case list():
            return [for_postgres(each) for each in value]
        case dict():
            return {name: for_postgres(each) for name, each in value.items()}
        case _:
            return str(value)


def _printed(spec: TypeSpec, value: Any) -> object:
    if value is None:
        return None
    if spec.dims and isinstance(value, list):
        return [_printed(replace(spec, dims=0), each) for each in value]
    if spec.kind == COMPOSITE and isinstance(value, dict):
        return {field.name: _printed(field.spec, value[field.name]) for field in spec.fields}
    text = value if isinstance(value, str) else json.dumps(value)
    # A view may have joined it to a numeric: 5 is 5.00 then.
    return Decimal(text) if spec.name in _WHOLE else pg_type(spec).from_text(text)


def _comparable(spec: TypeSpec, value: object) -> object:
    match value:
        case list():
            return tuple(_comparable(spec, each) for each in value)
        case dict():
            return tuple(sorted((name, _comparable(spec, each)) for name, each in value.items()))
        case Interval(months, days, micros):
            return (months * _DAYS_PER_MONTH + days) * _MICROS_PER_DAY + micros
        case str() if spec.name == "citext":
            return value.lower()
        case str() if spec.name in ("character", "bpchar"):
            return value.rstrip(" ")
        case float() | Decimal() if value != value:  # noqa: PLR0124 - to Postgres it is equal to itself
            return "NaN"
        case _:
            return value
