"""Stretches of time that nobody is told of: a bulk load, a clean-up. Declared by people, in a table that is captured.

A change is silent when it was committed within a stretch, whenever it is matched: ending one does not bring the past up
again, and a matcher that is behind tells no more than one that is not. The order of the log decides, not a clock; the
transactions that begin and end a stretch are silent themselves, so that a load may do both in its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import psycopg
from psycopg.rows import class_row

from alerts.gathering import Logged
from cdc.errors import ConfigurationError
from cdc.events import Op, Row

_BEGIN: Final = """
    insert into headwater.quiet (view, reason) values (%s, %s) returning id, view, reason, began_at, ended_at
"""
# Locked, so that of two who end at once the second finds what the first left.
_OPEN: Final = """
    select id, view, reason, began_at, ended_at from headwater.quiet
    where ended_at is null and case when %(id)s::bigint is null then view is not distinct from %(view)s
        else id = %(id)s and (%(view)s::text is null or view = %(view)s) end
    order by id for update
"""
_END: Final = """
    update headwater.quiet set ended_at = clock_timestamp() where id = %s
    returning id, view, reason, began_at, ended_at
"""
_LIST: Final = "select id, view, reason, began_at, ended_at from headwater.quiet order by id desc limit %s"
# A load that ends a stretch in its own transaction is committed a moment later.
_AROUND: Final = """
    select id, view, reason, began_at, ended_at from headwater.quiet
    where (view is null or view = %(view)s) and began_at <= %(at)s
        and (ended_at is null or ended_at >= %(at)s::timestamptz - interval '1 second')
    order by id
"""
_SINCE: Final = """
    select id, view, reason, began_at, ended_at from headwater.quiet
    where (view is null or view = %s) and (ended_at is null or ended_at >= %s) order by id
"""
_FORGOTTEN: Final = """
    select id, view, reason, began_at, ended_at from headwater.quiet
    where ended_at is null and began_at < clock_timestamp() - make_interval(secs => %s) order by id
"""
_GOING_ON: Final = "select id from headwater.quiet where (view is null or view = %s) and ended_at is null"


FORGOTTEN_S: Final = 6 * 3_600.0
"""A stretch that is open for longer may have been forgotten."""


@dataclass(frozen=True, slots=True)
class Stretch:
    id: int
    view: str | None
    """None: all views."""
    reason: str
    began_at: datetime
    ended_at: datetime | None


class Silence:
    """Where the stretches of one view lie in the log, for what comes after the position that it is told of."""

    def __init__(self, view: str, going_on: Iterable[int]) -> None:
        """With those that go on now; the log says which of them began after the position."""
        self._view = view
        self._known: dict[int, tuple[int, int | None]] = dict.fromkeys(going_on, (0, None))
        """The ends of the transactions that began and ended each."""

    def take(self, logged: Logged) -> None:
        was, is_now = self._goes_on(logged.before), self._goes_on(logged.after)
        began, _ = self._known.get(logged.id, (0, None))
        if is_now and not was and (logged.op is not Op.READ or logged.id not in self._known):
            self._known[logged.id] = logged.end, None
        elif was and not is_now:
            self._known[logged.id] = began, logged.end

    def holds(self, end: int) -> bool:
        """Whether an epoch is silent that ends there."""
        return any(began <= end and (over is None or end <= over) for began, over in self._known.values())

    def _goes_on(self, row: Row | None) -> bool:
        return row is not None and row["view"] in (None, self._view) and row["ended_at"] is None


def begin(conn: psycopg.Connection, view: str | None = None, reason: str = "") -> Stretch:
    """What is committed after this returns is silent."""
    with conn.transaction():
        return conn.cursor(row_factory=class_row(Stretch)).execute(_BEGIN, [view, reason]).fetchall()[0]


def end(conn: psycopg.Connection, view: str | None = None, id_: int | None = None) -> Stretch:
    """That stretch; without a number the only one that is open of the view, or of all views. Several were begun by
    several people, so nobody ends them together."""
    with conn.transaction():
        rows = conn.cursor(row_factory=class_row(Stretch))
        found = rows.execute(_OPEN, {"id": id_, "view": view}).fetchall()
        if not found:
            fact = f"{view or 'the whole'} is not quiet" if id_ is None else f"no quiet stretch {id_} is open"
            raise ConfigurationError(fact, hint="headwater quiet list")
        if len(found) > 1:
            raise ConfigurationError(
                f"{len(found)} quiet stretches of {view or 'all views'} are open",
                detail="\n".join(map(_told, found)),
                hint="headwater quiet end ID",
            )
        return rows.execute(_END, [found[0].id]).fetchall()[0]


def _told(stretch: Stretch) -> str:
    since = f"{stretch.id}, since {stretch.began_at.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
    return f"{since}: {stretch.reason}" if stretch.reason else since


def listed(conn: psycopg.Connection, most: int = 100) -> list[Stretch]:
    return conn.cursor(row_factory=class_row(Stretch)).execute(_LIST, [most]).fetchall()


def around(conn: psycopg.Connection, view: str, at: datetime) -> list[Stretch]:
    """For people: those that an instant lies in by the clock. What is told goes by the log."""
    return conn.cursor(row_factory=class_row(Stretch)).execute(_AROUND, {"view": view, "at": at}).fetchall()


def since(conn: psycopg.Connection, view: str, at: datetime) -> list[Stretch]:
    """For people: those that go on, or went on after an instant."""
    return conn.cursor(row_factory=class_row(Stretch)).execute(_SINCE, [view, at]).fetchall()


def forgotten(conn: psycopg.Connection) -> list[Stretch]:
    """For people: those that are open for so long that nobody may know of them."""
    return conn.cursor(row_factory=class_row(Stretch)).execute(_FORGOTTEN, [FORGOTTEN_S]).fetchall()


def going_on(conn: psycopg.Connection, view: str) -> list[int]:
    """The stretches that a view is in now."""
    return [number for (number,) in conn.execute(_GOING_ON, [view])]
