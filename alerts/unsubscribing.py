"""One click that ends it: a token from a message or of a search, and addresses that want nothing any more.

A token ends the searches that its message named, or the one search that it belongs to. Whoever has it may do so: it
came with the message. Ending what has ended changes nothing. The owner sees the search as unsubscribed and may go on
with it; a suppressed target is closed to everybody until it is lifted. What waits to be sent is withdrawn with it.

A message closes the target that it went to, wherever its searches tell by now: who has it was reached there. The token
of a search was sent to nobody, and closes nothing. A message's token goes with the message (pruning.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import psycopg

from alerts.owners import lock_owner, withdraw
from alerts.refusals import NoSuchSearch
from alerts.suppressions import CLOSABLE, suppress
from alerts.waiting import drop

_MEANT: Final = """
    select s.id, s.owner, s.label, s.view, '', '', s.unsubscribed_at is not null
    from headwater.subscriptions s where s.unsubscribe_token = %(token)s
    union all
    select s.id, s.owner, s.label, s.view, n.channel, n.target, s.unsubscribed_at is not null
    from headwater.notifications n join headwater.subscriptions s on s.id = any(n.subscription_ids)
    where n.unsubscribe_token = %(token)s
    order by 1
"""
"""Two look-ups: anybody may ask, and one condition over both tables would look at every search."""
_SENT_TO: Final = "select channel, target from headwater.notifications where unsubscribe_token = %s"
_END: Final = """
    update headwater.subscriptions set paused = true, unsubscribed_at = now(), updated_at = now()
    where id = any(%s) and unsubscribed_at is null
"""


@dataclass(frozen=True, slots=True)
class Meant:
    """A search that a token is about."""

    id: int
    owner: str
    label: str
    view: str
    channel: str
    """Where the token's message went, with `target`; empty for the token of a search."""
    target: str
    is_ended: bool

    @property
    def name(self) -> str:
        return self.label or f"{self.view} ({self.id})"


def meant(conn: psycopg.Connection, token: str) -> list[Meant]:
    """What a token would end; changes nothing. None of them is left when the owner removed them all."""
    found = [Meant(*row) for row in conn.execute(_MEANT, {"token": token})]
    if not found and conn.execute(_SENT_TO, [token]).fetchone() is None:
        raise NoSuchSearch(
            "this link is not one of ours, or its message was forgotten", hint="open the link of a newer message"
        )
    return found


def unsubscribe(conn: psycopg.Connection, token: str, *, everything: bool = False) -> list[Meant]:
    """Ends what the token is about; with `everything` nothing is sent to where its message went any more, whoever asks
    for it."""
    with conn.transaction():
        owners = sorted({search.owner for search in meant(conn, token)})
        for owner in owners:
            lock_owner(conn, owner)
        found = meant(conn, token)
        conn.execute(_END, [[search.id for search in found]])
        for channel, target in conn.execute(_SENT_TO, [token]).fetchall() if everything else ():
            if channel in CLOSABLE:
                suppress(conn, channel, target, "unsubscribed")
        for owner in owners:
            drop(conn, owner, [search.id for search in found if search.owner == owner], "unsubscribed")
            withdraw(conn, owner)
        return found
