"""What should have been told of some changes, by what was told before them, and how the outbox differs from it. Pure.

Memory follows what was told, not what should have been: one event that was missed is one difference, not many. What was
last told of a watched column is known from the outbox alone: of an item of which nothing was told since its search was
last changed, a drop or rise is neither missed nor wrong, because the value that counts is not written down.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from alerts.judging import was_changed_since
from alerts.matched import Item, Match, by_change, key_hash
from alerts.moves import NOTHING, Memory, decoded, judged, number, remembered
from alerts.saved_search import MOVES, SavedSearch
from cdc.position import Position


class Told(NamedTuple):
    """An event of an item for a search, wherever it is written."""

    subscription_id: int
    key: str
    event: str
    version: int

    @classmethod
    def of(cls, match: Match) -> Told:
        return cls(match.subscription_id, match.key.decode(), match.event, match.version)


class Row(NamedTuple):
    """Of the outbox."""

    told: Told
    position: Position
    committed_at: datetime | None
    after: bytes | None = None

    @property
    def item(self) -> Item:
        return self.told.subscription_id, key_hash(self.told.key.encode())


@dataclass
class Compared:
    expected: set[Told] = field(default_factory=set)
    unruly: set[Told] = field(default_factory=set)
    """Told, though it was no news."""


def compared(
    matches: Sequence[Match],
    recorded: Collection[Told],
    before: Iterable[Row],
    searches: Mapping[int, SavedSearch],
    is_judged: Callable[[SavedSearch | None, datetime | None], bool],
    reenter_s: float,
) -> Compared:
    """Of all matches of some searches in a stretch, oldest first; `before` is what was told of them by then."""
    memories, found = _memories(before, searches), Compared()
    for item, together in by_change(matches):
        search, first = searches.get(item[0]), together[0]
        if search is None:
            continue
        memory, at, wish = memories.get(item, NOTHING), first.committed_at, search.wish
        new = decoded(first.after)
        if is_judged(search, at):
            events = [match.event for match in together if match.event in wish.events]
            reasons, _ = judged(wish, events, decoded(first.before), new, memory, at, reenter_s)
            sure = {Told.of(match) for match in together if match.event not in _open(search, memory)}
            found.expected |= {each for each in sure if each.event in reasons}
            found.unruly |= {each for each in sure if each.event not in reasons and each in recorded}
        told = {match.event for match in together if Told.of(match) in recorded}
        memories[item] = remembered(memory, told, number(new, wish.watched_column), at)
    return found


def _memories(rows: Iterable[Row], searches: Mapping[int, SavedSearch]) -> dict[Item, Memory]:
    memories: dict[Item, Memory] = {}
    for row in rows:
        search = searches.get(row.told.subscription_id)
        if search is None or row.committed_at is None:
            continue
        # What was told before a search was changed may have been of another column.
        is_as_it_was = search.updated_at <= row.committed_at and not was_changed_since(search, row.committed_at)
        column = search.wish.watched_column if is_as_it_was else None
        value = number(decoded(row.after), column) if column is not None else None
        memories[row.item] = remembered(memories.get(row.item, NOTHING), {row.told.event}, value, row.committed_at)
    return memories


def _open(search: SavedSearch, memory: Memory) -> tuple[str, ...]:
    """The events of which nothing can be said: they hang on a value that is not known."""
    if search.wish.watched_column is None or memory.value is not None:
        return ()
    return MOVES if memory.entered_at is None else (*MOVES, "entered")
