"""How much is told, and whether it arrives: counted in the source database, over the newest rows only, so that asking
costs the same however much was ever told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

NEWEST: Final = 100_000
MINUTES: Final = 60
_SEARCHES: Final = """
    select view, count(*) as all, count(*) filter (where not paused and unsubscribed_at is null) as active,
        count(distinct owner) as owners
    from headwater.subscriptions group by view order by view
"""
_TOLD: Final = """
    with newest as (
        select * from headwater.outbox where id > (select coalesce(max(id), 0) - %(newest)s from headwater.outbox)
    ), minutes as (
        select generate_series(%(minutes)s - 1, 0, -1) as ago
    )
    select ago, count(o.id) as recorded, count(o.told_at) as told, count(o.dropped_reason) as dropped
    from minutes left join newest o
        on o.recorded_at > now() - interval '1 minute' * (ago + 1)
        and o.recorded_at <= now() - interval '1 minute' * ago
    group by ago order by ago desc
"""
_WAITING: Final = """
    select count(*) as waiting, min(due_at) as due_at from headwater.outbox
    where told_at is null and dropped_reason is null and due_at <= now()
"""
_DELIVERIES: Final = """
    with newest as (
        select * from headwater.deliveries
        where id > (select coalesce(max(id), 0) - %(newest)s from headwater.deliveries)
    )
    select channel, count(*) filter (where state = 'pending') as pending,
        count(*) filter (where state = 'delivered') as delivered,
        count(*) filter (where state = 'suppressed') as suppressed, count(*) filter (where state = 'dead') as dead,
        percentile_cont(0.5) within group (order by extract(epoch from settled_at - created_at))
            filter (where state = 'delivered') as median_s
    from newest group by channel order by channel
"""


@dataclass(frozen=True, slots=True)
class Minute:
    ago: int
    recorded: int
    told: int
    dropped: int


@dataclass(frozen=True, slots=True)
class AlertFigures:
    searches: tuple[Mapping[str, Any], ...]
    minutes: tuple[Minute, ...]
    """Of the last hour, the oldest first."""
    waiting: int
    """Recorded, due, and not yet told."""
    oldest_due_at: datetime | None
    channels: tuple[Mapping[str, Any], ...]

    @property
    def active(self) -> int:
        return sum(row["active"] for row in self.searches)

    @property
    def recorded(self) -> int:
        return sum(minute.recorded for minute in self.minutes)

    @property
    def told(self) -> int:
        return sum(minute.told for minute in self.minutes)

    @property
    def dropped(self) -> int:
        return sum(minute.dropped for minute in self.minutes)

    def sum(self, state: str) -> int:
        return sum(row[state] for row in self.channels)


def alert_figures(conn: psycopg.Connection) -> AlertFigures:
    limits = {"newest": NEWEST, "minutes": MINUTES}
    with conn.cursor(row_factory=dict_row) as cursor:
        searches = cursor.execute(_SEARCHES).fetchall()
        minutes = cursor.execute(_TOLD, limits).fetchall()
        [waiting] = cursor.execute(_WAITING).fetchall()
        channels = cursor.execute(_DELIVERIES, limits).fetchall()
    return AlertFigures(
        tuple(searches),
        tuple(Minute(**row) for row in minutes),
        waiting["waiting"],
        waiting["due_at"],
        tuple(channels),
    )
