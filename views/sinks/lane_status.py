"""How a lane is, as everybody is told it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from views.sinks.sink import Mark


class LaneState(StrEnum):
    WAITING = "waiting"
    """For the view's first publication."""
    FILLING = "filling"
    """A generation that readers do not use yet."""
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
