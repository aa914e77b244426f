"""What proves a gap, from one look; and what is stale because of it. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cdc.canary import Proven
from cdc.eras import Era
from cdc.gaps import Gap, GapCode, Gaps, Seen, find
from cdc.position import Lsn
from cdc.slots import SlotState
from views.maintain.registry import GroupStatus, State, ViewState, ViewStatus
from views.maintain.staleness import stale_views
from views.maintain.statuses import Statuses

ERA = Era(7, "topic-a", "7000", 1, "slot:1", 0, "test")
SLOT = SlotState(
    "slot",
    datetime(2026, 1, 1, tzinfo=UTC),
    Lsn(500),
    exists=True,
    confirmed_flush_lsn=Lsn(400),
    system_identifier="7000",
    timeline=1,
)
WELL = Seen(ERA, "topic-a", is_begun=True, log_lsn=Lsn(450), slot=SLOT, offset_lsn=Lsn(400), proven=Proven(7, 9))


def codes(seen: Seen) -> list[GapCode]:
    return [gap.code for gap in find(seen, 1.0)]


def slot(**changed: object) -> Seen:
    return replace(WELL, slot=replace(SLOT, **changed))  # type: ignore[arg-type]


def test_while_all_is_well_there_is_none() -> None:
    assert codes(WELL) == []
    assert codes(Seen(ERA)) == [], "what could not be asked proves nothing"


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        (replace(WELL, topic_id="topic-b"), GapCode.TOPIC_RECREATED),
        (replace(WELL, topic_id=""), GapCode.TOPIC_RECREATED),
        (slot(exists=False), GapCode.SLOT_MISSING),
        (slot(wal_status="lost"), GapCode.SLOT_LOST),
        (slot(invalidation_reason="wal_removed"), GapCode.SLOT_LOST),
        (slot(confirmed_flush_lsn=Lsn(401)), GapCode.SLOT_AHEAD),
        (slot(timeline=2), GapCode.SOURCE_CHANGED),
        (slot(system_identifier="8000"), GapCode.SOURCE_CHANGED),
        (slot(current_lsn=Lsn(449)), GapCode.SOURCE_WENT_BACK),
        (replace(WELL, proven=Proven(7, 9, gap="8 after 6")), GapCode.CANARY),
    ],
)
def test_each_is_noticed(seen: Seen, code: GapCode) -> None:
    assert codes(seen) == [code]


def test_what_is_about_to_begin_has_no_gap() -> None:
    assert codes(replace(slot(exists=False), is_begun=False)) == [], "its slot is still to be made"
    assert codes(replace(slot(confirmed_flush_lsn=Lsn(401)), offset_lsn=None)) == [], "it runs, and stores it later"
    assert codes(slot(confirmed_flush_lsn=Lsn(401), active=True)) == [], "somebody reads it"
    assert codes(replace(WELL, proven=Proven(6, 9, gap="8 after 6"))) == [], "of another era"


def test_a_gap_is_noted_once_and_stays() -> None:
    first, again = Gap(7, GapCode.CANARY, "8 after 6", 1.0), Gap(7, GapCode.CANARY, "9 after 7", 2.0)
    gaps = Gaps().plus([first], Proven(7, 5)).plus([again], None).plus([], Proven(7, 9))
    assert gaps == Gaps((first,), Proven(7, 9))
    assert gaps.of(7) == (first,)
    assert gaps.of(8) == ()


def state(status: ViewStatus, group: GroupStatus) -> State:
    return State(views={"v": status}, groups={"g": group})


LIVE = ViewStatus(ViewState.LIVE, "g", 1.0)
GROUP = GroupStatus(9, 9, True, False, era=7)
HOLE = Gaps((Gap(7, GapCode.SLOT_LOST, "gone", 5.0),))


def test_a_view_of_an_era_with_a_gap_is_stale_and_not_ready() -> None:
    assert stale_views(state(LIVE, GROUP), Gaps()) == {}
    found = stale_views(state(LIVE, GROUP), HOLE)["v"]
    assert (found.reason, found.since_s, found.is_gap) == ("the log has a gap: slot lost: gone", 5.0, True)
    later = state(LIVE, GroupStatus(9, 9, True, False, era=8))
    assert stale_views(later, HOLE) == {}, "it was built from the next era"


def test_a_view_that_is_late_is_stale_but_misses_nothing() -> None:
    back = GroupStatus(9, 9, True, False, era=7, is_put_back=True, put_back_at_s=3.0)
    for status, group in ((ViewStatus(ViewState.PAUSED, "g", 1.0, "table t changed"), GROUP), (LIVE, back)):
        assert not stale_views(state(status, group), Gaps())["v"].is_gap
    views = Statuses({"v": LIVE})
    views.hold("v", "paused by ada")
    held = stale_views(state(views["v"], GROUP), Gaps())["v"]
    assert (held.reason, held.is_gap) == ("it is paused by ada", False)
    assert held.since_s > LIVE.applied_at_s
    views.release("v")
    assert views["v"] == LIVE
    told = ViewStatus(ViewState.BUILDING, "g", 1.0, "", "era 7 is over", 4.0, True)
    assert stale_views(state(told, GROUP), Gaps())["v"].is_gap
