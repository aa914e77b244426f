"""The replication slot as it is now, and where its retained write-ahead log is heading.

The slot is what makes Postgres keep log for us, and what loses our place for ever once Postgres gives up keeping it.
One cheap query an observation; all arithmetic is pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString

import psycopg
from psycopg import errors
from psycopg.rows import dict_row

from cdc.addresses import Source
from cdc.errors import SourceError
from cdc.position import Lsn
from cdc.postgres import explained

# The slot through jsonb, because older servers have fewer of its columns.
_OBSERVE: Final[LiteralString] = """
    select
        clock_timestamp() as observed_at,
        (case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end)::text
            as current_lsn,
        pg_size_bytes(current_setting('max_slot_wal_keep_size')) as wal_keep_max_bytes,
        (select system_identifier::text from pg_control_system()) as system_identifier,
        case when pg_is_in_recovery() then (select timeline_id from pg_control_checkpoint())
             else ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer end as timeline,
        (select to_jsonb(s) from pg_replication_slots s where s.slot_name = %s) as slot,
"""
_BEAT: Final[LiteralString] = "(select beat_at from headwater.heartbeat where id = 1) as beat_at"
_NO_BEAT: Final[LiteralString] = "null::timestamptz as beat_at"


@dataclass(frozen=True, slots=True)
class Sample:
    """What is kept of an observation to see a trend."""

    at_s: float
    current_lsn: Lsn
    retained_bytes: int


@dataclass(frozen=True, slots=True)
class Forecast:
    bytes_per_s: float
    """Growth of the retained log; negative while it shrinks."""
    seconds_to_limit: float | None
    """None where it does not grow, or nothing limits it."""


@dataclass(frozen=True, slots=True)
class SlotState:
    name: str
    observed_at: datetime
    current_lsn: Lsn
    """How far Postgres has written its log."""
    exists: bool = False
    active: bool = False
    active_pid: int | None = None
    wal_status: str = ""
    """reserved, extended, unreserved or lost, as Postgres says."""
    restart_lsn: Lsn | None = None
    confirmed_flush_lsn: Lsn | None = None
    lag_bytes: int | None = None
    """Written and not yet confirmed by the connector."""
    retained_bytes: int | None = None
    """Kept on the server's disk for the slot."""
    safe_wal_bytes: int | None = None
    """What may still be written before the slot is in danger; None without a limit."""
    wal_keep_max_bytes: int | None = None
    inactive_since: datetime | None = None
    invalidation_reason: str = ""
    lag_s: float | None = None
    """How long the oldest unconfirmed part of the log has waited; None where that cannot be known."""
    system_identifier: str = ""
    timeline: int = 0
    """Of the server; 0 where it was not asked."""

    @property
    def lost(self) -> bool:
        return self.wal_status == "lost" or bool(self.invalidation_reason)

    def sample(self) -> Sample:
        return Sample(self.observed_at.timestamp(), self.current_lsn, self.retained_bytes or 0)


def observe(conn: psycopg.Connection, source: Source, samples: Sequence[Sample] = ()) -> SlotState:
    """The slot now. Earlier samples make `lag_s` exact; without them it is the age of the last heartbeat."""
    with explained(conn), conn.cursor(row_factory=dict_row) as cursor:
        try:
            with conn.transaction():
                row = cursor.execute(_OBSERVE + _BEAT, [source.slot]).fetchone()
        except (errors.UndefinedTable, errors.InvalidSchemaName):
            row = cursor.execute(_OBSERVE + _NO_BEAT, [source.slot]).fetchone()
    assert row is not None, "a select without from has one row"
    return parse(source.slot, row, samples)


def parse(name: str, row: Mapping[str, Any], samples: Sequence[Sample] = ()) -> SlotState:
    """Pure: one row of the query above, as a value."""
    current, observed_at = Lsn.parse(row["current_lsn"]), row["observed_at"]
    keep_max = row["wal_keep_max_bytes"]
    slot = row["slot"]
    server = row.get("system_identifier") or "", row.get("timeline") or 0
    if slot is None:
        return SlotState(
            name,
            observed_at,
            current,
            wal_keep_max_bytes=keep_max if keep_max >= 0 else None,
            system_identifier=server[0],
            timeline=server[1],
        )
    restart, confirmed = _lsn(slot["restart_lsn"]), _lsn(slot["confirmed_flush_lsn"])
    since = slot.get("inactive_since")
    beat_age_s = (observed_at - row["beat_at"]).total_seconds() if row["beat_at"] else None
    return SlotState(
        name=name,
        observed_at=observed_at,
        current_lsn=current,
        exists=True,
        active=slot["active"],
        active_pid=slot["active_pid"],
        wal_status=slot["wal_status"] or "",
        restart_lsn=restart,
        confirmed_flush_lsn=confirmed,
        lag_bytes=max(0, current - confirmed) if confirmed else None,
        retained_bytes=max(0, current - restart) if restart else None,
        safe_wal_bytes=slot["safe_wal_size"],
        wal_keep_max_bytes=keep_max if keep_max >= 0 else None,
        inactive_since=datetime.fromisoformat(since) if since else None,
        invalidation_reason=slot.get("invalidation_reason") or "",
        lag_s=_lag_s(confirmed, current, observed_at.timestamp(), samples, beat_age_s),
        system_identifier=server[0],
        timeline=server[1],
    )


def forecast(samples: Sequence[Sample], limit_bytes: int | None) -> Forecast:
    """Pure: the straight line through the samples (least squares), and when it meets the limit.

    Retained log goes up and down like a saw, since the slot moves in steps; a line through many sees through it.
    """
    rate = _slope([sample.at_s for sample in samples], [sample.retained_bytes for sample in samples])
    if limit_bytes is None or not samples:
        return Forecast(rate, None)
    left = limit_bytes - samples[-1].retained_bytes
    if left <= 0:
        return Forecast(rate, 0.0)
    return Forecast(rate, left / rate if rate > 0 else None)


def _slope(times: Sequence[float], values: Sequence[int]) -> float:
    if len(times) < 2:
        return 0.0
    middle = sum(times) / len(times)
    mean = sum(values) / len(values)
    spread = sum((time - middle) ** 2 for time in times)
    if spread == 0:
        return 0.0
    return sum((time - middle) * (value - mean) for time, value in zip(times, values, strict=True)) / spread


def _lag_s(
    confirmed: Lsn | None, current: Lsn, now_s: float, samples: Sequence[Sample], beat_age_s: float | None
) -> float | None:
    """The age of the newest sample that is confirmed whole: whatever waits was written after it."""
    if confirmed is None:
        return None
    if current <= confirmed:
        return 0.0
    for sample in reversed(samples):
        if sample.current_lsn <= confirmed:
            return max(0.0, now_s - sample.at_s)
    known = [age for age in (beat_age_s, now_s - samples[0].at_s if samples else None) if age is not None]
    return max(0.0, *known) if known else None


def _lsn(text: str | None) -> Lsn | None:
    return Lsn.parse(text) if text else None


def refuse_in_use(state: SlotState) -> None:
    """Raises while a connector reads the slot: it would fail on what is about to be taken away."""
    if state.active:
        raise SourceError(
            "capture is running",
            detail=f"process {state.active_pid} reads slot {state.name}",
            hint="headwater down; an embedded database goes with headwater down --reset",
        )
