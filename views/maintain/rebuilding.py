"""Goes through rebuilds, stage by stage.

    orders ─▶ book ─▶ a lane for each generation that is fed ─▶ fill ▶ catch up ▶ verify ▶ switch ─▶ book

What is to happen is written down before it does, and done again after a crash: filling goes on from the mark in the
place, verification begins anew, and a switch finds that it was made. So whoever is killed where, the end is the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from functools import partial
from typing import Final

import msgspec

from cdc.errors import HeadwaterError, SinkError, SinkUnavailable, ViewError
from views.generation import Generation, GenerationState
from views.maintain.booking import BookKeeper
from views.maintain.checks import Checks
from views.maintain.comparing import COMPARED, computed_with, held_by, switched, with_verdict
from views.maintain.computing import Computing, adopted, came_to_nothing, waiting_for
from views.maintain.failpoints import reached
from views.maintain.going_back import is_rollback
from views.maintain.rebuild_progress import RebuildProgress
from views.maintain.registry import ViewState, ViewStatus
from views.maintain.sinking import Sinking
from views.maintain.tallying import Tally
from views.maintain.trying import Tries
from views.rebuild import Checked, Rebuild, RebuildState, Stage
from views.sinks.lane import Lane, LaneState

CLOSE_RECORDS: Final = 2_000
"""A generation this close to the one that is read has caught up: the switch waits for the rest."""
KEEP_S: Final = 24 * 3600.0
CHECKS_MIN: Final = 3
CHECKING_S_MAX: Final = 3600.0
"""A verification that could not be made is tried so often, and for so long; then the rebuild waits for a person."""
VERDICT_S_MAX: Final = 300.0
"""A generation that was verified longer ago is verified again before readers are switched to it."""

QUEUED: Final = "waits until "

Check = Callable[[str, str, int, threading.Event], Checked]
"""Compares a generation with its view, and the view with its source: (view, sink, number, stop). Ends with `stop`."""
_ = GenerationState


def no_check(view: str, sink: str, number: int, stop: threading.Event) -> Checked:
    raise SinkError(
        "nobody can verify here", detail=f"generation {number} of the {sink} of {view}", hint="headwater up"
    )


class Rebuilder:
    """Not shared between threads but for `forget`."""

    def __init__(
        self,
        keeper: BookKeeper,
        sinking: Sinking,
        view: Callable[[str], ViewStatus | None],
        check: Check = no_check,
        keep_s: float = KEEP_S,
        computing: Computing | None = None,
    ) -> None:
        self.keeper, self.sinking = keeper, sinking
        self.tally = Tally(keeper, sinking)
        self._view, self._check, self._keep_s = view, check, keep_s
        self._computing = computing or Computing()
        self._checks = Checks()
        self._progress = RebuildProgress(self._computing.rows)
        self._tries = Tries()

    def look(self) -> None:
        """One round. Idempotent when nothing has happened."""
        self.tally.enter_made()
        self.tally.take_off()
        book = self.keeper.book
        for generation in book.fed():
            rebuild = book.rebuild(generation.rebuild)
            if rebuild is None or rebuild.state is not RebuildState.PAUSED:
                self.sinking.side(*generation.name)
        running = [each for each in book.rebuilds if each.state is RebuildState.RUNNING]
        self._checks.only([self._compared_as(each) for each in running])
        for rebuild in map(self.keeper.known, running):
            if rebuild.state is RebuildState.RUNNING:  # one before it may have decided for it as well
                self._step(rebuild)
        self.tally.retire_old()
        self.tally.remove_left()

    def close(self) -> None:
        self._checks.close()

    # Stages

    def _step(self, rebuild: Rebuild) -> None:
        stages = {
            Stage.COMPUTE: self._compute,
            Stage.FILL: self._fill,
            Stage.CATCH_UP: self._catch_up,
            Stage.VERIFY: self._verify,
            Stage.SWITCH: self._go_over,
            Stage.DONE: self._done,
        }
        if not self._tries.is_due(rebuild.id):
            return
        try:
            stages[rebuild.stage](rebuild)
        except HeadwaterError as error:  # what passes by itself is tried again
            self._tries.failed(rebuild.id)
            self.keeper.put(msgspec.structs.replace(self.keeper.known(rebuild), reason=error.summary))

    def _compute(self, rebuild: Rebuild) -> None:
        status = self._view(rebuild.view)
        if status is None or status.applied_at_s < rebuild.applied_at_s:
            self._stands(rebuild, "waits until it is begun to compute the view")
            return
        instead = adopted(self.keeper.book, rebuild, status)
        if instead is not rebuild:
            self.keeper.put(rebuild := instead)
            self.keeper.flush()
        is_mine = status.applied_at_s == rebuild.applied_at_s
        if is_mine and status.failed:
            self.fail(rebuild, f"the view could not be computed anew: {status.failed}")
        elif status.state is ViewState.PAUSED:
            self.fail(rebuild, f"the view is paused: {status.reason}")
        elif status.state is ViewState.LIVE and not is_mine and came_to_nothing(self.keeper.book, rebuild.view, status):
            why = status.failed or "that rebuild was given up"
            self.fail(rebuild, f"the view was to be computed anew once more, in place of this one; {why}")
        elif status.state is ViewState.LIVE:
            self.keeper.enter(rebuild, Stage.FILL)
        elif self.keeper.book.is_held(rebuild.view, ""):
            self._stands(rebuild, f"the view is paused: headwater resume {rebuild.view}")
        elif is_mine and status.is_computed and rebuild.computed is None:
            self._compare(rebuild, status.group)
        elif (at := self._computing.position(rebuild.view)) is not None:
            reason = held_by(self.keeper.book, rebuild) or self._computing.held_back()
            self.keeper.put(self._progress.noted(rebuild, *at, reason))

    def _compare(self, rebuild: Rebuild, group: str) -> None:
        """Once for all that wait for it. Then it is shown, and noted as live."""
        compare = partial(self._computing.compare, rebuild.view, group)
        ended = self._checks.ended(self._compared_as(rebuild), f"{rebuild.view} as it was computed", compare)
        if ended is None:
            self._queued(rebuild, COMPARED)
            return
        found = self._checked(rebuild, ended)
        if found is None:
            return
        self._tries.forget(rebuild.id)
        waiting = [
            each for each in waiting_for(self.keeper.book, rebuild.view, rebuild.applied_at_s) if not each.is_over
        ]
        if not found.is_equal:
            for each in waiting:
                self.fail(each, f"it is not what Postgres has: {found.detail}")
            return
        for each in with_verdict(waiting, found):
            self.keeper.put(each)
        self.keeper.flush()

    def show(self, ready: Rebuild) -> str:
        """Of one that was computed and waits: what happens now. Those that waited for it are compared again, too."""
        for other in computed_with(self.keeper.book, ready):
            if other.state is RebuildState.RUNNING:
                self.keeper.put(msgspec.structs.replace(other, computed=None))
        self.keeper.put(switched(ready))
        self.keeper.flush()
        after = held_by(self.keeper.book, ready)
        return (
            f"{ready.view} is compared again, then readers use it as it was computed; its {ready.sink} is filled anew"
            + (f"; it {after}" if after else "")
        )

    def _fill(self, rebuild: Rebuild) -> None:
        if self.keeper.generation(rebuild) is None:
            now = time.time()
            made = Generation(rebuild.view, rebuild.sink, rebuild.number, _.BUILDING, now, now, rebuild.id)
            self.keeper.keep(self.keeper.book.with_generation(made))
            reached("rebuild-begun")
        lane = self._lane(rebuild)
        if lane is None:
            self._stands(rebuild, self._unfed(rebuild))
            return
        is_filled = lane.status.state is LaneState.RIDING  # before it is asked how much it has read
        if lane.target is not None and lane.mark is not None:
            reason = lane.status.reason or self.sinking.held_back()
            self.keeper.put(self._progress.filled(rebuild, lane, reason))
        if is_filled:
            self.keeper.move(rebuild, _.CATCHING_UP)
            self.keeper.enter(self.keeper.known(rebuild), Stage.CATCH_UP)

    def _catch_up(self, rebuild: Rebuild) -> None:
        lane, shown = self._lane(rebuild), self.sinking.shown(rebuild.view, rebuild.sink)
        if lane is None or shown is None or lane.mark is None or shown.mark is None:
            self._stands(rebuild, self._unfed(rebuild))
            return
        behind = shown.mark.next_offset - lane.mark.next_offset
        if lane.status.state is LaneState.RIDING and lane.mark.since == shown.mark.since and behind <= CLOSE_RECORDS:
            self.keeper.enter(rebuild, Stage.VERIFY)
        else:
            self._stands(rebuild, lane.status.reason)

    def _verify(self, rebuild: Rebuild) -> None:
        check = partial(self._check, rebuild.view, rebuild.sink, rebuild.number)
        what = f"the {rebuild.sink} of {rebuild.view} (rebuild {rebuild.id})"
        ended = self._checks.ended(self._compared_as(rebuild), what, check)
        if ended is None:
            self._queued(rebuild)
            return
        checked = self._checked(rebuild, ended)
        if checked is None:
            return
        self._tries.forget(rebuild.id)
        rebuild = msgspec.structs.replace(rebuild, checked=checked)
        if not checked.is_equal:
            self.fail(rebuild, f"it is not what the view is: {checked.detail}")
            return
        self.keeper.move(rebuild, _.VERIFIED)
        state = RebuildState.RUNNING if rebuild.switches else RebuildState.READY
        self.keeper.enter(msgspec.structs.replace(rebuild, state=state), Stage.SWITCH)

    def _compared_as(self, rebuild: Rebuild) -> str:
        """What was computed is compared once for all that wait for it."""
        if rebuild.stage is not Stage.COMPUTE:
            return rebuild.id
        status = self._view(rebuild.view)
        return f"{rebuild.view} {status.group if status else ''}"

    def _queued(self, rebuild: Rebuild, begun: str = "") -> None:
        """Says whose comparison it waits for, until its own has begun."""
        before = self._checks.before(self._compared_as(rebuild))
        if before or begun or rebuild.reason.startswith(QUEUED):
            reason = f"{QUEUED}{before} is compared" if before else begun
            self.keeper.put(msgspec.structs.replace(rebuild, reason=reason))

    def _checked(self, rebuild: Rebuild, ended: Future[Checked]) -> Checked | None:
        """None when it could not be made. That is no verdict: nothing is thrown away for it."""
        try:
            return ended.result()
        except Exception as error:
            reason = error.summary if isinstance(error, HeadwaterError) else f"{type(error).__name__}: {error}"
        rebuild = msgspec.structs.replace(rebuild, reason=f"it cannot be verified now: {reason}")
        times, for_s = self._tries.failed(rebuild.id)
        if times >= CHECKS_MIN and for_s >= CHECKING_S_MAX:
            self.pause(rebuild, rebuild.reason)
        else:
            self.keeper.put(rebuild)
        return None

    def _go_over(self, rebuild: Rebuild) -> None:
        """As soon as its sink is fed: who has just started has no lanes yet."""
        shown = self.sinking.shown(rebuild.view, rebuild.sink)
        if shown is None or shown.number is None:
            self._stands(rebuild, self._unfed(rebuild))
        elif self.is_outdated(rebuild) and not self.sinking.is_used(rebuild.view, rebuild.sink, rebuild.number):
            self.verify_again(rebuild)
        else:
            self.switch(rebuild)

    def is_outdated(self, rebuild: Rebuild) -> bool:
        """Whether its verdict is too old to switch by. Who goes back was not compared: readers have used that."""
        return not is_rollback(rebuild) and time.time() - rebuild.began.get(Stage.SWITCH, 0.0) > VERDICT_S_MAX

    def verify_again(self, rebuild: Rebuild) -> None:
        """And then readers are switched to it, from what they use by then: somebody wanted that, or it does so by
        itself."""
        self.keeper.move(rebuild, _.CATCHING_UP)
        again = msgspec.structs.replace(rebuild, state=RebuildState.RUNNING, switches=True, replaces=None)
        self.keeper.enter(again, Stage.VERIFY)

    def switch(self, rebuild: Rebuild) -> None:
        """Readers use its generation; the one that they left is kept. All of it can be done again."""
        view, sink, number = rebuild.view, rebuild.sink, rebuild.number
        shown = self.sinking.shown(view, sink)
        if shown is None or shown.number is None:
            raise SinkUnavailable(
                f"the {sink} of {view} is not fed",
                detail="it is paused, or was not begun yet",
                hint=f"headwater generations {view}",
            )
        if rebuild.replaces is None and shown.number != number:
            rebuild = msgspec.structs.replace(rebuild, replaces=shown.number)
            self.keeper.put(rebuild)
            self.keeper.flush()
        self._lane(rebuild)  # who has just started may not feed it yet: the switch waits for it
        reached("rebuild-switching")
        self.sinking.switch(view, sink, number)
        reached("rebuild-switched")
        now, book = time.time(), self.keeper.book
        if rebuild.replaces is not None:
            old = book.generation(view, sink, rebuild.replaces) or Generation(view, sink, rebuild.replaces, _.LIVE, now)
            book = book.with_generation(old.moved(_.STANDBY, now, keep_until_s=now + self._keep_s))
        new = book.generation(view, sink, number) or Generation(view, sink, number, _.VERIFIED, now, now)
        self.keeper.keep(book.with_generation(new.moved(_.LIVE, now)))
        self.keeper.enter(rebuild, Stage.DONE)
        self._done(self.keeper.known(rebuild))

    def _done(self, rebuild: Rebuild) -> None:
        self.keeper.end(rebuild, RebuildState.DONE)

    def _lane(self, rebuild: Rebuild) -> Lane | None:
        return self.sinking.side(rebuild.view, rebuild.sink, rebuild.number)

    def _stands(self, rebuild: Rebuild, reason: str) -> None:
        self.keeper.put(self._progress.standing(rebuild, reason))

    def _unfed(self, rebuild: Rebuild) -> str:
        if self.keeper.book.is_held(rebuild.view, rebuild.sink):
            return f"the {rebuild.sink} is paused: headwater resume {rebuild.view} --sink {rebuild.sink}"
        return f"waits until the {rebuild.sink} of {rebuild.view} is fed"

    # What is over

    def fail(self, rebuild: Rebuild, reason: str) -> None:
        """Readers never saw it; nothing of it is left. What was computed for it alone goes, too. What somebody wanted
        to go back to stays."""
        if not is_rollback(rebuild):
            self.tally.discard(rebuild, _.FAILED, reason)
        self.keeper.end(msgspec.structs.replace(rebuild, reason=reason), RebuildState.FAILED)
        if rebuild.stage is Stage.COMPUTE and not self._sharing(rebuild):
            self._computing.take_back(rebuild.view, rebuild.applied_at_s)

    def cancel(self, rebuild: Rebuild) -> str:
        """What became of what it had made. Written down before the view is taken back: who is cut off in between does
        that first when it starts again. Raises ViewError when readers have been switched to it already."""
        if self.tally.is_used(rebuild.view, rebuild.sink, rebuild.number):
            raise ViewError(
                f"readers of the {rebuild.sink} of {rebuild.view} use generation {rebuild.number} already",
                hint=f"headwater rollback {rebuild.view} --sink {rebuild.sink}",
            )
        if is_rollback(rebuild):
            self.keeper.end(rebuild, RebuildState.CANCELLED)
            return f"readers stay where they are, and generation {rebuild.number} is kept"
        self.tally.discard(rebuild, _.RETIRED, "the rebuild was cancelled")
        self.keeper.end(rebuild, RebuildState.CANCELLED)
        if rebuild.stage is not Stage.COMPUTE:
            return "no reader has seen it"
        if others := self._sharing(rebuild):
            return f"the view is computed on for rebuild {others[0].id}"
        if self._computing.take_back(rebuild.view, rebuild.applied_at_s):
            return "no reader has seen it, the view stays as it is"
        return (
            "only its sink stays as it is: the view was shown already, or has another definition, and is not taken back"
        )

    def pause(self, rebuild: Rebuild, why: str = "") -> str:
        """What goes on nevertheless. What is being compared is compared again afterwards: a verdict does not wait."""
        self._stands(msgspec.structs.replace(rebuild, state=RebuildState.PAUSED), why)
        self.keeper.flush()
        self.sinking.leave(rebuild.view, rebuild.sink, rebuild.number)
        running = [each for each in self._sharing(rebuild) if each.state is not RebuildState.PAUSED]
        return f"; the view is computed on for rebuild {running[0].id}" if running else ""

    def resume(self, rebuild: Rebuild) -> None:
        is_there = rebuild.stage is Stage.SWITCH or rebuild.computed is not None
        is_ready = is_there and not rebuild.switches and rebuild.stage in (Stage.COMPUTE, Stage.SWITCH)
        state = RebuildState.READY if is_ready else RebuildState.RUNNING
        self._tries.forget(rebuild.id)
        self.keeper.put(msgspec.structs.replace(rebuild, state=state, reason=""))
        self.keeper.flush()
        if rebuild.stage is Stage.COMPUTE:
            self._computing.go_on(rebuild.view)

    def _sharing(self, rebuild: Rebuild) -> list[Rebuild]:
        """Others that wait for the same computation."""
        if rebuild.stage is not Stage.COMPUTE:
            return []
        found = waiting_for(self.keeper.book, rebuild.view, rebuild.applied_at_s)
        return [each for each in found if each.id != rebuild.id and not each.is_over]

    def forget(self, view: str, emptied: Collection[str]) -> None:
        """A view that was dropped: its lanes are gone already. What is left in places that could not be `emptied` is
        removed later."""
        with self.keeper.lock:
            self.keeper.keep(self.keeper.book.without_view(view, time.time()))
            self.tally.remove_dropped(view, emptied)
