"""`headwater bench capture`: from a commit to the log and into Spark, beside the rate of the bare slot as the limit.

One round is, in order: the connector stopped, a backlog written, the bare slot read, the connector let go on, the log
read by Spark, and then everything at once. So what is compared is measured within the same minute. A warm-up round
comes first, and counts nothing: the JVMs compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from cdc.capture import Capture
from cdc.changelog import ChangeLog
from cdc.postgres import connect
from headwater.bench import commit_latency, conditions, log_rate, raw_slot, spark_rate, workload
from headwater.bench.commit_latency import CommitLatency
from headwater.bench.conditions import CaptureConditions, Machine
from headwater.bench.figures import Rate, median_rows_per_s
from headwater.bench.progress import Progress
from headwater.bench.workload import Writer
from headwater.deployment import Deployment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_DEFAULT: Final = 200_000
COMMITS_DEFAULT: Final = 300
ROUNDS_DEFAULT: Final = 3
WARM_UP_ROWS_MAX: Final = 50_000
WARM_UP_COMMITS_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class CapturePlan:
    rows: int = ROWS_DEFAULT
    commits: int = COMMITS_DEFAULT
    rounds: int = ROUNDS_DEFAULT
    background_rows_per_s: int = 0
    """Committed beside the single commits."""
    own_stack: bool = True
    warm_up: bool = True


@dataclass(frozen=True, slots=True)
class Round:
    write: Rate
    raw_slot: Rate
    raw_slot_bytes_per_s: float
    raw_slot_peek: Rate
    log: Rate
    connector_start_ms: float
    spark: Rate
    record_bytes: float
    end_to_end: Rate
    end_to_end_write: Rate
    """The commits' own rate within end_to_end: its upper limit."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What the measurements work on."""

    deployment: Deployment
    capture: Capture
    spark: SparkSession
    machine: Machine
    progress: Progress


def run(bench: Bench, plan: CapturePlan) -> dict[str, object]:
    """The whole bench; the object that --json prints."""
    with connect(bench.capture.postgres) as conn:
        writer, rounds = Writer(conn), []
        if plan.warm_up:
            bench.progress.step("warming up")
            one_round(bench, writer, min(plan.rows, WARM_UP_ROWS_MAX))
        for number in range(1, plan.rounds + 1):
            bench.progress.step(f"round {number} of {plan.rounds}")
            rounds.append(one_round(bench, writer, plan.rows))
        latency = single_commits(bench, writer, plan)
        row_bytes = workload.row_bytes(conn)
    record_bytes = round(median(one.record_bytes for one in rounds))
    return report(rounds, latency, _conditions(bench, plan, row_bytes, record_bytes))


def one_round(bench: Bench, writer: Writer, rows: int) -> Round:
    capture, progress = bench.capture, bench.progress
    log_rate.stop(capture)
    start = ChangeLog(capture.kafka, capture.source).position(log_rate.whole_end(capture))
    with connect(capture.postgres) as conn, raw_slot.slot_before(conn, f"{capture.source.slot}_raw") as slot:
        with progress.amount("writing a backlog", rows) as advance:
            written = writer.write(rows, advance)
        progress.step("reading the bare slot")
        raw = raw_slot.read(capture.postgres, slot, capture.source.publication, written.until)
    with progress.amount("into the log", rows) as advance:
        log = log_rate.work_off(capture, rows, written.until, advance)
    progress.step("reading the log into Spark")
    spark = spark_rate.read_backlog(bench.spark, capture, start, rows)
    end_to_end, end_to_end_write = all_at_once(bench, writer, rows)
    return Round(
        write=written.rate,
        raw_slot=raw.streamed,
        raw_slot_bytes_per_s=raw.bytes_per_s,
        raw_slot_peek=raw.peeked,
        log=log.rate,
        connector_start_ms=log.start_ms,
        spark=spark.rate,
        record_bytes=spark.record_bytes,
        end_to_end=end_to_end,
        end_to_end_write=end_to_end_write,
    )


