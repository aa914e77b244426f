"""What waits to be told of a search when its owner changes it.

    rows of the outbox that nobody was told of ─▶ does it ask something else? judged, before the owner is locked
    under the lock: is it silent, or was it? all dropped ─▶ what came meanwhile judged ─▶ those dropped that it would
    not tell any more ─▶ the others wait by the new wish

A digest may hold hundreds of thousands, and whoever records news of a view waits for the owner's lock.

A row stays when the search, as it asks now, finds the same event in the same change. A threshold is not asked again:
what it is measured from is not in the row. A move of a column that is watched no more is no news.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec
import psycopg
from psycopg.rows import class_row

from alerts.grouping import first_due
from alerts.saved_search import MOVES, SavedSearch, Wish
from alerts.subscription import Event
from search.index import IndexDefinition, Row, decode_row

CHANGED: Final = "changed"
ROWS_PER_STEP: Final = 1_000
"""That are looked at together: a digest may hold many, and rows may be large."""
UNREADABLE: Final = (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError, msgspec.MsgspecError)
"""What reading a row, or asking something of it, raises where it does not fit the view."""
_ASKED: Final = ("query", "events", "columns", "watched_column")

_PENDING: Final = """
    owner = %(owner)s and subscription_id = any(%(searches)s) and told_at is null and dropped_reason is null
"""
_DROP: Final = f"update headwater.outbox set dropped_reason = %(reason)s where {_PENDING}"
_ROWS: Final = f"""
    select id, event, recorded_at, before::text as before, after::text as after from headwater.outbox
    where {_PENDING} and id > %(after)s order by id limit %(rows)s
"""
_DROP_THESE: Final = f"update headwater.outbox set dropped_reason = %(reason)s where {_PENDING} and id = any(%(ids)s)"
_RECORDED: Final = f"select distinct recorded_at from headwater.outbox where {_PENDING}"
_POSTPONE: Final = f"""
    update headwater.outbox o set due_at = n.due_at
    from unnest(%(recorded)s::timestamptz[], %(dues)s::timestamptz[]) n (recorded, due_at)
    where {_PENDING} and o.recorded_at = n.recorded and o.due_at is distinct from n.due_at
"""


class Waiting(NamedTuple):
    id: int
    event: str
    recorded_at: datetime
    before: str | None
    after: str | None


Wanted = Callable[[Waiting], bool]
"""Whether a search, as it asks now, would tell it."""
Text = bytes | str | None
Tells = Callable[[str, Text, Text, datetime], bool]
"""Whether it tells an event of a row that was so before and is so after, at an instant."""


def drop(conn: psycopg.Connection, owner: str, searches: Sequence[int], reason: str) -> None:
    conn.execute(_DROP, {"owner": owner, "searches": list(searches), "reason": reason})


class Judged(NamedTuple):
    """What a change of a search makes of the news that waits."""

    old: Wish | None = None
    new: Wish | None = None
    until: int = 0
    """The last row that was looked at."""
    unwanted: Sequence[int] = ()


def judge(
    conn: psycopg.Connection, old: SavedSearch, new: Wish, wants: Callable[[Wish], Wanted], after: int = 0
) -> Judged:
    """The rows beyond one, in their order. Writes nothing."""
    until, unwanted = after, list[int]()
    if any(getattr(old.wish, name) != getattr(new, name) for name in _ASKED):
        is_wanted, is_same_column = wants(new), old.wish.watched_column == new.watched_column
        asked = {"owner": old.owner, "searches": [old.id], "rows": ROWS_PER_STEP}
        with conn.cursor(row_factory=class_row(Waiting)) as cursor:
            while rows := cursor.execute(_ROWS, {**asked, "after": until}).fetchall():
                left = {row.id for row in rows if is_wanted(row) and (is_same_column or row.event not in MOVES)}
                unwanted += [row.id for row in rows if row.id not in left]
                until = rows[-1].id
    return Judged(old.wish, new, until, unwanted)


def wait_anew(
    conn: psycopg.Connection,
    old: SavedSearch,
    new: SavedSearch,
    wants: Callable[[Wish], Wanted],
    now: datetime,
    judged: Judged,
) -> None:
    """Under the owner's lock; `judged` is from before it. Nothing of a search that is silent, or was until now: also
    what was left from an end that has been put off."""
    silence = new.silence(now) or old.silence(now)
    if silence is not None:
        drop(conn, new.owner, [new.id], silence)
        return
    known = judged if (judged.old, judged.new) == (old.wish, new.wish) else Judged()  # another change may have come
    rest = judge(conn, old, new.wish, wants, known.until)
    mine = {"owner": new.owner, "searches": [new.id]}
    conn.execute(_DROP_THESE, {**mine, "reason": CHANGED, "ids": [*known.unwanted, *rest.unwanted]})
    recorded = [at for (at,) in conn.execute(_RECORDED, mine)]  # what was recorded at once has one instant
    conn.execute(_POSTPONE, {**mine, "recorded": recorded, "dues": [first_due(new.wish, at) for at in recorded]})


def by_event(wish: Wish) -> Wanted:
    """Where the view cannot be asked."""
    return lambda row: row.event in wish.events


def would_tell(wish: Wish, definition: IndexDefinition, now: datetime) -> Wanted:
    """By the evaluator: what the matcher would find now. Raises QueryRefused if the view cannot answer it."""
    tells = telling(wish, definition)
    return lambda row: tells(row.event, row.before, row.after, now)


def telling(wish: Wish, definition: IndexDefinition) -> Tells:
    """Raises QueryRefused if the view cannot answer it."""
    from alerts.matcher.naive import Evaluator  # compiled code: most callers never need it
    from alerts.saved_row import entry_of

    saved = {"query": msgspec.json.encode(wish.query).decode(), "events": wish.events, "columns": wish.columns}
    evaluator = Evaluator(definition)
    evaluator.put(entry_of(0, {**saved, "watched_column": wish.watched_column}, definition))

    def tells(event: str, before: Text, after: Text, now: datetime) -> bool:
        try:
            change = _decoded(definition, before), _decoded(definition, after)
            found = list(evaluator.events(change, now))
        except UNREADABLE:  # of the view as it was: another type may show only when something is asked of it
            return False
        return any(Event[event.upper()] in Event(bits) for _, bits in found)

    return tells


def _decoded(definition: IndexDefinition, row: Text) -> Row | None:
    return None if row is None else decode_row(definition, row)
