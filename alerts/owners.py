"""An owner's row: the lock under which everything of theirs changes, and what is withdrawn when they want no more."""

from __future__ import annotations

from typing import Final

import psycopg

_LOCK: Final = """
    insert into headwater.owners (owner) values (%s) on conflict (owner) do update set owner = excluded.owner
"""
# A message is withdrawn when none of the searches that it names is active any more, or its target is suppressed.
_WITHDRAW: Final = """
    update headwater.deliveries d set state = 'suppressed', last_error = 'withdrawn: its searches have ended'
    from headwater.notifications n
    where n.id = d.notification_id and n.owner = %s and d.state = 'pending' and (
        not exists (
            select from headwater.subscriptions s
            where s.id = any(n.subscription_ids) and not s.paused and (s.expires_at is null or s.expires_at > now()))
        or exists (
            select from headwater.suppressions x where x.channel = d.channel and x.target = d.target))
"""


def lock_owner(conn: psycopg.Connection, owner: str) -> None:
    """Until the end of the transaction. Who locks several does so in the order of their names."""
    conn.execute(_LOCK, [owner])


def withdraw(conn: psycopg.Connection, owner: str) -> int:
    """Messages that were not sent yet and are not wanted any more; under the owner's lock."""
    return conn.execute(_WITHDRAW, [owner]).rowcount
