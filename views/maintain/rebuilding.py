"""Goes through rebuilds, stage by stage.

    orders ─▶ book ─▶ a lane for each generation that is fed ─▶ fill ▶ catch up ▶ verify ▶ switch ─▶ book

What is to happen is written down before it does, and done again after a crash: filling goes on from the mark in the
place, verification begins anew, and a switch finds that it was made. So whoever is killed where, the end is the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Final

import msgspec

from cdc.errors import HeadwaterError, SinkError
from views.generation import Generation, GenerationState
from views.maintain.booking import BookKeeper
from views.maintain.failpoints import reached
from views.maintain.registry import ViewState, ViewStatus
from views.maintain.sinking import Sinking
from views.rebuild import Checked, Rebuild, RebuildState, Stage
from views.sinks.lane import Lane, LaneState

CLOSE_RECORDS: Final = 2_000
"""A generation this close to the one that is read has caught up: the switch waits for the rest."""
KEEP_S: Final = 24 * 3600.0
CHECKS_MAX: Final = 3
"""A verification that could not be made is tried so often."""

Check = Callable[[str, str, int], Checked]
"""Compares a generation with its view, and the view with its source: (view, sink, number)."""
_ = GenerationState


def no_check(view: str, sink: str, number: int) -> Checked:
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
    ) -> None:
        self.keeper, self.sinking = keeper, sinking
        self._view, self._check, self._keep_s = view, check, keep_s
        self._checks: dict[str, Future[Checked]] = {}
        self._tried: dict[str, int] = {}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="check")

    def look(self) -> None:
        """One round. Idempotent when nothing has happened."""
        book = self.keeper.book
        for generation in book.fed():
            rebuild = book.rebuild(generation.rebuild)
            if rebuild is None or rebuild.state is not RebuildState.PAUSED:
                self.sinking.side(*generation.name)
        for rebuild in [each for each in book.rebuilds if each.state is RebuildState.RUNNING]:
            self._step(rebuild)
        self._retire_old()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    # Stages

    def _step(self, rebuild: Rebuild) -> None:
        stages = {
            Stage.COMPUTE: self._compute,
            Stage.FILL: self._fill,
            Stage.CATCH_UP: self._catch_up,
            Stage.VERIFY: self._verify,
            Stage.SWITCH: self.switch,
            Stage.DONE: self._done,
        }
        try:
            stages[rebuild.stage](rebuild)
        except HeadwaterError as error:
            # What passes by itself is tried again at the next look.
            self.keeper.put(msgspec.structs.replace(self.keeper.known(rebuild), reason=error.summary))

    def _compute(self, rebuild: Rebuild) -> None:
        status = self._view(rebuild.view)
        if status is None or status.applied_at_s < rebuild.applied_at_s:
            return
        if status.state is ViewState.PAUSED:
            self.fail(rebuild, f"the view is paused: {status.reason}")
        elif status.state is ViewState.LIVE:
            self.keeper.enter(rebuild, Stage.FILL)

    def _fill(self, rebuild: Rebuild) -> None:
        if self.keeper.generation(rebuild) is None:
            now = time.time()
            made = Generation(rebuild.view, rebuild.sink, rebuild.number, _.BUILDING, now, now, rebuild.id)
            self.keeper.keep(self.keeper.book.with_generation(made))
            reached("rebuild-begun")
        lane = self._lane(rebuild)
        if lane is None:
            return
        self._progress(rebuild, lane)
        if lane.status.state is LaneState.RIDING:
            self.keeper.move(rebuild, _.CATCHING_UP)
            self.keeper.enter(self.keeper.known(rebuild), Stage.CATCH_UP)

    def _catch_up(self, rebuild: Rebuild) -> None:
        lane, shown = self._lane(rebuild), self.sinking.shown(rebuild.view, rebuild.sink)
        if lane is None or shown is None or lane.mark is None or shown.mark is None:
            return
        behind = shown.mark.next_offset - lane.mark.next_offset
        if lane.status.state is LaneState.RIDING and lane.mark.since == shown.mark.since and behind <= CLOSE_RECORDS:
            self.keeper.enter(rebuild, Stage.VERIFY)

    def _verify(self, rebuild: Rebuild) -> None:
        under_way = self._checks.get(rebuild.id)
        if under_way is None:
            self._checks[rebuild.id] = self._pool.submit(self._check, rebuild.view, rebuild.sink, rebuild.number)
            return
        if not under_way.done():
            return
        del self._checks[rebuild.id]
        checked = self._checked(rebuild, under_way)
        if checked is None:
            return
        rebuild = msgspec.structs.replace(rebuild, checked=checked)
        if not checked.is_equal:
            self.fail(rebuild, f"it is not what the view is: {checked.detail}")
            return
        self.keeper.move(rebuild, _.VERIFIED)
        state = RebuildState.RUNNING if rebuild.switches else RebuildState.READY
        self.keeper.enter(msgspec.structs.replace(rebuild, state=state), Stage.SWITCH)

    def _checked(self, rebuild: Rebuild, ended: Future[Checked]) -> Checked | None:
        """None when it could not be made: it is tried again, or given up."""
        try:
            return ended.result()
        except Exception as error:
            tried = self._tried[rebuild.id] = self._tried.get(rebuild.id, 0) + 1
            reason = error.summary if isinstance(error, HeadwaterError) else f"{type(error).__name__}: {error}"
            if tried >= CHECKS_MAX:
                self.fail(rebuild, f"it cannot be verified: {reason}")
            else:
                self.keeper.put(msgspec.structs.replace(rebuild, reason=reason))
            return None

    def switch(self, rebuild: Rebuild) -> None:
        """Readers use its generation; the one that they left is kept. All of it can be done again."""
        view, sink, number = rebuild.view, rebuild.sink, rebuild.number
        shown = self.sinking.shown(view, sink)
        if shown is None or shown.number is None:
            return
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

    def _progress(self, rebuild: Rebuild, lane: Lane) -> None:
        target, at = lane.target, lane.mark
        if target is None or at is None:
            return
        done, total = at.next_offset - target.since, target.next_offset - target.since
        took_s = time.time() - rebuild.began.get(rebuild.stage, rebuild.asked_at_s)
        rate = done / took_s if took_s > 0 else 0.0
        reason = lane.status.reason
        self.keeper.put(msgspec.structs.replace(rebuild, done=done, total=total, rows_per_s=rate, reason=reason))

    # What is over

    def fail(self, rebuild: Rebuild, reason: str) -> None:
        """Readers never saw it; nothing of it is left."""
        self._discard(rebuild, _.FAILED, reason)
        self.keeper.end(msgspec.structs.replace(rebuild, reason=reason), RebuildState.FAILED)

    def cancel(self, rebuild: Rebuild) -> None:
        self._checks.pop(rebuild.id, None)
        self._discard(rebuild, _.RETIRED, "the rebuild was cancelled")
        self.keeper.end(rebuild, RebuildState.CANCELLED)

    def retire(self, generation: Generation, reason: str) -> None:
        rebuild = self.keeper.book.rebuild(generation.rebuild)
        if rebuild is not None and not rebuild.is_over:
            self.keeper.end(msgspec.structs.replace(rebuild, reason=reason), RebuildState.CANCELLED)
        if self.sinking.remove(*generation.name):
            moved = generation.moved(_.RETIRED, time.time(), reason=reason)
            self.keeper.keep(self.keeper.book.with_generation(moved))

    def forget(self, view: str) -> None:
        """A view that was dropped: its lanes are gone already."""
        with self.keeper.lock:
            self.keeper.keep(self.keeper.book.without_view(view))

    def _retire_old(self) -> None:
        book = self.keeper.book
        due = [(book.generation(*name), "the view has other columns now") for name in self.sinking.mismatched()]
        due += [(each, "its time was over") for each in book.fed() if 0 < (each.keep_until_s or 0) < time.time()]
        for generation, reason in due:
            if generation is not None:
                with suppress(HeadwaterError):  # its place is away: it is tried at every look
                    self.retire(generation, reason)

    def _discard(self, rebuild: Rebuild, state: GenerationState, reason: str) -> None:
        generation = self.keeper.generation(rebuild)
        if generation is not None:
            self.sinking.remove(*generation.name)
            moved = generation.moved(state, time.time(), reason=reason)
            self.keeper.keep(self.keeper.book.with_generation(moved))
