"""The bench of alerts: what it draws means the same to the matcher and to the evaluator, its object has every figure
that is promised, and Lucene Monitor is given the same subscriptions. No figure is judged."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from alerts.matcher import Matcher, Naive
from alerts.subscription import Entry
from headwater.bench import alerts as bench
from headwater.bench import conditions, lucene_monitor
from headwater.bench.alert_workload import Workload, product_watch, property_market
from headwater.bench.progress import Silent
from headwater.plain import plain
from headwater.stack.cache import Cache, default_folder
from search.index import decode_row

FIGURES = {
    "events_per_s", "p50_ms", "p99_ms", "matches_per_event", "candidates_per_event", "memory_mb", "build_s", "live_s"
}  # fmt: skip


@pytest.mark.parametrize("drawn", [property_market, product_watch])
def test_what_is_drawn_matches_as_the_evaluator_says(drawn: Callable[..., Workload], tmp_path: Path) -> None:
    workload, now = drawn(400, 60, seen=100), datetime.now(UTC)
    changes = bench.decoded(workload.changes, workload.definition)
    naive = Naive(workload.definition)
    for entry in workload.entries:
        naive.put(entry)
    seen = [decode_row(workload.definition, row) for row in workload.seen]
    found = Matcher.build(tmp_path, workload.definition, workload.entries, seen).match(changes, now)
    wanted = naive.match(changes, now)
    ours, theirs = (
        {*zip(each.delta.tolist(), each.subscription.tolist(), each.event.tolist(), strict=True)}
        for each in (found, wanted)
    )
    assert ours == theirs
    assert ours


def test_its_object_has_every_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    def alone(folder: Path, workload: Workload) -> list[bench.Ran]:
        return [bench.worked(folder, workload.definition, workload.changes, lambda: None)]

    monkeypatch.setattr(bench, "_spread", alone)
    plan = bench.AlertsPlan(sizes=(200,), events=100, lucene_sizes=())
    found = json.loads(json.dumps(plain(bench.run(conditions.machine([], ""), Silent(), plan))))
    for workload in ("property", "product_watch"):
        figures = found[workload]["200"]
        assert set(figures) >= FIGURES
        assert {figures[name] for name in bench.LUCENE} == {None}, "left out, and said so"
        assert figures["live_s"] > 0
    assert (found["lucene_monitor_events_per_s"], found["ratio"]) == (None, None)
    assert found["conditions"]["lucene"] == "left out"


@pytest.mark.parametrize("drawn", [property_market, product_watch])
def test_what_is_timed_until_it_is_live_are_queries_of_the_workload(
    drawn: Callable[..., Workload], tmp_path: Path
) -> None:
    workload = drawn(400, 60, seen=100)
    seen = [decode_row(workload.definition, row) for row in workload.seen]
    matcher = Matcher.build(tmp_path, workload.definition, workload.entries, seen)
    met = bench._met(matcher, workload)
    queries = {(entry.query, entry.watched) for entry in workload.entries}
    assert len({entry.id for entry, _ in met}) == len(met) > 0
    assert all(entry.id < 0 and (entry.query, entry.watched) in queries for entry, _ in met)
    for entry, change in met:
        alone = Matcher(workload.definition)
        alone.put(entry)
        assert entry.id in alone.match([change], datetime.now(UTC)).subscription
    assert all(bench._live(matcher, entry, change) > 0 for entry, change in met)


@pytest.fixture
def lucene() -> None:
    if why_not := lucene_monitor.why_not():
        pytest.skip(why_not)
    if not Cache(default_folder()).has(lucene_monitor.JARS):
        pytest.skip("Lucene Monitor is not in the cache: `headwater bench alerts` fetches it")


@pytest.mark.usefixtures("lucene")
@pytest.mark.parametrize(("drawn", "batch"), [(property_market, 0), (product_watch, 8)])
def test_lucene_monitor_finds_the_same_whatever_it_is_given_at_once(drawn: Callable[..., Workload], batch: int) -> None:
    workload = drawn(400, 60, seen=100)
    ran = lucene_monitor.run(workload, 20, 0.3, (batch,))
    wanted = {each for each in zip(*_met(workload), strict=True) if each[0] < 2 * 20}
    found = [*zip(ran.rows.tolist(), ran.subscriptions.tolist(), strict=True)]
    assert set(found) == wanted
    assert len(found) == len(wanted), "however often the rows were matched"
    assert (ran.batch, set(ran.tried)) == (batch, {batch})
    assert min(ran.events_per_s, ran.cpu_ms_per_event, ran.tried[batch]) > 0


@pytest.mark.parametrize("drawn", [property_market, product_watch])
def test_lucene_monitor_is_given_the_same_subscriptions(drawn: Callable[..., Workload]) -> None:
    """What the harness does with its files, but for distance and price, done here: it finds what the evaluator does."""
    workload = drawn(300, 40, seen=200)
    written = lucene_monitor.of(workload)
    lines = {entry.id: written.subscription(entry.id, entry.query) for entry in workload.entries}
    rows, subscriptions = _met(workload)
    assert rows
    for row, subscription in zip(rows, subscriptions, strict=True):
        given = workload.changes[row // 2][row % 2]
        assert given is not None
        terms = set(written.row(given).split("\t")[1].split(" "))
        assert any(_lets_through(way, terms) for way in lines[subscription].split("\t")[1:])


@pytest.mark.parametrize("drawn", [property_market, product_watch])
def test_what_lucene_monitor_finds_of_rows_becomes_events(drawn: Callable[..., Workload]) -> None:
    workload, now = drawn(400, 60, seen=100), datetime.now(UTC)
    naive = Naive(workload.definition)
    for entry in workload.entries:
        naive.put(entry)
    wanted = naive.match(bench.decoded(workload.changes, workload.definition), now)
    rows, subscriptions = (np.array(each, np.int32) for each in _met(workload))
    told = bench._told(workload, lucene_monitor.Ran(1, 1, 1, 0, {}, rows, subscriptions), len(workload.changes))
    assert told == {*zip(wanted.delta.tolist(), wanted.subscription.tolist(), strict=True)}


def _met(workload: Workload) -> tuple[list[int], list[int]]:
    """Every row that a subscription's query holds of, numbered as the harness is given them, and the subscription."""
    every = Naive(workload.definition)
    for entry in workload.entries:
        every.put(Entry(entry.id, entry.query))
    rows, subscriptions = list[int](), list[int]()
    for at, change in enumerate(workload.changes):
        for side, row in enumerate(change):
            found = every.match(bench.decoded([(None, row)] if row else [], workload.definition), datetime.now(UTC))
            rows += [2 * at + side] * len(found)
            subscriptions += found.subscription.tolist()
    return rows, subscriptions


def _lets_through(conjunction: str, terms: set[str]) -> bool:
    for literal in conjunction.split(" "):
        if literal[0] in "+-":
            field, _, values = literal[1:].partition(":")
            if (literal[0] == "+") is not any(f"{field}:{value}" in terms for value in values.split("|")):
                return False
    return True
