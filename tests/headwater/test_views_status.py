"""What people are told of the views: from the files that apply and the maintainer write, without either running."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cdc.gaps import Gap, GapCode, Gaps
from headwater import views_status
from headwater.plain import plain
from headwater.service.terminal import views_line
from views.maintain.registry import Epochs, GroupStatus, Registry, State, ViewState, ViewStatus, Wanted, WantedView
from views.maintain.staleness import stale_views
from views.maintain.statuses import Statuses
from views.sinks.lane import LaneState, SinkStatus

NOW_S = 1_800_000_000.0


def kept(folder: Path, *, at_s: float = NOW_S, applied_at_s: float = NOW_S - 600) -> Registry:
    registry = Registry(folder)
    names = ("card", "stats", "late", "new")
    registry.want(Wanted({name: WantedView("…", [], applied_at_s, "b") for name in names}))
    registry.note(
        State(
            at_s=at_s,
            views={
                "card": ViewStatus(ViewState.LIVE, "g1", applied_at_s),
                "stats": ViewStatus(ViewState.PAUSED, "g1", applied_at_s, "table public.t changed: -a integer"),
                "late": ViewStatus(ViewState.BUILDING, "g2", applied_at_s),
            },
            groups={
                "g1": GroupStatus(
                    100, 100, is_live=True, is_following=False, lsn="0/10", committed_at_us=int((NOW_S - 2) * 1e6)
                ),
                "g2": GroupStatus(25, 100, is_live=False, is_following=True),
            },
            epochs=Epochs(count=3, changes=7, behind_p50_ms=120.0, behind_p99_ms=300.0),
        )
    )
    return registry


def test_every_wanted_view_has_its_line(tmp_path: Path) -> None:
    kept(tmp_path)
    status, findings = views_status.look(tmp_path, NOW_S + 1)
    lines = {view.name: view for view in status.views}
    assert {name: view.state for name, view in lines.items()} == {
        "card": "live", "late": "building", "new": "waiting", "stats": "paused",
    }  # fmt: skip
    assert (lines["card"].behind_s, lines["card"].lsn) == (3.0, "0/10")
    assert lines["late"].progress == 0.25
    assert status.running
    assert [(f.level, f.name) for f in findings] == [("warn", "view stats")]
    assert "-a integer" in findings[0].detail
    told = views_line(status)
    assert told.startswith("1 of 4 live, late 25%")
    assert "120 ms" in told


def test_while_a_view_is_built_anew_it_is_what_readers_still_see(tmp_path: Path) -> None:
    registry = kept(tmp_path)
    state = registry.state()
    built = {state_: ViewStatus(state_, "g2", NOW_S, serving="g1") for state_ in (ViewState.BUILDING, ViewState.READY)}
    outlived = ViewStatus(ViewState.WAITING, serving="g1")
    for status in (*built.values(), outlived):
        registry.note(msgspec.structs.replace(state, views={"card": status}))
        [line] = [each for each in views_status.look(tmp_path, NOW_S + 1)[0].views if each.name == "card"]
        assert (line.state, line.group, line.behind_s, line.lsn) == (status.state, "g1", 3.0, "0/10")
        assert line.progress == (0.25 if status.group else None)


def test_a_view_is_stale_by_the_group_that_readers_are_served_from(tmp_path: Path) -> None:
    state = kept(tmp_path).state()
    groups = {
        "g1": msgspec.structs.replace(state.groups["g1"], era=7),
        "g2": msgspec.structs.replace(state.groups["g2"], era=8, is_put_back=True),
    }
    views = {
        "card": ViewStatus(ViewState.BUILDING, "g2", serving="g1"),
        "late": ViewStatus(ViewState.PAUSED, "g2", serving="g1"),
    }
    noted = State(views=views, groups=groups)
    assert stale_views(noted, Gaps()) == {}, "what is built is nobody's yet, paused or not"
    gap = Gap(7, GapCode.SLOT_LOST, "wal_removed", NOW_S - 90)
    assert stale_views(noted, Gaps((gap,))).keys() == {"card", "late"}


def test_who_is_paused_is_told_apart_from_who_is_read() -> None:
    built = ViewStatus(ViewState.BUILDING, "new", serving="old")
    views = Statuses({"card": built})
    views.paused("card", "old", "gone")
    assert (views["card"].state, views["card"].stale) == (ViewState.BUILDING, "it is paused: gone")
    views["card"] = built
    views.incomplete(["card"], "new", "a number is missing")
    views.paused("card", "new", "gone")
    assert (views["card"].state, views["card"].stale) == (ViewState.PAUSED, "")
    views.renew("card", ViewState.BUILDING, "newer", 2.0)
    assert (views["card"].serving, views.uses("old")) == ("old", True)
    views.shown("card")
    assert (views["card"].serving, views.uses("old")) == ("newer", False)
    views.lost("newer")
    assert (views["card"].state, views["card"].serving) == (ViewState.WAITING, "")


def test_a_view_of_a_log_with_a_gap_is_a_failure(tmp_path: Path) -> None:
    registry = kept(tmp_path)
    state = registry.state()
    groups = {name: msgspec.structs.replace(group, era=7) for name, group in state.groups.items()}
    registry.note(msgspec.structs.replace(state, groups=groups))
    registry.note_gaps(Gaps((Gap(7, GapCode.SLOT_LOST, "wal_removed", NOW_S - 90),)))
    status, findings = views_status.look(tmp_path, NOW_S + 1)
    stale = {view.name: view.stale for view in status.views}
    assert stale["card"] is not None
    assert stale["card"].is_gap
    told = [f for f in findings if f.name == "view card"]
    assert [(f.level, f.hint) for f in told] == [("fail", "headwater recover")]
    assert "wal_removed" in told[0].detail
    registry.note_gaps(Gaps((Gap(6, GapCode.SLOT_LOST, "wal_removed", NOW_S - 90),)))
    assert not any(f.level == "fail" for f in views_status.look(tmp_path, NOW_S + 1)[1]), "of an era that is over"


def test_what_a_person_has_paused_and_what_is_filled_before_its_readers_is_found(tmp_path: Path) -> None:
    registry = kept(tmp_path)
    state = registry.state()
    views = {**state.views, "card": ViewStatus(ViewState.HELD, "g1", 1.0, "paused by ada", stale_since_s=NOW_S - 60)}
    sinks = [
        SinkStatus("late", "cache", LaneState.FILLING, 1),
        SinkStatus("card", "search", LaneState.FILLING, 2, stale="it was emptied", stale_since_s=NOW_S - 5),
        SinkStatus("card", "cache", LaneState.PAUSED, 1, reason="paused by bob", stale="it is paused by bob"),
        SinkStatus("card", "warehouse", LaneState.DOWN, 1, reason="no room", stale="it was emptied"),
    ]
    registry.note(msgspec.structs.replace(state, views=views, sinks=sinks))
    findings = views_status.look(tmp_path, NOW_S)[1]
    assert [(f.level, f.name, f.detail, f.hint) for f in findings if f.name != "view stats"] == [
        ("warn", "view card", "is stale since 1 min 0 s: it is paused by ada", "headwater resume card"),
        ("warn", "cache of card", "is paused by bob", "headwater resume card --sink cache"),
        ("warn", "search of card", "is stale: it was emptied", "headwater views card"),
        ("warn", "warehouse of card", "is down: no room", "headwater views card"),
    ]


def test_a_maintainer_that_is_silent_is_told_first_as_starting_then_as_failed(tmp_path: Path) -> None:
    kept(tmp_path, at_s=NOW_S - 1000, applied_at_s=NOW_S - 60)
    status, findings = views_status.look(tmp_path, NOW_S)
    assert not status.running
    assert [f.level for f in findings if f.name == "views"] == ["warn"]
    _, findings = views_status.look(tmp_path, NOW_S + 100)
    assert [f.level for f in findings if f.name == "views"] == ["fail"]


def test_without_views_there_is_nothing_to_say(tmp_path: Path) -> None:
    status, findings = views_status.look(tmp_path, NOW_S)
    assert (status.views, findings) == ((), [])


def test_the_status_is_plain_json(tmp_path: Path) -> None:
    kept(tmp_path)
    told = plain(views_status.look(tmp_path, NOW_S)[0])
    assert isinstance(told, dict)
    assert told["epochs"]["changes"] == 7
