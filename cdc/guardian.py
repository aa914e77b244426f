"""Watches over the slot and the connector: keeps a short history, says what is wrong and what to do, feeds the metrics.

The guardian only looks. Verdicts are pure functions of what was seen, so every state can be tested, also those that
would cost a real disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import psycopg
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cdc.addresses import Source
from cdc.findings import Finding, Level
from cdc.slots import Forecast, Sample, SlotState, forecast, observe

__all__ = [
    "Forecast",
    "GuardianCollector",
    "GuardianLimits",
    "Observation",
    "Sample",
    "SlotGuardian",
    "SlotState",
    "forecast",
    "judge",
    "observe",
]

SAMPLES_MAX: Final = 120
PAUSED: Final = ("PAUSED", "STOPPED")
CONNECTOR_STATES: Final = ("RUNNING", "PAUSED", "STOPPED", "UNASSIGNED", "RESTARTING", "FAILED", "MISSING", "UNKNOWN")
"""Kafka Connect's own, MISSING where it has no such connector, UNKNOWN where it did not answer."""


@dataclass(frozen=True, slots=True)
class GuardianLimits:
    fill_warn_s: float = 3600.0
    """Warn when the forecast reaches the WAL cap within this time…"""
    fill_fail_s: float = 600.0
    """… and call it a failure within this one."""
    inactive_warn_s: float = 15.0
    """Shorter than that it may be the initial snapshot, or a restart."""
    inactive_fail_s: float = 300.0
    lag_warn_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Observation:
    state: SlotState
    forecast: Forecast
    connector_state: str
    """The worst of the connector's and its task's."""


class SlotGuardian:
    """Observes one source again and again; its history is bounded and lives in memory only."""

    def __init__(self, source: Source, samples_max: int = SAMPLES_MAX) -> None:
        self._source = source
        self._samples: deque[Sample] = deque(maxlen=samples_max)

    def observe(self, conn: psycopg.Connection, connector_state: str = "UNKNOWN") -> Observation:
        state = observe(conn, self._source, self._samples)
        if self._samples and self._samples[-1].current_lsn > state.current_lsn:
            self._samples.clear()  # restored from a backup: the history speaks of another timeline
        self._samples.append(state.sample())
        return Observation(state, forecast(self._samples, _limit_bytes(state)), connector_state)


def judge(
    state: SlotState,
    connector_state: str,
    outlook: Forecast | None = None,
    limits: GuardianLimits = GuardianLimits(),  # noqa: B008, a frozen value
) -> list[Finding]:
    """All that is wrong, the worst first; a single `ok` when nothing is."""
    outlook = outlook or Forecast(0.0, None)
    found = [finding for rule in _RULES for finding in rule(state, connector_state, outlook, limits)]
    found.sort(key=lambda finding: finding.level != "fail")
    return found or [Finding("ok", "capture", f"running, {state.lag_bytes or 0} bytes behind")]


def _slot(state: SlotState, connector: str, outlook: Forecast, limits: GuardianLimits) -> Iterator[Finding]:
    if not state.exists:
        detail = f"there is no replication slot {state.name}"
        yield Finding("fail", "slot missing", detail, "headwater recover")
    elif state.lost:
        detail = (
            f"{state.invalidation_reason or 'its log was removed'}: changes since {state.confirmed_flush_lsn} are gone"
        )
        hint = "headwater recover"
        yield Finding("fail", "slot lost", detail, hint)


def _activity(state: SlotState, connector: str, outlook: Forecast, limits: GuardianLimits) -> Iterator[Finding]:
    if not state.exists or state.lost or state.active or connector in PAUSED:
        return  # what a person has paused is not read, and that is said
    since = state.inactive_since
    idle_s = (state.observed_at - since).total_seconds() if since else limits.inactive_warn_s
    if idle_s < limits.inactive_warn_s:
        return
    detail = f"nobody reads slot {state.name}" + (f" since {since.isoformat(timespec='seconds')}" if since else "")
    level: Level = "fail" if idle_s >= limits.inactive_fail_s else "warn"
    yield Finding(level, "slot inactive", detail, "headwater status; headwater logs connect")


