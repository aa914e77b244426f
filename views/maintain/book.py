"""What was decided of generations, rebuilds and pauses: one file, written by the maintainer alone, whole every time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from views.generation import Generation, GenerationState
from views.maintain.orders import Answer
from views.rebuild import Rebuild, RebuildState

ANSWERS_MAX: Final = 200
REBUILDS_MAX: Final = 200
"""Of those that are over; older ones are in the audit log."""
RETIRED_MAX: Final = 200
"""Of those of which nothing is left."""
PAUSED_BY: Final = "paused by "
"""What people are told of one that is held, before the name of who did it."""
DROPPED: Final = "the view was dropped"
TAKEN_OFF: Final = "the view is not to be there any more"
OVER: Final = (GenerationState.RETIRED, GenerationState.FAILED)


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
        return [each for each in self.generations if each.is_fed_beside]

    def live(self, view: str, sink: str) -> Generation | None:
        return next((each for each in self.of(view, sink) if each.state is GenerationState.LIVE), None)

    def standby(self, view: str, sink: str) -> Generation | None:
        """The one that readers would go back to: that which they left last."""
        found = [each for each in self.of(view, sink) if each.state is GenerationState.STANDBY]
        return max(found, key=lambda each: each.since_s, default=None)

    def highest(self, view: str, sink: str) -> int:
        return max((each.number for each in self.of(view, sink)), default=0)

    def next_number(self, view: str, sink: str, current: int) -> int:
        """Of what a lane makes by itself: the one that it has begun, or one that never was."""
        begun = [each.number for each in self.of(view, sink) if _is_own(each) and each.number > current]
        return max(begun) if begun else max(current, self.highest(view, sink)) + 1

    def outdated(self, view: str, sink: str, number: int) -> list[Generation]:
        """Those that are not what they are said to be, if readers use that number."""
        others = [each for each in self.of(view, sink) if each.number != number]
        return [each for each in others if each.state is GenerationState.LIVE or _is_own(each)]

    def left(self) -> list[Generation]:
        return [each for each in self.generations if each.is_left]

    def rebuild(self, id_: str) -> Rebuild | None:
        return next((each for each in self.rebuilds if each.id == id_), None)

    def under_way(self, view: str, sink: str) -> Rebuild | None:
        return next((each for each in self._of(view, sink) if not each.is_over), None)

    def is_switching(self, view: str, sink: str) -> bool:
        """Whichever it is: who goes back may do so beside a rebuild that waits."""
        return any(each.is_switching for each in self._of(view, sink))

    def _of(self, view: str, sink: str) -> list[Rebuild]:
        return [each for each in self.rebuilds if (each.view, each.sink) == (view, sink)]

    def answer(self, id_: str) -> Answer | None:
        return next((each for each in self.answers if each.id == id_), None)

    def is_held(self, view: str, sink: str = "") -> bool:
        return any(each.view == view and each.sink == sink for each in self.held)

    # Writing: another book

    def with_generation(self, new: Generation) -> Book:
        others = [each for each in self.generations if each.name != new.name]
        gone = [each for each in others if each.state in OVER and not each.is_left][:-RETIRED_MAX]
        return msgspec.structs.replace(self, generations=(*(each for each in others if each not in gone), new))

    def without_generation(self, name: tuple[str, str, int]) -> Book:
        return msgspec.structs.replace(self, generations=tuple(each for each in self.generations if each.name != name))

    def with_rebuild(self, new: Rebuild) -> Book:
        others = [each for each in self.rebuilds if each.id != new.id]
        old = [each for each in others if each.is_over][:-REBUILDS_MAX]
        return msgspec.structs.replace(self, rebuilds=(*(each for each in others if each not in old), new))

    def with_held(self, held: Iterable[Held]) -> Book:
        return msgspec.structs.replace(self, held=tuple(held))

    def with_answer(self, answer: Answer) -> Book:
        others = [each for each in self.answers if each.id != answer.id]
        return msgspec.structs.replace(self, answers=(*others[-ANSWERS_MAX:], answer))

    def without_view(self, view: str, at_s: float) -> Book:
        """A view that was dropped leaves nothing under way or paused, and only those generations that are still to be
        removed."""
        return self._without(lambda each: each.view == view, at_s, DROPPED)

    def without_sink(self, view: str, sink: str, at_s: float) -> Book:
        """The same of a place that the view is not to be in any more."""
        return self._without(lambda each: (each.view, each.sink) == (view, sink), at_s, TAKEN_OFF)

    def _without(self, is_gone: Callable[[Generation | Rebuild | Held], bool], at_s: float, reason: str) -> Book:
        was_there = [each for each in self.generations if is_gone(each) and (each.is_left or each.state not in OVER)]
        return msgspec.structs.replace(
            self,
            generations=(
                *(each for each in self.generations if not is_gone(each)),
                *(each.unwanted(at_s, reason) for each in was_there),
            ),
            rebuilds=tuple(
                _cancelled(each, reason) if is_gone(each) and not each.is_over else each for each in self.rebuilds
            ),
            held=tuple(each for each in self.held if not is_gone(each)),
        )


def _is_own(generation: Generation) -> bool:
    """A lane fills it, and asked nobody."""
    return generation.state is GenerationState.BUILDING and not generation.rebuild


def _cancelled(rebuild: Rebuild, reason: str) -> Rebuild:
    return msgspec.structs.replace(rebuild, state=RebuildState.CANCELLED, reason=reason)
