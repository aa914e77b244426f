"""Postgres' dates and times, exactly: also infinity, years before Christ and after 9999, and 24:00.

Python's datetime holds years 1 to 9999 and no infinity, so each of these is an int that knows what it counts. They
compare, hash and go into Arrow as that int, and print the way Postgres prints them with DateStyle ISO in UTC.

The infinities are the ends of the range, symmetric (DuckDB's convention): ±(2³¹-1) days, ±(2⁶³-1) microseconds.
Timestamps count from 1970 in 64 bits, as Arrow's do: the last 29 years of Postgres' range (294247 to 294276) do not
fit, and are refused rather than bent.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

MICROS_PER_SECOND: Final = 1_000_000
MICROS_PER_DAY: Final = 86_400 * MICROS_PER_SECOND

DATE_MIN, DATE_MAX = -2_440_588, 2_145_042_905
"""4714-11-24 BC and 5874897-12-31."""
TIMESTAMP_MIN, TIMESTAMP_MAX = DATE_MIN * MICROS_PER_DAY, 2**63 - 2

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS_0000_03_01: Final = 719_468
_DAYS_PER_400_YEARS: Final = 146_097
_INSTANT: Final = re.compile(
    r"(?P<year>[+-]?\d{4,})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:[T ](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<fraction>\d{1,6}))?)?"
    r"(?P<zone>Z|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)?(?P<era> BC)?"
)
_TIME: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?Z?")


class Date(int):
    """Days since 1970-01-01, in the proleptic Gregorian calendar."""

    def __str__(self) -> str:
        if abs(self) == _DATE_END:
            return "infinity" if self > 0 else "-infinity"
        year, month, day = civil(int(self))
        return _dated(year, month, day, "")

    def __repr__(self) -> str:
        return f"Date({self})"

    @property
    def is_finite(self) -> bool:
        return abs(self) != _DATE_END

    def to_date(self) -> date:
        """Raises OverflowError outside the years 1 to 9999."""
        return (_EPOCH + timedelta(days=int(self))).date()


class Timestamp(int):
    """Microseconds since 1970-01-01 00:00, on a clock without a zone."""

    _zone = ""

    def __str__(self) -> str:
        if abs(self) == _TIMESTAMP_END:
            return "infinity" if self > 0 else "-infinity"
        days, micros = divmod(int(self), MICROS_PER_DAY)
        year, month, day = civil(days)
        return _dated(year, month, day, f" {_clock(micros)}{self._zone}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    @property
    def is_finite(self) -> bool:
        return abs(self) != _TIMESTAMP_END

    def to_datetime(self) -> datetime:
        """With the zone UTC, also for a clock without one. Raises OverflowError outside the years 1 to 9999."""
        return _EPOCH + timedelta(microseconds=int(self))


class TimestampTz(Timestamp):
    """Microseconds since 1970-01-01 00:00 UTC: an instant."""

    _zone = "+00"


class Time(int):
    """Microseconds since midnight; 24:00 is Postgres' last one."""

    def __str__(self) -> str:
        return _clock(int(self))

    def __repr__(self) -> str:
        return f"Time({self})"


class Interval(NamedTuple):
    """Months, days and microseconds stay apart, as in Postgres: a month is not 30 days and a day not 24 hours."""

    months: int
    days: int
    micros: int


_DATE_END: Final = 2**31 - 1
_TIMESTAMP_END: Final = 2**63 - 1
DATE_INFINITY: Final = Date(_DATE_END)
DATE_MINUS_INFINITY: Final = Date(-_DATE_END)


def civil(days: int) -> tuple[int, int, int]:
    """Year (0 is 1 BC), month and day of a number of days since 1970."""
    era, day_of_era = divmod(days + _DAYS_0000_03_01, _DAYS_PER_400_YEARS)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def days_of(year: int, month: int, day: int) -> int:
    """The inverse of `civil`. Raises ValueError for a day that is not in the calendar."""
    shifted_year = year - (month <= 2)
    era, year_of_era = divmod(shifted_year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    days = era * _DAYS_PER_400_YEARS + day_of_era - _DAYS_0000_03_01
    if not 1 <= month <= 12 or civil(days) != (year, month, day):
        raise ValueError(f"no such day: {year}-{month}-{day}")
    return days


def parse_date(text: str) -> Date:
    """As Postgres prints it, or in ISO 8601."""
    if text in ("infinity", "-infinity"):
        return DATE_INFINITY if text == "infinity" else DATE_MINUS_INFINITY
    days, micros = _parse(text)
    if micros:
        raise ValueError(f"not a date: {text!r}")
    return checked_date(days)


def parse_timestamp(text: str) -> Timestamp:
    return Timestamp(_parse_timestamp(text))


def parse_timestamptz(text: str) -> TimestampTz:
    """Without a zone in the text, UTC."""
    return TimestampTz(_parse_timestamp(text))


def parse_time(text: str) -> Time:
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError(f"not a time: {text!r}")
    return checked_time(_micros(found[1], found[2], found[3], found[4]))


def checked_date(days: int) -> Date:
    if not DATE_MIN <= days <= DATE_MAX:
        raise ValueError(f"no such date: day {days}")
    return Date(days)


def checked_time(micros: int) -> Time:
    if not 0 <= micros <= MICROS_PER_DAY:
        raise ValueError(f"no such time of day: {micros} µs")
    return Time(micros)


def in_utc(text: str) -> str:
    """The same text with every timestamp that has a zone in it written in UTC: Postgres prints ranges and the like in
    the zone of the session, and the session is Kafka Connect's."""

    def written(found: re.Match[str]) -> str:
        return str(parse_timestamptz(found[0])) if found["zone"] and found["hour"] else found[0]

    return _INSTANT.sub(written, text)


def _parse_timestamp(text: str) -> int:
    if text in ("infinity", "-infinity"):
        return _TIMESTAMP_END if text == "infinity" else -_TIMESTAMP_END
    days, micros = _parse(text)
    total = days * MICROS_PER_DAY + micros
    if not TIMESTAMP_MIN <= total <= TIMESTAMP_MAX:
        raise ValueError(f"does not fit 64 bits of microseconds since 1970: {text!r}")
    return total


def _parse(text: str) -> tuple[int, int]:
    """Days and microseconds since 1970, in UTC where the text has a zone."""
    found = _INSTANT.fullmatch(text)
    if not found:
        raise ValueError(f"not a date or time: {text!r}")
    year = int(found["year"])
    days = days_of(1 - year if found["era"] else year, int(found["month"]), int(found["day"]))
    if found["hour"] is None:
        return days, 0
    micros = _micros(found["hour"], found["minute"], found["second"], found["fraction"])
    return days, micros - _zone_seconds(found["zone"]) * MICROS_PER_SECOND


def _micros(hour: str, minute: str, second: str, fraction: str | None) -> int:
    seconds = int(hour) * 3600 + int(minute) * 60 + int(second)
    return seconds * MICROS_PER_SECOND + int((fraction or "").ljust(6, "0"))


def _zone_seconds(zone: str | None) -> int:
    if not zone or zone == "Z":
        return 0
    digits = zone[1:].replace(":", "").ljust(6, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:])
    return -seconds if zone[0] == "-" else seconds


def _clock(micros: int) -> str:
    seconds, fraction = divmod(micros, MICROS_PER_SECOND)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}".rstrip("0") if fraction else text


def _dated(year: int, month: int, day: int, rest: str) -> str:
    if year > 0:
        return f"{year:04}-{month:02}-{day:02}{rest}"
    return f"{1 - year:04}-{month:02}-{day:02}{rest} BC"
