"""When it is a given time on somebody's clock: digests, quiet hours, days. Pure, and exact when clocks are changed.

A local time means the first instant at which the clock shows it or later. One that is shown twice (autumn) is the first
of the two; one that is skipped (spring) is the moment of the change. So every day has one of each, in their order.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

_DAY: Final = timedelta(days=1)
_HOUR: Final = timedelta(hours=1)
MIDNIGHT: Final = time(0)


def at_local(day: date, clock: time, zone: ZoneInfo) -> datetime:
    """In UTC."""
    wanted = datetime.combine(day, clock)
    late, early = (wanted.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if late.astimezone(zone).replace(tzinfo=None) == wanted:
        return late
    return _change_between(early, late, zone)


def _change_between(early: datetime, late: datetime, zone: ZoneInfo) -> datetime:
    """The instant from which the clock is another one, to the second."""
    before = early.astimezone(zone).utcoffset()
    low, high = 0, int((late - early).total_seconds())
    while low < high:
        middle = (low + high) // 2
        if (early + timedelta(seconds=middle)).astimezone(zone).utcoffset() == before:
            low = middle + 1
        else:
            high = middle
    return early + timedelta(seconds=low)


def local_day(at: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """The day that an instant belongs to, from its first instant to the next day's."""
    day = at.astimezone(zone).date()
    start = at_local(day, MIDNIGHT, zone)
    if at < start:  # midnight is shown twice, and this is before the first of the two
        day -= _DAY
    elif at >= at_local(day + _DAY, MIDNIGHT, zone):
        day += _DAY
    return at_local(day, MIDNIGHT, zone), at_local(day + _DAY, MIDNIGHT, zone)


def after_quiet(at: datetime, hours: tuple[time, time] | None, zone: ZoneInfo) -> datetime:
    """The instant itself, or the end of the quiet hours that it falls into."""
    if hours is None:
        return at
    start, end = hours
    today = at.astimezone(zone).date()
    for day in (today - _DAY, today, today + _DAY):
        until = at_local(day if start < end else day + _DAY, end, zone)
        if at_local(day, start, zone) <= at < until:
            return until
    return at


def next_hour(after: datetime, zone: ZoneInfo) -> datetime:
    """The next full hour of the local clock, never more than an hour away."""
    offset = after.astimezone(zone).utcoffset() or timedelta()
    shown = (after.astimezone(UTC) + offset).replace(minute=0, second=0, microsecond=0)
    return shown + _HOUR - offset


def next_day(after: datetime, hour: int, zone: ZoneInfo, weekday: int | None = None) -> datetime:
    """The next time that the clock shows this hour, on that day of the week (1 is Monday) or on any. Of days that a
    zone left out, one that a week waits for counts, as the instant at which they would have been."""
    day = after.astimezone(zone).date() - _DAY
    while True:
        at = at_local(day, time(hour), zone)
        is_wanted = at.astimezone(zone).date() == day if weekday is None else weekday == day.isoweekday()
        if at > after and is_wanted:
            return at
        day += _DAY
