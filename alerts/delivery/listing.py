"""Deliveries for who runs the service: what is on its way, what is dead and why, and to try again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple, get_args

import psycopg
from psycopg.rows import class_row

from alerts.clock import Clock, system_clock
from alerts.delivery.wanted import CLOSED, WANTED

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
_DEAD: Final = f"""
    from headwater.deliveries d join headwater.notifications n on n.id = d.notification_id
    where d.state = 'dead' and (%(all)s or d.id = any(%(ids)s)) and {WANTED}
"""
# Endpoints before deliveries, as everybody locks them.
_ENABLE: Final = f"""
    update headwater.endpoints e set disabled_reason = null, held_until = null, held_reason = null,
        failing_since = null, due_at = %(now)s
    from (
        select distinct d.owner, d.channel, d.target {_DEAD}
    ) d where (e.owner, e.channel, e.target) = (d.owner, d.channel, d.target)
"""
_REPLAY: Final = f"""
    update headwater.deliveries set state = 'pending', attempts = 0, next_attempt_at = %(now)s, settled_at = null
    where state = 'dead' and id in (select d.id {_DEAD}) returning id
"""
_UNWANTED: Final = f"""
    select d.id,
        case when {CLOSED} then 'nothing is sent to ' || d.target || ' any more' else 'its searches have ended' end
    from headwater.deliveries d join headwater.notifications n on n.id = d.notification_id
    where d.state = 'dead' and (%(all)s or d.id = any(%(ids)s)) and not {WANTED}
    order by d.id
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


class Replayed(NamedTuple):
    ids: list[int]
    """Tried again."""
    unwanted: dict[int, str]
    """Left dead, and why: their searches have ended, or their target wants nothing any more."""


def replay(conn: psycopg.Connection, ids: Sequence[int] | None, clock: Clock = system_clock) -> Replayed:
    """Dead ones are tried again, with the same id, these or all; an endpoint that was switched off is switched on. Not
    those that nobody wants any more."""
    given = {"all": ids is None, "ids": list(ids or ()), "now": clock()}
    with conn.transaction():
        unwanted: dict[int, str] = dict(conn.execute(_UNWANTED, given).fetchall())
        conn.execute(_ENABLE, given)
        return Replayed(sorted(number for (number,) in conn.execute(_REPLAY, given)), unwanted)
