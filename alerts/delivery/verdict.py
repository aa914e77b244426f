"""What becomes of a delivery after an attempt: pure, from the channel's outcome and how often it was tried.

Sent       done
Again      due again at a time
Dead       to the dead letters: kept with its reason until somebody replays it
Disabled   the endpoint itself is switched off, as it is gone or has failed for days; whatever waits for it goes to the
           dead letters
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from alerts.channels.channel import Delivered, Gone, Outcome, Refused
from alerts.delivery.schedule import delay_s

REASON_CHARACTERS_MAX: Final = 500
DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Sent:
    pass


@dataclass(frozen=True, slots=True)
class Again:
    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Dead:
    reason: str


@dataclass(frozen=True, slots=True)
class Disabled:
    reason: str


Verdict = Sent | Again | Dead | Disabled


def decide(outcome: Outcome, attempts: int, now: datetime, draw: float, failed_for: timedelta | None = None) -> Verdict:
    """`attempts` counts the one that had this outcome; `draw` is random in [0, 1). `failed_for` is given when the
    endpoint, whatever is sent there, has failed for longer than one may (engine.py)."""
    if isinstance(outcome, Delivered):
        return Sent()
    reason = outcome.reason[:REASON_CHARACTERS_MAX]
    if isinstance(outcome, Gone):
        return Disabled(reason)
    if isinstance(outcome, Refused):
        return Dead(reason)
    if failed_for is not None:
        return Disabled(f"it has failed for {failed_for / DAY:.1f} days, at last: {reason}"[:REASON_CHARACTERS_MAX])
    wait_s = delay_s(attempts, draw)
    if wait_s is None:
        return Dead(f"{reason}, at the last of {attempts} attempts")
    return Again(now + timedelta(seconds=max(wait_s, outcome.after_s or 0.0)), reason)
