"""Which generations there are: enters in the book those that lanes make by themselves, and removes those that are over.

    a lane filled another generation ─▶ live ─▶ the ones before it are let go ─▶ what was written of them goes

What cannot be removed, because its place is away, is left in the book as such, and tried again.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Final

import msgspec

from cdc.errors import HeadwaterError
from views.generation import Generation, GenerationState
from views.maintain.booking import BookKeeper
from views.maintain.sinking import Sinking
from views.rebuild import Rebuild, RebuildState
from views.sinks.lane import Lane, LaneState

LEFT_AGAIN_S: Final = 5.0
"""How often what could not be removed is tried again."""


class Tally:
    def __init__(self, keeper: BookKeeper, sinking: Sinking) -> None:
        self._keeper, self._sinking = keeper, sinking
        self._left_tried_at = float("-inf")

    def enter_made(self) -> None:
        """What lanes make by themselves: a place was emptied, or the view has another shape."""
        for lane in self._sinking.lanes():
            is_switching = self._keeper.book.is_switching(lane.shape.view, lane.kind.name)
            if lane.number is not None and not is_switching:  # who switches enters it
                self._enter(lane, lane.number)

    def _enter(self, lane: Lane, number: int) -> None:
        view, sink, now, book = lane.shape.view, lane.kind.name, time.time(), self._keeper.book
        known = book.generation(view, sink, number)
        fresh = known or Generation(view, sink, number, GenerationState.BUILDING, now, now)
        if not lane.is_whole:
            if known is None and lane.status.state is LaneState.FILLING:
                self._keeper.keep(book.with_generation(fresh))
            return
        if fresh.state is not GenerationState.LIVE:  # a fact, not a move
            live = msgspec.structs.replace(
                fresh,
                state=GenerationState.LIVE,
                since_s=now,
                reason="",
                keep_until_s=None,
                is_left=False,
                is_unwanted=False,
            )
            self._keeper.keep(book.with_generation(live))
        for other in book.outdated(view, sink, number):
            self._let_go(other, GenerationState.RETIRED, f"generation {number} was filled in its place")

    # What is over

    def take_off(self) -> None:
        """Places that a view does not list any more, also one that was paused there."""
        book = self._keeper.book
        known = {(each.view, each.sink) for each in book.generations if not each.is_unwanted}
        known |= {(each.view, each.sink) for each in book.held if each.sink}
        for view, sink in sorted(known):
            if self._sinking.is_unlisted(view, sink):
                self._keeper.keep(self._keeper.book.without_sink(view, sink, time.time()))

    def retire(self, generation: Generation, reason: str) -> bool:
        """Whether nothing of it is left already. What readers use is not retired."""
        if self.is_used(*generation.name):
            return False
        rebuild = self._keeper.book.rebuild(generation.rebuild)
        if rebuild is not None and not rebuild.is_over:
            self._keeper.end(msgspec.structs.replace(rebuild, reason=reason), RebuildState.CANCELLED)
        return self._let_go(generation, GenerationState.RETIRED, reason)

    def retire_old(self) -> None:
        book = self._keeper.book
        due = [(book.generation(*name), "the view has another shape now") for name in self._sinking.mismatched()]
        due += [(each, "its time was over") for each in book.fed() if 0 < (each.keep_until_s or 0) < time.time()]
        for generation, reason in due:
            if generation is not None:
                with suppress(HeadwaterError):  # its place is away: it is tried at every look
                    self.retire(generation, reason)

    def discard(self, rebuild: Rebuild, state: GenerationState, reason: str) -> None:
        generation = self._keeper.generation(rebuild)
        if generation is not None:
            self._let_go(generation, state, reason)

    def views(self) -> set[str]:
        """Those of which something is written that is not to be removed altogether."""
        return {each.view for each in self._keeper.book.generations if not each.is_unwanted}

    def remove_left(self) -> None:
        left = self._keeper.book.left()
        if not left or time.monotonic() - self._left_tried_at < LEFT_AGAIN_S:
            return
        self._remove(left)
        self._left_tried_at = time.monotonic()

    def remove_dropped(self, view: str, sinks: Collection[str]) -> None:
        """What is left of the view in places that are there."""
        self._remove([each for each in self._keeper.book.left() if each.view == view and each.sink in sinks])

    def _remove(self, left: Iterable[Generation]) -> None:
        for generation in left:
            if not self._is_removed(generation):
                continue
            if generation.is_unwanted:
                self._keeper.keep(self._keeper.book.without_generation(generation.name))
            else:
                gone = msgspec.structs.replace(generation, is_left=False)
                self._keeper.keep(self._keeper.book.with_generation(gone))

    def is_used(self, view: str, sink: str, number: int) -> bool:
        """A place that is away cannot say; what readers use there is never removed all the same."""
        try:
            return self._sinking.is_used(view, sink, number)
        except HeadwaterError:
            return False

    def _let_go(self, generation: Generation, state: GenerationState, reason: str) -> bool:
        """What was written of it goes: at once, or when its place can be asked again (`remove_left`)."""
        moved = generation.moved(state, time.time(), reason=reason)
        is_gone = self._is_removed(generation)
        self._keeper.keep(self._keeper.book.with_generation(msgspec.structs.replace(moved, is_left=not is_gone)))
        return is_gone

    def _is_removed(self, generation: Generation) -> bool:
        try:
            if generation.is_unwanted:
                return self._sinking.remove_unwanted(*generation.name)
            return self._sinking.remove(*generation.name)
        except HeadwaterError:  # its place is away
            return False
