"""When a new group's views become what readers see, and those that they replace go."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Final

from views.maintain.contents import as_changes, difference
from views.maintain.registry import Review, ViewState
from views.maintain.reviewing import review
from views.maintain.runner import GroupRunner
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
    unreviewed: set[str] = field(default_factory=set)
    """Views that are shown only when somebody has looked at what would change."""

    def may_show(self, runner: GroupRunner) -> bool:
        """What those that wait for somebody would change is told once."""
        waiting = [view for view in runner.group.live if view in self.unreviewed]
        fresh = [view for view in waiting if (known := self.views.get(view)) and known.state is ViewState.BUILDING]
        holders = runner.holders() if fresh else {}
        for view in fresh:
            old = self.runners.get(holders[view].group) if view in holders else None
            found = review(old.group, runner.group, view) if old else Review()
            self.views.ready(view, runner.group.spec.id, found)
        return not waiting and runner.group.spec.id in self.runners

    def go_live(self, runner: GroupRunner) -> None:
        """Publishes the views as they are now: all their rows, or what differs from the views that they replace. Later,
        if those are within an epoch: what differs is told to who has read the topic, so that has to be at its end."""
        if not self._stand_still(runner):
            return
        holders = runner.holders()
        reached = [each.offset for each in holders.values() if each.era == runner.group.spec.era]
        self.run(runner, max(reached, default=0))  # no reader goes back in time
        told, whole = {}, set()
        for view in runner.group.live:
            replaced = self.runners.get(holders[view].group) if view in holders else None
            if replaced is None or not replaced.is_told(view):
                told[view] = as_changes(runner.group, view)
                whole.add(view)
                continue
            told[view] = difference(replaced.group, runner.group, view)
            if replaced.group.store(view).columns != runner.group.store(view).columns:
                whole.add(view)  # rows with other columns differ, every one of them
        runner.go_live(told, whole)
        self.shown(runner)

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

    def _stand_still(self, runner: GroupRunner) -> bool:
        """Whether nobody else publishes its views any more; not yet, if one has begun what it will tell."""
        for view in list(runner.group.live):
            for other in self._others(runner, view):
                with other.lock:
                    goes_on = view in other.group.live and other.group.spec.era == runner.group.spec.era
                    if other.progress.is_live and goes_on and not other.is_told(view):
                        return False
                    if other.progress.is_live:
                        other.pause([view], PAUSED_OUT)
        return True

    def _others(self, runner: GroupRunner, view: str) -> list[GroupRunner]:
        return [
            other
            for other in list(self.runners.values())
            if other is not runner and view in other.group.spec.definitions
        ]
