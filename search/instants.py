"""Instants that are relative to now: `now`, `now-7d`, `now+1M-2h`. Kept as written until they are resolved, once.

Units: s seconds, m minutes, h hours, d days, w weeks, M months, y years. A month is a calendar month, as in Postgres:
31 March less one is the last of February. Days begin at midnight UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cdc.pgtypes.instants import MICROS_PER_DAY, Date, Timestamp, TimestampTz, civil, days_of
from search.kinds import Kind

HINT: Final = "write now-7d: units are s, m (minutes), h, d, w, M (months) and y"
STEP_MAX: Final = 100_000
_STEP: Final = re.compile(r"([+-])(\d{1,6})([smhdwMy])")
_WRITTEN: Final = re.compile(rf"now(?:{_STEP.pattern})*")
_MICROS: Final = {
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": MICROS_PER_DAY,
    "w": 7 * MICROS_PER_DAY,
}
_MONTHS: Final = {"M": 1, "y": 12}


@dataclass(frozen=True)
class Relative:
    text: str
    kind: Kind
    """Of the column that it is compared with."""

    def __str__(self) -> str:
        return self.text

    def resolved(self, now: datetime) -> Date | Timestamp | TimestampTz:
        micros = _micros_of(now)
        for sign, count, unit in _STEP.findall(self.text):
            micros = _stepped(micros, int(sign + count), unit)
        if self.kind is Kind.DATE:
            return Date(micros // MICROS_PER_DAY)
        return TimestampTz(micros) if self.kind is Kind.TIMESTAMPTZ else Timestamp(micros)


def is_relative(text: str) -> bool:
    return text.startswith("now")


def relative(text: str, kind: Kind) -> Relative:
    """Raises ValueError that says what to write."""
    if not _WRITTEN.fullmatch(text) or any(int(count) > STEP_MAX for _, count, _ in _STEP.findall(text)):
        raise ValueError(HINT)
    return Relative(text, kind)


def _micros_of(now: datetime) -> int:
    since = now.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _stepped(micros: int, count: int, unit: str) -> int:
    return _months_later(micros, count * _MONTHS[unit]) if unit in _MONTHS else micros + count * _MICROS[unit]


def _months_later(micros: int, months: int) -> int:
    days, clock = divmod(micros, MICROS_PER_DAY)
    year, month, day = civil(days)
    year, month = divmod(year * 12 + month - 1 + months, 12)
    first, following = days_of(year, month + 1, 1), days_of(year + (month == 11), (month + 1) % 12 + 1, 1)
    return min(first + day - 1, following - 1) * MICROS_PER_DAY + clock
