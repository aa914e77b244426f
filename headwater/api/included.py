"""Whether an answer includes a write: its token is waited for, bounded, and the answer says how fresh it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cdc.position import Lsn
from headwater.api.freshness import Freshness
from headwater.api.problems import NotYet

if TYPE_CHECKING:
    from headwater.api.reading import Reading

WAIT_MS_MAX: Final = 30_000
WAIT_MS: Final = 5_000


async def included(reading: Reading, view: str, sink: str, token: str | None, wait_ms: int) -> Freshness:
    """How fresh the sink is, after it includes what the token stands for. Raises NotYet when it does not in time."""
    reading.shapes.require(view, sink)
    if token:
        lsn = Lsn.parse(token)
        if not await reading.board.includes(view, sink, lsn, wait_ms / 1000):
            status = reading.board.status(view, sink)
            at = status.mark.lsn if status and status.mark else "nothing"
            raise NotYet(
                f"the {sink} of {view} does not include {lsn} yet",
                detail=f"it is at {at} after {wait_ms} ms" + (f": {status.reason}" if status and status.reason else ""),
                hint="ask again, wait longer (wait_ms), or without the token",
            )
    fresh = reading.board.freshness(view, sink, reading.shapes.stale(view))
    if fresh is None:
        raise NotYet(f"the {sink} of {view} is not filled yet", hint="headwater views")
    return fresh
