"""Stretches of time that nobody is told of: a bulk load, a clean-up. Declared by people, in the database's own clock.

A change is silent when it was committed within a stretch, whenever it is matched: ending one does not bring the past up
again, and a matcher that is behind tells no more than one that is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import psycopg
from psycopg.rows import class_row

from cdc.errors import ConfigurationError

_BEGIN: Final = """
    insert into headwater.quiet (view, reason) values (%s, %s) returning id, view, reason, began_at, ended_at
"""
_END: Final = """
    update headwater.quiet set ended_at = clock_timestamp() where view is not distinct from %s and ended_at is null
    returning id, view, reason, began_at, ended_at
"""
_LIST: Final = "select id, view, reason, began_at, ended_at from headwater.quiet order by id desc limit %s"
_OF_VIEW: Final = """
    select id, view, reason, began_at, ended_at from headwater.quiet
    where (view is null or view = %s) and (ended_at is null or ended_at >= %s) and began_at <= %s
"""


@dataclass(frozen=True, slots=True)
class Stretch:
    id: int
    view: str | None
    """None: all views."""
    reason: str
    began_at: datetime
    ended_at: datetime | None

    def holds(self, at: datetime) -> bool:
        return self.began_at <= at and (self.ended_at is None or at <= self.ended_at)


def begin(conn: psycopg.Connection, view: str | None = None, reason: str = "") -> Stretch:
    """What is committed after this returns is silent."""
    with conn.transaction():
        return conn.cursor(row_factory=class_row(Stretch)).execute(_BEGIN, [view, reason]).fetchall()[0]


def end(conn: psycopg.Connection, view: str | None = None) -> list[Stretch]:
    with conn.transaction():
        ended = conn.cursor(row_factory=class_row(Stretch)).execute(_END, [view]).fetchall()
    if not ended:
        raise ConfigurationError(f"{view or 'the whole'} is not quiet", hint="headwater quiet begin")
    return ended


def listed(conn: psycopg.Connection, most: int = 100) -> list[Stretch]:
    return conn.cursor(row_factory=class_row(Stretch)).execute(_LIST, [most]).fetchall()


def stretches(conn: psycopg.Connection, view: str, first_at: datetime, last_at: datetime) -> Sequence[Stretch]:
    """Those that may hold a change of the view that was committed between the two."""
    return conn.cursor(row_factory=class_row(Stretch)).execute(_OF_VIEW, [view, first_at, last_at]).fetchall()
