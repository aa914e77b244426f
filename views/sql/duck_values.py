"""What DuckDB computes otherwise than Postgres and no expression of it can mend: done in Python, on the values' text.

Registered on a connection by duck.prepare; every one is deterministic, and none of them is asked for NULL.
"""

from __future__ import annotations

import json
import math
import struct
from decimal import ROUND_HALF_UP, Context, Decimal
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Final

_SIGNIFICANT_DIGITS_MIN: Final = 16
_GROUP_DIGITS: Final = 4
"""Postgres computes in base 10,000, and counts a quotient's digits in it."""
_SCALE_MAX: Final = 1000
_FLOAT_DIGITS_MAX: Final = 17
_FLOAT_EXPONENTS: Final = {64: range(-4, 15), 32: range(-4, 6)}
"""Within, a float is printed without an exponent."""
_EXPONENT_SHIFT: Final = 200_000
_COMPLEMENT: Final = str.maketrans("0123456789", "9876543210")
_BLANKS: Final = " \t\n\r"


def numeric_text(text: str) -> str:
    """As Postgres prints a numeric: plain digits, the scale kept."""
    value = Decimal(text.strip())
    return format(value or abs(value), "f") if value.is_finite() else str(value)


def float_text(value: float, bits: int) -> str:
    """As Postgres prints a double or a real: the fewest digits that lie between the neighbours, not on the border."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if not value:
        return "-0" if math.copysign(1, value) < 0 else "0"
    low, high = (Decimal(n) for n in _neighbours(abs(value), bits))
    exact = Decimal(abs(value))
    borders = (exact + low) / 2, (exact + high) / 2
    for digits in range(_FLOAT_DIGITS_MAX):
        shown = f"{abs(value):.{digits}e}"
        if borders[0] < Decimal(shown) < borders[1]:
            break
    mantissa, _, power = shown.partition("e")
    exponent, sign = int(power), "-" if value < 0 else ""
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    if exponent in _FLOAT_EXPONENTS[bits]:
        return sign + format(Decimal(shown).normalize(), "f")
    return f"{sign}{mantissa}e{exponent:+03d}"


def _neighbours(value: float, bits: int) -> tuple[float, float]:
    if bits == 64:
        return math.nextafter(value, 0), math.nextafter(value, math.inf)
    (number,) = struct.unpack("<I", struct.pack("<f", value))
    low, high = (struct.unpack("<f", struct.pack("<I", n))[0] for n in (number - 1, number + 1))
    return low, high if math.isfinite(high) else 2.0 * value - low


def numeric_quotient(left: str, right: str) -> str:
    """left / right with the digits that Postgres gives it, rounded half away from zero."""
    if "NaN" in (left, right):
        return "NaN"
    dividend, divisor = Decimal(left), Decimal(right)
    if not divisor:
        raise ZeroDivisionError("division by zero")
    if not (dividend.is_finite() and divisor.is_finite()):
        return _infinite_quotient(dividend, divisor)
    scale = _quotient_scale(dividend, divisor)
    digits = max(1, dividend.adjusted() - divisor.adjusted() + 2 + scale)
    exact = Context(prec=digits + 60).divide(dividend, divisor)
    rounded = exact.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP, context=Context(prec=digits + 60))
    return format(rounded or abs(rounded), "f")


def _infinite_quotient(dividend: Decimal, divisor: Decimal) -> str:
    if divisor.is_finite():
        return str(dividend.copy_sign(Decimal(1 if (dividend > 0) == (divisor > 0) else -1)))
    return "NaN" if dividend.is_infinite() else "0"


def _quotient_scale(dividend: Decimal, divisor: Decimal) -> int:
    (weight1, first1), (weight2, first2) = _leading(dividend), _leading(divisor)
    weight = weight1 - weight2 - (first1 <= first2)
    scale = _SIGNIFICANT_DIGITS_MIN - weight * _GROUP_DIGITS
    return min(max(scale, _scale(dividend), _scale(divisor), 0), _SCALE_MAX)


def _scale(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _leading(value: Decimal) -> tuple[int, int]:
    """Weight and value of the first group of four digits that is not 0; (0, 0) for 0."""
    if not value:
        return 0, 0
    weight = value.adjusted() // _GROUP_DIGITS
    return weight, int(abs(value).scaleb(-weight * _GROUP_DIGITS, context=Context(prec=1100)))


def numeric_key(text: str) -> str:
    """Texts that sort as the numbers do, and are equal for equal numbers. NaN is above all, as in Postgres."""
    value = Decimal(text)
    if value.is_nan():
        return "4"
    if not value:
        return "2"
    if value.is_infinite():
        return "39" if value > 0 else "0"
    digits = "".join(map(str, value.as_tuple().digits)).rstrip("0")
    plain = f"{value.adjusted() + _EXPONENT_SHIFT:06d}{digits}"
    # Of two negative numbers the larger one has the smaller digits, and a shorter one that begins alike is larger.
    return f"3{plain}" if value > 0 else f"1{plain.translate(_COMPLEMENT)}~"


def interval_text(months: int, days: int, micros: int) -> str:
    """As Postgres prints it with IntervalStyle postgres."""
    years, rest = abs(months) // 12 * (1 if months >= 0 else -1), abs(months) % 12 * (1 if months >= 0 else -1)
    parts: list[str] = []
    negative = False
    for amount, unit in ((years, "year"), (rest, "mon"), (days, "day")):
        if amount:
            sign = "+" if negative and amount > 0 else ""
            parts.append(f"{sign}{amount} {unit}{'' if amount == 1 else 's'}")
            negative = amount < 0
    if micros or not parts:
        seconds, fraction = divmod(abs(micros), 1_000_000)
        sign = "-" if micros < 0 else "+" if negative else ""
        clock = f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        parts.append(clock + (f".{fraction:06d}".rstrip("0") if fraction else ""))
    return " ".join(parts)


class _Number(str):
    """A number's own digits."""


