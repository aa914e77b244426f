"""Addresses to which nothing is sent any more, whoever asks for it: they bounced, or somebody there wants no more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import psycopg
from psycopg.rows import class_row

ROWS_MAX: Final = 1_000
_SUPPRESS: Final = """
    insert into headwater.suppressions (channel, target, reason, detail) values (%s, %s, %s, %s)
    on conflict (channel, target) do nothing
"""
_WITHDRAW: Final = """
    update headwater.deliveries set state = 'suppressed', last_error = 'withdrawn: its target wants nothing any more'
    where channel = %s and target = %s and state = 'pending'
"""
_LISTED: Final = """
    select channel, target, reason, detail, created_at from headwater.suppressions
    where %(target)s = '' or target = %(target)s order by created_at desc, target limit %(most)s
"""
_LIFT: Final = "delete from headwater.suppressions where channel = %s and target = %s"
# A bounce switched it off for its owners, too.
_ENABLE: Final = """
    update headwater.endpoints set disabled_reason = null, failing_since = null
    where channel = %s and target = %s and disabled_reason is not null
"""


@dataclass(frozen=True, slots=True)
class Suppression:
    channel: str
    target: str
    reason: str
    """bounced, unsubscribed, complained or gone."""
    detail: str
    created_at: datetime


def suppress(conn: psycopg.Connection, channel: str, target: str, reason: str, detail: str = "") -> None:
    """The first reason stays. What waits to be sent there is withdrawn, whoever it is for."""
    with conn.transaction():
        conn.execute(_SUPPRESS, [channel, target, reason, detail])
        conn.execute(_WITHDRAW, [channel, target])


def listed(conn: psycopg.Connection, target: str = "", most: int = ROWS_MAX) -> list[Suppression]:
    """The newest first."""
    given = {"target": target, "most": most}
    return conn.cursor(row_factory=class_row(Suppression)).execute(_LISTED, given).fetchall()


def lift(conn: psycopg.Connection, channel: str, target: str) -> bool:
    """Whether the target was suppressed; it is not any more. What was withdrawn meanwhile stays so."""
    with conn.transaction():
        conn.execute(_ENABLE, [channel, target])
        return conn.execute(_LIFT, [channel, target]).rowcount > 0
