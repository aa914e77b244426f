"""The single values: for each base type how it comes out of the log (JSON), how Postgres prints it, and its Arrow type.

What arrives was found by trial on Debezium 3.7 (tests/cdc/golden): numerics as text with NAN and POSITIVE_INFINITY,
float specials as quoted text, dates as days, times and timestamps as microseconds, timestamptz as ISO 8601 in UTC,
bit(n) as little-endian bytes, geometric types as structs (shapes.py), and every type that Debezium does not know as the
base64 of Postgres' text.
Readers raise ValueError for a value that does not fit.
"""

from __future__ import annotations

import json
import re
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

import pyarrow as pa

from cdc.pgtypes import instants, shapes, wire
from cdc.pgtypes.instants import Date, Interval, Time, Timestamp, TimestampTz
from cdc.pgtypes.literals import parse_hstore, parse_interval, parse_iso_interval
from cdc.pgtypes.wire import decoded, decoded_text, double, text

MONEY_DIGITS: Final = 19
_JAVA_DAYS: Final = (
    (-2_147_472_692, instants.DATE_INFINITY),
    (-2_147_472_691, instants.DATE_MINUS_INFINITY),
    (-622_191_234, instants.DATE_INFINITY),
    (-625_821_272, instants.DATE_MINUS_INFINITY),
)
"""What is left of the infinities after Java's LocalDate, in the stream, and java.sql.Date, in snapshots and arrays."""
_JAVA_MICROS: Final = {9_223_372_036_825_200_000: 1, -9_223_372_036_832_400_000: -1}
_JAVA_YEARS: Final = {"+292278994": "infinity", "+292269055": "-infinity"}
_QUARTER_HOUR: Final = 900 * instants.MICROS_PER_SECOND
_ZONES: Final = 15 * 4 * _QUARTER_HOUR

_SPECIAL_NUMERICS: Final = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}
_MONEY_NOISE: Final = re.compile(r"[^\d.]")

INTERVAL_ARROW: Final = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("micros", pa.int64())])


@dataclass(frozen=True, slots=True)
class Scalar:
    arrow: pa.DataType
    from_wire: Callable[[object], object]
    from_text: Callable[[str], object]
    to_arrow: Callable[[object], object] | None = None
    """None where Arrow takes the Python value as it is."""


def integer(bits: int, *, signed: bool = True) -> Scalar:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)

    def checked(value: object) -> int:
        number = wire.integer(value)
        if not low <= number <= high:
            raise ValueError(f"{number} does not fit {bits} bits")
        return number

    arrow = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits] if signed else pa.int64()
    return Scalar(arrow, checked, lambda t: checked(int(t)))


def numeric(precision: int | None, scale: int) -> Scalar:
    """Arrow's decimals have no NaN nor infinity: those go in as text only where the column has no precision, too."""
    if precision is None or scale < 0 or scale > precision or precision > 76:
        return Scalar(pa.string(), lambda v: _decimal(text(v), scale), _decimal, lambda v: f"{v:f}")
    arrow = pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    return Scalar(arrow, lambda v: _decimal(text(v)), _decimal, _finite)


def _decimal(value: str, scale: int = 0) -> Decimal:
    try:
        number = Decimal(_SPECIAL_NUMERICS.get(value, value))
    except InvalidOperation:
        raise ValueError(f"not a number: {value[:80]!r}") from None
    # Debezium takes a negative scale for one of 2,046.
    return Decimal(int(number)) if scale < 0 and number.is_finite() else number


def _finite(value: object) -> object:
    if isinstance(value, Decimal) and not value.is_finite():
        raise ValueError(f"Arrow's decimals cannot hold {value}")
    return value


def _money(value: str) -> Decimal:
    digits = Decimal(_MONEY_NOISE.sub("", value))
    return -digits if "-" in value or value.startswith("(") else digits


def _real(value: object) -> float:
    """Rounded to 32 bits, because Java and Postgres print the same one with different digits."""
    number: float = struct.unpack("f", struct.pack("f", double(value)))[0]
    return number


def _date(value: object) -> Date:
    days = wire.integer(value)
    if days < instants.DATE_MIN:
        for day, infinity in _JAVA_DAYS:
            if abs(days - day) <= (day > _JAVA_DAYS[0][0] + 1):
                return infinity
    return instants.checked_date(days)


