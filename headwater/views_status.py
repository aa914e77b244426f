"""How the views are, as everybody is shown it: from what the maintainer last wrote down."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cdc.errors import StateError
from cdc.findings import Finding
from cdc.gaps import Gaps
from headwater.feeding import paused_findings, unfed_findings
from headwater.sweep_file import SweepFile, SweptView
from headwater.units import duration_text
from headwater.views.verify_history import VIEW, VerifyHistory, Wrong
from views.maintain.registry import STALE_S, Epochs, Registry, ViewState, Wanted
from views.maintain.staleness import Stale, stale_views
from views.sinks.lane import LaneState, SinkStatus

STARTING_S: Final = 120.0
"""How long Spark may take to start before its silence is a failure."""


@dataclass(frozen=True, slots=True)
class ViewLine:
    name: str
    state: str
    reason: str = ""
    group: str = ""
    """That readers are served from, as is what follows but for the progress."""
    progress: float | None = None
    """While it is being built: the share of the log that the one which is built has read."""
    lsn: str = ""
    behind_s: float | None = None
    """Since the last commit that it includes."""
    stale: Stale | None = None


@dataclass(frozen=True, slots=True)
class SinkLine:
    """A view in one place, and what every hop on the way there took for the last commit that it includes."""

    view: str
    sink: str
    state: str
    reason: str = ""
    behind_changes: int = 0
    """In the view's topic, not yet in the place."""
    refused: int = 0
    view_ms: float | None = None
    """From the commit to the view's topic."""
    sink_ms: float | None = None
    """From there to the place."""
    incomplete: int = 0
    """Keys that open dead letters hold."""
    next_offset: int = 0
    """Of the view's topic: up to where it is written."""
    stale: str = ""
    """Why readers do not find the view there as it should be."""

    @classmethod
    def of(cls, status: SinkStatus) -> SinkLine:
        mark = status.mark
        is_timed = mark is not None and mark.committed_at_us is not None and status.state == LaneState.RIDING
        return cls(
            status.view,
            status.sink,
            status.state.value,
            status.reason,
            max(0, status.target_offset - (mark.next_offset if mark else 0)),
            status.refused,
            round((mark.published_at_us - (mark.committed_at_us or 0)) / 1000, 1) if is_timed and mark else None,
            round(max(0, status.applied_at_us - mark.published_at_us) / 1000, 1) if is_timed and mark else None,
            status.incomplete,
            status.next_offset,
            status.stale,
        )


@dataclass(frozen=True, slots=True)
class WrongLine:
    """Rows that were found wrong, in the view itself or in a sink."""

    view: str
    place: str
    rows: int
    key: str
    """One of them."""
    since_us: int


@dataclass(frozen=True, slots=True)
class AlertsLine:
    """What sweeps of a view's saved searches found."""

    view: str
    missed: int
    wrong: int
    example: str
    broken: int
    broken_example: str
    swept_at_us: int
    lacks: str = ""
    """Of changes of which time nobody may have been told."""
    late_s: float = 0.0
    """For how long there was no sweep, where that is too long."""
    late_reason: str = ""


@dataclass(frozen=True, slots=True)
class ViewsStatus:
    running: bool
    views: tuple[ViewLine, ...] = ()
    epochs: Epochs = field(default_factory=Epochs)
    memory_mb: dict[str, float] | None = None
    sinks: tuple[SinkLine, ...] = ()
    wrong: tuple[WrongLine, ...] = ()
    alerts: tuple[AlertsLine, ...] = ()

    @property
    def live(self) -> int:
        return sum(view.state == ViewState.LIVE for view in self.views)


NO_VIEWS: Final = ViewsStatus(running=False)


def look(folder: Path, now_s: float | None = None, gaps: Gaps | None = None) -> tuple[ViewsStatus, list[Finding]]:
    """Gaps are those that were written down, unless the caller knows more."""
    now_s = time.time() if now_s is None else now_s
    registry = Registry(folder)
    wanted, state = registry.wanted(), registry.state()
    stale = stale_views(state, registry.gaps() if gaps is None else gaps)
    running = now_s - state.at_s < STALE_S
    lines = []
    for name in sorted(wanted.views):
        known = state.views.get(name)
        group = state.groups.get(known.read_from) if known else None
        if known is None or group is None:
            waiting = ViewLine(name, ViewState.WAITING.value, known.told if known else "", stale=stale.get(name))
            lines.append(waiting)
            continue
        built, committed = state.groups.get(known.group), group.committed_at_us
        lines.append(
            ViewLine(
                name,
                known.state.value,
                known.told,
                known.read_from,
                None if built is None or built.is_live else built.offset / max(built.end, 1),
                group.lsn,
                None if committed is None else max(0.0, now_s - committed / 1e6),
                stale.get(name),
            )
        )
    newest = max((view.applied_at_s for view in wanted.views.values()), default=now_s)
    sinks = sorted(state.sinks, key=lambda status: (status.view, status.sink))
    wrong = tuple(_wrong(VerifyHistory(folder).wrong(), wanted))
    alerts = tuple(_alerts(SweepFile(folder).read(), wanted, now_s))
    sink_lines = tuple(map(SinkLine.of, sinks))
    found = ViewsStatus(running, tuple(lines), state.epochs, state.rss_mb, sink_lines, wrong, alerts)
    told = _stale_findings(found, now_s) + list(map(_book_finding, registry.books_aside()))
    with suppress(StateError):  # who keeps it sets one aside that cannot be read
        book = registry.book()
        told += [*paused_findings(book), *(unfed_findings(state, book, now_s) if running else ())]
    return found, told + _findings(found, silent_s=now_s - max(state.at_s, newest))


