"""Why nothing, or nothing more, was told of a row to a saved search: sentences for its owner. Pure.

Whether the row matches now is said clause by clause (search/explain.py); this is about what came in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from alerts.inbox import News
from alerts.moves import Row, number, window_s
from alerts.quiet import Stretch
from alerts.saved_search import MOVES, SavedSearch, Wish


@dataclass(frozen=True, slots=True)
class LastChange:
    """Of the row: when it became what it is."""

    position: str
    committed_at: datetime | None


@dataclass(frozen=True, slots=True)
class ToldValue:
    """What the owner last heard of the watched column, and from where on they hear of it again."""

    column: str
    told: Decimal
    told_at: datetime
    now: Decimal | None
    dropped_from: Decimal | None = None
    rose_from: Decimal | None = None

    def __str__(self) -> str:
        edges = (("dropped", "below", "less", self.dropped_from), ("rose", "above", "more", self.rose_from))
        again = [
            f"{event} is told {f'{beyond} {edge}' if edge == self.told else f'at {edge} or {further}'}"
            for event, beyond, further, edge in edges
            if edge is not None
        ]
        return f"{self.column} was last told as {self.told}, and is {self.now}: {', '.join(again)}"


def told_value(wish: Wish, told: Decimal, told_at: datetime, row: Row | None) -> ToldValue | None:
    """None for a search that watches no column."""
    if wish.watched_column is None:
        return None
    least = wish.threshold or Decimal(0)
    away = least * abs(told) / 100 if wish.threshold_unit == "percent" else least
    edges = {"dropped": told - away, "rose": told + away}
    dropped, rose = (edges[move] if move in wish.events else None for move in MOVES)
    return ToldValue(wish.watched_column, told, told_at, number(row, wish.watched_column), dropped, rose)


def notes(
    search: SavedSearch, last: LastChange | None, news: Sequence[News], quiet: Sequence[Stretch], reenter_s: float
) -> Iterator[str]:
    """About the row's last change, unless it was told: news of it is newest first, `quiet` lies around it."""
    at = last.committed_at if last else None
    if last is None or at is None or any(each.position == last.position for each in news):
        return
    if at <= search.created_at:
        yield "it is as it was before the search was saved: nothing has changed since"
    elif at <= search.updated_at:
        yield "it is as it was before the search was last changed: nothing has changed since"
    for stretch in quiet:
        why = f": {stretch.reason}" if stretch.reason else ""
        yield f"its last change lies in a quiet stretch, of which nobody is told{why}"
    crossed = next((each for each in news if each.event in ("entered", "left")), None)
    if crossed is not None and crossed.event == "entered" and crossed.committed_at is not None:
        until = crossed.committed_at + timedelta(seconds=window_s(search.wish, reenter_s))
        if at < until:
            yield f"it was told to have entered, which is not told again before {until:%Y-%m-%d %H:%M:%S} UTC"
