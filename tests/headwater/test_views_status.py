"""What people are told of the views: from the files that apply and the maintainer write, without either running."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cdc.gaps import Gap, GapCode, Gaps
from headwater import views_status
from headwater.plain import plain
from headwater.service.terminal import views_line
from views.maintain.registry import Epochs, GroupStatus, Registry, State, ViewState, ViewStatus, Wanted, WantedView

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
