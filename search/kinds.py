"""What a column can be asked: the kinds of values, how each is read from a row's JSON and from what a person wrote.

Values are compared as Postgres compares them (collation C; NaN above all numbers), with three rules of our own:
- A text of more than TEXT_CHARACTERS_MAX is compared by its beginning, then by a digest: equal is exact, order is not.
- A real or double is compared by the number that Postgres prints: 0.1 is 0.1.
- Numbers that a person writes are exact, whatever the column: price:0.005.. on numeric(12,2) begins at 0.01.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from enum import Enum
from hashlib import sha256
from math import isnan
from typing import Any, Final, TypeAlias
from uuid import UUID

from cdc.pgtypes.instants import (
    MICROS_PER_SECOND,
    Date,
    Timestamp,
    TimestampTz,
    parse_date,
    parse_time,
    parse_timestamp,
    parse_timestamptz,
)
from views.sqltypes import Comparable, Family, SqlType

TEXT_CHARACTERS_MAX: Final = 128
NUMBER_CHARACTERS_MAX: Final = 1_000
_ORDINAL_1970: Final = date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_NAIVE: Final = _EPOCH.replace(tzinfo=None)
_as_double: Final = struct.Struct(">d").pack
_as_long: Final = struct.Struct(">q").unpack

Value: TypeAlias = bool | int | float | Decimal | str
"""In a query, of its column's kind: int, Decimal, float, bool, str, or an instant (cdc.pgtypes.instants)."""


class Kind(Enum):
    BOOLEAN = "boolean"
    INTEGER = "integer"
    DECIMAL = "numeric"
    FLOAT = "float"
    TEXT = "text"
    EXACT = "exact"
    """Equal or not, such as an enum."""
    UUID = "uuid"
    TIME = "time"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    JSON = "json"
    """Asked by the paths inside."""
    OPAQUE = "opaque"
    """Stored and returned; nothing can be asked of it."""

    @property
    def has_order(self) -> bool:
        return self not in (Kind.EXACT, Kind.BOOLEAN, Kind.JSON, Kind.OPAQUE)

    @property
    def is_instant(self) -> bool:
        return self in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)


_KINDS: Final = {
    Family.BOOLEAN: Kind.BOOLEAN,
    Family.INTEGER: Kind.INTEGER,
    Family.NUMERIC: Kind.DECIMAL,
    Family.FLOAT: Kind.FLOAT,
    Family.TEXT: Kind.TEXT,
    Family.UNKNOWN: Kind.TEXT,
    Family.ENUM: Kind.EXACT,
    Family.UUID: Kind.UUID,
    Family.TIME: Kind.TIME,
    Family.DATE: Kind.DATE,
    Family.TIMESTAMP: Kind.TIMESTAMP,
    Family.TIMESTAMPTZ: Kind.TIMESTAMPTZ,
    Family.JSON: Kind.JSON,
}


def kind_of(type_: SqlType) -> Kind:
    """Of a column, or of an array's elements."""
    if type_.family is Family.OTHER and type_.comparable >= Comparable.BY_EQUALITY:
        return Kind.EXACT
    return _KINDS.get(type_.family, Kind.OPAQUE)


def text_form(text: str) -> str:
    """What stands for a text where it is compared."""
    if len(text) <= TEXT_CHARACTERS_MAX:
        return text
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:TEXT_CHARACTERS_MAX]}\x00{digest}"


def float_form(value: float) -> int:
    """A whole number of 64 bits for every float, in the same order: NaN is the greatest, both zeros are one."""
    if isnan(value):
        return 2**63 - 1
    bits: int = _as_long(_as_double(value + 0.0))[0]
    return bits if bits >= 0 else bits ^ 0x7FFF_FFFF_FFFF_FFFF


def float_of(form: int) -> float:
    """The inverse of `float_form`."""
    if form == 2**63 - 1:
        return float("nan")
    bits = form if form >= 0 else form ^ 0x7FFF_FFFF_FFFF_FFFF
    return float(struct.unpack(">d", struct.pack(">q", bits))[0])


def decimal_of(value: Any) -> Decimal:
    """From a row's JSON, where NaN and the infinities are text."""
    if isinstance(value, Decimal):
        return value
    return Decimal(repr(value) if isinstance(value, float) else value)


