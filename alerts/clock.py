"""What time it is: given to whatever decides by it, so that tests set it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""Always in UTC."""


def system_clock() -> datetime:
    return datetime.now(UTC)
