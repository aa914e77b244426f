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

    def lost(self, group: str) -> None:
        """The group's file is not there: its views are built again from the log."""
        for view in self.of(group):
            self[view] = ViewStatus(ViewState.WAITING, reason="its group's file was lost")

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
                )

    def paused(self, view: str, why: str) -> None:
        known = self.get(view)
        if known is not None:
            since_s = known.stale_since_s if known.stale else time.time()
            stale = known.stale or f"it is paused: {why}"
            self._replace(view, state=ViewState.PAUSED, reason=why, stale=stale, stale_since_s=since_s)

    def incomplete(self, views: Iterable[str], group: str, why: str) -> None:
        """What the group read is not whole: its views say so until they are built from something that is."""
        for view in views:
            known = self.get(view)
            if known is not None and known.group == group and not known.is_gap:
                self._replace(view, stale=why, stale_since_s=time.time(), is_gap=True)

    def renew(self, view: str, state: ViewState, group: str, applied_at_s: float, reason: str = "") -> None:
        """It was applied again."""
        old, new = self.get(view), ViewStatus(state, group, applied_at_s, reason)
        self[view] = new
        if old is not None and old.stale:
            self._replace(view, stale=old.stale, stale_since_s=old.stale_since_s, is_gap=old.is_gap)

    def hold(self, view: str, reason: str) -> None:
        self._replace(view, state=ViewState.HELD, reason=reason)

    def release(self, view: str) -> None:
        if self[view].state is ViewState.HELD:
            self._replace(view, state=ViewState.LIVE, reason="")

    def ready(self, view: str, group: str, review: Review) -> None:
        """It waits for somebody who looks at what would change, unless it was taken back meanwhile."""
        known = self.get(view)
        if known is not None and known.group == group:
            self._replace(view, state=ViewState.READY, review=review)

    def shown(self, view: str) -> None:
        """Its readers are given what its group made, from here on."""
        known = self[view]
        if known.state not in (ViewState.LIVE, ViewState.HELD):
            self[view] = ViewStatus(ViewState.LIVE, known.group, known.applied_at_s, known.reason)

    def _replace(self, view: str, **changed: object) -> None:
        self[view] = msgspec.structs.replace(self[view], **changed)
