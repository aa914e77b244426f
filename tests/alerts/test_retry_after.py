from __future__ import annotations

from datetime import timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.channels.retry_after import RETRY_AFTER_S_MAX, retry_after_s
from tests.alerts.samples import BEGAN_AT


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("0", 0.0),
        (" 120 ", 120.0),
        ("99999999999", RETRY_AFTER_S_MAX),
        ("9" * 400, None),
        ("Sun, 01 Mar 2026 12:01:30 GMT", 90.0),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0.0),
        ("Sun Mar  1 12:01:30 2026", 90.0),
        ("Fri, 01 Mar 2999 12:00:00 GMT", RETRY_AFTER_S_MAX),
        ("Fri, 99 Mar 2026 12:00:00 GMT", None),
    ],
)
def test_seconds_and_dates(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, BEGAN_AT) == seconds


@given(st.text())
def test_never_out_of_bounds(value: str) -> None:
    seconds = retry_after_s(value, BEGAN_AT)
    assert seconds is None or 0 <= seconds <= RETRY_AFTER_S_MAX


@given(st.integers(0, 86_400))
def test_a_date_is_as_good_as_seconds(seconds: int) -> None:
    at = format_datetime(BEGAN_AT + timedelta(seconds=seconds), usegmt=True)
    assert retry_after_s(at, BEGAN_AT) == seconds == retry_after_s(str(seconds), BEGAN_AT)