def _timestamp(value: object) -> Timestamp:
    found = wire.integer(value)
    for micros, sign in _JAVA_MICROS.items():
        # In arrays, shifted by the zone of Kafka Connect's clock.
        if abs(found - micros) < _ZONES and (found - micros) % _QUARTER_HOUR == 0:
            return Timestamp(sign * (2**63 - 1))
    if not instants.TIMESTAMP_MIN <= found <= instants.TIMESTAMP_MAX:
        raise ValueError(f"no such timestamp: {found} µs")
    return Timestamp(found)


def _timestamptz(value: object) -> TimestampTz:
    written = text(value)
    return instants.parse_timestamptz(_JAVA_YEARS.get(written[:10], written))


def _time(value: object) -> Time:
    return instants.checked_time(wire.integer(value))


def _hstore(value: object) -> dict[str, str | None]:
    pairs = wire.struct(json.loads(text(value)))
    return {k: v if v is None else text(v) for k, v in pairs.items()}


def _inet(value: str) -> str:
    """A cast to text adds the mask of a single host; the log does not have it."""
    return value.removesuffix("/128" if ":" in value else "/32")


def bit(length: int) -> Scalar:
    """As text of 0 and 1, the way Postgres prints it."""

    def from_wire(value: object) -> str:
        if length == 1:
            return "1" if wire.boolean(value) else "0"
        number = int.from_bytes(decoded(value), "little")
        if number >= 1 << length:
            raise ValueError(f"more than {length} bits")
        return f"{number:0{length}b}"

    return Scalar(pa.string(), from_wire, str)


def _interval_parts(value: object) -> dict[str, int]:
    assert isinstance(value, Interval)
    return value._asdict()


def _pairs(value: object) -> list[tuple[str, str | None]]:
    assert isinstance(value, dict)
    return list(value.items())


TEXT: Final = Scalar(pa.string(), text, str)
OPAQUE: Final = Scalar(pa.string(), decoded_text, str)
"""A type that Debezium does not know: Postgres' own text."""
ZONED: Final = Scalar(pa.string(), lambda v: instants.in_utc(text(v)), instants.in_utc)
OPAQUE_ZONED: Final = Scalar(pa.string(), lambda v: instants.in_utc(decoded_text(v)), instants.in_utc)

SCALARS: Final[dict[str, Scalar]] = {
    "smallint": integer(16),
    "integer": integer(32),
    "bigint": integer(64),
    "oid": integer(32, signed=False),
    "real": Scalar(pa.float32(), _real, lambda t: _real(float(t))),
    "double precision": Scalar(pa.float64(), double, float),
    "money": Scalar(pa.decimal128(MONEY_DIGITS, 2), lambda v: _decimal(text(v)), _money),
    "boolean": Scalar(pa.bool_(), wire.boolean, lambda t: {"t": True, "true": True, "f": False, "false": False}[t]),
    "bytea": Scalar(pa.binary(), decoded, lambda t: bytes.fromhex(t.removeprefix("\\x"))),
    "uuid": Scalar(pa.string(), lambda v: uuid.UUID(text(v)), uuid.UUID, str),
    "date": Scalar(pa.date32(), _date, instants.parse_date),
    "timestamp without time zone": Scalar(pa.timestamp("us"), _timestamp, instants.parse_timestamp),
    "timestamp with time zone": Scalar(pa.timestamp("us", "UTC"), _timestamptz, instants.parse_timestamptz),
    "time without time zone": Scalar(pa.int64(), _time, instants.parse_time),
    "interval": Scalar(INTERVAL_ARROW, lambda v: parse_iso_interval(text(v)), parse_interval, _interval_parts),
    "hstore": Scalar(pa.map_(pa.string(), pa.string()), _hstore, parse_hstore, _pairs),
    "inet": Scalar(pa.string(), text, _inet),
    "point": Scalar(pa.string(), shapes.point, str),
    "line": Scalar(pa.string(), shapes.line, str),
    "lseg": Scalar(pa.string(), shapes.lseg, str),
    "box": Scalar(pa.string(), shapes.box, str),
    "path": Scalar(pa.string(), shapes.path, str),
    "circle": Scalar(pa.string(), shapes.circle, str),
    **dict.fromkeys(("tstzrange",), ZONED),
    **dict.fromkeys(("tstzmultirange",), OPAQUE_ZONED),
    **dict.fromkeys(
        (
            *("text", "character varying", "character", "bpchar", '"char"', "name", "citext"),
            *("json", "jsonb", "xml", "cidr", "macaddr", "macaddr8", "tsvector", "ltree"),
            *("int4range", "int8range", "numrange", "tsrange", "daterange"),
            # As fields of composites only: columns of these are refused.
            *("time with time zone", "bit varying", "polygon"),
        ),
        TEXT,
    ),
}
