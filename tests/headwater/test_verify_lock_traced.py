"""`verify --lock` holds writers up, so it leaves a trace; a comparison that holds nobody up does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headwater import cli
from headwater.audit import os_actor
from headwater.audit_store import spool_file
from headwater.deployment import Deployment
from headwater.settings import Settings
from headwater.stack.state import StackState
from headwater.views import verify_view
from headwater.views.place import Place
from headwater.views.verify_view import Asking, ViewVerified
from views.maintain.registry import Registry


def test_a_lock_is_traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[Asking] = []

    def verify(_place: Place, _view: str, asking: Asking, **_: Any) -> ViewVerified:
        asked.append(asking)
        return ViewVerified(None, ())

    settings = Settings(data_folder=tmp_path)
    place = Place(Deployment.of(settings, StackState()), Registry(tmp_path), tmp_path)
    monkeypatch.setattr(Place, "here", classmethod(lambda cls: place))
    monkeypatch.setattr(verify_view, "verify_view", verify)

    assert cli.run(["verify", "card", "--json"]) == 0
    assert not spool_file(settings).exists()
    assert cli.run(["verify", "card", "--lock", "--json"]) == 0
    assert [each.lock for each in asked] == [False, True]
    told = [json.loads(line) for line in spool_file(settings).read_text().splitlines()]
    assert [(each["verb"], each["event"], each["actor"], each["arguments"]) for each in told] == [
        ("verify --lock", "began", os_actor(), {"view": "card"}),
        ("verify --lock", "done", os_actor(), {"view": "card"}),
    ]
