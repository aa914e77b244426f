"""When the searches in force at a position of the log expire, those that do. A change that was committed after that is
told to nobody, also when the search has been given more time by the time that it is matched.

    table, as it is now ─ what changed since the position undone ─▶ as it was there ─▶ in the log's order from there on
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import psycopg

from alerts.gathering import Logged
from cdc.events import Row
from cdc.pgtypes.instants import parse_timestamptz
from cdc.relations import SUBSCRIPTIONS

_EXPIRING: Final = f"""
    select id, (expires_at at time zone 'UTC')::text from {SUBSCRIPTIONS}
    where view = %(view)s and expires_at is not null and (%(only)s::bigint[] is null or id = any(%(only)s))
"""


class Expiries:
    def __init__(self, known: Iterable[tuple[int, str]] = ()) -> None:
        self._at_us = {number: int(parse_timestamptz(text)) for number, text in known}

    @classmethod
    def read(cls, conn: psycopg.Connection, view: str, only: Sequence[int] | None = None) -> Expiries:
        given = {"view": view, "only": None if only is None else list(only)}
        return cls(conn.execute(_EXPIRING, given).fetchall())

    def undo(self, ahead: Sequence[Logged]) -> None:
        for saved in reversed(ahead):
            self._set(saved.id, saved.before)

    def take(self, saved: Logged) -> None:
        self._set(saved.id, saved.after)

    def has_passed(self, number: int, at_us: int) -> bool:
        expires_us = self._at_us.get(number)
        return expires_us is not None and expires_us <= at_us

    def _set(self, number: int, row: Row | None) -> None:
        text = None if row is None else row.get("expires_at")
        if isinstance(text, str):
            self._at_us[number] = int(parse_timestamptz(text))
        else:
            self._at_us.pop(number, None)
