"""Views that a person has paused: their groups read no further, and what they hold stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, MutableMapping
from dataclasses import dataclass

from cdc.errors import ViewError
from views.maintain.registry import ViewState
from views.maintain.runner import GroupRunner
from views.maintain.statuses import Statuses


@dataclass
class Pauses:
    held: set[str]
    views: Statuses
    runners: MutableMapping[str, GroupRunner]
    leave: Callable[[GroupRunner], None]
    """Rides no longer."""

    def hold(self, views: Collection[str], reason: str) -> None:
        """Raises ViewError if other views need their groups to go on."""
        runners = [self._held_with(view, views) for view in views]
        self.held |= set(views)
        for view in views:
            self.views.hold(view, reason)
        for runner in runners:
            self.leave(runner)

    def release(self, views: Collection[str]) -> list[GroupRunner]:
        """Those that are to read on from where they stand. Raises ViewError if others would go on with them."""
        for view in views:
            known = self.views.get(view)
            runner = self.runners.get(known.read_from) if known is not None else None
            others = sorted((self.held & runner.group.live.keys()) - set(views)) if runner is not None else []
            if others:
                raise ViewError(
                    f"view {view} is kept together with {', '.join(others)}",
                    detail="they stand at one position, so they go on together",
                    hint=f"headwater resume {' '.join(sorted({*views, *others}))}",
                )
        self.held -= set(views)
        for view in views:
            if view in self.views:
                self.views.release(view)
        return [runner for runner in list(self.runners.values()) if set(views) & runner.group.live.keys()]

    def forget(self, view: str) -> None:
        """It was dropped: one of that name that comes later is another."""
        self.held.discard(view)

    def is_held(self, runner: GroupRunner) -> bool:
        return bool(self.held) and set(runner.group.live) <= self.held

    def _held_with(self, view: str, views: Collection[str]) -> GroupRunner:
        known = self.views.get(view)
        runner = self.runners.get(known.group) if known is not None else None
        if known is None or runner is None or known.state not in (ViewState.LIVE, ViewState.HELD):
            raise ViewError(
                f"view {view} is not live", detail=known.state if known else "it is not known", hint="headwater views"
            )
        others = sorted(runner.group.live.keys() - self.held - set(views))
        if others:
            raise ViewError(
                f"view {view} is kept together with {', '.join(others)}",
                detail="they stand at one position, so they can only be paused together",
                hint=f"headwater pause {' '.join(sorted({*views, *others}))}; or one sink of it, with --sink",
            )
        return runner
