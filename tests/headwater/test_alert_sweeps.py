"""What sweeps found is noted and told until a person acknowledges it; that none came about is told, too."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest
import typer
from typer.testing import CliRunner

from alerts import store
from alerts.rechecking import Told
from alerts.sink import Lacks
from alerts.sweep import Swept
from cdc.errors import ConfigurationError, SourceError
from headwater import views_status
from headwater.alert_sweeps import Sweeps, broken_noted, broken_of, each_swept, lacking_noted, noted
from headwater.cli import alerts_checks
from headwater.http.metrics import _alerts
from headwater.service import alerting, sweeping
from headwater.service.alerting import Alerting
from headwater.sweep_file import DIFFERENCES_MAX, LATE_S, Difference, SweepFile, SweptView
from search.index import IndexDefinition, define
from tests.alerts.store.conftest import alerts_address, conn, connect  # noqa: F401 - fixtures
from tests.alerts.store.wishes import FIELDS, definition, wish
from views.maintain.registry import Registry, State, ViewState, ViewStatus, Wanted, WantedView
from views.sinks.lane import LaneState, SinkStatus
from views.sinks.sink import ViewShape

TOLD = Told(7, '{"id":1}', "entered", 5)
DIFFERS = Swept("listing", 10, 3, (TOLD,), (), 4, 9)
RIGHT = Swept("listing", 10, 3, (), (), 4, 0)


def looked(folder: Path, now_s: float | None = None) -> tuple[views_status.ViewsStatus, list[str]]:
    Registry(folder).want(Wanted({"listing": WantedView("", [], 0.0, "a")}))
    status, findings = views_status.look(folder, now_s)
    return status, [f"{each.level} {each.name} {each.detail} {each.hint}" for each in findings if "alerts" in each.name]


def test_a_difference_is_told_until_it_is_acknowledged(tmp_path: Path) -> None:
    """Not only until the next sweep, which looks at other changes and finds nothing wrong with them."""
    file = SweepFile(tmp_path)
    for at_us, found in ((100, DIFFERS), (200, DIFFERS), (300, RIGHT)):
        file.note("listing", lambda held, at_us=at_us, found=found: noted(held, found, at_us))
        status, findings = looked(tmp_path)
        assert findings == [
            "warn alerts of listing are not what they should be: 1 missed, 0 wrong, such as entered of search 7"
            " headwater alerts sweep listing"
        ]
    assert file.read()["listing"].differences == (Difference("missed", 7, "entered", 5, 100),)
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for metric in _alerts(SimpleNamespace(views=status))  # type: ignore[arg-type]
        for sample in metric.samples
    }
    assert samples["headwater_alerts_differing", "listing", "missed"] == 1
    assert samples["headwater_alerts_swept_timestamp_seconds", "listing"] == 300 / 1e6
    assert (file.acknowledge("listing"), file.acknowledge("listing"), file.acknowledge("house")) == (1, 0, 0)
    assert looked(tmp_path)[1] == []
    assert file.read()["listing"].at_us == 300
    file.note("listing", lambda held: noted(held, DIFFERS, 400))
    assert looked(tmp_path)[1] == [], "a quiet view's newest changes are the same in the next sweep, and it is known"


def test_differences_are_bounded_and_end_with_what_is_kept(tmp_path: Path) -> None:
    def of(*versions: int) -> Swept:
        return Swept("listing", 10, 3, (), tuple(Told(7, "", "left", version) for version in versions))

    held = noted(SweptView(), of(*range(DIFFERENCES_MAX)), 100, keep_s=1)
    assert noted(held, of(DIFFERENCES_MAX), 200, keep_s=1).differences == held.differences
    later = noted(held, of(1), 1_000_101, keep_s=1)
    assert later.differences == (Difference("wrong", 7, "left", 1, 1_000_101),)
    told = SweepFile(tmp_path)
    told.note("listing", lambda _: later)
    assert b"id" not in (tmp_path / "swept.json").read_bytes(), "a key may say who somebody is"


def test_what_came_since_is_not_acknowledged_with_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, read = SweepFile(tmp_path), SweepFile.read
    file.note("listing", lambda held: noted(held, DIFFERS, 100))

    def overtaken(mine: SweepFile) -> dict[str, SweptView]:
        found = read(mine)
        monkeypatch.setattr(SweepFile, "read", read)
        file.note("listing", lambda held: noted(held, Swept("listing", 1, 0, (), (TOLD,)), 200))
        return found

    monkeypatch.setattr(SweepFile, "read", overtaken)
    assert file.acknowledge("listing") == 1
    assert [each.kind for each in file.read()["listing"].differences] == ["wrong"]


def test_a_person_acknowledges_by_name_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    acted, settings = list[Any](), SimpleNamespace(views_state=tmp_path)
    monkeypatch.setattr("headwater.settings.load", lambda: settings)
    monkeypatch.setattr(alerts_checks, "acting", lambda verb, **given: acted.append((verb, given)) or nullcontext())
    SweepFile(tmp_path).note("listing", lambda held: noted(held, DIFFERS, 100))
    app = typer.Typer()
    app.command()(alerts_checks.sweep)
    assert isinstance(CliRunner().invoke(app, ["--acknowledge"]).exception, ConfigurationError)
    monkeypatch.setattr("headwater.alert_sweeps.sweep", lambda *_: Sweeps([RIGHT], {}))
    monkeypatch.setattr("headwater.deployment.Deployment.resolve", lambda _: None)
    shown = CliRunner().invoke(app, ["listing"])
    assert shown.exit_code == 0, "what it looked at is right"
    assert "missed: entered of search 7, offset 5, found 1970-01-01 00:00 UTC" in shown.output
    assert "1 difference is told no more" in CliRunner().invoke(app, ["listing", "--acknowledge"]).output
    assert acted == [("alerts acknowledge", {"views": ["listing"]})]
    assert "found" not in CliRunner().invoke(app, ["listing"]).output


def test_that_alerts_stood_still_is_told(tmp_path: Path) -> None:
    """Of when, as long as it is noted in their place."""
    file, hour_us = SweepFile(tmp_path), 3_600_000_000
    lacks = Lacks(490_000 * hour_us, 490_050 * hour_us, 490_060 * hour_us)
    file.note("listing", lambda held: lacking_noted(noted(held, RIGHT, 100), lacks))
    assert looked(tmp_path)[1] == [
        "warn alerts of listing stood still: of what changed from 2025-11-24 16:00 to 2025-11-26 18:00 UTC some may"
        " never be told headwater views listing"
    ]
    file.note("listing", lambda held: lacking_noted(held, None))
    assert looked(tmp_path)[1] == []


def test_views_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    file = SweepFile(tmp_path)
    for view in ("listing", "house"):
        file.note(view, lambda held: noted(held, DIFFERS, 100))
    file.keep_only(["listing"])
    assert [*file.read()] == ["listing"]


def without_price() -> IndexDefinition:
    fields = tuple(field for field in FIELDS if field.name != "price")
    return define(ViewShape("market", "listing", fields, ("id",)))


@pytest.mark.stack
def test_broken_searches_are_counted_when_the_view_has_changed(
    conn: psycopg.Connection,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = (store.create(conn, "ada", wish(query="price:..5")) for _ in range(2))
    store.create(conn, "ada", wish(query="price:..5", paused=True))
    store.create(conn, "ada", wish())

    def swept(last: SweptView, definition: IndexDefinition) -> SweptView:
        return broken_noted(last, broken_of(conn, last, definition))

    fits = swept(SweptView(), definition())
    assert fits.broken == ()
    broken = swept(fits, without_price())
    assert broken.broken == (one.id, two.id)
    SweepFile(tmp_path).note("listing", lambda _: broken)
    assert looked(tmp_path)[1] == [
        f"warn alerts of listing 2 saved searches tell nothing any more, such as {one.id}: it does not fit listing any"
        " more: no field price in listing headwater alerts list"
    ]
    monkeypatch.setattr(store, "of_view", lambda *_given: pytest.fail("all are looked through just once"))
    store.remove(conn, "ada", one.id)
    assert swept(broken, without_price()).broken == (two.id,)
    monkeypatch.undo()
    assert swept(broken, definition()).broken == ()


def test_a_sweep_is_a_process_of_its_own_and_says_why_it_could_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWATER_DATA_FOLDER", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    assert asyncio.run(sweeping.swept()) == ["the embedded stack is not running"]
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert asyncio.run(sweeping.swept()) == ["it ended with code 1"]
    for said in ("echo >&2; echo 'no memory' >&2", "echo 'listing: gone'; echo 'no memory' >&2; echo >&2"):
        (failing := tmp_path / "failing").write_text(f"#!/bin/sh\n{said}\nexit 3\n")
        failing.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(failing))
        *told, ended = asyncio.run(sweeping.swept())
        assert (told, ended) == (["listing: gone"] * ("gone" in said), "it ended with code 3: no memory")


def kept(folder: Path, state: ViewState, at_s: float) -> None:
    """A view as its maintainer says that it is."""
    sinks = [SinkStatus("listing", "alerts", LaneState.RIDING)]
    Registry(folder).note(State(at_s, views={"listing": ViewStatus(state)}, sinks=sinks))


def test_a_sweep_that_does_not_come_about_is_told(tmp_path: Path) -> None:
    """By whoever looks, after some time since there should have been one: another view, or everything, may fail."""
    (tmp_path / "views").mkdir()
    folder, begun_us, second_us = tmp_path / "views", 10_000_000_000_000, 1_000_000
    service = of(folder)
    kept(folder, ViewState.LIVE, 0)
    file = SweepFile(folder)

    def told(after_s: float) -> list[str]:
        kept(folder, ViewState.LIVE, now_s := begun_us / 1e6 + after_s)
        return looked(folder, now_s)[1]

    service._await_sweeps(anew=True)
    assert file.read()["listing"].awaited_us > 0
    file.await_sweeps(["listing"], begun_us, anew=True)
    service._await_sweeps(anew=False)
    assert file.read()["listing"].awaited_us == begun_us, "it was live before"
    assert (told(LATE_S), told(-LATE_S)) == ([], [])
    late = "warn alerts of listing were not looked at once more for 30 min 1 s"
    assert told(LATE_S + 1) == [f"{late} headwater alerts sweep listing"]

    def fail(view: str) -> Swept:
        if view == "listing":
            raise SourceError("lost the source database")
        return RIGHT

    found, failed = each_swept(["house", "listing", "street"], fail, file)
    assert (len(found), [*failed]) == (2, ["listing"])
    assert told(LATE_S + 1) == [f"{late}: lost the source database headwater alerts sweep listing"]
    file.note("listing", lambda held: noted(held, RIGHT, begun_us + second_us))
    assert told(LATE_S + 1) == []
    assert told(LATE_S + 2) == [f"{late} headwater alerts sweep listing"]


def test_a_row_that_nobody_can_read_keeps_no_other_view_waiting(tmp_path: Path) -> None:
    def swept(view: str) -> Swept:
        if view == "house":
            raise ValueError("a number of 5,000 digits")
        return RIGHT

    file = SweepFile(tmp_path)
    sweeps = each_swept(["house", "listing"], swept, file)
    assert (sweeps.found, [*sweeps.failed]) == ([RIGHT], ["house"])
    assert "5,000 digits" in file.read()["house"].failed


def test_nobody_waits_for_sweeps_while_nothing_is_live_or_running(tmp_path: Path) -> None:
    file, now_s = SweepFile(tmp_path), time.time()
    file.await_sweeps(["listing"], 100, anew=True)
    kept(tmp_path, ViewState.LIVE, 0)
    assert [each for each in looked(tmp_path, now_s)[1] if "looked" in each] == []
    kept(tmp_path, ViewState.HELD, now_s)
    of(tmp_path)._await_sweeps(anew=False)
    assert looked(tmp_path, now_s)[1] == []
    file.await_sweeps(["listing"], 100, anew=False)
    file.await_sweeps(["listing"], 200, anew=True)
    assert file.read()["listing"].awaited_us == 200


def of(folder: Path) -> Alerting:
    given: Any = SimpleNamespace(settings=SimpleNamespace(views_state=folder))
    return Alerting(given, cast(Any, None), "")


def test_why_a_sweep_did_not_come_about_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    over = asyncio.Event()

    async def failing() -> list[str]:
        over.set()
        return ["listing: lost the source database", "it ended with code 1"]

    monkeypatch.setattr(alerting, "SWEEP_S", 0.0)
    monkeypatch.setattr(alerting, "swept", failing)
    asyncio.run(of(tmp_path)._sweeping(over))
    said = [(each.levelname, cast(Any, each.msg)["fact"]) for each in caplog.records if each.name == "alerts"]
    assert said == [("WARNING", "listing: lost the source database"), ("WARNING", "it ended with code 1")]


def test_a_sweep_that_is_under_way_is_ended_with_everything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless() -> list[str]:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return []

    monkeypatch.setattr(alerting, "SWEEP_S", 0.0)
    monkeypatch.setattr(alerting, "swept", endless)

    async def run() -> None:
        over = asyncio.Event()
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            group.create_task(of(tmp_path)._sweeping(over))
            await begun.wait()
            over.set()
        assert ended.is_set()

    asyncio.run(run())
