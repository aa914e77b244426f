"""Values as Elasticsearch holds them, exactly: what is equal or ordered in Postgres is so in the index.

    boolean ─ boolean · integer, date, timestamp, float ─ long · text, enum, uuid, time ─ keyword
    numeric ─ long times a power of ten while that fits 18 digits, else a keyword that sorts as the number does

Elasticsearch's own double, date and scaled_float would round. Infinities and NaN lie at the ends of the long range.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any, Final, TypeAlias

from cdc.pgtypes.instants import Date, Timestamp, TimestampTz
from search.kinds import Kind, float_form, float_of, text_form

Encoded: TypeAlias = bool | int | str

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
SCALED_DIGITS_MAX: Final = 18
EXPONENT_MAX: Final = 400_000
"""Of ten, in a numeric without a scale: Postgres' own end is at 131,072."""
DIGITS_MAX: Final = 30_000
"""Of a numeric without a scale: Elasticsearch's longest keyword is a little longer."""

_SCALED_END: Final = 10**SCALED_DIGITS_MAX
_NAN, _INFINITY, _MINUS_INFINITY = LONG_MAX, LONG_MAX - 1, LONG_MIN + 1
_COMPLEMENT: Final = str.maketrans("0123456789", "9876543210")
_EXACT: Final = Context(prec=200_000, Emin=MIN_EMIN, Emax=MAX_EMAX)


def scaled(value: Decimal, scale: int) -> int:
    """A numeric of a known scale, as a whole number. Raises ValueError when it has more digits than the column says."""
    if not value.is_finite():
        return _NAN if value.is_nan() else _INFINITY if value > 0 else _MINUS_INFINITY
    shifted = value.scaleb(scale, _EXACT)
    whole = int(shifted)
    if whole != shifted or not -_SCALED_END < whole < _SCALED_END:
        raise ValueError(f"{value} does not fit a numeric of scale {scale}")
    return whole


def scaled_digits(digits: bytes, scale: int) -> int:
    """The same from a numeric's JSON, in one step when it has as many digits as Postgres prints of such a column."""
    before, _, after = digits.rpartition(b".")
    if before and len(after) == scale:
        try:
            whole = int(before + after)
        except ValueError:
            return scaled(Decimal(digits.decode().strip('"')), scale)
        if -_SCALED_END < whole < _SCALED_END:
            return whole
    return scaled(Decimal(digits.decode().strip('"')), scale)


def unscaled(whole: int, scale: int) -> Decimal:
    """The inverse of `scaled`."""
    ends = {_NAN: "NaN", _INFINITY: "Infinity", _MINUS_INFINITY: "-Infinity"}
    return Decimal(ends[whole]) if whole in ends else Decimal(whole).scaleb(-scale, _EXACT)


def scaled_bound(value: Decimal | int, scale: int, *, up: bool) -> int:
    """The nearest whole number on the given side of any number, within or just beyond what a column can hold."""
    number = Decimal(value)
    if not number.is_finite():
        return scaled(number, scale)
    if number.adjusted() + scale >= SCALED_DIGITS_MAX:
        return _SCALED_END if number > 0 else -_SCALED_END
    shifted = number.scaleb(scale, _EXACT)
    return int(shifted.to_integral_value(ROUND_CEILING if up else ROUND_FLOOR))


def sortable(value: Decimal | int) -> str:
    """Digits that sort as the numbers do: sign, exponent, mantissa; negative ones by nines' complement."""
    number = Decimal(value)
    if not number.is_finite():
        return "5" if number.is_nan() else "4" if number > 0 else "0"
    if not number:
        return "2"
    exponent = number.adjusted()
    mantissa = "".join(map(str, number.as_tuple().digits)).strip("0")
    if abs(exponent) > EXPONENT_MAX or len(mantissa) > DIGITS_MAX:
        raise ValueError("a number of more digits than an index can hold")
    digits = f"{exponent + EXPONENT_MAX:06}{mantissa}"
    return f"3{digits}" if number > 0 else f"1{digits.translate(_COMPLEMENT)}~"


def unsortable(form: str) -> Decimal:
    """The inverse of `sortable`."""
    ends = {"0": "-Infinity", "2": "0", "4": "Infinity", "5": "NaN"}
    if form in ends:
        return Decimal(ends[form])
    digits = form[1:] if form[0] == "3" else form[1:-1].translate(_COMPLEMENT)
    exponent, mantissa = int(digits[:6]) - EXPONENT_MAX, digits[6:]
    made = Decimal(mantissa).scaleb(exponent - len(mantissa) + 1, _EXACT)
    return made if form[0] == "3" else made.copy_negate()


def is_scaled(precision: int | None, scale: int | None) -> bool:
    return precision is not None and scale is not None and precision <= SCALED_DIGITS_MAX and scale >= 0


def encoder(kind: Kind, scale: int | None) -> Callable[[Any], Encoded]:
    """From a row's value. `scale` is that of a numeric which fits a long."""
    if kind is Kind.DECIMAL:
        return sortable if scale is None else lambda value: scaled(value, scale)
    return _ENCODERS[kind]


def decoder(kind: Kind, scale: int | None) -> Callable[[Any], Any]:
    """From what the index answers (a facet's key) to a value."""
    if kind is Kind.DECIMAL:
        return unsortable if scale is None else lambda whole: unscaled(whole, scale)
    return _DECODERS[kind]


def field_type(kind: Kind, scale: int | None) -> str:
    if kind is Kind.DECIMAL:
        return "keyword" if scale is None else "long"
    return _FIELD_TYPES[kind]


def _text_of(form: str) -> str:
    """A long text is shown by its beginning."""
    beginning, cut, _ = form.partition("\x00")
    return f"{beginning}…" if cut else beginning


_LONGS: Final = (Kind.INTEGER, Kind.FLOAT, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
_FIELD_TYPES: Final = {Kind.BOOLEAN: "boolean", **dict.fromkeys(_LONGS, "long")} | dict.fromkeys(
    (Kind.TEXT, Kind.EXACT, Kind.UUID, Kind.TIME, Kind.JSON), "keyword"
)
_ENCODERS: Final[dict[Kind, Callable[[Any], Encoded]]] = {
    Kind.BOOLEAN: bool,
    Kind.INTEGER: int,
    Kind.FLOAT: float_form,
    Kind.DATE: int,
    Kind.TIMESTAMP: int,
    Kind.TIMESTAMPTZ: int,
    Kind.TEXT: text_form,
    Kind.EXACT: text_form,
    Kind.UUID: str,
    Kind.TIME: str,
}
_DECODERS: Final[dict[Kind, Callable[[Any], Any]]] = {
    Kind.BOOLEAN: bool,
    Kind.INTEGER: int,
    Kind.FLOAT: float_of,
    Kind.DATE: Date,
    Kind.TIMESTAMP: Timestamp,
    Kind.TIMESTAMPTZ: TimestampTz,
    Kind.TEXT: _text_of,
    Kind.EXACT: _text_of,
    Kind.UUID: str,
    Kind.TIME: str,
}
