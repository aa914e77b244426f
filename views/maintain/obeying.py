"""What people ask of the views that are kept: rebuild, switch, go back, pause. Each order is answered in the book.

An order that was cut off is obeyed again, so each is either safe to repeat or written down, with what it decided,
before it is acted on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

import msgspec

from cdc.errors import HeadwaterError, ViewError
from views.generation import Generation, GenerationState
from views.maintain.book import PAUSED_BY, Held
from views.maintain.booking import BookKeeper
from views.maintain.going_back import chosen, entered_for, entry
from views.maintain.orders import Answer, Order, Orders, SinkAnswer, Verb, together
from views.maintain.rebuilding import Rebuilder
from views.maintain.sinking import Sinking
from views.maintain.stocktaking import Stocktaking
from views.rebuild import Rebuild, RebuildState, Stage, first_stage
from views.sinks.lane import LaneState

POLL_S: Final = 0.1


class Obeying:
    """On a thread of its own, with the rebuilds."""

    def __init__(
        self,
        orders: Orders,
        keeper: BookKeeper,
        rebuilder: Rebuilder,
        hold_views: Callable[[Collection[str], str], None] = lambda views, reason: None,
        release_views: Callable[[Collection[str]], None] = lambda views: None,
    ) -> None:
        self._orders, self._keeper, self._rebuilder = orders, keeper, rebuilder
        self._sinking: Sinking = rebuilder.sinking
        self._stocktaking = Stocktaking(keeper, self._sinking)
        self._hold_views, self._release_views = hold_views, release_views
        self._sinking.next_number = self._next_number
        for held in keeper.book.held:
            if held.sink:
                self._sinking.hold(held.view, held.sink, why(held), held.since_s)

    def _next_number(self, view: str, sink: str, current: int) -> int:
        return self._keeper.book.next_number(view, sink, current)

    def run(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                self.look()
                stop.wait(POLL_S)
        finally:
            self._rebuilder.close()

    def look(self) -> None:
        with self._keeper.lock:
            self._stocktaking.look()  # first: what is asked next gets a number that nobody has
            for file, order in self._orders.waiting():
                if order is not None and self._keeper.book.answer(order.id) is None:
                    answer = self._answered(order)  # which changes the book
                    self._keeper.keep(self._keeper.book.with_answer(answer))
                file.unlink(missing_ok=True)
            self._rebuilder.look()
            self._keeper.note()

    def _answered(self, order: Order) -> Answer:
        verbs: Mapping[Verb, Callable[[Order], str | list[SinkAnswer]]] = {
            Verb.REBUILD: self._rebuild,
            Verb.PAUSE: self._pause,
            Verb.RESUME: self._resume,
            Verb.CANCEL: self._cancel,
            Verb.SWITCH: self._switch,
            Verb.ROLLBACK: self._roll_back,
            Verb.RETIRE: self._retire,
            Verb.HOLD: self._hold,
            Verb.RELEASE: self._release,
        }
        try:
            done = verbs[order.verb](order)
        except HeadwaterError as error:
            return Answer(order.id, False, error.fact, error.detail, error.hint, time.time())
        return Answer(order.id, True, done, at_s=time.time()) if isinstance(done, str) else together(order, done)

    # Rebuilds

    def _rebuild(self, order: Order) -> str:
        if self._keeper.book.rebuild(order.id) is not None:
            return f"rebuild {order.id} is under way"
        shown = self._sinking.shown(order.view, order.sink)
        if shown is None or shown.number is None or shown.status.state in (LaneState.WAITING, LaneState.FILLING):
            raise ViewError(
                f"the {order.sink} of {order.view} is not kept yet",
                detail="there is nothing that could be rebuilt",
                hint=f"headwater views {order.view}",
            )
        if not shown.kind.holds_rows:
            raise ViewError(
                f"the {order.sink} of {order.view} holds no rows", hint=f"headwater rebuild {order.view} --sink search"
            )
        known = self._keeper.book.under_way(order.view, order.sink)
        if known is not None:
            raise ViewError(
                f"the {order.sink} of {order.view} is being rebuilt already",
                detail=f"rebuild {known.id}: {known.stage}, {known.state}",
                hint=f"headwater rebuild --cancel {known.id}",
            )
        number = max(shown.number, self._keeper.book.highest(order.view, order.sink)) + 1
        stage = first_stage(order.origin)
        began = {stage: time.time()}
        self._keeper.put(
            Rebuild(
                order.id,
                order.view,
                order.sink,
                number,
                order.origin,
                order.at_s,
                order.by,
                stage,
                switches=order.switches,
                applied_at_s=order.applied_at_s,
                began=began,
            )
        )
        self._keeper.flush()
        return f"rebuild {order.id} of the {order.sink} of {order.view} has begun: generation {number}"

    def _under_way(self, order: Order) -> Rebuild:
        rebuild = self._keeper.book.rebuild(order.rebuild)
        if rebuild is None or rebuild.is_over:
            raise ViewError(
                f"no rebuild {order.rebuild} is under way",
                detail=f"it is {rebuild.state}" if rebuild else "",
                hint="headwater rebuild --list",
            )
        return rebuild

    def _pause(self, order: Order) -> str:
        rebuild = self._under_way(order)
        return f"rebuild {rebuild.id} is paused{self._rebuilder.pause(rebuild)}"

    def _resume(self, order: Order) -> str:
        rebuild = self._under_way(order)
        self._rebuilder.resume(rebuild)
        return f"rebuild {rebuild.id} goes on"

    def _cancel(self, order: Order) -> str:
        rebuild = self._under_way(order)
        return f"rebuild {rebuild.id} is cancelled; {self._rebuilder.cancel(rebuild)}"

    # Switching: sink by sink, each by itself

    def _switch(self, order: Order) -> list[SinkAnswer]:
        mine = [each for each in self._keeper.book.rebuilds if each.view == order.view]
        found = [each for each in mine if order.sink in ("", each.sink) and _waits(each) and _is_meant(order, each)]
        if not found and (there := self._is_there(order)) is not None:
            return [_stays(there)]
        if not found:
            to = "" if order.number is None else f" to generation {order.number}"
            raise ViewError(
                f"no rebuild of {order.view} waits for a switch{to}",
                detail="one that is verified, and was asked to wait",
                hint=f"headwater rebuild {order.view} --no-switch",
            )
        return [self._switched(each) for each in found]

    def _is_there(self, order: Order) -> Generation | None:
        """What readers use already, if that is what they were to go over to."""
        live = self._keeper.book.live(order.view, order.sink)
        return live if live is not None and live.number == order.number else None

    def _switched(self, ready: Rebuild) -> SinkAnswer:
        """What was compared long ago may have become wrong since: it is compared once more, and then switched to."""
        if ready.state is RebuildState.RUNNING:
            return _done(ready, "go over to")  # it was begun, and is tried until it is done
        if ready.stage is Stage.COMPUTE:
            return SinkAnswer(ready.sink, ready.number, True, self._rebuilder.show(ready))
        if self._rebuilder.is_outdated(ready):
            self._rebuilder.verify_again(ready)
            fact = f"generation {ready.number} of the {ready.sink} is verified again; then readers use it"
            return SinkAnswer(ready.sink, ready.number, True, fact)
        try:
            self._rebuilder.switch(msgspec.structs.replace(ready, state=RebuildState.RUNNING))
        except HeadwaterError as error:  # nobody goes over later, unasked
            self._keeper.put(msgspec.structs.replace(ready, reason=error.summary))
            self._keeper.flush()
            return _refused(ready, error)
        return _done(ready, "use")

    def _roll_back(self, order: Order) -> list[SinkAnswer]:
        """What it goes back to is written down first: obeyed twice, it does not go there and back."""
        book = self._keeper.book
        if begun := entered_for(book, order):  # what was cut off is tried until it is done
            return [_gone_back(each) for each in begun]
        back, stay = chosen(book, order.view, order.sink, order.number)
        if not back and not stay:
            raise ViewError(
                f"{order.view} has no generation to go back to",
                detail="one that readers left, and that is still kept fed",
                hint=f"headwater generations {order.view}",
            )
        entries = [entry(order, each, time.time()) for each in back]
        for each in entries:
            self._keeper.put(each)
        self._keeper.flush()
        return [*(self._go_back(each) for each in entries), *map(_stays, stay)]

    def _go_back(self, back: Rebuild) -> SinkAnswer:
        try:
            self._rebuilder.switch(back)
        except HeadwaterError as error:
            self._keeper.end(msgspec.structs.replace(back, reason=error.summary), RebuildState.FAILED)
            return _refused(back, error)
        return _gone_back(self._keeper.known(back))

    def _retire(self, order: Order) -> str:
        generation = self._keeper.book.generation(order.view, order.sink, order.number or 0)
        if generation is None or generation.state is not GenerationState.STANDBY:
            raise ViewError(
                f"generation {order.number} of the {order.sink} of {order.view} is no standby",
                detail=f"it is {generation.state}" if generation else "it is not known",
                hint=f"headwater generations {order.view}",
            )
        is_gone = self._rebuilder.tally.retire(generation, "somebody asked for it")
        how = "is removed" if is_gone else "goes as soon as its place can be asked"
        return f"generation {order.number} of the {order.sink} of {order.view} {how}"

    # Pausing

    def _hold(self, order: Order) -> str:
        held = [Held(view, order.sink, order.by, order.at_s) for view in order.views]
        if not order.sink:
            self._hold_views(order.views, why(held[0]))
        elif self._sinking.shown(order.view, order.sink) is None and not self._is_held(order):
            raise ViewError(f"{order.view} has no {order.sink} that is fed", hint=f"headwater views {order.view}")
        self._keeper.keep(self._keeper.book.with_held([*self._others(order), *held]))
        if order.sink:
            self._sinking.hold(order.view, order.sink, why(held[0]), order.at_s)
        return f"{_named(order)} is paused; readers see it as it is now"

    def _release(self, order: Order) -> str:
        if not self._is_held(order):
            raise ViewError(f"{_named(order)} is not paused", hint=f"headwater views {order.view}")
        if not order.sink:
            self._release_views(order.views)  # may refuse; who is cut off here does it again
        self._keeper.keep(self._keeper.book.with_held(self._others(order)))
        if order.sink:
            self._sinking.release(order.view, order.sink)
        return f"{_named(order)} goes on from where it is"

    def _is_held(self, order: Order) -> bool:
        return all(self._keeper.book.is_held(view, order.sink) for view in order.views)

    def _others(self, order: Order) -> list[Held]:
        named = {(view, order.sink) for view in order.views}
        return [each for each in self._keeper.book.held if (each.view, each.sink) not in named]


def _waits(rebuild: Rebuild) -> bool:
    """For a person who switches; or one has, and was cut off."""
    is_begun = rebuild.state is RebuildState.RUNNING and rebuild.is_switching and not rebuild.switches
    return is_begun or rebuild.state is RebuildState.READY


def _is_meant(order: Order, rebuild: Rebuild) -> bool:
    return order.number is None or rebuild.number == order.number


def _stays(at: Generation) -> SinkAnswer:
    return SinkAnswer(at.sink, at.number, True, f"readers of the {at.sink} use generation {at.number} already")


def _done(each: Rebuild, does: str, again: str = "") -> SinkAnswer:
    return SinkAnswer(
        each.sink, each.number, True, f"readers of the {each.sink} {does} generation {each.number}{again}"
    )


def _refused(each: Rebuild, error: HeadwaterError) -> SinkAnswer:
    return SinkAnswer(each.sink, each.number, False, error.fact, error.detail, error.hint)


def _gone_back(back: Rebuild) -> SinkAnswer:
    if back.state is RebuildState.DONE:
        return _done(back, "use", " again")
    if not back.is_over:
        return _done(back, "go back to")
    hint = f"headwater generations {back.view}"
    return SinkAnswer(
        back.sink, back.number, False, f"readers of the {back.sink} stay where they are", back.reason, hint
    )


def _named(order: Order) -> str:
    return f"the {order.sink} of {order.view}" if order.sink else " and ".join(order.views)


def why(held: Held) -> str:
    return f"{PAUSED_BY}{held.by}" if held.by else "paused"
