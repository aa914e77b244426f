"""`headwater bench alerts`: deltas a second against many subscriptions, beside Lucene Monitor on the same ones.

Two processes map one base and take half the events each. A rate is from rows as JSON to arrays of matches, in batches;
a latency is of one event by itself. What the matcher and Lucene Monitor find is compared, event by event.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import psutil

from alerts.matcher import Matcher, Matches
from alerts.matcher.events import AFTER, BEFORE, event_bits
from alerts.matcher.events import Change as Event
from alerts.subscription import Entry
from cdc.errors import StackError
from headwater.bench import lucene_monitor
from headwater.bench.alert_workload import Change, Workload, product_watch, property_market
from headwater.bench.conditions import Machine
from headwater.bench.figures import percentile
from headwater.bench.progress import Progress
from search.index import IndexDefinition, decode_row

PROCESSES: Final = 2
BATCH_EVENTS: Final = 256
"""An epoch's worth."""
WARM_UP_EVENTS: Final = 512
SINGLE_EVENTS_MAX: Final = 500
WATCH_TIMES: Final = 10
"""So many more events of products: they are so quick that as many would be over before a clock tells much."""
LIVE_TRIES: Final = 9
LIVE_EVENTS: Final = 256
"""The last ones: among them are events that a query of the workload is to be told of."""
RESULT_WAIT_S_MAX: Final = 1_800
LUCENE: Final = (
    "lucene_monitor_events_per_s", "lucene_monitor_build_s", "lucene_monitor_events", "lucene_monitor_cpu_ms_per_event",
    "lucene_monitor_batch", "lucene_monitor_tried_cpu_ms", "matches_compared", "ratio", "cpu_ratio",
)  # fmt: skip
"""None where it was left out or failed."""
_MB: Final = 1e6


@dataclass(frozen=True, slots=True)
class AlertsPlan:
    sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    events: int = 8_000
    lucene_sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    """Empty to leave Lucene Monitor out."""
    lucene_events: int = 1_000
    """That it has to match at least, and whose matches are compared."""
    lucene_seconds: float = lucene_monitor.SECONDS
    """Of warming up, and of measuring, at the least."""


@dataclass(frozen=True, slots=True)
class AlertsConditions:
    machine: Machine
    plan: AlertsPlan
    processes: int
    batch_events: int
    lucene: str
    """Version and tuning, or why it was left out."""
    lucene_batches: dict[str, dict[str, str]]
    """By workload and size: how many rows it was given at once, the best of some."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What one process did."""

    took_s: float
    cpu_s: float
    single_ms: list[float]
    matches: int
    candidates: int
    pss_mb: float


def run(machine: Machine, progress: Progress, plan: AlertsPlan) -> dict[str, Any]:
    found: dict[str, Any] = {"property": {}, "product_watch": {}}
    told = "left out" if not plan.lucene_sizes else lucene_monitor.why_not() or lucene_monitor.TUNING
    for size in plan.sizes:
        for made, times in ((property_market, 1), (product_watch, WATCH_TIMES)):
            progress.step(f"drawing {size:,} subscriptions of {made.__name__}")
            workload = made(size, times * plan.events)
            with TemporaryDirectory(prefix="headwater-alerts-") as folder:
                figures, matches = _measure(Path(folder), workload, progress)
            figures |= dict.fromkeys(LUCENE)
            if size in plan.lucene_sizes and told == lucene_monitor.TUNING:
                progress.step(f"Lucene Monitor with {size:,}")
                figures |= _lucene(workload, matches, figures, plan)
            found[workload.name][str(size)] = figures
    last = [each for each in found["property"].values() if each["ratio"] is not None][-1:]
    batches = {
        name: {size: each["lucene_monitor_batch"] for size, each in sizes.items() if each["lucene_monitor_batch"]}
        for name, sizes in found.items()
    }
    return {
        **found,
        "lucene_monitor_events_per_s": last[0]["lucene_monitor_events_per_s"] if last else None,
        "ratio": last[0]["ratio"] if last else None,
        "conditions": AlertsConditions(machine, plan, PROCESSES, BATCH_EVENTS, told, batches),
    }


def _measure(folder: Path, workload: Workload, progress: Progress) -> tuple[dict[str, Any], Matches]:
    progress.step(f"building the base of {len(workload.entries):,}")
    seen = [decode_row(workload.definition, row) for row in workload.seen]
    began, cpu = time.perf_counter(), time.process_time()
    matcher = Matcher.build(folder, workload.definition, workload.entries, seen)
    build_s, build_cpu_s = time.perf_counter() - began, time.process_time() - cpu
    lives = [_live(matcher, entry, change) for entry, change in _met(matcher, workload)]
    progress.step(f"matching {len(workload.changes):,} events in {PROCESSES} processes")
    runs = _spread(folder, workload)
    events = len(workload.changes)
    single = sorted(each for ran in runs for each in ran.single_ms)
    figures = {
        "events_per_s": round(events / max(ran.took_s for ran in runs), 1),
        "cpu_ms_per_event": round(sum(ran.cpu_s for ran in runs) / events * 1000, 4),
        "p50_ms": round(percentile(single, 50), 3),
        "p99_ms": round(percentile(single, 99), 3),
        "matches_per_event": round(sum(ran.matches for ran in runs) / events, 2),
        "candidates_per_event": round(sum(ran.candidates for ran in runs) / events, 1),
        "memory_mb": round(sum(file.stat().st_size for file in folder.rglob("*.npy")) / _MB, 1),
        "workers_mb": round(sum(ran.pss_mb for ran in runs), 1),
        "build_s": round(build_s, 2),
        "build_cpu_s": round(build_cpu_s, 2),
        "live_s": round(statistics.median(lives), 4) if lives else None,
    }
    found = Matcher.open(folder, workload.definition)
    return figures, found.match(decoded(workload.changes, workload.definition), datetime.now(UTC))


