"""What an owner was told of, by their sequence: everything in the outbox, whatever channel it also goes out by.

Numbers become visible in their order (outbox.py): who has read up to one and asks for those after it misses none.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final, LiteralString

import psycopg
from psycopg.rows import class_row

from alerts.notification import Notification
from alerts.notification_json import restored
from cdc.errors import DecodeError

ROWS_MAX: Final = 1_000
BYTES_MAX: Final = 4 << 20
"""Of rows that are read at a time: they may be large, and many may read."""
SAID_BYTES_MAX: Final = 1 << 20
"""Of messages, which are decoded, too."""
ITEM_ROWS_MAX: Final = 20

_NEWS: Final[LiteralString] = """
    select o.sequence, o.subscription_id, coalesce(s.label, '') as label, o.view, o.key, o.event, o.reason,
        o.before::text as before, o.after::text as after, o.position, o.committed_at, o.recorded_at, o.told_at,
        o.notification_id, o.dropped_reason,
        case when o.told_at is null and o.dropped_reason is null then o.due_at end as due_at
    from headwater.outbox o left join headwater.subscriptions s on s.id = o.subscription_id
"""
_AFTER: Final = f"""
    {_NEWS} where o.owner = %(owner)s and o.sequence > %(after)s and o.sequence <= (
        select max(sequence) from (
            select sequence, sum(size) over (order by sequence) - size as bytes_before from (
                select sequence,
                    coalesce(octet_length(before::text), 0) + coalesce(octet_length(after::text), 0) as size
                from headwater.outbox where owner = %(owner)s and sequence > %(after)s order by sequence limit %(rows)s
            ) sizes
        ) sums where bytes_before < %(bytes)s
    ) order by o.sequence
"""
"""One at least: a size is known without its text being read."""
_NEWEST: Final = f"{_NEWS} where o.owner = %s and o.sequence < %s order by o.sequence desc limit %s"
_OF_SEARCH: Final = f"{_NEWS} where o.owner = %s and o.subscription_id = %s order by o.sequence desc limit %s"
_TALLIES: Final = """
    select subscription_id, count(*), max(recorded_at) from headwater.outbox
    where owner = %s and recorded_at >= %s group by subscription_id
"""
_LAST: Final = "select owner, last_sequence from headwater.owners where owner = any(%s)"
_OF_ITEM: Final = f"{_NEWS} where o.subscription_id = %s and o.key_hash = %s order by o.sequence desc limit %s"
_VALUE: Final = "select value, told_at from headwater.told_values where subscription_id = %s and key_hash = %s"
_SAID: Final = """
    select sequence, body::text from (
        select sequence, body, sum(octet_length(body::text)) over (order by sequence) - octet_length(body::text)
            as bytes_before
        from (
            select sequence, body from headwater.notifications
            where owner = %s and channel = 'feed' and sequence > %s order by sequence limit %s
        ) bodies
    ) sums where bytes_before < %s order by sequence
"""


@dataclass(frozen=True, slots=True)
class News:
    sequence: int
    subscription_id: int
    label: str
    view: str
    key: str
    event: str
    reason: str
    before: str | None
    after: str | None
    position: str
    committed_at: datetime | None
    recorded_at: datetime
    told_at: datetime | None
    notification_id: str | None
    dropped_reason: str | None
    """Why nobody was sent this: paused, expired, unsubscribed, changed, removed or suppressed."""
    due_at: datetime | None = None
    """When it is looked at next, while it waits: a digest, quiet hours, a cap."""


def after(conn: psycopg.Connection, owner: str, sequence: int = 0, most: int = ROWS_MAX) -> list[News]:
    """The owner's news with greater numbers, oldest first: as many as are read at a time, none when there is none."""
    given = {"owner": owner, "after": sequence, "rows": min(most, ROWS_MAX), "bytes": BYTES_MAX}
    return conn.cursor(row_factory=class_row(News)).execute(_AFTER, given).fetchall()


def newest(conn: psycopg.Connection, owner: str, before: int, most: int) -> list[News]:
    """The owner's news with lesser numbers, newest first."""
    return conn.cursor(row_factory=class_row(News)).execute(_NEWEST, [owner, before, min(most, ROWS_MAX)]).fetchall()


def of_search(conn: psycopg.Connection, owner: str, subscription_id: int, most: int = ITEM_ROWS_MAX) -> list[News]:
    """The last news of one saved search, newest first."""
    return conn.cursor(row_factory=class_row(News)).execute(_OF_SEARCH, [owner, subscription_id, most]).fetchall()


def tallies(conn: psycopg.Connection, owner: str, since: datetime) -> dict[int, tuple[int, datetime]]:
    """By saved search: how much it told since then, and when last."""
    return {id_: (count, last_at) for id_, count, last_at in conn.execute(_TALLIES, [owner, since])}


def last_sequences(conn: psycopg.Connection, owners: Sequence[str]) -> dict[str, int]:
    """The newest number of each: one question for all who wait."""
    return dict(conn.execute(_LAST, [list(owners)]).fetchall())


def of_item(conn: psycopg.Connection, subscription_id: int, hash_: bytes, most: int = ITEM_ROWS_MAX) -> list[News]:
    """The last news of one row for one saved search, newest first."""
    return conn.cursor(row_factory=class_row(News)).execute(_OF_ITEM, [subscription_id, hash_, most]).fetchall()


def last_value(conn: psycopg.Connection, subscription_id: int, hash_: bytes) -> tuple[Decimal, datetime] | None:
    """What counts as told of the watched column of one row, and since when; None: nothing."""
    row = conn.execute(_VALUE, [subscription_id, hash_]).fetchone()
    return (row[0], row[1]) if row else None


def notifications(conn: psycopg.Connection, owner: str, sequence: int = 0, most: int = ROWS_MAX) -> list[Notification]:
    """What was said in the owner's feed, by the numbers of the messages: a digest may tell of older news."""
    said, last = list[Notification](), sequence
    while not said:
        found = conn.execute(_SAID, [owner, last, min(most, ROWS_MAX), SAID_BYTES_MAX]).fetchall()
        if not found:
            break
        last = found[-1][0]
        for _, text in found:
            with suppress(DecodeError):  # a dead letter; those behind it are read
                said.append(restored(text.encode()))
    return said


def last_sequence(conn: psycopg.Connection, owner: str) -> int:
    row = conn.execute("select last_sequence from headwater.owners where owner = %s", [owner]).fetchone()
    return int(row[0]) if row else 0
