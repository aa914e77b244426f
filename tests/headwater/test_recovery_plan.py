"""What `recover` decides, from what was seen. Pure."""

from __future__ import annotations

from typing import Any

import pytest

from cdc.errors import ViewError
from cdc.gaps import Gap, GapCode
from headwater.recovery import BUILD_ROWS_PER_S, SNAPSHOT_ROWS_PER_S, decide, left, not_live
from views.maintain.registry import GroupStatus, State, ViewState, ViewStatus, Wanted, WantedView
from views.maintain.wanting import LOG_LOST

GAP = Gap(7, GapCode.SLOT_LOST, "wal_removed", 1.0)
ROWS = {"public.a": 80_000, "public.b": 40_000}


def table(name: str) -> dict[str, Any]:
    return {"schema_name": "public", "table_name": name}


WANTED = Wanted(
    {
        "one": WantedView("…", [table("a")], 1.0, "b"),
        "two": WantedView("…", [table("a"), table("b")], 1.0, "b"),
    }
)
LIVE = State(views={name: ViewStatus(ViewState.LIVE, "g", 1.0) for name in WANTED.views})


def with_one(status: ViewStatus) -> State:
    return State(views={**LIVE.views, "one": status})


def test_nothing_is_missing() -> None:
    assert not decide((), {}, LIVE, WANTED, ROWS).is_needed


def test_a_gap_needs_a_new_era_and_every_view_again() -> None:
    plan = decide((GAP,), {}, LIVE, WANTED, ROWS)
    assert plan.new_era
    assert "one, two" in plan.steps[-1].what
    assert [step.rows for step in plan.steps] == [0, 120_000, 120_000]
    assert plan.seconds > 120_000 / SNAPSHOT_ROWS_PER_S + 120_000 / BUILD_ROWS_PER_S


def test_without_views_the_log_alone_is_brought_back() -> None:
    plan = decide((GAP,), {}, State(), Wanted(), ROWS)
    assert plan.new_era
    assert len(plan.steps) == 2


def test_a_live_view_that_misses_a_number_needs_a_new_era() -> None:
    state = with_one(ViewStatus(ViewState.LIVE, "g", 1.0, "", "the canary says 8 after 6", 1.0, True))
    assert decide((), {}, state, WANTED, ROWS).new_era


def test_a_view_whose_records_are_gone_is_read_anew_and_no_other() -> None:
    state = with_one(ViewStatus(ViewState.PAUSED, "g", 1.0, f"{LOG_LOST}: expired", "gone", 1.0, True))
    plan = decide((), {}, state, WANTED, ROWS)
    assert (plan.new_era, plan.read_anew) == (False, ("one",))
    assert plan.steps[0].rows == 80_000
    assert "public.a" in plan.steps[0].what
    assert "public.b" not in plan.steps[0].what


def test_what_is_being_built_already_is_left_alone() -> None:
    state = with_one(ViewStatus(ViewState.BUILDING, "g", 1.0, "", "era 6 is over", 1.0, True))
    assert not decide((), {}, state, WANTED, ROWS).is_needed
    paused = with_one(ViewStatus(ViewState.PAUSED, "g", 1.0, "table public.a changed: -n integer"))
    assert not decide((), {}, paused, WANTED, ROWS).is_needed, "apply brings it back"


def test_who_waits_is_told_how_far_each_view_is() -> None:
    state = with_one(ViewStatus(ViewState.BUILDING, "h", 1.0))
    groups = {
        "g": GroupStatus(10, 10, is_live=True, is_following=False, era=7),
        "h": GroupStatus(5, 10, is_live=False, is_following=True, era=7),
    }
    both = State(views=state.views, groups=groups)
    assert not_live(WANTED.views, both, WANTED, 7) == ["one building 50%"]
    assert not_live(WANTED.views, both, WANTED, 8) == ["one waiting", "two waiting"], "those are of an era that is over"


def test_nobody_waits_for_what_a_person_has_to_do() -> None:
    """A view that somebody has paused is not built; one that somebody has to look at is, and is not shown."""
    groups = {"g": GroupStatus(10, 10, is_live=True, is_following=False, era=7)}
    for status, held in (
        (ViewStatus(ViewState.READY, "g", 1.0), []),
        (ViewStatus(ViewState.HELD, "g", 1.0), ["one"]),
        (ViewStatus(ViewState.BUILDING, "g", 1.0), ["one"]),
        (ViewStatus(ViewState.WAITING), ["one"]),
    ):
        state = State(views={"one": status}, groups=groups)
        assert not_live(["one"], state, WANTED, 7, held) == []
        [told] = left(["one"], state, held)
        assert ("headwater resume one" if held else "headwater apply --approve one") in told
    ready = State(views={"one": ViewStatus(ViewState.READY, "g", 1.0)}, groups=groups)
    assert not_live(["one"], ready, WANTED, 8) == ["one waiting"], "of an era that is over"


def test_who_waits_is_told_that_a_view_will_not_come() -> None:
    """One that could not be begun belongs to no group; before it was tried, what it was earlier says nothing."""
    refused = with_one(ViewStatus(ViewState.PAUSED, "", 1.0, "no key"))
    with pytest.raises(ViewError, match="one is paused"):
        not_live(["one"], refused, WANTED, 7)
    untried = with_one(ViewStatus(ViewState.PAUSED, "", 0.5, "no key"))
    assert not_live(["one"], untried, WANTED, 7) == ["one waiting"]
