"""Which views are stale: readers are still given what they hold, and told that it is not the whole truth. Pure.

A view is stale while the log that it comes from has a gap, while it is built again from a new history, while it is
paused, by itself or by a person, and while its state is being brought back to where it was. A place of it is stale
while it is paused, and while it is filled anew in the sight of its readers.
"""

from __future__ import annotations

import msgspec

from cdc.gaps import Gaps
from views.maintain.registry import State, ViewState, ViewStatus
from views.sinks.lane import SinkStatus


class Stale(msgspec.Struct, frozen=True):
    reason: str
    since_s: float
    is_gap: bool
    """Changes are missing from it, and no time will bring them: it is not ready."""


def stale_sink(status: SinkStatus) -> Stale | None:
    """One place of a view, apart from the view itself. What it lacks comes by itself, or when a person says so."""
    return Stale(status.stale, status.stale_since_s, is_gap=False) if status.stale else None


def stale_views(state: State, gaps: Gaps) -> dict[str, Stale]:
    return {name: found for name, status in state.views.items() if (found := _stale(status, state, gaps)) is not None}


def _stale(status: ViewStatus, state: State, gaps: Gaps) -> Stale | None:
    group = state.groups.get(status.read_from)
    known = gaps.of(group.era) if group is not None and group.era else ()
    if known:
        return Stale(f"the log has a gap: {known[0]}", known[0].since_s, is_gap=True)
    if status.stale:
        return Stale(status.stale, status.stale_since_s, is_gap=status.is_gap)
    if status.state is ViewState.PAUSED and status.read_from == status.group:
        return Stale(f"it is paused: {status.reason}", status.stale_since_s or status.applied_at_s, is_gap=False)
    if status.state is ViewState.HELD:
        return Stale(f"it is {status.reason}", status.stale_since_s or status.applied_at_s, is_gap=False)
    if group is not None and group.is_put_back:
        return Stale("its state was lost and is being brought back", group.put_back_at_s, is_gap=False)
    return None
