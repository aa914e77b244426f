"""Deliveries for who runs the service: what is on its way, what is dead and why, and to try again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, get_args

import psycopg
from psycopg.rows import class_row

from alerts.clock import Clock, system_clock

State = Literal["pending", "delivered", "suppressed", "dead"]
STATES: Final[tuple[str, ...]] = get_args(State)
ROWS_MAX: Final = 1_000
_LISTED: Final = """
    select d.id, d.owner, d.channel, d.target, d.state, d.attempts, d.next_attempt_at, d.last_error, d.created_at,
        d.settled_at, n.id as notification, e.disabled_reason
    from headwater.deliveries d
        join headwater.notifications n on n.id = d.notification_id
        left join headwater.endpoints e on (e.owner, e.channel, e.target) = (d.owner, d.channel, d.target)
    where (%(state)s = '' or d.state = %(state)s) and (%(owner)s = '' or d.owner = %(owner)s)
    order by d.id desc limit %(most)s
"""
# Endpoints before deliveries, as everybody locks them.
_ENABLE: Final = """
    update headwater.endpoints e set disabled_reason = null, held_until = null, held_reason = null,
        failing_since = null, due_at = %(now)s
    from (
        select distinct owner, channel, target from headwater.deliveries
        where state = 'dead' and (%(all)s or id = any(%(ids)s))
    ) d where (e.owner, e.channel, e.target) = (d.owner, d.channel, d.target)
"""
_REPLAY: Final = """
    update headwater.deliveries set state = 'pending', attempts = 0, next_attempt_at = %(now)s, settled_at = null
    where state = 'dead' and (%(all)s or id = any(%(ids)s)) returning id
"""


@dataclass(frozen=True, slots=True)
class Listed:
    id: int
    owner: str
    channel: str
    target: str
    state: str
    attempts: int
    next_attempt_at: datetime
    last_error: str
    created_at: datetime
    settled_at: datetime | None
    notification: str
    disabled_reason: str | None
    """Why nothing is sent there any more."""


def listed(conn: psycopg.Connection, state: str = "", owner: str = "", most: int = 100) -> list[Listed]:
    """The newest first."""
    given = {"state": state, "owner": owner, "most": min(most, ROWS_MAX)}
    return conn.cursor(row_factory=class_row(Listed)).execute(_LISTED, given).fetchall()


def replay(conn: psycopg.Connection, ids: Sequence[int] | None, clock: Clock = system_clock) -> list[int]:
    """Dead ones are tried again, with the same id, these or all; an endpoint that was switched off is switched on."""
    given = {"all": ids is None, "ids": list(ids or ()), "now": clock()}
    with conn.transaction():
        conn.execute(_ENABLE, given)
        return sorted(number for (number,) in conn.execute(_REPLAY, given))
