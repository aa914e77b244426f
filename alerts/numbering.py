"""Numbers that nobody was given before, also when the database was put back to an earlier point.

What owners are told is numbered in the captured database. Put back, it would give numbers again that feeds and browsers
have had, and who asks for what came after the last one they had would never hear of it. So its history is noted beside
the numbers: the cluster, the timeline, and this table itself, which a dump makes anew. Where that is another than was
noted, all numbers go on from the microsecond of that moment: nobody is told a million news a second, so it is beyond
any that was given out.
"""

from __future__ import annotations

from typing import Final

import psycopg

from alerts.owners import RECORDING

_HISTORY: Final = """
    concat_ws('/', (select system_identifier from pg_control_system()), left(pg_walfile_name(pg_current_wal_lsn()), 8),
        'headwater.numbering'::regclass::oid)
"""
_IS_SAME: Final = f"select history = {_HISTORY} from headwater.numbering"
_BOTH: Final = f"select history, {_HISTORY} from headwater.numbering for update"
_NOTE: Final = "update headwater.numbering set history = %s"
# Owners who come back after they were lost begin beyond, too (owners.py, outbox.py).
_BEYOND: Final = """
    with numbering as (
        update headwater.numbering set first = (extract(epoch from clock_timestamp()) * 1000000)::bigint returning first
    ), locked as materialized (
        select owner from headwater.owners order by owner for no key update
    )
    update headwater.owners o set last_sequence = greatest(o.last_sequence, n.first),
        last_notification = greatest(o.last_notification, n.first)
    from locked l, numbering n where o.owner = l.owner
"""


def follow(conn: psycopg.Connection) -> None:
    """In the transaction that gives numbers, before it locks any owner."""
    [(is_same,)] = conn.execute(_IS_SAME).fetchall()
    if not is_same:
        with conn.transaction():
            [(known, history)] = conn.execute(_BOTH).fetchall()  # another may have come first
            conn.execute(_NOTE, [history])
            if known not in (None, history):
                conn.execute(_BEYOND)


def move_on(conn: psycopg.Connection) -> None:
    """Where somebody knows better: a volume that was put back has the history that it had."""
    with conn.transaction():
        conn.execute("select pg_advisory_xact_lock(%s)", [RECORDING])  # who records much locks owners piece by piece
        conn.execute(_BEYOND)
