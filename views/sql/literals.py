"""Quoted literals, once their surroundings have said of which type they are: read at plan time, so that a wrong one is
refused with its place and not found by the first row. Dates that are not ISO, and 'now', are refused with them."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Final

from sqlglot import exp

from cdc.pgtypes import instants
from cdc.pgtypes.literals import parse_array
from views import sqltypes as t
from views.refusals import Reason, refusal
from views.sql.duck_values import jsonb_text
from views.sql.typed import typed
from views.sqltypes import Family, SqlType

TRUE_WORDS: Final = frozenset({"t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"})
FALSE_WORDS: Final = frozenset({"f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"})
_MICROS: Final = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": 1_000_000,
    "sec": 1_000_000,
    "minute": 60_000_000,
    "min": 60_000_000,
    "hour": 3_600_000_000,
    "hr": 3_600_000_000,
}
_DAYS: Final = {"day": 1, "week": 7}
_MONTHS: Final = {"month": 1, "mon": 1, "year": 12, "yr": 12, "decade": 120, "century": 1200}
_PART: Final = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([a-z]+)|([+-]?)(\d+):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?")
_ZONELESS: Final = re.compile(r"\d{4,}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?")


def literal_of(expression: exp.Expression, type_: SqlType) -> exp.Expression:
    """An unknown literal or NULL as a value of the type. Raises ViewRefused for a text that is not one."""
    if isinstance(expression, exp.Null):
        return typed(exp.Null(), type_)
    read = _READERS.get(type_.family, _plain)
    text = expression.name
    try:
        shown = read(text, type_)
    except (ValueError, InvalidOperation, KeyError) as error:
        raise refusal(
            Reason.TYPE_MISMATCH,
            f"'{text[:60]}' is not a {type_}",
            expression,
            detail=str(error)[:120],
            hint="write it as Postgres prints it, dates and times in ISO 8601",
        ) from None
    literal = exp.Literal.string(shown)
    literal.meta.update(expression.meta)
    return typed(literal, type_, nullable=False)


def _plain(text: str, type_: SqlType) -> str:
    return text


def _boolean(text: str, type_: SqlType) -> str:
    word = text.strip().lower()
    if word not in TRUE_WORDS | FALSE_WORDS:
        raise ValueError("neither true nor false")
    return "true" if word in TRUE_WORDS else "false"


def _integer(text: str, type_: SqlType) -> str:
    value = int(text.strip())
    bits = {"smallint": 16, "integer": 32, "bigint": 64}[type_.name]
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError("out of range")
    return str(value)


def _numeric(text: str, type_: SqlType) -> str:
    value = Decimal(text.strip())
    return format(value, "f") if value.is_finite() or type_.scale is not None else str(value)


def _float(text: str, type_: SqlType) -> str:
    float(text.strip())
    return text.strip()


def _date(text: str, type_: SqlType) -> str:
    return str(instants.parse_date(text.strip()))


def _timestamp(text: str, type_: SqlType) -> str:
    return str(instants.parse_timestamp(_with_seconds(text.strip())))


def _timestamptz(text: str, type_: SqlType) -> str:
    return str(instants.parse_timestamptz(_with_seconds(text.strip())))


def _with_seconds(text: str) -> str:
    found = _ZONELESS.match(text)
    return text if not found or found[1] else f"{text[: found.end()]}:00{text[found.end() :]}"


def _time(text: str, type_: SqlType) -> str:
    clock = text.strip()
    return str(instants.parse_time(clock if clock.count(":") == 2 else f"{clock}:00"))


def _interval(text: str, type_: SqlType) -> str:
    months, days, micros = interval_parts(text)
    return f"{months} months {days} days {micros} microseconds"


def interval_parts(text: str) -> tuple[int, int, int]:
    """Months, days and microseconds of such as '1 day 02:30'. Fractions of months and days are refused."""
    months, days, micros, rest = 0, 0, 0, text.strip().lower()
    while rest:
        found = _PART.match(rest)
        if not found:
            raise ValueError("not numbers with their units")
        rest = rest[found.end() :].lstrip()
        if found[2] is None:
            seconds = (int(found[4]) * 60 + int(found[5])) * 60 + int(found[6] or 0)
            clock = seconds * 1_000_000 + int((found[7] or "0").ljust(6, "0"))
            micros += -clock if found[3] == "-" else clock
            continue
        amount, unit = Decimal(found[1]), _unit(found[2])
        months += _whole(amount * _MONTHS.get(unit, 0))
        days += _whole(amount * _DAYS.get(unit, 0))
        micros += _whole(amount * _MICROS.get(unit, 0))
    return months, days, micros


def _unit(word: str) -> str:
    for name in (word, word.removesuffix("s"), "century" if word == "centuries" else ""):
        if name in _MONTHS or name in _DAYS or name in _MICROS:
            return name
    raise ValueError(f"no unit {word}")


def _whole(amount: Decimal) -> int:
    if amount != amount.to_integral_value():
        raise ValueError("a fraction of a month, day or microsecond")
    return int(amount)


def _uuid(text: str, type_: SqlType) -> str:
    return str(uuid.UUID(text.strip()))


def _json(text: str, type_: SqlType) -> str:
    if type_ == t.JSONB:
        return jsonb_text(text)
    json.loads(text)
    return text


def _bytes(text: str, type_: SqlType) -> str:
    if not text.startswith("\\x"):
        raise ValueError("not in hexadecimal")
    return "\\x" + bytes.fromhex(text[2:]).hex()


def _array(text: str, type_: SqlType) -> str:
    items = parse_array(text)
    read = _READERS.get(type_.element.family, _plain)
    if any(isinstance(item, list) for item in items):
        raise ValueError("an array of several dimensions")
    return json.dumps([None if item is None else read(str(item), type_.element) for item in items], ensure_ascii=False)


_READERS: Final[dict[Family, Callable[[str, SqlType], str]]] = {
    Family.BOOLEAN: _boolean,
    Family.INTEGER: _integer,
    Family.NUMERIC: _numeric,
    Family.FLOAT: _float,
    Family.DATE: _date,
    Family.TIMESTAMP: _timestamp,
    Family.TIMESTAMPTZ: _timestamptz,
    Family.TIME: _time,
    Family.INTERVAL: _interval,
    Family.UUID: _uuid,
    Family.JSON: _json,
    Family.BYTES: _bytes,
    Family.ARRAY: _array,
}
