"""Whether a message is still wanted: what is asked of `headwater.notifications n` and `headwater.deliveries d`.

The same question when somebody ends a search, when a dead letter is tried again, and when a test message is sent.
"""

from __future__ import annotations

from typing import Final

ASKED_FOR: Final = """
    exists (
        select from headwater.subscriptions s
        where s.id = any(n.subscription_ids) and not s.paused and (s.expires_at is null or s.expires_at > now()))
"""
"""One of the searches that it names is active: neither paused, ended, expired nor removed."""
CLOSED: Final = "exists (select from headwater.suppressions x where x.channel = d.channel and x.target = d.target)"
"""Nothing is to be sent to its target any more, whoever asks for it."""
WANTED: Final = f"({ASKED_FOR} and not {CLOSED})"
