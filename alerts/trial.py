"""A message that says nothing but that messages arrive: sent by the way that a saved search's news would go."""

from __future__ import annotations

import secrets
import uuid
from datetime import UTC, datetime
from typing import Final

import psycopg

from alerts.notification import Event, Item, MatchedSearch, Notification
from alerts.notification_json import stored
from alerts.owners import lock_owner
from alerts.saved_search import SavedSearch

REASON: Final = "this is a test: nothing has changed"
_NEXT: Final = """
    update headwater.owners set last_notification = last_notification + 1 where owner = %s
    returning last_notification, last_sequence
"""
_NOTIFICATION: Final = """
    insert into headwater.notifications (id, owner, sequence, channel, target, subscription_ids, first_sequence,
        last_sequence, events, body, unsubscribe_token, created_at)
    values (%s, %s, %s, %s, %s, %s, %s, %s, 0, %s, %s, %s)
"""
_DELIVERY: Final = """
    insert into headwater.deliveries (notification_id, channel, target) values (%s, %s, %s) returning id
"""


def send(conn: psycopg.Connection, search: SavedSearch, base_url: str) -> int:
    """The delivery's number; the service delivers it as any other."""
    wish, id_, token, now = search.wish, uuid.uuid4().hex, secrets.token_urlsafe(24), datetime.now(UTC)
    item = Item(wish.view, {}, Event.ENTERED, {}, searches=(MatchedSearch(str(search.id), wish.label, REASON),))
    with conn.transaction():
        lock_owner(conn, search.owner)
        [[number, last]] = conn.execute(_NEXT, [search.owner]).fetchall()
        url = f"{base_url}/v1/alerts/unsubscribe/{token}"
        body = stored(Notification(id_, search.owner, number, now, (item,), url)).decode()
        where = [wish.channel, wish.target]
        values = [id_, search.owner, number, *where, [search.id], last, last, body, token, now]
        conn.execute(_NOTIFICATION, values)
        [[delivery]] = conn.execute(_DELIVERY, [id_, *where]).fetchall()
    return int(delivery)
