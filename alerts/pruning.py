"""What is old is forgotten, piece by piece: news that was told, messages that were settled, stretches that are over,
values that were told so long ago, endpoints that nobody uses.

What still waits is never forgotten. A replay cannot bring anything back: the marks stay.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import psycopg

# Several may prune at once: what one has, the other skips. Materialized: a plan may run a subquery several times, and
# each time it would lock, and so find, other rows.
_NEWS: Final = """
    with old as materialized (
        select id from headwater.outbox
        where recorded_at < %(before)s and (told_at is not null or dropped_reason is not null)
        order by id limit %(most)s for update skip locked)
    delete from headwater.outbox n using old where n.id = old.id
"""
_MESSAGES: Final = """
    with old as materialized (
        select id from headwater.notifications n
        where created_at < %(before)s
            and not exists (
                select from headwater.deliveries d where d.notification_id = n.id and d.state = 'pending')
        limit %(most)s for update skip locked)
    delete from headwater.notifications n using old where n.id = old.id
"""
_STRETCHES: Final = """
    delete from headwater.quiet where id in (select id from headwater.quiet where ended_at < %(before)s limit %(most)s)
"""
# Most are of rows that are gone. For one that is still there the value before its next change counts again.
_VALUES: Final = """
    with old as materialized (
        select subscription_id, key_hash from headwater.told_values where told_at < %(before)s
        limit %(most)s for update skip locked)
    delete from headwater.told_values v using old
    where (v.subscription_id, v.key_hash) = (old.subscription_id, old.key_hash)
"""
_UNUSED: Final = """
    e.created_at < %(before)s
        and not exists (
            select from headwater.subscriptions s
            where (s.owner, s.channel, s.target) = (e.owner, e.channel, e.target))
        and not exists (
            select from headwater.notifications n
            where (n.owner, n.channel, n.target) = (e.owner, e.channel, e.target))
"""
# An endpoint comes into use under its owner's lock; whose is held, waits for the next time.
_LOCKED: Final = f"""
    select owner from headwater.owners
    where owner in (select e.owner from headwater.endpoints e where {_UNUSED} limit %(most)s)
    order by owner for update skip locked
"""
_ENDPOINTS: Final = f"""
    with old as materialized (
        select e.owner, e.channel, e.target from headwater.endpoints e
        where e.owner = any(%(owners)s) and {_UNUSED} limit %(most)s)
    delete from headwater.endpoints e using old
    where (e.owner, e.channel, e.target) = (old.owner, old.channel, old.target)
"""
ROWS_MAX: Final = 10_000


def prune(conn: psycopg.Connection, before: datetime, rows_max: int = ROWS_MAX) -> int:
    """How many rows went, at most `rows_max` of each kind; call it again while some do."""
    given = {"before": before, "most": rows_max}
    gone = sum(conn.execute(statement, given).rowcount for statement in (_NEWS, _MESSAGES, _STRETCHES, _VALUES))
    return gone + _endpoints(conn, given)


def _endpoints(conn: psycopg.Connection, given: dict[str, Any]) -> int:
    """Looked at again once their owners are locked: somebody may have come to use them."""
    with conn.transaction():
        owners = [owner for (owner,) in conn.execute(_LOCKED, given)]
        return conn.execute(_ENDPOINTS, given | {"owners": owners}).rowcount if owners else 0
