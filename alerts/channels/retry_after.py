"""HTTP's Retry-After: seconds, or a date. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

RETRY_AFTER_S_MAX: Final = 24 * 3600.0
"""A receiver may ask for patience, not for ever."""
_SECONDS: Final = re.compile(r"[0-9]{1,18}")


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """From 0 to RETRY_AFTER_S_MAX; None when nothing was said, or nothing that means a time."""
    if value is None:
        return None
    text = value.strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), RETRY_AFTER_S_MAX)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    # A date without a zone is taken for UTC: HTTP has no other.
    left_s = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
    return min(max(left_s, 0.0), RETRY_AFTER_S_MAX)
