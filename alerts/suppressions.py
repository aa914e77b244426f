"""Addresses to which nothing is sent any more, whoever asks for it: they bounced, or somebody there wants no more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, get_args

import psycopg
from psycopg.rows import class_row

from cdc.errors import ConfigurationError

ROWS_MAX: Final = 1_000
DETAIL_CHARACTERS_MAX: Final = 500
Reason = Literal["bounced", "complained", "unsubscribed", "gone"]
REASONS: Final[tuple[str, ...]] = get_args(Reason)
CLOSABLE: Final = ("email", "webhook")
"""Channels whose targets are somebody's; feed and topic have none."""
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
    """The first reason stays. What waits to be sent there is withdrawn, whoever it is for. Raises ConfigurationError
    for what is no address of somebody's, or no reason."""
    if channel not in CLOSABLE or not target.strip():
        raise ConfigurationError(
            f"no address that can be closed: {channel} {target}", detail=f"of {' or '.join(CLOSABLE)}",
            hint="headwater suppressions add email ada@example.com",
        )  # fmt: skip
    if reason not in REASONS:
        raise ConfigurationError(f"no reason to close an address: {reason}", hint=f"one of {', '.join(REASONS)}")
    target, detail = _spelled(channel, target), detail[:DETAIL_CHARACTERS_MAX]
    with conn.transaction():
        conn.execute(_SUPPRESS, [channel, target, reason, detail])
        conn.execute(_WITHDRAW, [channel, target])


def listed(conn: psycopg.Connection, target: str = "", most: int = ROWS_MAX) -> list[Suppression]:
    """The newest first."""
    given = {"target": target, "most": most}
    return conn.cursor(row_factory=class_row(Suppression)).execute(_LISTED, given).fetchall()


def lift(conn: psycopg.Connection, channel: str, target: str) -> bool:
    """Whether the target was suppressed; it is not any more. What was withdrawn meanwhile stays so."""
    target = _spelled(channel, target)
    with conn.transaction():
        conn.execute(_ENABLE, [channel, target])
        return conn.execute(_LIFT, [channel, target]).rowcount > 0


def _spelled(channel: str, target: str) -> str:
    """As saved searches have it (alerts/wish_reading.py)."""
    return target.lower() if channel == "email" else target