def jsonb_text(text: str) -> str:
    """As Postgres prints the jsonb of a json text: keys by length and bytes, the last of equal ones, numbers kept."""
    return _printed(json.loads(text, parse_int=_Number, parse_float=_Number, object_pairs_hook=dict))


def _printed(value: Any) -> str:
    match value:
        case _Number():
            return numeric_text(value)
        case str():
            return json_string(value)
        case list():
            return f"[{', '.join(map(_printed, value))}]"
        case dict():
            ordered = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
            return "{" + ", ".join(f"{json_string(key)}: {_printed(value[key])}" for key in ordered) + "}"
    return json.dumps(value)


def json_string(text: str) -> str:
    """Quoted as Postgres quotes it."""
    return json.dumps(text, ensure_ascii=False)


def json_field(text: str, key: str) -> str | None:
    """The text of an object's field, just as it stands there; of equal keys the last. None if there is none."""
    start = _skip(text, 0)
    if text[start : start + 1] != "{":
        return None
    found: str | None = None
    at = _skip(text, start + 1)
    while text[at : at + 1] == '"':
        name, at = scanstring(text, at + 1)
        at = _skip(text, _skip(text, at) + 1)
        end = _value_end(text, at)
        if name == key:
            found = text[at:end]
        at = _skip(text, _skip(text, end) + 1)
    return found


def json_element(text: str, index: int) -> str | None:
    """The text of an array's element, from 0, or from -1 backwards. None if there is none."""
    start = _skip(text, 0)
    if text[start : start + 1] != "[":
        return None
    elements: list[str] = []
    at = _skip(text, start + 1)
    while at < len(text) and text[at] != "]":
        end = _value_end(text, at)
        elements.append(text[at:end])
        at = _skip(text, end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
    return elements[index] if -len(elements) <= index < len(elements) else None


def json_length(text: str) -> int:
    """Elements of an array. Raises ValueError for what is none, as Postgres does."""
    value = json.loads(text)
    if not isinstance(value, list):
        raise ValueError("cannot get array length of a scalar or an object")
    return len(value)


def json_has(text: str, key: str) -> bool:
    """What jsonb ? key says: a field of an object, a string in an array, or the string itself."""
    value = json.loads(text)
    return key in value if isinstance(value, (dict, list)) else isinstance(value, str) and value == key


def checked_json(text: str) -> str:
    """The same text. Raises ValueError if it is not JSON."""
    json.loads(text)
    return text


def json_kind(text: str) -> str:
    """What json_typeof says."""
    first = text.lstrip(_BLANKS)[:1]
    return {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}.get(
        first, "number"
    )


def json_unquoted(text: str) -> str | None:
    """The value as text: a string without its quotes, null as None."""
    bare = text.strip(_BLANKS)
    if bare == "null":
        return None
    return str(json.loads(bare)) if bare.startswith('"') else bare


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at


def _value_end(text: str, at: int) -> int:
    """Where the value that starts here ends."""
    depth = 0
    while at < len(text):
        character = text[at]
        if character == '"':
            _, at = scanstring(text, at + 1)
            if depth == 0:
                return at
            continue
        if character in "]},":
            if depth == 0:
                return len(text[:at].rstrip(_BLANKS))
            depth -= character != ","
            at += 1
            if depth == 0 and character != ",":
                return at
            continue
        depth += character in "[{"
        at += 1
    return len(text.rstrip(_BLANKS))
