"""The thread that tells people: whatever fails, it is begun again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.service import alerting
from headwater.service.alerting import Alerting


class _Idle:
    """An engine, a store: nothing to do."""

    def __init__(self, *_given: object) -> None:
        pass

    async def run(self, over: asyncio.Event) -> None:
        await over.wait()

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("failure", [KeyError("a fault of ours"), ValueError("unreadable")])
def test_it_goes_on_after_any_failure(monkeypatch: pytest.MonkeyPatch, failure: Exception, tmp_path: Path) -> None:
    begun = []

    async def notifying(_self: Alerting, _engine: Any, stopping: asyncio.Event, over: asyncio.Event) -> None:
        begun.append(len(begun))
        if len(begun) == 1:
            raise failure
        stopping.set()
        over.set()

    monkeypatch.setattr(Alerting, "_notifying", notifying)
    monkeypatch.setattr(alerting, "channels", lambda *_: {})
    monkeypatch.setattr(alerting, "delivery_limits", lambda _: None)
    monkeypatch.setattr(alerting, "PostgresStore", _Idle)
    monkeypatch.setattr(alerting, "Engine", _Idle)
    monkeypatch.setattr(alerting, "AGAIN_S", 0.0)
    settings = SimpleNamespace(views_state=tmp_path / "views")
    (tmp_path / "views").write_text("no folder: what is noted of sweeps keeps nobody from being told")
    deployment: Any = SimpleNamespace(postgres=None, settings=settings)

    async def run() -> None:
        async with asyncio.timeout(10):
            await Alerting(deployment, None, "").run(asyncio.Event())  # type: ignore[arg-type]

    asyncio.run(run())
    assert begun == [0, 1]
