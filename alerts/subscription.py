"""A saved search as a value: who asks what of which view, and which of its events they want to be told.

    Subscription ─▶ Matcher: which deltas concern it (alerts/matcher) ─▶ what is told, when and how (not here)

An event of a row, for one query:
- `entered` it matches now and did not before: newly listed, came into budget, back in stock.
- `left` it matched before and does not now.
- `changed` it matched before and does now, and any column, or one of those named, differs.
- `dropped`, `rose` it matches now, was there before, and the column is lower or higher than before. By how much is
  judged later, against the last value that was told: here every step down (or up) counts, so none is missed. Where the
  row did not match before, or the column was NULL, it may be lower and higher than what was told: both are judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import IntFlag

from search.query import Query


class Event(IntFlag):
    """What a match is about, as bits: one match can be several."""

    ENTERED = 1
    LEFT = 2
    CHANGED = 4
    DROPPED = 8
    ROSE = 16


@dataclass(frozen=True, slots=True)
class Move:
    """A column that goes down or up, by at least an amount or a percentage of what was last told."""

    column: str
    amount: Decimal | None = None
    percent: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """The events that a subscription wants to be told."""

    entered: bool = True
    left: bool = False
    changed: bool = False
    """Any column; `columns` narrows it."""
    columns: tuple[str, ...] = ()
    dropped: tuple[Move, ...] = ()
    rose: tuple[Move, ...] = ()

    @property
    def watched(self) -> Watched:
        return Watched(
            self.entered,
            self.left,
            self.changed,
            tuple(sorted(set(self.columns))) if self.changed else (),
            tuple(sorted({move.column for move in self.dropped})),
            tuple(sorted({move.column for move in self.rose})),
        )


@dataclass(frozen=True, slots=True)
class Watched:
    """What the matcher needs to know of the events wanted: few different ones among a million subscriptions."""

    entered: bool = True
    left: bool = False
    changed: bool = False
    columns: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    rose: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Subscription:
    id: int
    owner: str
    view: str
    query: Query
    """Checked against the view (search.query_check); instants may be relative to now."""
    wanted: Wanted = Wanted()

    @property
    def entry(self) -> Entry:
        return Entry(self.id, self.query, self.wanted.watched)


@dataclass(frozen=True, slots=True)
class Entry:
    """A subscription as the matcher takes it."""

    id: int
    query: Query
    watched: Watched = Watched()
