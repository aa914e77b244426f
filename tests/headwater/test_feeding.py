"""What the terminal says of generations: who went back and who did not, and which could be gone back to."""

from __future__ import annotations

import json
import time
from pathlib import Path

import msgspec
import pytest

from headwater import cli, rebuilds, views_status
from headwater.deployment import Deployment
from headwater.settings import Settings
from headwater.stack.state import StackState
from headwater.views.place import Place
from views.generation import Generation, GenerationState
from views.maintain.book import Book
from views.maintain.orders import SinkAnswer, together
from views.maintain.registry import Registry, State
from views.rebuild import Origin, Rebuild, RebuildState
from views.sinks.lane import LaneState, SinkStatus


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    made = Place(Deployment.of(Settings(), StackState()), Registry(tmp_path / "state"), tmp_path)
    made.registry.folder.mkdir()
    monkeypatch.setattr(Place, "here", classmethod(lambda cls: made))
    return made


def test_who_went_back_and_who_did_not_is_told(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    went = SinkAnswer("cache", 1, True, "readers of the cache use generation 1 again")
    stays = SinkAnswer("search", 1, False, "generation 1 of the search is behind", "it is down")

    def answered(sinks: tuple[SinkAnswer, ...]) -> None:
        monkeypatch.setattr(rebuilds, "answered", lambda place, order: together(order, sinks))

    answered((went, stays))
    assert cli.run(["rollback", "cached"]) == 1
    told = capsys.readouterr().err
    assert "readers of the search of cached stay where they are" in told
    assert "cache: readers of the cache use generation 1 again" in told
    assert "search: generation 1 of the search is behind (it is down)" in told
    assert cli.run(["rollback", "cached", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["done"] == "readers of the cache use generation 1 again"
    assert [(each["sink"], each["is_done"], each["detail"]) for each in found["sinks"]] == [
        ("cache", True, ""),
        ("search", False, "it is down"),
    ]
    answered((stays,))
    assert cli.run(["rollback", "cached", "--sink", "search", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["fact"] == "generation 1 of the search is behind"
    answered((went,))
    assert cli.run(["switch", "cached"]) == 0
    assert "readers of the cache use generation 1 again, in " in capsys.readouterr().out


def test_a_standby_that_is_not_fed_is_told(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    now_s = time.time()
    kept = {"made_at_s": 1.0, "keep_until_s": now_s + 3600}
    standbys = [Generation("cached", sink, 1, GenerationState.STANDBY, 1.0, **kept) for sink in ("cache", "search")]
    live = [Generation("cached", sink, 2, GenerationState.LIVE, 1.0) for sink in ("cache", "search")]
    place.registry.note_book(Book((*standbys, *live)))
    shown = [SinkStatus("cached", sink, LaneState.RIDING, 2, next_offset=40) for sink in ("cache", "search")]
    down = SinkStatus(
        "cached", "search", LaneState.DOWN, 1, next_offset=5, reason="no room", stale="it is down",
        stale_since_s=now_s - 7_200,
    )  # fmt: skip
    beside = [SinkStatus("cached", "cache", LaneState.RIDING, 1, next_offset=37), down]
    place.registry.note(State(now_s, sinks=shown, beside=beside))
    assert cli.run(["generations", "cached"]) == 0
    told = capsys.readouterr().out
    assert "yes, 3 changes behind" in told
    assert "no for 2 h 0 min: it is down: no room" in told
    assert cli.run(["generations", "cached", "--json"]) == 0
    fed = {(each["sink"], each["number"]): each["fed"] for each in json.loads(capsys.readouterr().out)["generations"]}
    assert fed["cache", 1] == {"is_fed": True, "behind_changes": 3, "why_not": "", "since_s": 0.0}
    assert (fed["search", 1]["is_fed"], fed["search", 1]["behind_changes"], fed["search", 2]) == (False, 35, None)
    [finding] = [each for each in views_status.look(place.registry.folder)[1] if "generation" in each.name]
    assert (finding.level, finding.name) == ("warn", "generation 1 of the search of cached")
    assert finding.detail == "is standby, and not fed for 2 h 0 min: it is down: no room"
    held = SinkStatus("cached", "cache", LaneState.PAUSED, 2, reason="paused by ada")
    place.registry.note(State(now_s, sinks=[held, shown[1]]))
    assert cli.run(["generations", "cached"]) == 0
    told = capsys.readouterr().out
    assert "no: its sink is paused by ada" in told
    assert "no: nobody feeds it" in told


def test_a_rebuild_that_waits_for_somebody_is_told(place: Place) -> None:
    paused = Rebuild("r1", "cached", "search", 2, Origin.LOG, 1.0, state=RebuildState.PAUSED)
    by_itself = msgspec.structs.replace(paused, id="r2", reason="it cannot be verified now: Postgres is away")
    over = msgspec.structs.replace(by_itself, id="r3", state=RebuildState.CANCELLED)
    place.registry.note_book(Book(rebuilds=(paused, by_itself, over)))
    [finding] = [each for each in views_status.look(place.registry.folder)[1] if "rebuild" in each.name]
    assert (finding.level, finding.name) == ("warn", "rebuild r2 of the search of cached")
    assert finding.detail == "is paused: it cannot be verified now: Postgres is away"
    assert finding.hint == "headwater rebuild --resume r2"