def _filling(state: SlotState, connector: str, outlook: Forecast, limits: GuardianLimits) -> Iterator[Finding]:
    if not state.exists or state.lost:
        return
    hint = "restart capture with headwater up, or raise max_slot_wal_keep_size"
    if state.wal_status == "unreserved":
        detail = f"{state.retained_bytes} bytes kept, over the cap: the next checkpoint may remove them"
        yield Finding("fail", "wal over its cap", detail, hint)
    elif outlook.seconds_to_limit is not None and outlook.seconds_to_limit <= limits.fill_warn_s:
        minutes = outlook.seconds_to_limit / 60
        detail = f"{minutes:.0f} minutes left at {outlook.bytes_per_s:.0f} bytes/s, {state.retained_bytes} bytes kept"
        level: Level = "fail" if outlook.seconds_to_limit <= limits.fill_fail_s else "warn"
        yield Finding(level, "wal filling up", detail, hint)


def _lag(state: SlotState, connector: str, outlook: Forecast, limits: GuardianLimits) -> Iterator[Finding]:
    if state.active and not state.lost and state.lag_s is not None and state.lag_s > limits.lag_warn_s:
        detail = f"{state.lag_s:.0f} s and {state.lag_bytes} bytes behind"
        yield Finding("warn", "capture behind", detail, "headwater status; headwater logs connect")


def _connector(state: SlotState, connector: str, outlook: Forecast, limits: GuardianLimits) -> Iterator[Finding]:
    match connector:
        case "RUNNING":
            return
        case "FAILED":
            yield Finding("fail", "connector failed", "a task of the connector is FAILED", "headwater logs connect")
        case "MISSING":
            yield Finding("fail", "connector missing", "Kafka Connect has no such connector", "headwater up")
        case "PAUSED" | "STOPPED":
            kept = f"Postgres keeps {state.retained_bytes or 0} bytes of its log for it"
            left = f", {outlook.seconds_to_limit / 60:.0f} minutes to the cap" if outlook.seconds_to_limit else ""
            hint = "headwater capture resume"
            yield Finding("warn", "connector paused", f"the connector is {connector}; {kept}{left}", hint)
        case _:
            yield Finding("warn", "connector not running", f"the connector is {connector}", "headwater status")


_RULES: Final[tuple[Callable[[SlotState, str, Forecast, GuardianLimits], Iterator[Finding]], ...]] = (
    _slot,
    _connector,
    _filling,
    _activity,
    _lag,
)


class GuardianCollector(Collector):
    """Prometheus metrics of the last observation of each source; a value that is not known is not exported."""

    def __init__(self) -> None:
        self._last: dict[str, Observation] = {}

    def record(self, source: Source, observation: Observation) -> None:
        self._last[source.name] = observation

    def collect(self) -> Iterable[Metric]:
        last = dict(self._last)
        for name, help_text, value in _GAUGES:
            family = GaugeMetricFamily(f"headwater_{name}", help_text, labels=["source"])
            for source, observation in last.items():
                if (number := value(observation)) is not None:
                    family.add_metric([source], float(number))
            yield family
        family = GaugeMetricFamily(
            "headwater_connector_state", "1 for the connector's state.", labels=["source", "state"]
        )
        for source, observation in last.items():
            for state in CONNECTOR_STATES:
                family.add_metric([source, state], float(observation.connector_state == state))
        yield family


_GAUGES: Final[tuple[tuple[str, str, Callable[[Observation], float | None]], ...]] = (
    ("slot_exists", "1 if the replication slot is there.", lambda o: o.state.exists),
    ("slot_active", "1 if somebody reads the slot.", lambda o: o.state.active),
    ("slot_lost", "1 if Postgres has removed log that the slot needed.", lambda o: o.state.lost),
    ("slot_lag_bytes", "Log that is written and not confirmed.", lambda o: o.state.lag_bytes),
    ("slot_lag_seconds", "Age of the oldest unconfirmed log.", lambda o: o.state.lag_s),
    ("slot_retained_wal_bytes", "Log kept on disk for the slot.", lambda o: o.state.retained_bytes),
    ("slot_retained_wal_bytes_per_second", "Growth of the retained log.", lambda o: o.forecast.bytes_per_s),
    ("slot_safe_wal_bytes", "Log until the slot is in danger.", lambda o: o.state.safe_wal_bytes),
    ("slot_wal_limit_bytes", "The cap on retained log.", lambda o: o.state.wal_keep_max_bytes),
    ("slot_seconds_to_limit", "Time until the cap at this growth.", lambda o: o.forecast.seconds_to_limit),
    ("slot_observed_at_seconds", "When this was observed.", lambda o: o.state.observed_at.timestamp()),
)


def _limit_bytes(state: SlotState) -> int | None:
    """Where the slot is in danger: by Postgres' own reckoning where it gives one, else the setting."""
    if state.safe_wal_bytes is not None and state.retained_bytes is not None:
        return state.retained_bytes + state.safe_wal_bytes
    return state.wal_keep_max_bytes
