"""How each view is: what becomes of its status by what has happened to it. In memory; the maintainer notes it down.

A view that is stale stays so until its readers are given something else.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import msgspec

from views.maintain.group import GroupSpec
from views.maintain.registry import Review, ViewState, ViewStatus


class Statuses(dict[str, ViewStatus]):
    """By the view's name."""

    def of(self, group: str) -> list[str]:
        return [view for view, status in list(self.items()) if status.group == group]

    def uses(self, group: str) -> bool:
        """Whether a view is kept by that group, or its readers are served from it."""
        return any(group in (status.group, status.serving) for status in list(self.values()))

    def lost(self, group: str) -> None:
        """The group's file is not there: its views are built again from the log."""
        for view, known in list(self.items()):
            serving = "" if known.serving == group else known.serving
            if known.group == group:
                self[view] = ViewStatus(ViewState.WAITING, reason="its group's file was lost", serving=serving)
            else:
                self._replace(view, serving=serving)

    def serves(self, view: str, group: str) -> None:
        """What the view's frontier says."""
        if view in self:
            self._replace(view, serving=group)

    def outlived(self, views: Iterable[str], spec: GroupSpec) -> None:
        """The era of their group is over: they are built again from the one that is."""
        why = f"era {spec.era}, which it was built from, is over"
        for view in views:
            known = self[view]
            if known.group == spec.id:
                since_s = known.stale_since_s if known.stale else time.time()
                self[view] = ViewStatus(
                    ViewState.WAITING,
                    reason="the source began a new history",
                    stale=why,
                    stale_since_s=since_s,
                    is_gap=True,
                    serving=known.serving,
                )

    def paused(self, view: str, group: str, why: str) -> None:
        """The group feeds it no more. Readers notice if they are served from it; what is built beside it goes on."""
        known = self.get(view)
        if known is None:
            return
        if group == known.read_from:
            since_s = known.stale_since_s if known.stale else time.time()
            self._replace(view, stale=known.stale or f"it is paused: {why}", stale_since_s=since_s)
        if group == known.group:
            self._replace(view, state=ViewState.PAUSED, reason=why)

    def incomplete(self, views: Iterable[str], group: str, why: str) -> None:
        """What the group read is not whole: its views say so until they are built from something that is."""
        for view in views:
            known = self.get(view)
            if known is not None and known.read_from == group and not known.is_gap:
                self._replace(view, stale=why, stale_since_s=time.time(), is_gap=True)

    def renew(self, view: str, state: ViewState, group: str, applied_at_s: float, reason: str = "") -> None:
        """It was applied again."""
        old = self.get(view) or ViewStatus(state)
        self[view] = ViewStatus(
            state, group, applied_at_s, reason, old.stale, old.stale_since_s, old.is_gap, serving=old.serving
        )

    def hold(self, view: str, reason: str) -> None:
        self._replace(view, state=ViewState.HELD, reason=reason, stale_since_s=self[view].stale_since_s or time.time())

    def release(self, view: str) -> None:
        known = self[view]
        if known.state is ViewState.HELD:
            since_s = known.stale_since_s if known.stale else 0.0
            self._replace(view, state=ViewState.LIVE, reason="", stale_since_s=since_s)

    def ready(self, view: str, group: str, review: Review) -> None:
        """It waits for somebody who looks at what would change, unless it was taken back meanwhile."""
        known = self.get(view)
        if known is not None and known.group == group:
            self._replace(view, state=ViewState.READY, review=review)

    def computed(self, view: str, group: str) -> None:
        """It waits until it was compared, unless it was taken back meanwhile."""
        known = self.get(view)
        if known is not None and known.group == group and known.state is ViewState.BUILDING:
            self._replace(view, is_computed=True)

    def kept(
        self, view: str, applied_at_s: float, failed: str, state: ViewState = ViewState.LIVE, reason: str = ""
    ) -> None:
        """What readers use stays, though that application wanted it computed anew."""
        old = self[view]
        self[view] = ViewStatus(
            state,
            old.serving,
            applied_at_s,
            reason,
            old.stale,
            old.stale_since_s,
            old.is_gap,
            serving=old.serving,
            failed=failed,
        )

    def shown(self, view: str) -> None:
        """Its readers are given what its group made, from here on."""
        known = self[view]
        if known.state not in (ViewState.LIVE, ViewState.HELD):
            self[view] = ViewStatus(ViewState.LIVE, known.group, known.applied_at_s, known.reason)
        self._replace(view, serving=known.group)

    def _replace(self, view: str, **changed: object) -> None:
        self[view] = msgspec.structs.replace(self[view], **changed)
