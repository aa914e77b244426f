"""The history of verification: what is wrong now follows from what runs found, and from what they did not look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater import views_status
from headwater.service.verifying import rest_s
from headwater.views import verify_history
from headwater.views.verify_history import VIEW, PlaceResult, VerifyHistory, VerifyRun, Why
from tests.headwater.test_views_status import NOW_S, kept

A, B = '{"id":1}', '{"id":2}'


def run(*places: PlaceResult, view: str = "card", at_us: int = 1) -> VerifyRun:
    return VerifyRun(view, Why.SAMPLE, "somebody", at_us, 0.5, places)


def wrong_keys(history: VerifyHistory) -> dict[str, set[str]]:
    return {place: set(keys) for place, keys in history.wrong().get("card", {}).items()}


def test_a_key_is_wrong_until_it_is_found_right(tmp_path: Path) -> None:
    history = VerifyHistory(tmp_path)
    history.add(
        run(PlaceResult("cache", 2, different=2), PlaceResult(VIEW, 2)),
        {"cache": [("different", A), ("missing", B)]},
        [A, B],
    )
    assert wrong_keys(history) == {"cache": {A, B}}
    history.add(run(PlaceResult("cache", 1), at_us=2), {}, ['{"id":9}'])
    assert wrong_keys(history) == {"cache": {A, B}}, "others were looked at"
    history.add(run(PlaceResult("cache", 1, different=1), at_us=3), {"cache": [("different", A)]}, [A, B])
    assert wrong_keys(history) == {"cache": {A}}
    assert history.wrong()["card"]["cache"][A].since_us == 1, "since it was first found"
    history.add(run(PlaceResult("cache", 0, note="it is down")), {}, None)
    assert wrong_keys(history) == {"cache": {A}}, "nobody looked"
    history.add(run(PlaceResult("cache", 40)), {}, None)
    assert history.wrong() == {}
    assert [each.began_at_us for each in history.runs("card")] == [1, 1, 3, 2, 1]
    assert history.runs("other") == []


def test_views_that_are_gone_have_nothing_wrong(tmp_path: Path) -> None:
    history = VerifyHistory(tmp_path)
    for view in ("card", "old"):
        history.add(run(PlaceResult("cache", 1, different=1), view=view), {"cache": [("different", A)]}, [A])
    history.keep_only(["card"])
    assert history.wrong().keys() == {"card"}


def test_the_oldest_go_when_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_history, "BYTES_MAX", 2_000)
    history = VerifyHistory(tmp_path)
    for number in range(50):
        history.add(run(PlaceResult(VIEW, 1), at_us=number))
    assert (tmp_path / verify_history.HISTORY).stat().st_size <= 2_000
    assert history.runs()[0].began_at_us == 49


def test_a_line_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    history = VerifyHistory(tmp_path)
    history.add(run(PlaceResult(VIEW, 1)))
    with (tmp_path / verify_history.HISTORY).open("ab") as out:
        out.write(b'{"view":"ca')
    assert len(history.runs()) == 1


def test_the_status_tells_it_with_the_command_that_helps(tmp_path: Path) -> None:
    kept(tmp_path)
    places = PlaceResult("cache", 2, different=1), PlaceResult(VIEW, 2, missing=1)
    VerifyHistory(tmp_path).add(run(*places), {"cache": [("different", A)], VIEW: [("missing", B)]}, [A, B])
    status, findings = views_status.look(tmp_path, NOW_S + 1)
    told = [(each.level, each.name, each.hint) for each in findings if "stats" not in each.name]
    assert told == [
        ("warn", "cache of card", "headwater repair card"),
        ("fail", "view card", "headwater verify card --repair"),
    ]
    assert [(each.place, each.rows) for each in status.wrong] == [("cache", 1), (VIEW, 1)]


def test_the_pause_keeps_the_share_of_a_core() -> None:
    spent_s = 0.3
    assert spent_s / (spent_s + rest_s(spent_s, 1.5)) == pytest.approx(0.015)