def _stale_findings(status: ViewsStatus, now_s: float) -> list[Finding]:
    """A view that misses changes is a failure; one that is only late, or paused, is not."""
    return [
        Finding(
            "fail" if view.stale.is_gap else "warn",
            f"view {view.name}",
            f"is stale since {duration_text(max(0.0, now_s - view.stale.since_s))}: {view.stale.reason}",
            _mended_by(view, is_gap=view.stale.is_gap),
        )
        for view in status.views
        if view.stale is not None and (view.stale.is_gap or view.state != ViewState.PAUSED)
    ]


def _book_finding(aside: Path) -> Finding:
    """Until somebody has looked, and removed it."""
    detail = (
        f"could not be read, and is {aside}: rebuilds under way are forgotten, generations that nobody read are gone"
    )
    return Finding("warn", "book", detail, "headwater generations, then remove that file")


def _mended_by(view: ViewLine, *, is_gap: bool) -> str:
    if is_gap:
        return "headwater recover"
    return f"headwater {'resume' if view.state == ViewState.HELD else 'views'} {view.name}"


def _sink_finding(sink: SinkLine) -> Finding | None:
    """What readers of a place do not find there, and what nobody writes there."""
    name = f"{sink.sink} of {sink.view}"
    if sink.state == LaneState.PAUSED:
        return Finding("warn", name, f"is {sink.reason}", f"headwater resume {sink.view} --sink {sink.sink}")
    if sink.state in (LaneState.DOWN, LaneState.FAILED):
        return Finding("warn", name, f"is {sink.state}: {sink.reason}", f"headwater views {sink.view}")
    if sink.stale:
        return Finding("warn", name, f"is stale: {sink.stale}", f"headwater views {sink.view}")
    return None


def _wrong(known: Wrong, wanted: Wanted) -> Iterator[WrongLine]:
    for view, places in sorted(known.items()):
        for place, keys in sorted(places.items()) if view in wanted.views else ():
            key, oldest = min(keys.items(), key=lambda pair: pair[1].since_us)
            yield WrongLine(view, place, len(keys), key, oldest.since_us)


def _alerts(known: Mapping[str, SweptView], wanted: Wanted, now_s: float) -> Iterator[AlertsLine]:
    for view, each in sorted(known.items()):
        if view in wanted.views:
            counts = each.count("missed"), each.count("wrong"), each.example, len(each.broken), each.broken_example
            yield AlertsLine(view, *counts, each.at_us, each.lacks, each.late_s(now_s * 1e6), each.failed)


def _alerts_findings(found: AlertsLine, *, running: bool) -> Iterator[Finding]:
    if found.late_s and running:
        why = f": {found.late_reason}" if found.late_reason else ""
        detail = f"were not looked at once more for {duration_text(found.late_s)}{why}"
        yield Finding("warn", f"alerts of {found.view}", detail, f"headwater alerts sweep {found.view}")
    if found.missed or found.wrong:
        detail = f"are not what they should be: {found.missed:,} missed, {found.wrong:,} wrong, such as {found.example}"
        yield Finding("warn", f"alerts of {found.view}", detail, f"headwater alerts sweep {found.view}")
    if found.lacks:
        detail = f"stood still: of what changed {found.lacks} some may never be told"
        yield Finding("warn", f"alerts of {found.view}", detail, f"headwater views {found.view}")
    if found.broken:
        searches = "1 saved search tells" if found.broken == 1 else f"{found.broken:,} saved searches tell"
        detail = f"{searches} nothing any more, such as {found.broken_example}"
        yield Finding("warn", f"alerts of {found.view}", detail, "headwater alerts list")


def _wrong_finding(found: WrongLine) -> Finding:
    """A view that is not what its SQL gives is a failure; a row in a sink is written again by one command."""
    rows = f"{found.rows:,} row{'s' if found.rows != 1 else ''}"
    if found.place == VIEW:
        detail = f"is not what its SQL gives in Postgres: {rows}, such as {found.key}"
        return Finding("fail", f"view {found.view}", detail, f"headwater verify {found.view} --repair")
    detail = f"has {rows} wrong, such as {found.key}"
    return Finding("warn", f"{found.place} of {found.view}", detail, f"headwater repair {found.view}")


def _findings(status: ViewsStatus, silent_s: float) -> list[Finding]:
    found = [
        Finding("warn", f"view {view.name}", f"is paused: {view.reason}", "headwater plan")
        for view in status.views
        if view.state == ViewState.PAUSED
    ]
    found += [told for sink in status.sinks if (told := _sink_finding(sink)) is not None]
    found += [
        Finding(
            "warn", f"{sink.sink} of {sink.view}", f"incomplete: {sink.incomplete:,} keys", "headwater deadletters list"
        )
        for sink in status.sinks
        if sink.incomplete
    ]
    found += map(_wrong_finding, status.wrong)
    found += (finding for line in status.alerts for finding in _alerts_findings(line, running=status.running))
    if status.views and not status.running:
        level = "fail" if silent_s > STARTING_S else "warn"
        detail = "are not being kept" if level == "fail" else "are starting"
        found.append(Finding(level, "views", detail, "headwater logs views"))  # type: ignore[arg-type]
    return found
