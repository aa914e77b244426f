"""Finds a place in the log by LSN. Pure, over a log that it only asks for the next boundary.

Commit LSNs grow with the offset within an era, because Postgres decodes transactions in the order of their commits; the
rows of the initial snapshot stand before all of them, and carry the LSN at which the snapshot was taken. So a search
by halves finds the first transaction at or after an LSN with few reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cdc.position import Lsn


@dataclass(frozen=True, slots=True)
class Completed:
    """A record that completes a transaction (or a snapshot row), and the LSN at which it did."""

    offset: int
    lsn: Lsn


class Boundaries(Protocol):
    def first_completed(self, start: int, end: int) -> Completed | None:
        """The first record in [start, end) that completes something, or None."""
        ...


@dataclass(frozen=True, slots=True)
class Sought:
    offset: int
    """Where the transaction that was sought begins: just after what the one before it ended with."""
    found: Completed | None
    """What ends it; None if the log holds no such transaction yet: then it will begin at `offset`, or after."""


def seek(log: Boundaries, low: int, high: int, lsn: Lsn) -> Sought:
    """The first transaction in [low, high) with a commit LSN at or after `lsn`."""
    first, last = low, high
    found: Completed | None = None
    while first < last:
        middle = (first + last) // 2
        candidate = log.first_completed(middle, last)
        if candidate is None:
            last = middle
        elif candidate.lsn < lsn:
            first = candidate.offset + 1
        else:
            found, last = candidate, middle
    return Sought(first, found)
