"""Whether a message is still wanted: what is asked of `headwater.notifications n` and `headwater.deliveries d`.

The same question when somebody ends a search, when a dead letter is tried again, and when a test message is sent. It is
asked once more when a message is claimed: who ends a search withdraws what waits, but not what another transaction was
just writing down, or trying again.
"""

from __future__ import annotations

from typing import Final

ASKED_FOR: Final = """
    exists (
        select from headwater.subscriptions s
        where s.id = any(n.subscription_ids) and not s.paused and (s.expires_at is null or s.expires_at > now()))
"""
"""One of the searches that it names is active: neither paused, ended, expired nor removed."""
_GOES_ON: Final = """
    exists (select from headwater.subscriptions s where s.id = any(n.subscription_ids) and not s.paused)
"""
CLOSED: Final = "exists (select from headwater.suppressions x where x.channel = d.channel and x.target = d.target)"
"""Nothing is to be sent to its target any more, whoever asks for it."""
WANTED: Final = f"({ASKED_FOR} and not {CLOSED})"
TO_SEND: Final = f"({_GOES_ON} and not {CLOSED})"
"""Wanted, or expired by itself: that is found out later, and makes a dead letter that says so (engine.py)."""
