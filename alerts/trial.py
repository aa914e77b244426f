"""A message that says nothing but that messages arrive: sent by the way that a saved search's news would go."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import psycopg

from alerts import numbering
from alerts.inbox import last_sequence
from alerts.notification import Event, Item, MatchedSearch, Notification
from alerts.notification_json import stored
from alerts.owners import lock_owner
from alerts.posting import Posting, post
from alerts.refusals import NothingIsSent
from alerts.saved_search import SavedSearch

REASON: Final = "this is a test: nothing has changed"


_CLOSED: Final = "select reason from headwater.suppressions where channel = %s and target = %s"


def send(conn: psycopg.Connection, search: SavedSearch, base_url: str) -> int:
    """The delivery's number; the service delivers it as any other. Raises NothingIsSent where news does not go."""
    wish, now = search.wish, datetime.now(UTC)
    if silence := search.silence(now):
        raise NothingIsSent(
            f"nothing is sent for saved search {search.id}",
            detail=f"it is {silence}",
            hint=f"headwater alerts {'edit' if silence == 'expired' else 'resume'} {search.id}",
        )
    item = Item(wish.view, {}, Event.ENTERED, {}, searches=(MatchedSearch(str(search.id), wish.label, REASON),))

    def body(id_: str, number: int, url: str) -> bytes:
        return stored(Notification(id_, search.owner, number, now, (item,), url))

    with conn.transaction():
        numbering.follow(conn)
        lock_owner(conn, search.owner)
        if closed := conn.execute(_CLOSED, [wish.channel, wish.target]).fetchone():
            raise NothingIsSent(
                f"nothing is sent to {wish.target} any more",
                detail=f"reason: {closed[0]}",
                hint=f"headwater suppressions lift {wish.channel} {wish.target}",
            )
        last = last_sequence(conn, search.owner)
        posting = Posting(search.owner, wish.channel, wish.target, [search.id], last, last, 0)
        return post(conn, posting, body, base_url, now).delivery
