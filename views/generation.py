"""A generation: a view's rows in one place, written once from beginning to end. What readers use is one of them.

    building ─▶ catching up ─▶ verified ─▶ live ─▶ standby ─▶ retired
        └────────────┴─ failed     └──────────▲────────┘

A standby is fed like the one that is live, so going back to it is at once and loses nothing; when its time is over it
is removed. Every move is written down before the next one begins (views/maintain/rebuilding.py). One that a lane makes
by itself, because its place was emptied or the view has another shape, is building until it is live.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from cdc.errors import StateError


class GenerationState(StrEnum):
    BUILDING = "building"
    CATCHING_UP = "catching up"
    VERIFIED = "verified"
    """Equal to the view, row by row; fed, and not read."""
    LIVE = "live"
    STANDBY = "standby"
    """Readers left it; it is fed, for who wants to go back."""
    RETIRED = "retired"
    FAILED = "failed"


_ = GenerationState
MOVES: Final[Mapping[GenerationState, frozenset[GenerationState]]] = {
    _.BUILDING: frozenset({_.CATCHING_UP, _.FAILED, _.RETIRED}),
    _.CATCHING_UP: frozenset({_.VERIFIED, _.LIVE, _.FAILED, _.RETIRED}),
    _.VERIFIED: frozenset({_.LIVE, _.FAILED, _.RETIRED, _.CATCHING_UP}),
    _.LIVE: frozenset({_.STANDBY, _.RETIRED}),
    _.STANDBY: frozenset({_.LIVE, _.RETIRED, _.FAILED}),
    _.RETIRED: frozenset(),
    _.FAILED: frozenset({_.RETIRED}),
}
FED: Final = frozenset({_.BUILDING, _.CATCHING_UP, _.VERIFIED, _.STANDBY})
"""Beside the live one, these have a lane."""


class Generation(msgspec.Struct, frozen=True):
    view: str
    sink: str
    number: int
    state: GenerationState
    since_s: float
    """When it came into that state."""
    made_at_s: float = 0.0
    rebuild: str = ""
    """The rebuild that made it; empty for one that a lane made by itself."""
    keep_until_s: float | None = None
    """Of a standby: when it is removed."""
    reason: str = ""
    is_left: bool = False
    """It is over, and what was written of it could not be removed yet: tried again and again."""
    is_unwanted: bool = False
    """Nobody wants the view in that place any more: that readers use it does not keep it."""

    @property
    def is_fed_beside(self) -> bool:
        """It has a lane of its own; one that is made without a rebuild is filled by the lane that is shown."""
        return self.state in FED and (self.state is not GenerationState.BUILDING or bool(self.rebuild))

    @property
    def name(self) -> tuple[str, str, int]:
        return self.view, self.sink, self.number

    def unwanted(self, at_s: float, reason: str) -> Generation:
        """Whatever it was, it is to be removed: a fact, not a move."""
        return msgspec.structs.replace(
            self,
            state=GenerationState.RETIRED,
            since_s=at_s,
            reason=reason,
            keep_until_s=None,
            is_left=True,
            is_unwanted=True,
        )

    def moved(
        self, state: GenerationState, at_s: float, *, reason: str = "", keep_until_s: float | None = None
    ) -> Generation:
        """Raises StateError for a move that there is not. To where it is already: itself."""
        if state is self.state:
            return self
        if state not in MOVES[self.state]:
            raise StateError(
                f"generation {self.number} of the {self.sink} of {self.view} is {self.state}",
                detail=f"it cannot become {state}",
                hint=f"headwater generations {self.view}",
            )
        return msgspec.structs.replace(self, state=state, since_s=at_s, reason=reason, keep_until_s=keep_until_s)