def all_at_once(bench: Bench, writer: Writer, rows: int) -> tuple[Rate, Rate]:
    """Commits, capture and Spark together: from before the first row was sent until Spark has counted the last one."""
    capture = bench.capture
    start = ChangeLog(capture.kafka, capture.source).position(log_rate.whole_end(capture))
    with spark_rate.following(bench.spark, capture, start) as wait:
        writer.insert(1)
        wait(1)  # the query runs
        with bench.progress.amount("commit to Spark, all at once", rows) as advance:
            written = writer.write(rows, advance)
            ended_at = wait(rows + 1)
    return Rate(rows, ended_at - written.began_at), written.rate


def single_commits(bench: Bench, writer: Writer, plan: CapturePlan) -> CommitLatency:
    warm_up = min(plan.commits, WARM_UP_COMMITS_MAX) if plan.warm_up else 0
    with (
        workload.background(bench.capture.postgres, plan.background_rows_per_s),
        bench.progress.amount("single commits", plan.commits + warm_up) as advance,
    ):
        return commit_latency.measure(bench.capture, writer, plan.commits, warm_up, advance)


def _conditions(bench: Bench, plan: CapturePlan, row_bytes: int, record_bytes: int) -> CaptureConditions:
    kafka_heap_mb, connect_heap_mb = conditions.heaps(bench.deployment)
    return CaptureConditions(
        machine=bench.machine,
        versions=conditions.versions(bench.deployment, bench.capture),
        own_stack=plan.own_stack,
        rows=plan.rows,
        rows_per_transaction=min(plan.rows, workload.TRANSACTION_ROWS),
        rounds=plan.rounds,
        commits=plan.commits,
        background_rows_per_s=plan.background_rows_per_s,
        row_bytes=row_bytes,
        record_bytes=record_bytes,
        pace=bench.capture.pace,
        compression=conditions.compression(),
        kafka_heap_mb=kafka_heap_mb,
        connect_heap_mb=connect_heap_mb,
        spark_master=bench.deployment.settings.spark.master,
    )


def report(rounds: Sequence[Round], latency: CommitLatency, measured_under: CaptureConditions) -> dict[str, object]:
    """Pure: medians of the rounds, the single commits, the rounds themselves, the conditions."""

    def rate(of: Callable[[Round], Rate]) -> float:
        return median_rows_per_s([of(one) for one in rounds])

    to_log = latency.to_log
    return {
        "bench": "capture",
        "log_rows_per_s": rate(lambda one: one.log),
        "raw_slot_rows_per_s": rate(lambda one: one.raw_slot),
        "log_to_raw_ratio": round(median(one.log.rows_per_s / one.raw_slot.rows_per_s for one in rounds), 3),
        "raw_slot_bytes_per_s": round(median(one.raw_slot_bytes_per_s for one in rounds)),
        "raw_slot_peek_rows_per_s": rate(lambda one: one.raw_slot_peek),
        "spark_rows_per_s": rate(lambda one: one.spark),
        "end_to_end_rows_per_s": rate(lambda one: one.end_to_end),
        "end_to_end_write_rows_per_s": rate(lambda one: one.end_to_end_write),
        "write_rows_per_s": rate(lambda one: one.write),
        "connector_start_ms": round(median(one.connector_start_ms for one in rounds), 1),
        **{
            f"commit_to_log_{name}_ms": round(getattr(to_log, f"{name}_ms"), 2)
            for name in ("min", "p50", "p90", "p99", "max")
        },
        "commit_to_written_p50_ms": round(latency.to_written.p50_ms, 2),
        "commit_to_written_p99_ms": round(latency.to_written.p99_ms, 2),
        "rounds": [_round_object(one) for one in rounds],
        "conditions": measured_under,
    }


def _round_object(one: Round) -> dict[str, object]:
    rates = ("log", "raw_slot", "raw_slot_peek", "spark", "end_to_end", "end_to_end_write", "write")
    return {f"{name}_rows_per_s": round(getattr(one, name).rows_per_s, 1) for name in rates} | {
        "connector_start_ms": round(one.connector_start_ms, 1)
    }