def _met(matcher: Matcher, workload: Workload) -> list[tuple[Entry, Event]]:
    """Queries of the workload, each under an id that is not in use, with an event that it is to be told of."""
    changes = decoded(workload.changes[-LIVE_EVENTS:], workload.definition)
    found = matcher.match(changes, datetime.now(UTC))
    events, first = np.unique(found.delta, return_index=True)
    pairs = dict(zip(found.subscription[first].tolist(), events.tolist(), strict=True))
    entries = islice((entry for entry in workload.entries if entry.id in pairs), LIVE_TRIES)
    return [(replace(entry, id=-1 - number), changes[pairs[entry.id]]) for number, entry in enumerate(entries)]


def _live(matcher: Matcher, entry: Entry, change: Event) -> float:
    """From a subscription to its first match."""
    matcher.match([change], datetime.now(UTC))
    began = time.perf_counter()
    matcher.put(entry)
    found = matcher.match([change], datetime.now(UTC))
    took = time.perf_counter() - began
    if entry.id not in found.subscription:
        raise StackError("a subscription was not live at once")
    return took


def decoded(changes: Sequence[Change], definition: IndexDefinition) -> list[tuple[Any, Any]]:
    def row(given: bytes | None) -> Any:
        return None if given is None else decode_row(definition, given)

    return [(row(before), row(after)) for before, after in changes]


def _spread(folder: Path, workload: Workload) -> list[Ran]:
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(PROCESSES), context.Queue()
    parts = [workload.changes[number::PROCESSES] for number in range(PROCESSES)]
    processes = [
        context.Process(target=_work, args=(str(folder), workload.definition, part, start, results), daemon=True)
        for part in parts
    ]
    for process in processes:
        process.start()
    made = [results.get(timeout=RESULT_WAIT_S_MAX) for _ in processes]
    for process in processes:
        process.join()
    return made


def _work(folder: str, definition: IndexDefinition, changes: list[Change], start: Any, results: Any) -> None:
    results.put(worked(Path(folder), definition, changes, start.wait))


def worked(folder: Path, definition: IndexDefinition, changes: list[Change], together: Callable[[], object]) -> Ran:
    """One process' part. `together` waits for the others."""
    matcher, now = Matcher.open(folder, definition), datetime.now(UTC)
    matcher.match(decoded(changes[:WARM_UP_EVENTS], definition), now)
    before, matches = matcher.candidates, 0
    together()
    began, cpu = time.perf_counter(), time.process_time()
    for at in range(0, len(changes), BATCH_EVENTS):
        matches += len(matcher.match(decoded(changes[at : at + BATCH_EVENTS], definition), now))
    took_s, cpu_s, candidates = time.perf_counter() - began, time.process_time() - cpu, matcher.candidates - before
    together()
    single = [_single(matcher, change, definition, now) for change in changes[:SINGLE_EVENTS_MAX]]
    pss_mb = psutil.Process(os.getpid()).memory_full_info().pss / _MB
    return Ran(took_s, cpu_s, single, matches, candidates, pss_mb)


def _single(matcher: Matcher, change: Change, definition: IndexDefinition, now: datetime) -> float:
    began = time.perf_counter()
    matcher.match(decoded([change], definition), now)
    return (time.perf_counter() - began) * 1000


def _lucene(workload: Workload, matches: Matches, figures: dict[str, Any], plan: AlertsPlan) -> dict[str, Any]:
    some = min(plan.lucene_events, len(workload.changes))
    try:
        ran = lucene_monitor.run(workload, some, plan.lucene_seconds)
    except lucene_monitor.Failed as error:
        return {"lucene_monitor_failed": error.summary}
    chosen = matches.delta < some
    ours = {*zip(matches.delta[chosen].tolist(), matches.subscription[chosen].tolist(), strict=True)}
    theirs = _told(workload, ran, some)
    if ours != theirs:
        raise StackError(
            "the matcher and Lucene Monitor found different matches",
            detail=f"{len(ours - theirs)} only by the matcher, {len(theirs - ours)} only by Lucene, of {len(ours)}",
        )
    return {
        "lucene_monitor_events_per_s": round(ran.events_per_s, 1),
        "lucene_monitor_build_s": round(ran.build_s, 1),
        "lucene_monitor_events": some,
        "lucene_monitor_cpu_ms_per_event": round(ran.cpu_ms_per_event, 3),
        "lucene_monitor_batch": lucene_monitor.told_of(ran.batch),
        "lucene_monitor_tried_cpu_ms": {str(batch): round(cpu_ms, 3) for batch, cpu_ms in ran.tried.items()},
        "matches_compared": len(ours),
        "ratio": round(figures["events_per_s"] / ran.events_per_s, 1),
        "cpu_ratio": round(ran.cpu_ms_per_event / figures["cpu_ms_per_event"], 1),
    }


def _told(workload: Workload, ran: lucene_monitor.Ran, events: int) -> set[tuple[int, int]]:
    """Which events Lucene Monitor's matches of both rows of a change are, to who watches for them."""
    sides = Counter[tuple[int, int]]()
    for row, subscription in zip(ran.rows.tolist(), ran.subscriptions.tolist(), strict=True):
        sides[row // 2, subscription] |= AFTER if row % 2 else BEFORE
    changes = decoded(workload.changes[:events], workload.definition)
    watched = {entry.id: entry.watched for entry in workload.entries}
    return {
        (at, subscription)
        for (at, subscription), met in sides.items()
        if event_bits(watched[subscription], changes[at], met, workload.definition)
    }
