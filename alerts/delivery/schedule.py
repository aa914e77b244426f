"""When an attempt that failed is made again: the example schedule of the Standard Webhooks specification. Pure.

Ten attempts within a little more than three days, so that a receiver that was down over a weekend misses nothing. The
delays are stretched at random: those that failed together do not come back together.
"""

from __future__ import annotations

from typing import Final

DELAYS_S: Final = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
"""Before the second attempt, the third, …"""
ATTEMPTS_MAX: Final = len(DELAYS_S) + 1
STRETCH: Final = 0.2
"""A delay is up to so much longer, never shorter."""
SPAN_S_MAX: Final = sum(DELAYS_S) * (1 + STRETCH)


def delay_s(attempts: int, draw: float) -> float | None:
    """How long to wait after so many attempts failed; None when that was the last. `draw` is random in [0, 1)."""
    if not 1 <= attempts <= len(DELAYS_S):
        return None
    return DELAYS_S[attempts - 1] * (1 + STRETCH * draw)
