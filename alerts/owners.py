"""An owner's row: the lock under which everything of theirs changes, and what is withdrawn when they want no more."""

from __future__ import annotations

from typing import Final

import psycopg

from alerts.delivery.wanted import WANTED

RECORDING: Final = 0x6865_6164_6F75_7462
"""The lock of who locks owners in another order than that of their names: nobody else locks several meanwhile."""
_LOCK: Final = """
    insert into headwater.owners (owner, last_sequence, last_notification)
    select %s, first, first from headwater.numbering
    on conflict (owner) do update set owner = excluded.owner
"""
# A message is withdrawn when none of the searches that it names is active any more, or its target is suppressed.
_WITHDRAW: Final = f"""
    update headwater.deliveries d set state = 'suppressed', last_error = 'withdrawn: its searches have ended'
    from headwater.notifications n
    where n.id = d.notification_id and n.owner = %s and d.state = 'pending' and not {WANTED}
"""


def lock_owner(conn: psycopg.Connection, owner: str) -> None:
    """Until the end of the transaction. Who locks several does so in the order of their names."""
    conn.execute(_LOCK, [owner])


def withdraw(conn: psycopg.Connection, owner: str) -> int:
    """Messages that were not sent yet and are not wanted any more; under the owner's lock."""
    return conn.execute(_WITHDRAW, [owner]).rowcount
