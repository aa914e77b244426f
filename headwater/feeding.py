"""Are the generations fed that readers may go over to, and does what makes them go on? From what the maintainer last
wrote down, for who shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cdc.findings import Finding
from headwater.units import duration_text
from views.generation import Generation, GenerationState
from views.maintain.book import Book
from views.maintain.registry import State
from views.rebuild import RebuildState

UNFED_S_MAX: Final = 60.0
"""For longer is told by `headwater status`."""
_READY: Final = (GenerationState.STANDBY, GenerationState.VERIFIED)


@dataclass(frozen=True, slots=True)
class Fed:
    """How one is fed that readers do not use."""

    is_fed: bool
    behind_changes: int | None = None
    """The one that they use is so far before it; None where nobody knows."""
    why_not: str = ""
    since_s: float = 0.0
    """It is not fed; 0 where nobody knows."""

    def text(self, now_s: float) -> str:
        if not self.is_fed:
            for_ = f" for {duration_text(max(0.0, now_s - self.since_s))}" if self.since_s else ""
            return f"no{for_}: {self.why_not}"
        return f"yes, {self.behind_changes:,} changes behind" if self.behind_changes else "yes"


def fed(state: State, generation: Generation) -> Fed | None:
    """None of what readers use, and of what is over."""
    if not generation.is_fed_beside:
        return None
    mine = (generation.view, generation.sink)
    shown = next((each for each in state.sinks if (each.view, each.sink) == mine), None)
    side = next(
        (each for each in state.beside if (each.view, each.sink, each.generation) == generation.name),
        None,
    )
    if side is None:
        paused = shown is not None and shown.state == "paused"
        return Fed(False, None, f"its sink is {shown.reason}" if paused and shown else "nobody feeds it")
    behind = max(0, shown.next_offset - side.next_offset) if shown else None
    why = f"{side.stale}{f': {side.reason}' if side.reason else ''}" if side.stale else ""
    return Fed(not side.stale, behind, why, side.stale_since_s)


def unfed_findings(state: State, book: Book, now_s: float) -> Iterator[Finding]:
    """Readers cannot go back at once to what is not fed. A sink that is paused is told of by itself."""
    for each in book.generations:
        found = fed(state, each) if each.state in _READY else None
        if found is not None and not found.is_fed and found.since_s and now_s - found.since_s >= UNFED_S_MAX:
            yield Finding(
                "warn",
                f"generation {each.number} of the {each.sink} of {each.view}",
                f"is {each.state}, and not fed for {duration_text(now_s - found.since_s)}: {found.why_not}",
                f"headwater generations {each.view}",
            )


def paused_findings(book: Book) -> Iterator[Finding]:
    """Rebuilds that nobody has paused: they could not go on for too long, and wait for somebody."""
    for each in book.rebuilds:
        if each.state is RebuildState.PAUSED and each.reason:
            name = f"rebuild {each.id} of the {each.sink} of {each.view}"
            yield Finding("warn", name, f"is paused: {each.reason}", f"headwater rebuild --resume {each.id}")
