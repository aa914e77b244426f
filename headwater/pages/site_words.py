"""Columns and values in the words of people: has_garden is Garden, a price of 485000.00 is €485,000. Pure.

Nothing here is escaped: templates do that. Values are as a row's JSON has them.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any, Final

from search.kinds import Kind

MONEY: Final = ("price", "amount", "cost", "revenue", "value", "total", "fee", "rent", "salary", "budget")
UNITS: Final = {
    "m2": "m²", "km2": "km²", "m": "m", "km": "km", "cm": "cm", "mm": "mm", "kg": "kg", "g": "g", "ms": "ms", "s": "s",
    "min": "min", "h": "h", "pct": "%", "percent": "%", "gb": "GB", "mb": "MB", "kb": "kB", "kw": "kW", "kwh": "kWh",
}  # fmt: skip
EVENTS: Final = {
    "entered": "New match",
    "left": "No longer matches",
    "changed": "Changed",
    "dropped": "Dropped",
    "rose": "Rose",
}
FREQUENCIES: Final = {
    "instant": "At once",
    "hourly": "Every hour",
    "daily": "Once a day",
    "weekly": "Once a week",
}
STATES: Final = {
    "active": "Active",
    "paused": "Paused",
    "expired": "Expired",
    "unsubscribed": "Unsubscribed",
    "broken": "Broken",
    "unreachable": "Cannot be sent",
}
_YES_NO: Final = re.compile(r"^(is|has|can|was)_")
_AT: Final = re.compile(r"_(at|on|date|time)$")
_UNIT: Final = re.compile(r"^(?P<name>.*)_(?P<unit>[a-z0-9]+)$")


def column_label(name: str) -> str:
    """`area_m2` is Area, `listed_at` is Listed, `has_garden` is Garden."""
    short = _AT.sub("", _YES_NO.sub("", name)) or name
    found = _UNIT.match(short)
    if found and found["unit"] in UNITS and not found["name"].endswith("_per"):
        short = found["name"]
    words = " ".join(UNITS.get(word, word) for word in short.split("_") if word)
    return words[:1].upper() + words[1:]


def view_label(name: str) -> str:
    """`listing_search` is Listings: what is searched, not the table."""
    short = re.sub(r"_(search|card|index|view)$", "", name)
    words = short.replace("_", " ") if short == name or short.endswith("s") else f"{short.replace('_', ' ')}s"
    return words[:1].upper() + words[1:]


def is_money(name: str) -> bool:
    return "_per_" not in name and any(part in MONEY for part in name.lower().split("_"))


def unit_of(name: str) -> str:
    found = _UNIT.match(name)
    if not found or found["unit"] not in UNITS:
        return ""
    unit = UNITS[found["unit"]]
    return f"per {unit}" if found["name"].endswith("_per") else unit


def number_text(name: str, value: Any, currency: str = "") -> str:
    """With its unit, as the column's name tells it; whole numbers without their zeros."""
    number = grouped(value)
    if is_money(name) and currency:
        return f"−{currency}{number[1:]}" if number.startswith("−") else f"{currency}{number}"
    unit = unit_of(name)
    return f"{number} {unit}".strip() if unit != "%" else f"{number} %"


def grouped(value: Any) -> str:
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return str(value)
    if not number.is_finite():
        return str(value)
    whole = number == number.to_integral_value()
    shown = f"{number.to_integral_value() if whole else number.normalize():,f}"
    return shown.replace("-", "−")


def value_label(kind: Kind, value: Any) -> str:
    """A facet's value: an enum's `for_sale` is For sale."""
    if isinstance(value, bool) or kind is Kind.BOOLEAN:
        return "Yes" if value in (True, "true") else "No"
    text = str(value)
    if kind is Kind.EXACT and re.fullmatch(r"[a-z][a-z0-9_]*", text):
        words = text.replace("_", " ")
        return words[:1].upper() + words[1:]
    return text


def choice_label(kind: Kind, text: str) -> str:
    """As `value_label`; also of what would not be seen: nothing, and spaces at an end."""
    if not text:
        return "(empty)"
    return value_label(kind, text) if text == text.strip() else f"“{text}”"


def cell_text(name: str, kind: Kind, value: Any, currency: str = "") -> str:
    """Any value of a row, on one line."""
    if value is None:
        return "–"
    if isinstance(value, list):
        return ", ".join(cell_text(name, kind, each, currency) for each in value) or "–"
    if isinstance(value, bool):
        return "Yes" if value else "No"
    if kind in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT):
        return number_text(name, value, currency) if not name.endswith("id") else str(value)
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.DATE):
        return day_text(value)
    if isinstance(value, dict):
        return "; ".join(f"{column_label(key)}: {cell_text(key, Kind.TEXT, each)}" for key, each in value.items())
    return value_label(kind, value)


def instant_of(value: Any) -> datetime | None:
    """Of a row's JSON; None for what is no instant of ours, such as infinity."""
    try:
        at = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def day_text(value: Any) -> str:
    at = instant_of(value)
    return f"{at.day} {at:%B %Y}" if at else str(value)


def ago_text(at: datetime, now: datetime) -> str:
    """`3 minutes ago`; after a month, the day."""
    seconds = (now - at).total_seconds()
    if seconds < 0 or seconds > 31 * 86_400:
        return day_text(at)
    if seconds < 45:
        return "just now"
    for size, word in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size * 0.75:
            count = max(1, round(seconds / size))
            return f"{count} {word}{'s' if count > 1 else ''} ago"
    return "just now"


def short_number(value: float) -> str:
    """For the ends of a plot: 1250000 is 1.25M."""
    if not isfinite(value):
        return str(value)
    for size, sign in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size * 10 or (abs(value) >= size and sign != "k"):
            return f"{value / size:.3g}{sign}"
    return grouped(round(value, 2 if abs(value) < 100 else None))


def is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
