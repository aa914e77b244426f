"""Decides when a failed connector is restarted: a pure rule over what was seen, which keeper.py applies.

A failure that another try may cure (a connection that broke) is retried with a growing pause; after a quiet spell the
pause starts small again. A failure that would lose data when retried blindly is never retried: a person must look.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from cdc.connect import ConnectorStatus

FATAL: Final = re.compile(
    r"no longer available on the server"  # Debezium: its offset is older than the slot
    r"|has been removed from the database write-ahead log"
    r"|cannot seek to the last known offset|cannot advance replication slot"
    r"|replication slot .{0,80} does not exist"
    r"|can no longer (get changes from|access) replication slot"
    r"|slot has been invalidated"
    r"|requested WAL segment .{0,80} has already been removed",
    re.IGNORECASE,
)
"""Anywhere in a failure's trace they mean a gap: going on would skip changes."""
_DOUBLINGS_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class Mending:
    """What is remembered between two looks."""

    attempts: int = 0
    restarted_at: float = float("-inf")
    backoff_s: float = 1.0
    backoff_s_max: float = 60.0
    attempts_max: int = 1_000
    """In a row, before it is left as failed."""
    forget_after_s: float = 300.0

    def pause_s(self) -> float:
        """How long after the last restart the next one may be."""
        if not self.attempts:
            return 0.0
        return min(self.backoff_s * 2.0 ** min(self.attempts - 1, _DOUBLINGS_MAX), self.backoff_s_max)


@dataclass(frozen=True, slots=True)
class Decision:
    restart: bool
    mending: Mending
    reason: str = ""
    """Why it failed; empty while it does not."""
    fatal: bool = False
    """It must not be restarted by a machine: a person has to look."""


def decide(status: ConnectorStatus | None, mending: Mending, now: float) -> Decision:
    if status is None or not status.failed:
        quiet = now - mending.restarted_at > mending.forget_after_s
        return Decision(False, replace(mending, attempts=0) if quiet else mending)
    if refusal(status):
        return Decision(False, mending, status.reason, fatal=True)
    if mending.attempts >= mending.attempts_max:
        return Decision(False, mending, status.reason, fatal=True)
    if now - mending.restarted_at < mending.pause_s():
        return Decision(False, mending, status.reason)
    return Decision(True, replace(mending, attempts=mending.attempts + 1, restarted_at=now), status.reason)


def refusal(status: ConnectorStatus | None) -> str:
    """Why it must never be restarted as it is; empty where it may."""
    if status is None or not status.failed or not any(FATAL.search(trace) for trace in status.traces):
        return ""
    return status.reason
