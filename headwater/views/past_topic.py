"""A view's topic as its past: where in it an instant, an LSN or a position lies, and what it says of keys.

For as long as the topic keeps every version (a day: views/maintain/publisher.py) what it says is whole. Older versions
that a newer one has replaced may be gone; then the warehouse has to say.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from cdc.errors import ViewError
from cdc.position import Lsn, Position
from cdc.reader import Raw
from headwater.warehouse_sql import AsOf
from views.maintain.publisher import WHOLE_MS, Frontier
from views.sinks.following import ViewTopic, change
from views.sinks.sink import Change

LOOK_BACK_RECORDS: Final = 500
_NEAR_RECORDS: Final = 2_000
"""When so few are left to search, they are read."""


class Came(msgspec.Struct, frozen=True):
    """When a change came, as its record says it."""

    position: str
    lsn: str
    committed_at_us: int | None
    published_at_us: int
    silent: bool = False

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp((self.committed_at_us or self.published_at_us) / 1e6, UTC)


@dataclass(frozen=True)
class Told:
    """A record of the topic."""

    change: Change
    came: Came

    @property
    def position(self) -> Position:
        return Position.parse(self.came.position)


@dataclass(frozen=True)
class Bound:
    """A point in the topic: what lies before `offset` was so then."""

    offset: int
    is_whole: bool
    """Whether the topic still has every version from here on."""


def told(raw: Raw) -> Told | None:
    """None for a tombstone, which says nothing that the record before it has not."""
    if raw.value is None:
        return None
    return Told(change(raw), msgspec.json.decode(raw.value, type=Came))


def bound_of(topic: ViewTopic, frontier: Frontier, when: AsOf | None) -> Bound:
    """Raises ViewError for a point that the view has not reached, or from before it had its present columns."""
    if when is None:
        return Bound(frontier.next_offset, is_whole=True)
    _require_reached(frontier, when)
    low, high = frontier.since, frontier.next_offset
    first = _first(topic, low, high)
    if first is None or _is_after(first, when, frontier.era):
        raise ViewError(
            f"view {frontier.view} does not reach back to {when}",
            detail=f"it begins at {first.came.at.isoformat()}, {first.came.lsn}, {first.came.position}"
            if first
            else "it never had a row",
            hint=f"headwater story {frontier.view} KEY shows what is kept of a row",
        )
    while high - low > _NEAR_RECORDS:
        middle = (low + high) // 2
        found = _first(topic, middle, high)
        if found is None or _is_after(found, when, frontier.era):
            high = middle
        else:
            low = found.change.version + 1
    following = next((each for each in between(topic, low, high) if _is_after(each, when, frontier.era)), None)
    offset = following.change.version if following else high
    after = following or _first(topic, high, frontier.next_offset)
    return Bound(offset, after is None or _is_young(after))


def between(topic: ViewTopic, start: int, end: int) -> Iterator[Told]:
    for piece in topic.records(start, end):
        for raw in piece:
            if (found := told(raw)) is not None:
                yield found


def of_key(topic: ViewTopic, start: int, end: int, key: bytes) -> Iterator[Told]:
    """What the topic says of one key. All records are read for it, and only these looked into."""
    for piece in topic.records(start, end):
        for raw in piece:
            if raw.key == key and (found := told(raw)) is not None:
                yield found


def at_offset(topic: ViewTopic, offset: int) -> Told | None:
    """One record, if it is still there."""
    return next(between(topic, offset, offset + 1), None)


def position_before(topic: ViewTopic, found: Told, since: int) -> Position | None:
    """Of the epoch that the topic told before this record's."""
    version = found.change.version
    earlier = [each.position for each in between(topic, max(since, version - LOOK_BACK_RECORDS), version)]
    return next((each for each in reversed(earlier) if each < found.position), None)


def _first(topic: ViewTopic, start: int, end: int) -> Told | None:
    return next(between(topic, start, end), None)


def _is_after(found: Told, when: AsOf, era: int) -> bool:
    if isinstance(when, Position):
        return found.position > when
    if isinstance(when, Lsn):  # those of earlier eras mean nothing in this one, and came before
        return found.position.era >= era and Lsn.parse(found.came.lsn) > when
    return found.came.at > when


def _is_young(found: Told) -> bool:
    return time.time() * 1e3 - found.came.published_at_us / 1e3 < WHOLE_MS


def _require_reached(frontier: Frontier, when: AsOf) -> None:
    """An instant that is still to come is as good as now; a commit that is not here yet is not."""
    lsn = Lsn.parse(frontier.lsn)
    if isinstance(when, datetime) or (when <= lsn if isinstance(when, Lsn) else when <= frontier.position):
        return
    raise ViewError(
        f"view {frontier.view} does not include {when} yet",
        detail=f"it is at {lsn}, {frontier.position}",
        hint="headwater views",
    )
