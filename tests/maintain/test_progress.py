"""How far a group is when it is opened again, and what it may tell from there. Without Kafka and Spark."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from views.maintain import contents
from views.maintain.progress import Progress
from views.maintain.publisher import Frontier
from views.maintain.runner import PROGRESS, GroupRunner


class Told:
    """What the group publishes; it was the last to do so."""

    def __init__(self, offset: int) -> None:
        self.frontiers = {"v": Frontier("v", 1, offset, "0/1", None, 0, "a")}
        self.published: list[str] = []

    def publish(self, told: dict[str, Any], *_more: object, **_how: object) -> list[object]:
        self.published += told
        return []


def group(folder: Path, published: int, keep_until_s: float = 0.0) -> Any:
    runner: Any = GroupRunner.__new__(GroupRunner)
    spec = SimpleNamespace(id="a", start=0, keep_until_s=keep_until_s)
    runner.group = SimpleNamespace(folder=folder, spec=spec, live=["v"])
    runner._publisher, runner.lock = Told(published), threading.RLock()
    runner.on_published = lambda published: None
    return runner


def opened(folder: Path, written: Progress, published: int, keep_until_s: float) -> Progress:
    (folder / PROGRESS).write_bytes(msgspec.json.encode(written))
    found: Progress = group(folder, published, keep_until_s)._known_progress()
    return found


@pytest.mark.parametrize("published", [10, 20, 30])
def test_one_that_went_live_and_was_cut_off_is_live(tmp_path: Path, published: int) -> None:
    found = opened(tmp_path, Progress(20), published, 0.0)
    assert (found.is_live, found.offset) == (True, max(20, published))


def test_one_that_stands_by_is_not_live_whatever_it_published_last(tmp_path: Path) -> None:
    """What it has read since was told by nobody: live there, nobody would ever hear of it."""
    assert opened(tmp_path, Progress(20), 10, 1e12) == Progress(20)


def test_what_readers_left_tells_no_row_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row as it was there would follow the one that they have now."""
    monkeypatch.setattr(contents, "again", lambda _group, _view, keys: keys)
    runner = group(tmp_path, 20)
    for is_live in (False, True):
        runner.progress = Progress(20, is_live=is_live)
        assert runner.tell_again("v", []) is is_live
        assert runner._publisher.published == ["v"] * is_live
