"""What a sweep found is noted, told in the status and the metrics, and forgotten when a later one is right."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from alerts import store
from alerts.rechecking import Told
from alerts.sink import Lacks
from alerts.sweep import Swept
from headwater import views_status
from headwater.alert_sweeps import broken_noted, lacking_noted, noted
from headwater.http.metrics import _alerts
from headwater.service import alerting, sweeping
from headwater.service.alerting import Alerting
from headwater.sweep_file import SweepFile, SweptView
from search.index import IndexDefinition, define
from tests.alerts.store.conftest import alerts_address, conn, connect  # noqa: F401 - fixtures
from tests.alerts.store.wishes import FIELDS, definition, wish
from views.maintain.registry import Registry, Wanted, WantedView
from views.sinks.sink import ViewShape

TOLD = Told(7, '{"id":1}', "entered", 5)
DIFFERS = Swept("listing", 10, 3, (TOLD,), (), 4, 9)
RIGHT = Swept("listing", 10, 3, (), (), 4, 0)


def looked(folder: Path) -> tuple[views_status.ViewsStatus, list[str]]:
    Registry(folder).want(Wanted({"listing": WantedView("", [], 0.0, "a")}))
    status, findings = views_status.look(folder)
    return status, [f"{each.level} {each.name} {each.detail} {each.hint}" for each in findings if "alerts" in each.name]


def test_a_difference_is_told_until_a_later_sweep_is_right(tmp_path: Path) -> None:
    file = SweepFile(tmp_path)
    first = noted(SweptView(), DIFFERS, 100)
    assert (first.since_us, first.next_search, first.missed) == (100, 9, 1)
    second = noted(first, DIFFERS, 200)
    assert (second.since_us, second.at_us) == (100, 200)
    file.note("listing", second)
    status, findings = looked(tmp_path)
    assert findings == [
        "warn alerts of listing are not what they should be: 1 missed, 0 wrong, such as entered of search 7"
        " headwater alerts sweep listing"
    ]
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for metric in _alerts(SimpleNamespace(views=status))  # type: ignore[arg-type]
        for sample in metric.samples
    }
    assert samples["headwater_alerts_differing", "listing", "missed"] == 1
    assert samples["headwater_alerts_swept_timestamp_seconds", "listing"] == 200 / 1e6
    file.note("listing", noted(second, RIGHT, 300))
    assert looked(tmp_path)[1] == []
    assert file.read()["listing"].since_us is None


def test_that_alerts_stood_still_is_told(tmp_path: Path) -> None:
    """Of when, as long as it is noted in their place."""
    file, hour_us = SweepFile(tmp_path), 3_600_000_000
    lacks = Lacks(490_000 * hour_us, 490_050 * hour_us, 490_060 * hour_us)
    file.note("listing", lacking_noted(noted(SweptView(), RIGHT, 100), lacks))
    assert looked(tmp_path)[1] == [
        "warn alerts of listing stood still: of what changed from 2025-11-24 16:00 to 2025-11-26 18:00 UTC some may"
        " never be told headwater views listing"
    ]
    file.note("listing", lacking_noted(file.read()["listing"], None))
    assert looked(tmp_path)[1] == []


def test_views_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    file = SweepFile(tmp_path)
    for view in ("listing", "house"):
        file.note(view, noted(SweptView(), DIFFERS, 100))
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
    fits = broken_noted(conn, SweptView(), definition())
    assert fits.broken == ()
    broken = broken_noted(conn, fits, without_price())
    assert broken.broken == (one.id, two.id)
    SweepFile(tmp_path).note("listing", broken)
    assert looked(tmp_path)[1] == [
        f"warn alerts of listing 2 saved searches tell nothing any more, such as {one.id}: it does not fit listing any"
        " more: no field price in listing headwater alerts list"
    ]
    monkeypatch.setattr(store, "of_view", lambda *_given: pytest.fail("all are looked through just once"))
    store.remove(conn, "ada", one.id)
    assert broken_noted(conn, broken, without_price()).broken == (two.id,)
    monkeypatch.undo()
    assert broken_noted(conn, broken, definition()).broken == ()


def test_a_sweep_is_a_process_of_its_own_and_says_why_it_could_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWATER_DATA_FOLDER", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    assert asyncio.run(sweeping.swept()) == "the embedded stack is not running\n"
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert asyncio.run(sweeping.swept()) == "it ended with code 1"


def test_a_sweep_that_is_under_way_is_ended_with_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    monkeypatch.setattr(alerting, "SWEEP_S", 0.0)
    monkeypatch.setattr(alerting, "swept", endless)
    given: Any = None

    async def run() -> None:
        over = asyncio.Event()
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            group.create_task(Alerting(given, given, "")._sweeping(over))
            await begun.wait()
            over.set()
        assert ended.is_set()

    asyncio.run(run())
