"""The path of a change as the console draws it: what stands where, and what each hop takes. Pure, from one look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType
from typing import Final

from headwater.status import ServerStatus, Status
from headwater.units import bytes_text, duration_text
from headwater.views_status import SinkLine, ViewLine, ViewsStatus

PLACES: Final = {"cache": "Redis", "search": "Elasticsearch", "warehouse": "Delta", "alerts": "saved searches"}
_LANES: Final = {
    "riding": "ok",
    **dict.fromkeys(("following", "filling", "waiting"), "info"),
    "paused": "warn",
    **dict.fromkeys(("down", "failed"), "bad"),
}
_VIEWS: Final = {"live": "ok", "building": "info", "waiting": "info", "paused": "warn", "stale": "bad"}


@dataclass(frozen=True, slots=True)
class Stop:
    """One station: its name, how it is (a word and a kind: ok, info, warn, bad), and a few facts."""

    name: str
    what: str
    state: str
    kind: str
    facts: tuple[str, ...]
    page: str
    """Of the console, where there is more of it."""


@dataclass(frozen=True, slots=True)
class Hop:
    """The way between two stations: what it took for the newest commit."""

    label: str
    ms: float | None

    @property
    def text(self) -> str:
        return "" if self.ms is None else duration_text(self.ms / 1000)


@dataclass(frozen=True, slots=True)
class Picture:
    stops: tuple[tuple[Hop | None, Stop], ...]
    """From the source to the views, each with the hop that leads to it."""
    ends: tuple[tuple[Hop, Stop], ...]
    """The sinks, side by side after the views."""


def picture(status: Status, rates: Mapping[str, float] = MappingProxyType({})) -> Picture:
    """`rates` are records a second that each sink takes, where that is known."""
    views = status.views
    log_ms = status.log.last_commit_delay_ms if status.log else None
    ends = [
        (
            Hop("to readable", _median(s.sink_ms for s in views.sinks if s.sink == name)),
            _sink(name, views, rates.get(name)),
        )
        for name in sorted({sink.sink for sink in views.sinks}, key=_order)
    ]
    return Picture(
        (
            (None, _source(status)),
            (Hop("commit to log", log_ms), _log(status)),
            (Hop("log to view", views.epochs.behind_p50_ms if views.epochs.count else None), _views(status)),
        ),
        tuple(ends),
    )


def readable_ms(views: ViewsStatus, sink: str) -> float | None:
    """From a commit to when readers of that sink see it, over the views that ride."""
    both = ((s.view_ms, s.sink_ms) for s in views.sinks if s.sink == sink and s.state == "riding")
    return _median(view + last for view, last in both if view is not None and last is not None)


def published_ms(views: ViewsStatus) -> float | None:
    """From a commit to when a view's topic tells of it, over the views that ride."""
    return _median(s.view_ms for s in views.sinks if s.state == "riding")


def lane_kind(state: str) -> str:
    return _LANES.get(state, "info")


def view_kind(state: str) -> str:
    return _VIEWS.get(state, "info")


def _source(status: Status) -> Stop:
    server = _server(status, "postgres")
    slot = status.slot.state if status.slot else None
    facts = [f"at {slot.current_lsn}", f"keeps {bytes_text(slot.retained_bytes or 0)} of WAL"] if slot else []
    if slot and slot.lag_bytes is not None:
        facts.append(f"capture {bytes_text(slot.lag_bytes)} behind")
    running = server is not None and server.running
    return Stop("Source", "Postgres", *(("running", "ok") if running else ("down", "bad")), tuple(facts), "source")


def _log(status: Status) -> Stop:
    log, connector = status.log, status.connector
    kind = {"RUNNING": "ok", "FAILED": "bad", "MISSING": "bad"}.get(connector, "warn")
    facts = [f"{log.end_offset - log.first_offset:,} records"] if log else []
    if status.records_per_s is not None:
        facts.append(f"{status.records_per_s:,.0f} records/s")
    if status.snapshot and not status.snapshot.complete and not status.snapshot.behind:
        facts.append(f"snapshot: {status.snapshot.rows:,} rows so far")
    state = f"capture {connector.lower()}" if log else "unknown"
    return Stop("Log", "Kafka, by Debezium", state, kind if log else "bad", tuple(facts), "source")


def _views(status: Status) -> Stop:
    views = status.views
    state = f"{views.live} of {len(views.views)} live" if views.views else "none yet"
    others = [_kind(view) for view in views.views]
    kind = "bad" if views.views and not views.running else _worst(others) if others else "info"
    stale = sum(view.stale is not None for view in views.views)
    facts = [f"{stale} stale"] if stale else []
    facts += [f"{view.name} {view.progress:.0%} built" for view in views.views if view.progress is not None][:3]
    if views.epochs.count:
        facts.append(f"{views.epochs.changes:,} changes published")
        facts.append(f"p99 {duration_text(views.epochs.behind_p99_ms / 1000)} behind the log")
    return Stop("Views", "Spark", state, kind, tuple(facts), "views")


def _kind(view: ViewLine) -> str:
    if view.stale is not None:
        return "bad" if view.stale.is_gap else "warn"
    return view_kind(view.state)


def _sink(name: str, views: ViewsStatus, rate: float | None) -> Stop:
    lanes = [sink for sink in views.sinks if sink.sink == name]
    riding = sum(lane.state == "riding" for lane in lanes)
    kind = _worst([lane_kind(lane.state) for lane in lanes])
    facts = []
    total = readable_ms(views, name)
    if total is not None:
        facts.append(f"{duration_text(total / 1000)} after the commit")
    if rate is not None:
        facts.append(f"{rate:,.0f} records/s")
    behind, refused = sum(lane.behind_changes for lane in lanes), sum(lane.refused for lane in lanes)
    facts += [f"{behind:,} changes to come"] if behind else []
    facts += [f"{refused:,} refused"] if refused else []
    state = f"{riding} of {len(lanes)} riding" if name != "warehouse" else _warehouse(lanes)
    page = "dead-letters" if refused else "alerts" if name == "alerts" else "views"
    return Stop(
        name.capitalize(), PLACES.get(name, ""), state, "warn" if refused and kind == "ok" else kind, tuple(facts), page
    )


def _warehouse(lanes: Sequence[SinkLine]) -> str:
    """It follows at an interval of its own, by design."""
    well = sum(lane.state in ("riding", "following") for lane in lanes)
    return f"{well} of {len(lanes)} kept"


def _worst(kinds: Iterable[str]) -> str:
    return max(kinds, key=("ok", "info", "warn", "bad").index, default="info")


def _order(sink: str) -> int:
    names = list(PLACES)
    return names.index(sink) if sink in names else len(names)


def _median(numbers: Iterable[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return median(known) if known else None


def _server(status: Status, name: str) -> ServerStatus | None:
    return next((server for server in status.servers if server.name == name), None)
