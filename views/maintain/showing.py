"""When a new group's views become what readers see, and those that they replace go."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from views.maintain.contents import as_changes, difference
from views.maintain.registry import Review, ViewState, Wanted
from views.maintain.reviewing import review
from views.maintain.runner import GroupRunner
from views.maintain.standing_by import StandingBy
from views.maintain.statuses import Statuses

PAUSED_OUT: Final = "dropped"
"""Why a group no longer keeps a view that another one keeps now, or nobody."""


@dataclass
class Showing:
    views: Statuses
    runners: MutableMapping[str, GroupRunner]
    retire: Callable[[str], None]
    """Lets go of a group, if no view needs it any more."""
    run: Callable[[GroupRunner, int], None]
    """An epoch of a group, to that end."""
    standing_by: StandingBy
    unreviewed: set[str] = field(default_factory=set)
    """Views that are shown only when somebody has looked at what would change."""
    compared: set[str] = field(default_factory=set)
    """Views that rebuilds compute anew: shown only when they were compared with their SQL."""
    back: set[str] = field(default_factory=set)
    """Views that somebody wanted back as readers left them."""
    is_equal: Callable[[str, float], bool] = lambda view, applied_at_s: False
    """Whether that application of a view was compared, found equal, and may be shown."""
    is_compared: Callable[[str, float], bool] = lambda view, applied_at_s: False
    """Whether it was compared, and waits for a person."""

    def expect(self, wanted: Wanted) -> None:
        """Before anything of it is begun, or taken back."""
        views = wanted.views.items()
        self.unreviewed |= {name for name, view in views if not view.is_reviewed}
        self.compared |= {name for name, view in views if view.is_compared}

    def wants(self, wanted: Wanted) -> None:
        views = wanted.views.items()
        self.unreviewed = {name for name, view in views if not view.is_reviewed}
        self.compared = {name for name, view in views if view.is_compared}
        self.back = {name for name, view in views if view.goes_back_to}

    def is_awaited(self, runner: GroupRunner) -> bool:
        """Somebody compares it, or is about to: it stays close to the log's end."""
        waiting = self._uncompared(runner)
        return any(not self.is_compared(view, self.views[view].applied_at_s) for view in waiting)

    def _uncompared(self, runner: GroupRunner) -> list[str]:
        """Nobody is kept waiting for a view that has no other rows, or rows of an era that is over: these are known to
        be wrong."""
        group, era = runner.group.spec.id, runner.group.spec.era
        return [
            view
            for view in runner.group.live
            if view in self.compared
            and (known := self.views.get(view))
            and known.group == group
            and known.serving != group
            and (old := self.runners.get(known.serving)) is not None
            and old.group.spec.era == era
            and not self.is_equal(view, known.applied_at_s)
        ]

    def may_show(self, runner: GroupRunner) -> bool:
        """What those that wait for somebody would change is told once."""
        if uncompared := self._uncompared(runner):
            for view in uncompared:
                self.views.computed(view, runner.group.spec.id)
            return False
        waiting = [view for view in runner.group.live if view in self.unreviewed]
        built = [view for view in waiting if view in self.views.of(runner.group.spec.id)]
        fresh = [view for view in built if (known := self.views.get(view)) and known.state is ViewState.BUILDING]
        holders = runner.holders() if fresh else {}
        for view in fresh:
            old = self.runners.get(holders[view].group) if view in holders else None
            found = review(old.group, runner.group, view) if old else Review()
            self.views.ready(view, runner.group.spec.id, found)
        return not waiting and not self.standing_by.is_kept(runner) and runner.group.spec.id in self.runners

    def go_live(self, runner: GroupRunner) -> bool:
        """Publishes the views as they are now: all their rows, or what differs from the views that they replace. False
        if those are not there yet. Who wants to take the group back holds its lock, and comes before or after."""
        if not all(self.standing_by.prepare(other, left) for other, left in self._left(runner) if not _is_alone(other)):
            return False
        with runner.lock:
            if runner.group.spec.id not in self.runners or runner.is_idle:
                return False
            left = [(other, view) for other, [view, *_] in self._left(runner) if _is_alone(other)]
            alone = [(other, view) for other in self._going_on(runner) if _is_alone(other) for view in other.group.live]
            stood_at = self._stand_still(runner)
            if stood_at is None:
                return False
            is_there = self._go_live(runner, stood_at)
            for other, view in alone:
                if not is_there or view not in runner.group.live:  # it failed on the way: readers still have the other
                    self.standing_by.go_on(other, view)
                elif (other, view) in left:
                    self.standing_by.keep(other, view)
            if not is_there:
                return False
            self.shown(runner)
            return True

    def is_ahead(self, runner: GroupRunner) -> bool:
        """Whether it has read what those that it replaces have still to tell: it waits until they come by."""
        return any(other.offset < runner.offset for other in self._going_on(runner))

    def _go_live(self, runner: GroupRunner, stood_at: int) -> bool:
        """No reader goes back in time: it goes on to where those stand that it replaces, or False if it does not get
        there. Kafka may not show yet what they have just published."""
        holders = runner.holders()
        reached = max([stood_at, *(each.offset for each in holders.values() if each.era == runner.group.spec.era)])
        self.run(runner, reached)
        if runner.is_idle or runner.offset < reached:
            return False
        told, whole = {}, set()
        for view in runner.group.live:
            replaced = self.runners.get(holders[view].group) if view in holders else None
            if replaced is None or not replaced.is_told(view):
                told[view] = as_changes(runner.group, view)
                whole.add(view)
                continue
            is_other = replaced.group.store(view).identity != runner.group.store(view).identity
            told[view] = difference(replaced.group, runner.group, view, every=is_other)
            if is_other:
                whole.add(view)  # other columns, or other types of them: nothing that was told before is of use
        runner.go_live(told, whole)
        return True

    def shown(self, runner: GroupRunner) -> None:
        """Its views are published: those that they replace are no longer needed. Idempotent."""
        group = runner.group
        mine = [view for view in self.views.of(group.spec.id) if view in group.live]
        for view in mine:
            self.views.shown(view)
        if runner.progress.gap:
            self.views.incomplete(group.live, group.spec.id, runner.progress.gap)
        for old in {other.group.spec.id for view in mine for other in self._others(runner, view)}:
            self.retire(old)

    def _stand_still(self, runner: GroupRunner) -> int | None:
        """Where those stand that published its views, and do not any more: all at once, or None and nobody is stopped.

        What differs is told silently, so it must hold no change that somebody waits to be told of. Those that are
        replaced have to stand at one position, not before the new one, with all told up to there. They are not run up
        to it from here: their epochs are cut where searches are saved, and they come by themselves."""
        with ExitStack() as closing:
            others = sorted(self._live_others(runner), key=lambda other: other.group.spec.id)
            for other in others:
                closing.enter_context(other.lock)
            going_on = self._going_on(runner)
            reached = {other.offset for other in going_on}
            if len(reached) > 1 or any(offset < runner.offset for offset in reached):
                return None
            mine = set(runner.group.live)
            if any(not other.is_told(view) for other in going_on for view in mine & set(other.group.live)):
                return None
            for other in others:
                other.pause(mine, PAUSED_OUT)
            return max(reached, default=0)

    def _left(self, runner: GroupRunner) -> list[tuple[GroupRunner, list[str]]]:
        """Those that still tell changes of its views, with the ones that somebody may want back."""
        found = [(other, self._wanted_back(other, runner)) for other in self._going_on(runner)]
        return [(other, views) for other, views in found if views]

    def _wanted_back(self, old: GroupRunner, new: GroupRunner) -> list[str]:
        """Views that were defined otherwise there, and one that was computed anew: of several, each would need a group
        of its own to be kept, with tables of its own."""
        before, after = old.group.spec.definitions, new.group.spec.definitions
        mine = [view for view in old.group.live if view in after]
        again = [view for view in mine if before[view] == after[view] and view in self.compared | self.back]
        other = [view for view in mine if before[view] != after[view]]
        return [*other, *again] if len(again) == 1 else other

    def _going_on(self, runner: GroupRunner) -> list[GroupRunner]:
        """Those that still tell changes of its views."""
        spec, mine = runner.group.spec, set(runner.group.live)
        return [
            other
            for other in self._live_others(runner)
            if other.group.spec.era == spec.era and mine & set(other.group.live)
        ]

    def _live_others(self, runner: GroupRunner) -> list[GroupRunner]:
        found = {id(other): other for view in runner.group.live for other in self._others(runner, view)}
        return [other for other in found.values() if other.progress.is_live]

    def _others(self, runner: GroupRunner, view: str) -> list[GroupRunner]:
        return [
            other
            for other in list(self.runners.values())
            if other is not runner and view in other.group.spec.definitions
        ]


def _is_alone(runner: GroupRunner) -> bool:
    """It keeps no more than one view."""
    return len(runner.group.live) == 1