def date_of(text: str) -> int:
    """From a row's JSON; the years of our time by the short way."""
    try:
        return date.fromisoformat(text).toordinal() - _ORDINAL_1970
    except ValueError:
        return int(parse_date(text))


def timestamp_of(text: str) -> int:
    """From a row's JSON, where a zone is always UTC."""
    try:
        at = datetime.fromisoformat(text)
        since = at - (_EPOCH if at.tzinfo else _EPOCH_NAIVE)
    except ValueError:
        return int(parse_timestamptz(text))
    return (since.days * 86_400 + since.seconds) * MICROS_PER_SECOND + since.microseconds


def decimal_form(value: Decimal | int) -> tuple[bool, Decimal | int]:
    """Ordered as Postgres orders numerics: NaN last, and equal to itself."""
    if isinstance(value, Decimal) and value.is_nan():
        return (True, 0)
    return (False, value)


@dataclass(frozen=True, slots=True)
class Rules:
    """How the values of a kind are read, and what stands for them in a comparison."""

    from_row: Callable[[Any], Any]
    """From the row's JSON, not NULL, to a value."""
    form: Callable[[Any], Any]
    """What is compared in Python: equal and ordered exactly as the values are."""
    from_person: Callable[[Any], Value]
    """From JSON or text of a query. Raises ValueError that says what is wanted."""


def _same(value: Any) -> Any:
    return value


def _boolean(value: Any) -> bool:
    known = {True: True, False: False, "true": True, "false": False, "yes": True, "no": False}
    key = value.lower() if isinstance(value, str) else value
    if not isinstance(key, bool | str) or key not in known:
        raise ValueError("write true or false")
    return known[key]


def _number(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise ValueError("write a number")
    try:
        if len(text := str(value)) > NUMBER_CHARACTERS_MAX:
            raise ValueError(f"at most {NUMBER_CHARACTERS_MAX} digits")
        made = Decimal(text.replace("_", " "))
    except InvalidOperation:
        raise ValueError("write a number, such as 12 or 0.5") from None
    if made.is_nan() or abs(made.adjusted()) > NUMBER_CHARACTERS_MAX:
        raise ValueError("write a number, such as 12 or 0.5")
    return made


def _integer(value: Any) -> int | Decimal:
    """A number with a fraction equals no integer, but is a bound like any other."""
    made = _number(value)
    return int(made) if made.is_finite() and made == made.to_integral_value() else made


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("write a text")
    return value


def _uuid(value: Any) -> str:
    try:
        return str(UUID(_text(value)))
    except ValueError:
        raise ValueError("write a uuid, such as 7d444840-9dc0-11d1-b245-5ffdce74fad2") from None


def _time(value: Any) -> str:
    text = _text(value)
    try:
        return str(parse_time(f"{text}:00" if text.count(":") == 1 else text))
    except ValueError:
        raise ValueError("write a time of day, such as 18:30") from None


def _date(value: Any) -> Date:
    try:
        return parse_date(_text(value))
    except ValueError:
        raise ValueError("write a date such as 2026-05-31, or now-7d") from None


def _timestamp(value: Any) -> Timestamp:
    try:
        return parse_timestamp(_text(value))
    except ValueError:
        raise ValueError("write 2026-05-31, 2026-05-31T18:30:00 or now-7d") from None


def _timestamptz(value: Any) -> TimestampTz:
    try:
        return parse_timestamptz(_text(value))
    except ValueError:
        raise ValueError("write 2026-05-31, 2026-05-31T18:30:00+02:00 or now-7d") from None


RULES: Final[Mapping[Kind, Rules]] = {
    Kind.BOOLEAN: Rules(bool, _same, _boolean),
    Kind.INTEGER: Rules(int, _same, _integer),
    Kind.DECIMAL: Rules(decimal_of, decimal_form, _number),
    Kind.FLOAT: Rules(float, float_form, lambda value: float(_number(value))),
    Kind.TEXT: Rules(_same, text_form, _text),
    Kind.EXACT: Rules(str, text_form, _text),
    Kind.UUID: Rules(_same, _same, _uuid),
    Kind.TIME: Rules(_same, _same, _time),
    Kind.DATE: Rules(date_of, int, _date),
    Kind.TIMESTAMP: Rules(timestamp_of, int, _timestamp),
    Kind.TIMESTAMPTZ: Rules(timestamp_of, int, _timestamptz),
}
"""Of the kinds that are asked by value. JSON is asked by path, OPAQUE not at all."""
