"""The thread that archives the log: what is lost is said once, and waited for by nobody."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from cdc.archive import Archived
from cdc.errors import PositionExpired
from cdc.position import Position
from headwater.service import archiving


class Behind:
    """Kafka let go of offsets 3 to 9 before they were archived."""

    def __init__(self, stop: threading.Event) -> None:
        self._at, self._stop = 3, stop

    def step(self, *, accept_gap: bool = False) -> Archived:
        if self._at < 9 and not accept_gap:
            raise PositionExpired("the log dropped offsets 3 to 9 before they were archived")
        start, self._at = max(self._at, 9), 12
        if start == self._at:
            self._stop.set()
        return Archived(Position(1, start), Position(1, self._at))


def test_what_was_lost_is_said_once_and_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, str]] = []

    class Log:
        def __getattr__(self, level: str) -> Any:
            return lambda told, **_fields: said.append((level, told))

    monkeypatch.setattr(archiving, "get_log", lambda _name: Log())
    stop = threading.Event()
    archiving.archive(Behind(stop), 0.0, stop)  # type: ignore[arg-type]
    assert said == [("error", "a part of the log was never archived")]
