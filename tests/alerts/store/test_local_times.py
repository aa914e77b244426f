"""Local times against a clock that is read minute by minute, in zones and on days where clocks are changed."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alerts.local_times import after_quiet, at_local, local_day, next_day, next_hour

ZONES = (
    "UTC", "Europe/Paris", "America/New_York", "America/Havana", "America/Sao_Paulo", "Asia/Kolkata", "Asia/Beirut",
    "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu", "America/Scoresbysund",
)  # fmt: skip
CHANGES = (
    datetime(2026, 3, 29, 1, tzinfo=UTC),  # Paris, Scoresbysund forward
    datetime(2026, 10, 25, 1, tzinfo=UTC),
    datetime(2026, 3, 8, 7, tzinfo=UTC),  # New York, Havana forward
    datetime(2026, 11, 1, 6, tzinfo=UTC),
    datetime(2018, 11, 4, 3, tzinfo=UTC),  # Sao Paulo: midnight does not exist
    datetime(2019, 2, 17, 2, tzinfo=UTC),  # Sao Paulo: 23:00 twice
    datetime(2026, 4, 4, 15, tzinfo=UTC),  # Lord Howe: half an hour
    datetime(2026, 10, 3, 15, 30, tzinfo=UTC),
    datetime(2011, 12, 30, 10, tzinfo=UTC),  # Apia: a day does not exist
)
zones = st.sampled_from(ZONES).map(ZoneInfo)
instants = st.builds(
    lambda base, minutes: base + timedelta(minutes=minutes), st.sampled_from(CHANGES), st.integers(-3000, 3000)
)
minutes = st.builds(time, st.integers(0, 23), st.sampled_from([0, 1, 30, 59]))
hours = st.tuples(minutes, minutes).filter(lambda pair: pair[0] != pair[1])


def shown(at: datetime, zone: ZoneInfo) -> datetime:
    return at.astimezone(zone).replace(tzinfo=None)


def first_shown(day: date, clock: time, zone: ZoneInfo) -> datetime:
    """By looking at the clock every minute."""
    wanted = datetime.combine(day, clock)
    at = datetime.combine(day, clock, UTC) - timedelta(hours=15)
    while shown(at, zone) < wanted:
        at += timedelta(minutes=1)
    return at


@given(instants, minutes, zones)
def test_a_local_time_is_the_first_instant_that_shows_it(at: datetime, clock: time, zone: ZoneInfo) -> None:
    day = at.astimezone(zone).date()
    assert at_local(day, clock, zone) == first_shown(day, clock, zone)


@given(instants, zones)
def test_an_instant_lies_in_its_day(at: datetime, zone: ZoneInfo) -> None:
    start, end = local_day(at, zone)
    assert start <= at < end
    assert end - start <= timedelta(hours=49)
    assert local_day(end, zone)[0] == end
    assert local_day(end - timedelta(seconds=1), zone) == (start, end)


@given(instants, hours, zones)
def test_quiet_hours_end_when_they_end(at: datetime, quiet: tuple[time, time], zone: ZoneInfo) -> None:
    found = after_quiet(at, quiet, zone)
    assert found >= at
    assert after_quiet(found, quiet, zone) == found, "nothing is postponed twice"
    if found > at:
        assert found in {
            at_local(found.astimezone(zone).date() + timedelta(days=d), quiet[1], zone) for d in (-1, 0, 1)
        }


@given(st.integers(0, 365 * 24 * 60), hours)
def test_quiet_hours_where_clocks_are_never_changed(minute: int, quiet: tuple[time, time]) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)
    start, end = quiet
    now = at.time()
    is_quiet = start <= now < end if start < end else now >= start or now < end
    found = after_quiet(at, quiet, ZoneInfo("UTC"))
    assert (found > at) == is_quiet
    assert not is_quiet or found.time() == end
    assert found - at < timedelta(days=1)


@given(instants, zones)
def test_a_full_hour_is_never_more_than_an_hour_away(at: datetime, zone: ZoneInfo) -> None:
    found = next_hour(at, zone)
    assert at < found <= at + timedelta(hours=1)
    if zone.key != "Australia/Lord_Howe":
        assert shown(found, zone).minute == 0


@example(datetime(2011, 12, 30, 9, 59, tzinfo=UTC), 1, ZoneInfo("Pacific/Apia"))
@given(instants, st.integers(0, 23), zones)
def test_a_day_has_one_digest(at: datetime, hour: int, zone: ZoneInfo) -> None:
    """From one to the next is never more than a day and what clocks were changed by."""
    first = next_day(at, hour, zone)
    second = next_day(first, hour, zone)
    assert at < first < second
    assert next_day(second - timedelta(seconds=1), hour, zone) == second
    assert first == at_local(first.astimezone(zone).date(), time(hour), zone)


@given(instants, st.integers(0, 23), zones, st.integers(1, 7))
def test_a_week_has_one_digest_on_its_day(at: datetime, hour: int, zone: ZoneInfo, weekday: int) -> None:
    found = next_day(at, hour, zone, weekday)
    assert at < found <= at + timedelta(days=8, hours=2)
    if zone.key != "Pacific/Apia":
        assert found.astimezone(zone).isoweekday() == weekday


@pytest.mark.parametrize(
    ("zone", "day", "clock", "expected"),
    [
        ("Europe/Paris", date(2026, 3, 29), time(2, 30), "2026-03-29T01:00Z"),
        ("Europe/Paris", date(2026, 10, 25), time(2, 30), "2026-10-25T00:30Z"),
        ("America/Sao_Paulo", date(2018, 11, 4), time(0), "2018-11-04T03:00Z"),
        ("Pacific/Apia", date(2011, 12, 30), time(8), "2011-12-30T10:00Z"),
    ],
)
def test_changes_of_clocks(zone: str, day: date, clock: time, expected: str) -> None:
    assert at_local(day, clock, ZoneInfo(zone)) == datetime.fromisoformat(expected)
