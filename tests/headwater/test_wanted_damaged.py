"""`wanted.json` that cannot be read: what its error says to do does help, and nothing is dropped on the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdc.errors import StateError
from headwater import cli
from headwater.service.kept_child import KeptChild
from headwater.service.maintaining import Maintaining
from headwater.settings import Settings
from headwater.views.place import Place
from headwater.views_status import look
from tests.headwater.test_views_cli import ALBUM, CARD, CITIES, place  # noqa: F401  # a fixture
from views.maintain.registry import WANTED, Registry, State, ViewState, ViewStatus


@pytest.fixture
def damaged(place: Place) -> Place:  # noqa: F811
    """Its views are live, and the file is cut off."""
    assert cli.run(["apply", "--no-wait"]) == 0
    wanted = place.registry.wanted()
    live = {name: ViewStatus(ViewState.LIVE, "g", view.applied_at_s) for name, view in wanted.views.items()}
    place.registry.note(State(views=live))
    file = place.registry.folder / WANTED
    file.write_bytes(file.read_bytes()[:40])
    return place


def test_its_hint_helps(damaged: Place, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(StateError) as caught:
        damaged.registry.wanted()
    with pytest.raises(StateError, match=WANTED):
        look(damaged.registry.folder)
    assert caught.value.hint.startswith("headwater apply: ")
    assert cli.run(["plan"]) == 2
    assert cli.run(["apply", "--no-wait"]) == 0
    texts = {name: view.text for name, view in damaged.registry.wanted().views.items()}
    assert texts == {"card": CARD, "cities": CITIES}
    assert look(damaged.registry.folder)[0].views
    capsys.readouterr()
    assert cli.run(["plan"]) == 0


def test_a_file_that_is_gone_drops_nothing(damaged: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Who wants no views any more says so by an empty one."""
    (damaged.registry.folder / WANTED).unlink()
    with pytest.raises(StateError, match="is gone") as caught:
        damaged.registry.wanted()
    assert (caught.value.detail, caught.value.hint[:16]) == ("views are kept: card, cities", "headwater apply:")
    assert cli.run(["apply", "--no-wait"]) == 0
    assert damaged.registry.wanted().views.keys() == {"card", "cities"}


@pytest.mark.parametrize("words", [["--only", "card"], []])
def test_what_is_kept_and_not_declared_is_not_dropped_by_the_way(
    damaged: Place, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    if not words:
        (damaged.folder / "deep" / "cities.sql").write_text(ALBUM)
    before = (damaged.registry.folder / WANTED).read_bytes()
    capsys.readouterr()
    assert cli.run(["apply", "--no-wait", *words, "--json"]) == 1
    told = json.loads(capsys.readouterr().out.strip().split("\n}\n")[-1])
    assert "does not declare cities" in told["error"]["detail"]
    assert (damaged.registry.folder / WANTED).read_bytes() == before


def test_what_no_file_declares_can_be_dropped(damaged: Place) -> None:
    (damaged.folder / "deep" / "cities.sql").unlink()
    assert cli.run(["apply", "--no-wait"]) == 1
    assert cli.run(["apply", "--no-wait", "--drop", "--yes"]) == 0
    assert damaged.registry.wanted().views.keys() == {"card"}


def test_a_review_is_refused(damaged: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["apply", "--no-wait", "--review"]) == 1
    assert "without --review" in capsys.readouterr().err


def test_everything_else_stays_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply needs the servers that `headwater up` keeps."""
    asked: list[bool] = []
    monkeypatch.setattr(KeptChild, "mend", lambda self, *, is_wanted=True: asked.append(is_wanted))
    settings = Settings(data_folder=tmp_path)
    registry = Registry(settings.views_state)
    registry.folder.mkdir(parents=True)
    (registry.folder / WANTED).write_bytes(b'{"views":')
    Maintaining(settings).mend()
    assert asked == [False]
