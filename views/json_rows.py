"""Rows as JSON, as Postgres' own row_to_json prints them in UTC: what a view's topic and every reader of it gets. Pure.

Made column by column in Arrow, without a Python object a value for the common types. Numbers keep their digits
(numeric 1.50 is 1.50), what JSON has no number for (NaN, infinity) is text, json columns are embedded as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.pgtypes.instants import Time
from views.changes import python_values
from views.columns import plain
from views.plan import Field
from views.sqltypes import Family, SqlType

_ESCAPED: Final = r'[\x00-\x1f"\\]'
_NULL: Final = "null"
_NOT_NUMBERS: Final = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_DIGITS_MAX: Final = {pa.float32(): 6, pa.float64(): 15}
"""Before the point, in a float: with more Postgres prints an exponent."""
_POWER_MIN: Final = -4
"""Of ten, of a float's first digit: below it Postgres prints an exponent."""


def json_rows(fields: Sequence[Field], table: pa.Table) -> pa.Array:
    """One JSON object a row, as binary. The table's columns are the fields, by name."""
    pieces: list[pa.Array | str] = []
    for number, field in enumerate(fields):
        pieces.append(f"{'{' if number == 0 else ','}{_quoted(field.name)}:")
        pieces.append(json_values(field.type, plain(table[field.name])))
    if not pieces:
        return pa.array([b"{}"] * table.num_rows, pa.binary())
    return pc.binary_join_element_wise(*pieces, "}", "").cast(pa.binary())


def json_values(kind: SqlType, array: pa.Array) -> pa.Array:
    """The values of one column as JSON text, NULL as null."""
    made = _made(kind, array)
    return made.fill_null(_NULL) if made.null_count else made


def _made(kind: SqlType, array: pa.Array) -> pa.Array:
    arrow = array.type
    if pa.types.is_boolean(arrow) or (pa.types.is_integer(arrow) and kind.family is Family.INTEGER):
        return array.cast(pa.string())
    if pa.types.is_string(arrow):
        return _texts(kind, array)
    if pa.types.is_list(arrow):
        return _lists(kind.element, array)
    return _each(_printer(kind, arrow), array)


def _texts(kind: SqlType, array: pa.Array) -> pa.Array:
    if kind.family is Family.JSON:
        return array
    if kind.family is Family.NUMERIC:
        return _each(_number, array)
    if pc.any(pc.match_substring_regex(array, _ESCAPED)).as_py():
        return _each(_quoted, array)
    return pc.binary_join_element_wise('"', array, '"', "")


def _lists(element: SqlType, array: pa.Array) -> pa.Array:
    items = json_values(element, plain(array.flatten()))
    lengths = pc.list_value_length(array).fill_null(0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, items), ",")
    listed = pc.binary_join_element_wise("[", joined, "]", "")
    return pc.if_else(array.is_valid(), listed, pa.scalar(None, pa.string())) if array.null_count else listed


def _each(print_: Callable[[Any], str], array: pa.Array) -> pa.Array:
    return pa.array([None if value is None else print_(value) for value in python_values(array)], pa.string())


def _printer(kind: SqlType, arrow: pa.DataType) -> Callable[[Any], str]:
    if pa.types.is_decimal(arrow):
        return lambda value: f"{value:f}"
    if pa.types.is_floating(arrow):
        narrow = pa.types.is_float32(arrow)
        return lambda value: _float(str(np.float32(value)) if narrow else repr(value), _DIGITS_MAX[arrow])
    if pa.types.is_timestamp(arrow):
        return _timestamp
    if pa.types.is_date(arrow):
        return lambda value: f'"{value}"'
    if pa.types.is_binary(arrow):
        return lambda value: f'"\\\\x{value.hex()}"'
    if kind.family is Family.TIME:
        return lambda value: f'"{Time(value)}"'
    if kind.family is Family.INTERVAL:
        return lambda value: f'"{interval_text(**value)}"'
    if pa.types.is_map(arrow):
        return lambda value: msgspec.json.encode(dict(value)).decode()
    return lambda value: msgspec.json.encode(value if isinstance(value, dict | list) else str(value)).decode()


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _number(text: str) -> str:
    """NaN and infinity are no JSON numbers: Postgres quotes them."""
    return text if _NUMBER.fullmatch(text) else f'"{text}"'


def _float(text: str, digits_max: int) -> str:
    """From Python's shortest form to Postgres'."""
    if text in _NOT_NUMBERS:
        return _NOT_NUMBERS[text]
    mantissa, _, exponent = text.partition("e")
    sign = "-" if mantissa[0] == "-" else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + len(whole) - 1 - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not digits:
        return f"{sign}0"
    if _POWER_MIN <= power < digits_max:
        before, after = digits[: max(power + 1, 0)].ljust(power + 1, "0"), digits[max(power + 1, 0) :]
        after = "0" * (-power - 1) + after
        return f"{sign}{before or '0'}{'.' + after if after else ''}"
    point = f".{digits[1:]}" if digits[1:] else ""
    return f"{sign}{digits[0]}{point}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _timestamp(value: Any) -> str:
    """ISO 8601, with the zone written out, as to_json has it."""
    text = str(value)
    if not value.is_finite:
        return f'"{text}"'
    day, _, clock = text.partition(" ")
    clock, _, era = clock.partition(" ")
    clock = f"{clock}:00" if clock.endswith("+00") else clock
    return f'"{day}T{clock}{" " + era if era else ""}"'


def interval_text(months: int, days: int, micros: int) -> str:
    """With Postgres' default IntervalStyle: 1 year 2 mons -3 days +04:05:06."""
    years, months = int(months / 12), months - int(months / 12) * 12
    parts, was_negative = [], False
    for count, unit in ((years, "year"), (months, "mon"), (days, "day")):
        if count:
            parts.append(f"{'+' if was_negative and count > 0 else ''}{count} {unit}{'' if count == 1 else 's'}")
            was_negative = count < 0
    if micros or not parts:
        sign = "-" if micros < 0 else "+" if was_negative else ""
        parts.append(f"{sign}{Time(abs(micros))}")
    return " ".join(parts)
