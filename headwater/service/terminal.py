"""What a person sees: bars while things come up, then one live picture; without a terminal, plain lines."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from headwater.status import LogStatus, Status
from headwater.units import bytes_text, duration_text
from headwater.views_status import ViewsStatus

PLAIN_INTERVAL_S: Final = 10.0
_LEVEL_STYLES: Final = {"ok": "green", "warn": "yellow", "fail": "bold red"}


class TerminalReporter:
    """Tells each step of coming up; implements steps.Reporter."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._progress: Progress | None = None

    def fetching(self, total_bytes: int) -> Callable[[str, int], None]:
        self.step(f"fetching the servers: {bytes_text(total_bytes)}, once")
        columns = (TextColumn("  {task.description:<14}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        progress = self._bar(*columns)
        task = progress.add_task("", total=total_bytes)

        def arrived(name: str, size: int) -> None:
            progress.update(task, advance=size, description=name)

        return arrived

    def loading(self, rows_total: int) -> Callable[[int], None]:
        progress = self._bar(TextColumn("  rows          "), BarColumn(), MofNCompleteColumn())
        task = progress.add_task("", total=rows_total)
        return lambda rows: progress.update(task, advance=rows)

    def server(self, name: str, what: str) -> None:
        self._say(f"  {name:<14} {what}")

    def step(self, what: str) -> None:
        self._say(what)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _bar(
        self, *columns: TextColumn | BarColumn | DownloadColumn | TransferSpeedColumn | MofNCompleteColumn
    ) -> Progress:
        self.close()
        self._progress = Progress(
            *columns, console=self._console, transient=True, disable=not self._console.is_terminal
        )
        self._progress.start()
        return self._progress

    def _say(self, what: str) -> None:
        self.close()
        self._console.print(Text(f"{time.monotonic() - self._began:6.1f} s  {what}"))


def picture(status: Status, page: str, moves: str = "", console_link: str = "") -> RenderableType:
    """The whole status as one block."""
    return Group(
        Text(f"headwater · source {status.source} · {status.at:%H:%M:%S} UTC", style="bold"),
        _servers(status),
        _path(status),
        *([Text(moves, style="dim")] if moves else []),
        *_findings(status),
        *([Text(f"console {console_link} (signs you in, once)", style="dim")] if console_link else []),
        Text(f"page {page} · other terminal: headwater log tail -f · Ctrl-C stops everything", style="dim"),
    )


def _servers(status: Status) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("server", "state", "address", "memory", "version"):
        table.add_column(column, header_style="dim")
    for server in status.servers:
        state = Text("running", style="green") if server.running else Text("down", style="bold red")
        where = server.address if server.embedded else f"{server.address} (yours)"
        memory = f"{server.memory_mb} MB" if server.memory_mb is not None else ""
        table.add_row(server.name, state, where, memory, server.version)
    return table


def _path(status: Status) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_row("connector", Text(status.connector, style="green" if status.connector == "RUNNING" else "bold red"))
    if status.slot is not None:
        slot = status.slot.state
        activity = "active" if slot.active else "inactive"
        retained = bytes_text(slot.retained_bytes or 0)
        limit = f" of {bytes_text(slot.wal_keep_max_bytes)}" if slot.wal_keep_max_bytes else ""
        table.add_row("slot", f"{activity}, {bytes_text(slot.lag_bytes or 0)} behind, holds {retained}{limit} of WAL")
    if status.snapshot is not None and not status.snapshot.complete and not status.snapshot.behind:
        table.add_row("snapshot", f"{status.snapshot.rows:,} rows so far")
    if status.log is not None:
        table.add_row("log", log_line(status.log, status.records_per_s))
    if status.views.views:
        table.add_row("views", views_line(status.views))
    if status.views.sinks:
        table.add_row("sinks", sinks_line(status.views))
    return table


def sinks_line(views: ViewsStatus) -> str:
    """How many lanes ride, who does not, and what the last hop takes."""
    riding = [sink for sink in views.sinks if sink.state == "riding"]
    parts = [f"{len(riding)} of {len(views.sinks)} riding"]
    parts += [f"{sink.sink} of {sink.view} {sink.state}" for sink in views.sinks if sink.state != "riding"][:4]
    for name in sorted({sink.sink for sink in riding}):
        took = sorted(s.view_ms + s.sink_ms for s in riding if s.sink == name and s.view_ms and s.sink_ms is not None)
        if took:
            parts.append(f"{name} {took[len(took) // 2]:.0f} ms after the commit")
    return ", ".join(parts)


def views_line(views: ViewsStatus) -> str:
    """How many are live, how far the others are, and what an epoch takes."""
    parts = [f"{views.live} of {len(views.views)} live"]
    parts += [f"{v.name} {v.progress:.0%}" for v in views.views if v.progress is not None][:4]
    parts += [f"{v.name} {v.state}" for v in views.views if v.state in ("paused", "waiting")][:4]
    epochs = views.epochs
    if epochs.count:
        parts.append(f"{epochs.changes:,} changes published")
        parts.append(f"in the topic {epochs.behind_p50_ms:,.0f} ms after the log (p99 {epochs.behind_p99_ms:,.0f})")
    return ", ".join(parts)


def log_line(log: LogStatus, records_per_s: float | None) -> str:
    parts = [f"{log.topic} at {log.end}", f"{log.end_offset - log.first_offset:,} records"]
    if records_per_s is not None:
        parts.append(f"{records_per_s:,.0f}/s")
    if log.last_commit_at is not None and log.last_commit_delay_ms is not None:
        age = max(0.0, (datetime.now(UTC) - log.last_commit_at).total_seconds())
        parts.append(f"last commit {log.last_commit_lsn} {duration_text(age)} ago, in the log after")
        parts[-1] += f" {log.last_commit_delay_ms:,.0f} ms"
    return ", ".join(parts)


def _findings(status: Status) -> list[Text]:
    return [
        Text.assemble((f"{finding.level}: ", _LEVEL_STYLES[finding.level]), f"{finding.name} {finding.detail}")
        + Text(f"\n  hint: {finding.hint}" if finding.hint else "", style="dim")
        for finding in status.findings
    ]


class PlainView:
    """Without a terminal: a line now and then, and one at once when health changes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said_at = float("-inf")
        self._healthy: bool | None = None

    def show(self, status: Status) -> None:
        now = time.monotonic()
        if now - self._said_at < PLAIN_INTERVAL_S and status.healthy == self._healthy:
            return
        self._said_at, self._healthy = now, status.healthy
        line = log_line(status.log, status.records_per_s) if status.log else "log unknown"
        self._console.print(Text(f"{status.at:%H:%M:%S} {'ok' if status.healthy else 'NOT HEALTHY'}: {line}"))
        for finding in status.findings:
            self._console.print(Text(f"  {finding.level}: {finding.name} {finding.detail} (hint: {finding.hint})"))
