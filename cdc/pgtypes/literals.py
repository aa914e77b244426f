"""Postgres' text forms of what is made of parts: arrays, composites, hstore, intervals, and numbers inside shapes.

Debezium passes composites on as this text, and the tests' oracle prints everything in it. Each reader raises ValueError
for text that Postgres would not print.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final, TypeAlias

from cdc.pgtypes.instants import MICROS_PER_SECOND, Interval

Parts: TypeAlias = "list[str | Parts | None]"

_EXPONENT_DIGITS: Final = 16

_BOUNDS: Final = re.compile(r"(?:\[-?\d+:-?\d+\])+=")
_ARRAY_TOKEN: Final = re.compile(r'\{|\}|,|"((?:[^"\\]|\\.)*)"|([^{},"\s\\](?:[^{},"\\]|\\.)*)', re.DOTALL)
_FIELD: Final = re.compile(r'((?:"(?:[^"\\]|\\.|"")*"|[^",()\\]|\\.)*)([,)])', re.DOTALL)
_QUOTED_PART: Final = re.compile(r'"((?:[^"\\]|\\.|"")*)"|\\(.)', re.DOTALL)
_HSTORE_PAIR: Final = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:NULL|"((?:[^"\\]|\\.)*)")(?:, |$)', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ISO_INTERVAL: Final = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?\d+(?:\.\d+)?(?:E-?\d+)?)S)?)?"
)
_INTERVAL_UNIT: Final = re.compile(r"([+-]?\d+) (year|mon|day)s?(?: |$)")
_INTERVAL_CLOCK: Final = re.compile(r"([+-])?(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?")


def parse_array(text: str) -> Parts:
    """The elements as text, None for NULL, lists in lists where there are several dimensions."""
    found = _BOUNDS.match(text)
    position = found.end() if found else 0
    stack: list[Parts] = [[]]
    expects_item = True
    while position < len(text):
        token = _ARRAY_TOKEN.match(text, position)
        if not token:
            raise ValueError(f"not an array: {text[:80]!r}")
        position = token.end()
        match token[0]:
            case "{":
                stack.append([])
                expects_item = True
            case "}":
                if len(stack) == 1:
                    raise ValueError(f"not an array: {text[:80]!r}")
                inner = stack.pop()
                stack[-1].append(inner)
                expects_item = False
            case ",":
                expects_item = True
            case _ if expects_item:
                stack[-1].append(_item(token[1], token[2]))
                expects_item = False
            case _:
                raise ValueError(f"not an array: {text[:80]!r}")
    outer = stack[0][0] if len(stack) == 1 and len(stack[0]) == 1 else None
    if not isinstance(outer, list):
        raise ValueError(f"not an array: {text[:80]!r}")
    return outer


def _item(quoted: str | None, plain: str | None) -> str | None:
    if quoted is not None:
        return _ESCAPED.sub(r"\1", quoted)
    text = (plain or "").strip()
    return None if text.upper() == "NULL" else _ESCAPED.sub(r"\1", text)


def parse_composite(text: str) -> list[str | None]:
    """The fields as text; an empty field is NULL."""
    if not text.startswith("("):
        raise ValueError(f"not a composite: {text[:80]!r}")
    fields: list[str | None] = []
    position = 1
    while True:
        found = _FIELD.match(text, position)
        if not found:
            raise ValueError(f"not a composite: {text[:80]!r}")
        fields.append(_QUOTED_PART.sub(_unquoted, found[1]) if found[1] else None)
        position = found.end()
        if found[2] == ")":
            break
    if position != len(text):
        raise ValueError(f"not a composite: {text[:80]!r}")
    return fields


def _unquoted(part: re.Match[str]) -> str:
    if part[2] is not None:
        return part[2]
    return re.sub(r'""|\\(.)', lambda m: m[1] or '"', part[1], flags=re.DOTALL)


def parse_hstore(text: str) -> dict[str, str | None]:
    pairs: dict[str, str | None] = {}
    position = 0
    while position < len(text):
        found = _HSTORE_PAIR.match(text, position)
        if not found:
            raise ValueError(f"not an hstore: {text[:80]!r}")
        pairs[_ESCAPED.sub(r"\1", found[1])] = None if found[2] is None else _ESCAPED.sub(r"\1", found[2])
        position = found.end()
    return pairs


def parse_iso_interval(text: str) -> Interval:
    """As Debezium writes it: every unit there, the sign on each. Years and months are one thing, days another."""
    found = _ISO_INTERVAL.fullmatch(text)
    if not found or text in ("P", "PT"):
        raise ValueError(f"not an interval: {text!r}")
    years, months, days, hours, minutes = (int(found[i] or 0) for i in range(1, 6))
    seconds = _exact_micros(found[6] or "0")
    return Interval(years * 12 + months, days, (hours * 60 + minutes) * 60 * MICROS_PER_SECOND + seconds)


def parse_interval(text: str) -> Interval:
    """As Postgres prints it with IntervalStyle postgres: `1 year 2 mons 3 days -04:05:06.5`."""
    months = days = micros = 0
    rest = text
    while found := _INTERVAL_UNIT.match(rest):
        amount = int(found[1])
        months += amount * 12 if found[2] == "year" else amount if found[2] == "mon" else 0
        days += amount if found[2] == "day" else 0
        rest = rest[found.end() :]
    if rest or not text:
        clock = _INTERVAL_CLOCK.fullmatch(rest)
        if not clock:
            raise ValueError(f"not an interval: {text!r}")
        seconds = (int(clock[2]) * 60 + int(clock[3])) * 60 + int(clock[4])
        micros = seconds * MICROS_PER_SECOND + int((clock[5] or "").ljust(6, "0"))
        micros = -micros if clock[1] == "-" else micros
    return Interval(months, days, micros)


def _exact_micros(seconds: str) -> int:
    micros = Decimal(seconds) * MICROS_PER_SECOND
    if micros != int(micros):
        raise ValueError(f"not microseconds: {seconds!r} s")
    return int(micros)


def float_text(value: float) -> str:
    """As Postgres prints a double: shortest, and with an exponent from 1e15 on, where Python waits until 1e16."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    text = repr(value).removesuffix(".0")
    whole, _, fraction = text.lstrip("-").partition(".")
    if "e" not in text and len(whole) == _EXPONENT_DIGITS:
        mantissa = f"{whole[0]}.{whole[1:]}{fraction}".rstrip("0").rstrip(".")
        return f"{'-' if value < 0 else ''}{mantissa}e+{_EXPONENT_DIGITS - 1}"
    return text
