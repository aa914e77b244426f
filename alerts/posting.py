"""A message and its delivery, written down: the one place where a notification comes into being.

Under the owner's lock, in the caller's transaction: an owner's messages have numbers without gaps, in their order.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

import psycopg

from alerts.delivery.turns import DUE

_NEXT: Final = """
    update headwater.owners set last_notification = last_notification + 1 where owner = %s returning last_notification
"""
_NOTIFICATION: Final = """
    insert into headwater.notifications (id, owner, sequence, channel, target, subscription_ids, first_sequence,
        last_sequence, events, body, unsubscribe_token, created_at)
    values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""

Body = Callable[[str, int, str], bytes]
"""A notification as JSON, of its id, its number and the link that ends it."""


@dataclass(frozen=True, slots=True)
class Posting:
    """Who is told where, by which searches, of which news."""

    owner: str
    channel: str
    target: str
    subscription_ids: Sequence[int]
    first_sequence: int
    last_sequence: int
    events: int


class Posted(NamedTuple):
    notification: str
    delivery: int


def post(conn: psycopg.Connection, posting: Posting, body: Body, base_url: str, now: datetime) -> Posted:
    """Due at once."""
    id_, token = uuid.uuid4().hex, secrets.token_urlsafe(24)
    [[number]] = conn.execute(_NEXT, [posting.owner]).fetchall()
    made = body(id_, number, f"{base_url}/v1/alerts/unsubscribe/{token}").decode()
    where = (posting.channel, posting.target)
    about = (list(posting.subscription_ids), posting.first_sequence, posting.last_sequence, posting.events)
    conn.execute(_NOTIFICATION, [id_, posting.owner, number, *where, *about, made, token, now])
    return Posted(id_, due(conn, id_, posting.owner, *where, now))


def due(conn: psycopg.Connection, notification: str, owner: str, channel: str, target: str, at: datetime) -> int:
    """A delivery to be made then; its number."""
    given = {"notification": notification, "owner": owner, "channel": channel, "target": target, "at": at}
    [[delivery]] = conn.execute(DUE, given).fetchall()
    return int(delivery)
