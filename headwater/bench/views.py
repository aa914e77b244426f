"""`headwater bench views`: what keeping views costs, beside computing them anew.

For a small and a large database: build the views from the log, run epochs of some changes through a three-way join with
an aggregate, and compare: cost follows the change if the two are alike. On the large one also: working off a backlog,
single commits while others flow, and the same view computed from scratch by Spark and by Postgres itself.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, LiteralString

import psycopg

from cdc import eras
from cdc.capture import Capture
from cdc.catalog_reader import describe
from cdc.changelog import ChangeLog
from cdc.epochs import EpochPlanner
from cdc.events import TableName
from cdc.position import Lsn
from cdc.postgres import connect
from cdc.snapshots import SnapshotTracker
from headwater.bench import conditions, place, recompute, visible
from headwater.bench.conditions import Machine, Versions
from headwater.bench.figures import Latencies
from headwater.bench.progress import Progress
from headwater.bench.view_workload import CARD, DDL, SALES, SPENT, TABLES, Shop
from headwater.deployment import Deployment
from headwater.maintain import limits
from views.maintain.group import Group, GroupSpec
from views.maintain.meters import Meters
from views.maintain.runner import GroupRunner, Measured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUILD_RECORDS: Final = 100_000
EPOCH_RECORDS: Final = 50_000
POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class ViewsPlan:
    rows: int = 1_000_000
    small_rows: int = 10_000
    changes: int = 1_000
    epochs: int = 20
    backlog: int = 100_000
    commits: int = 200
    rate_per_s: int = 200


@dataclass(frozen=True, slots=True)
class ViewsConditions:
    machine: Machine
    versions: Versions
    plan: ViewsPlan
    shards: int
    spark_master: str
    views: dict[str, str]


@dataclass(frozen=True, slots=True)
class Bench:
    deployment: Deployment
    spark: SparkSession
    machine: Machine
    progress: Progress


@dataclass(frozen=True, slots=True)
class Sized:
    """What was measured with one size of the tables."""

    rows: int
    build_join_s: float
    build_sales_s: float
    epochs_ms: tuple[float, ...]


@dataclass
class Memory:
    """The most that the driver, its JVM and the workers held, looked at every now and then."""

    most_mb: dict[str, float] = field(default_factory=dict)
    most_together_mb: float = 0.0

    @contextmanager
    def watched(self) -> Iterator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=self._watch, args=(stop,), name="memory", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(10)

    def _watch(self, stop: threading.Event) -> None:
        meters = Meters()
        while not stop.wait(1.0):
            found = meters.memory_mb()
            self.most_together_mb = max(self.most_together_mb, sum(found.values()))
            for name, size in found.items():
                self.most_mb[name] = max(size, self.most_mb.get(name, 0.0))


def run(bench: Bench, plan: ViewsPlan) -> dict[str, object]:
    memory = Memory()
    small = _small(bench, plan)
    with memory.watched(), database(bench, plan.rows) as (capture, shop):
        with _state() as folder:
            large = _sized(bench, capture, shop, folder, plan)
            rows_per_s = _catch_up(bench, capture, shop, folder, plan)
        bench.progress.step("single commits while others flow")
        latency, parts = visible.measure(
            bench.spark, capture, shop, CARD, plan.commits, plan.rate_per_s, limits(bench.deployment.settings)
        )
        bench.progress.step("the same view computed anew")
        anew_s = recompute.by_spark(bench.spark, capture, SALES)
        refresh_s = recompute.by_postgres(capture, SALES)
        versions = conditions.versions(bench.deployment, capture)
    return report(small, large, rows_per_s, latency, parts, anew_s, refresh_s, memory) | {
        "conditions": ViewsConditions(
            bench.machine,
            versions,
            plan,
            bench.deployment.settings.views.shards,
            str(bench.spark.sparkContext.master),
            {"order_card": CARD, "sales": SALES, "spent": SPENT},
        )
    }


def report(
    small: Sized,
    large: Sized,
    rows_per_s: float,
    latency: Latencies,
    parts: dict[str, float],
    anew_s: float,
    refresh_s: float,
    memory: Memory,
) -> dict[str, object]:
    """Pure."""
    at_small, at_large = median(small.epochs_ms), median(large.epochs_ms)
    return {
        "bench": "views",
        "growth_ratio": round(at_large / at_small, 2),
        "epoch_small_ms": round(at_small, 1),
        "epoch_large_ms": round(at_large, 1),
        "catch_up_rows_per_s": round(rows_per_s, 1),
        "visible_p50_ms": round(latency.p50_ms, 1),
        "visible_p90_ms": round(latency.p90_ms, 1),
        "visible_p99_ms": round(latency.p99_ms, 1),
        "visible_max_ms": round(latency.max_ms, 1),
        "epoch_parts_ms": parts,
        "build_1m_s": round(large.build_join_s, 1),
        "build_sales_s": round(large.build_sales_s, 1),
        "full_recompute_s": round(anew_s, 2),
        "postgres_refresh_s": round(refresh_s, 2),
        "rss_mb": round(memory.most_together_mb),
        "rss_parts_mb": memory.most_mb,
    }


def _small(bench: Bench, plan: ViewsPlan) -> Sized:
    with database(bench, plan.small_rows) as (capture, shop), _state() as folder:
        return _sized(bench, capture, shop, folder, plan)


@contextmanager
def database(bench: Bench, rows: int) -> Iterator[tuple[Capture, Shop]]:
    bench.progress.step(f"a database of {rows:,} orders")
    with loaded(bench, DDL, TABLES, lambda conn: Shop(conn, rows).load(), rows) as (capture, conn):
        yield capture, Shop(conn, rows)


@contextmanager
def loaded(
    bench: Bench,
    ddl: LiteralString,
    tables: Sequence[TableName],
    load: Callable[[psycopg.Connection], None],
    rows: int,
) -> Iterator[tuple[Capture, psycopg.Connection]]:
    """Loaded before it is captured: its rows come through the initial snapshot. About so many are to come."""
    with ExitStack() as closing:
        place_ = place.fresh_database(bench.deployment, bench.progress, ddl, tuple(map(str, tables)))
        capture = closing.enter_context(place_)
        conn = closing.enter_context(connect(capture.postgres))
        load(conn)
        capture.ensure(bench.progress.step)
        tracker = SnapshotTracker(ChangeLog(capture.kafka, capture.source))
        with bench.progress.amount("into the log", rows) as advance:
            known = 0
            while not (seen := tracker.look()).complete:
                advance(seen.rows - known)
                known = seen.rows
                time.sleep(POLL_S)
        yield capture, conn


@contextmanager
def _state() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="headwater-bench-views-") as folder:
        yield Path(folder)


def _sized(bench: Bench, capture: Capture, shop: Shop, folder: Path, plan: ViewsPlan) -> Sized:
    bench.progress.step("building a view with a two-way join")
    began = time.monotonic()
    follow(_runner(bench, capture, folder, {"order_card": CARD}), shop.lsn(), BUILD_RECORDS)
    joined = time.monotonic()
    bench.progress.step("building a three-way join with an aggregate")
    sales = _runner(bench, capture, folder, {"sales": SALES})
    follow(sales, shop.lsn(), BUILD_RECORDS)
    summed = time.monotonic()
    sales.go_live({})
    bench.progress.step(f"epochs of {plan.changes:,} changes")
    took = [_epoch_ms(sales, shop, plan.changes) for _ in range(plan.epochs)]
    return Sized(shop.rows, joined - began, summed - joined, tuple(took[len(took) // 2 :]))


def _epoch_ms(runner: GroupRunner, shop: Shop, changes: int) -> float:
    """One transaction of so many changes, in the log before the clock starts."""
    measured: list[Measured] = []
    follow(runner, shop.lsn(), EPOCH_RECORDS)
    runner.on_measured = measured.append
    lsn = shop.change_orders(changes)
    follow(runner, lsn, EPOCH_RECORDS, whole=True)
    return max(one.job_ms + one.publish_ms for one in measured if one.records >= changes)


def _catch_up(bench: Bench, capture: Capture, shop: Shop, folder: Path, plan: ViewsPlan) -> float:
    runner = _runner(bench, capture, folder, {"spent": SPENT})
    bench.progress.step("building mirror, join and aggregate")
    follow(runner, shop.lsn(), BUILD_RECORDS)
    runner.go_live({})
    bench.progress.step(f"a backlog of {plan.backlog:,} changes")
    lsn = shop.change_much(plan.backlog)
    _in_log(capture, lsn)
    began = time.monotonic()
    follow(runner, lsn, EPOCH_RECORDS)
    return plan.backlog / (time.monotonic() - began)


def _in_log(capture: Capture, lsn: Lsn) -> None:
    from headwater.status import log_status

    log = ChangeLog(capture.kafka, capture.source)
    while (last := log_status(log).last_commit_lsn) is None or last < lsn:
        time.sleep(POLL_S)


def follow(runner: GroupRunner, lsn: Lsn, records_max: int, *, whole: bool = False) -> None:
    """Epoch by epoch until the group includes the LSN. `whole`: everything that is in the log by then at once."""
    spec = runner.group.spec
    planner = EpochPlanner(runner.kafka, runner.source, idle_s_max=POLL_S)
    while runner.progress.lsn is None or runner.progress.lsn < lsn.value or not runner.progress.is_snapshot_whole:
        end = planner.end(runner.position, spec.topic_id, None if whole else records_max, cut=runner.progress.is_live)
        if end.offset > runner.offset:
            runner.run(end.offset)


def _runner(bench: Bench, capture: Capture, folder: Path, definitions: dict[str, str]) -> GroupRunner:
    era = eras.current(capture.kafka, capture.source)
    with connect(capture.postgres) as conn:
        tables: Sequence[dict[str, object]] = describe(conn, TABLES)
    spec = GroupSpec.new(
        era.era, era.topic_id, era.first_offset, bench.deployment.settings.views.shards, definitions, tables
    )
    group = Group(spec.save(folder / "groups"), spec)
    runner = GroupRunner(bench.spark, capture.kafka, capture.source, group, owner=1)
    runner.prepare()
    return runner
