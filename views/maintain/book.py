"""What was decided of generations, rebuilds and pauses: one file, written by the maintainer alone, whole every time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from views.generation import FED, Generation, GenerationState
from views.maintain.orders import Answer
from views.rebuild import Rebuild, RebuildState

ANSWERS_MAX: Final = 200
REBUILDS_MAX: Final = 200
"""Of those that are over; older ones are in the audit log."""
RETIRED_MAX: Final = 200


class Held(msgspec.Struct, frozen=True):
    """A view, or one sink of it, that a person has stopped."""

    view: str
    sink: str = ""
    by: str = ""
    since_s: float = 0.0


class Book(msgspec.Struct, frozen=True):
    generations: tuple[Generation, ...] = ()
    rebuilds: tuple[Rebuild, ...] = ()
    held: tuple[Held, ...] = ()
    answers: tuple[Answer, ...] = ()

    # Reading

    def generation(self, view: str, sink: str, number: int) -> Generation | None:
        return next((each for each in self.generations if each.name == (view, sink, number)), None)

    def of(self, view: str, sink: str) -> list[Generation]:
        return [each for each in self.generations if (each.view, each.sink) == (view, sink)]

    def fed(self) -> list[Generation]:
        """Those that have a lane beside the shown one."""
        return [each for each in self.generations if each.state in FED]

    def standby(self, view: str, sink: str) -> Generation | None:
        """The one that readers would go back to: that which they left last."""
        found = [each for each in self.of(view, sink) if each.state is GenerationState.STANDBY]
        return max(found, key=lambda each: each.since_s, default=None)

    def highest(self, view: str, sink: str) -> int:
        return max((each.number for each in self.of(view, sink)), default=0)

    def rebuild(self, id_: str) -> Rebuild | None:
        return next((each for each in self.rebuilds if each.id == id_), None)

    def under_way(self, view: str, sink: str) -> Rebuild | None:
        found = (each for each in self.rebuilds if (each.view, each.sink) == (view, sink) and not each.is_over)
        return next(found, None)

    def answer(self, id_: str) -> Answer | None:
        return next((each for each in self.answers if each.id == id_), None)

    def is_held(self, view: str, sink: str = "") -> bool:
        return any(each.view == view and each.sink == sink for each in self.held)

    # Writing: another book

    def with_generation(self, new: Generation) -> Book:
        others = [each for each in self.generations if each.name != new.name]
        over = (GenerationState.RETIRED, GenerationState.FAILED)
        gone = [each for each in others if each.state in over][:-RETIRED_MAX]
        return msgspec.structs.replace(self, generations=(*(each for each in others if each not in gone), new))

    def with_rebuild(self, new: Rebuild) -> Book:
        others = [each for each in self.rebuilds if each.id != new.id]
        old = [each for each in others if each.is_over][:-REBUILDS_MAX]
        return msgspec.structs.replace(self, rebuilds=(*(each for each in others if each not in old), new))

    def with_held(self, held: Iterable[Held]) -> Book:
        return msgspec.structs.replace(self, held=tuple(held))

    def with_answer(self, answer: Answer) -> Book:
        others = [each for each in self.answers if each.id != answer.id]
        return msgspec.structs.replace(self, answers=(*others[-ANSWERS_MAX:], answer))

    def without_view(self, view: str) -> Book:
        """A view that was dropped leaves no generations, and nothing under way."""
        return msgspec.structs.replace(
            self,
            generations=tuple(each for each in self.generations if each.view != view),
            rebuilds=tuple(each if each.view != view or each.is_over else _cancelled(each) for each in self.rebuilds),
            held=tuple(each for each in self.held if each.view != view),
        )


def _cancelled(rebuild: Rebuild) -> Rebuild:
    return msgspec.structs.replace(rebuild, state=RebuildState.CANCELLED, reason="the view was dropped")
