"""What `headwater bench` shows: progress while it measures, then the figures as tables."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from headwater.cli.output import line, table

if TYPE_CHECKING:
    from rich.console import Console

    from headwater.bench.conditions import Machine
    from headwater.bench.progress import Advance


class Told:
    """Progress on standard error: bars on a terminal, lines elsewhere, nothing with --json."""

    def __init__(self, out: Console, *, quiet: bool) -> None:
        self._out, self._quiet, self._began = out, quiet, time.monotonic()

    def step(self, what: str) -> None:
        if not self._quiet:
            self._out.print(f"{time.monotonic() - self._began:6.1f} s  {what}")

    @contextmanager
    def amount(self, what: str, total: int) -> Iterator[Advance]:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self.step(what)
        columns = (TextColumn(f"  {what}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        shown = self._out.is_terminal and not self._quiet
        with Progress(*columns, console=self._out, transient=True, disable=not shown) as bar:
            task = bar.add_task(what, total=total)
            yield lambda more: bar.advance(task, more)


_CAPTURE_RATES: Final = (
    ("log", "commit to log: a backlog through Debezium"),
    ("raw_slot", "the limit: the same slot, only counted"),
    ("raw_slot_peek", "the same, counted inside Postgres"),
    ("spark", "log to Spark"),
    ("end_to_end", "commit to Spark, all at once"),
    ("end_to_end_write", "the commits' own rate in that"),
)


def print_capture(found: Mapping[str, Any]) -> None:
    rows = []
    for name, meaning in _CAPTURE_RATES:
        key = f"{name}_rows_per_s"
        each = "  ".join(f"{one[key]:,.0f}" for one in found["rounds"])
        rows.append((key, f"{found[key]:,.0f}", each, meaning))
    table(("rows/s", "median", "rounds", ""), rows)
    line(f"log / raw slot: {found['log_to_raw_ratio']:.2f}")
    names = ("min", "p50", "p90", "p99", "max")
    table(
        ("one commit to the log", *names),
        [("ms", *(f"{found[f'commit_to_log_{name}_ms']:.1f}" for name in names))],
    )
    under = found["conditions"]
    machine = under.machine
    beside = ", ".join(f"{count} {name}" for name, count in machine.servers_beside.items()) or "none"
    line(f"{machine.cores} cores, load {machine.load_average_1m:g} before, other servers beside: {beside}")
    line(f"{under.rows:,} rows of {under.row_bytes} bytes, {under.rounds} rounds; all conditions with --json")


_VIEW_FIGURES: Final = (
    ("growth_ratio", "an epoch on the large database against the small one"),
    ("epoch_small_ms", "an epoch, small database"),
    ("epoch_large_ms", "an epoch, large database"),
    ("catch_up_rows_per_s", "a backlog through mirror, join and aggregate"),
    ("visible_p50_ms", "a single commit to the view's topic, while others flow"),
    ("visible_p99_ms", "the same, 99 of 100"),
    ("build_1m_s", "the large database's two-way join, built from the log"),
    ("full_recompute_s", "the aggregate computed anew by Spark"),
    ("postgres_refresh_s", "the same by REFRESH MATERIALIZED VIEW"),
    ("rss_mb", "driver, JVM and workers together, at most"),
)


def print_views(found: Mapping[str, Any]) -> None:
    table(("", "figure", ""), [(name, f"{found[name]:,}", meaning) for name, meaning in _VIEW_FIGURES])
    print_machine(found["conditions"].machine)


def print_machine(machine: Machine) -> None:
    beside = ", ".join(f"{count} {name}" for name, count in machine.servers_beside.items()) or "none"
    line(f"{machine.cores} cores, load {machine.load_average_1m:g} before, other servers beside: {beside}")
