"""How a lane is, as everybody is told it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

import msgspec

from views.sinks.sink import Mark

LATELY_S: Final = 10.0


class LaneState(StrEnum):
    WAITING = "waiting"
    """For the view's first publication."""
    FILLING = "filling"
    """A generation that readers do not use yet; or one that they use, and that was emptied."""
    FOLLOWING = "following"
    RIDING = "riding"
    DOWN = "down"
    """The place cannot take anything; tried again."""
    FAILED = "failed"
    """It refuses; tried again, but a person should look."""
    PAUSED = "paused"
    """A person has stopped it; it goes on from where it is when they say so."""


class SinkStatus(msgspec.Struct, frozen=True):
    view: str
    sink: str
    state: LaneState
    generation: int = 0
    mark: Mark | None = None
    """What readers see includes everything up to it."""
    target_offset: int = 0
    """Of the view's topic: where it is to be."""
    reason: str = ""
    refused: int = 0
    """Changes that the place would not take since the lane began: dead letters."""
    incomplete: int = 0
    """Keys that open dead letters hold: what readers see of them is old, or missing."""
    applied_at_us: int = 0
    next_offset: int = 0
    """Of the view's topic: up to where it is written, also while it is being filled."""
    stale: str = ""
    """Why readers do not find the view there as it should be; empty while they do, or are late by seconds only."""
    stale_since_s: float = 0.0


class Report:
    """What one lane says of itself, and how far behind it is."""

    def __init__(self, view: str, sink: str) -> None:
        self.status = SinkStatus(view, sink, LaneState.WAITING)
        self.stale: tuple[str, float] = ("", 0.0)
        """Why readers do not find what they should there, and since when."""
        self._even_at = time.monotonic()
        """When it was last as far as it knew to go."""
        self._writes_us = 0
        """When what it is writing was published; 0 while it writes nothing."""
        self._lagged: tuple[float, float] = (float("-inf"), 0.0)
        """When it last wrote what an epoch brought, and how many milliseconds after its publication."""

    def say(self, state: LaneState, reason: str, mark: Mark | None, target: Mark | None, incomplete: int) -> None:
        """Where it is, and where it is to be."""
        if state is LaneState.RIDING:
            self._even_at = time.monotonic()
        self.status = msgspec.structs.replace(
            self.status,
            state=state,
            mark=mark if state is not LaneState.FILLING else None,
            target_offset=target.next_offset if target else 0,
            reason=reason,
            incomplete=incomplete,
            applied_at_us=time.time_ns() // 1000,
            next_offset=mark.next_offset if mark else 0,
            stale=self.stale[0],
            stale_since_s=self.stale[1],
        )

    def feeds(self, generation: int) -> None:
        self.status = msgspec.structs.replace(self.status, generation=generation)

    def refused(self, count: int) -> None:
        """So many changes more."""
        self.status = msgspec.structs.replace(self.status, refused=self.status.refused + count)

    @contextmanager
    def writing(self, published_at_us: int) -> Iterator[None]:
        """What an epoch brought that was published then."""
        self._writes_us = published_at_us
        try:
            yield
            self._lagged = time.monotonic(), self.behind_ms
        finally:
            self._writes_us = 0

    @property
    def behind_ms(self) -> float:
        """From a publication to its being written: of the one under way, or of the last if that was lately. Of one that
        goes after the view by itself, or whose place is down: since when. Filling has no readers."""
        if writes_us := self._writes_us:
            return time.time_ns() / 1e6 - writes_us / 1e3
        if self.status.state in (LaneState.FOLLOWING, LaneState.DOWN):
            return (time.monotonic() - self._even_at) * 1000
        at, lag_ms = self._lagged
        return lag_ms if time.monotonic() - at < LATELY_S else 0.0
