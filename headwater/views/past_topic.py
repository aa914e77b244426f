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
from views.maintain.publisher import Frontier
from views.sinks.following import ViewTopic, change
from views.sinks.sink import Change
from views.sinks.wholeness import WHOLE_MS, follows

LOOK_BACK_RECORDS: Final = 500
"""At first; an epoch may have any number."""
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

    @property
    def published(self) -> datetime:
        return datetime.fromtimestamp(self.published_at_us / 1e6, UTC)


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
    require_reached(frontier, when)
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
    last, is_sure, following = low - 1, isinstance(when, datetime) and _is_young(when), None
    for raw in (raw for piece in topic.records(low, high) for raw in piece):
        each = told(raw)
        if each is not None and _is_after(each, when, frontier.era):
            following = each
            break
        last, is_sure = raw.offset, is_sure or (each is not None and _is_young(each.came.published))
    after = following or _first(topic, high, frontier.next_offset)
    # What was deleted long ago has left nothing but a gap.
    if after is None:
        return Bound(high, is_sure or frontier.next_offset <= last + 1)
    is_next = is_sure or follows(last + 1, after.change.version)
    return Bound(following.change.version if following else high, is_next and _is_young(after.came.published))


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
    end, width = found.change.version, LOOK_BACK_RECORDS
    while end > since:
        start = max(since, end - width)
        last: Position | None = None
        for each in between(topic, start, end):
            last = each.position if each.position < found.position else last
        if last is not None:
            return last
        end, width = start, 2 * width
    return None


def _first(topic: ViewTopic, start: int, end: int) -> Told | None:
    return next(between(topic, start, end), None)


def _is_after(found: Told, when: AsOf, era: int) -> bool:
    if isinstance(when, Position):
        return found.position > when
    if isinstance(when, Lsn):  # those of earlier eras mean nothing in this one, and came before
        return found.position.era >= era and Lsn.parse(found.came.lsn) > when
    return found.came.at > when


def _is_young(at: datetime) -> bool:
    return (time.time() - at.timestamp()) * 1e3 < WHOLE_MS


def require_reached(frontier: Frontier, when: AsOf | None) -> None:
    """An instant that is still to come is as good as now; a commit that is not here yet is not."""
    lsn = Lsn.parse(frontier.lsn)
    if (
        when is None
        or isinstance(when, datetime)
        or (when <= lsn if isinstance(when, Lsn) else when <= frontier.position)
    ):
        return
    raise ViewError(
        f"view {frontier.view} does not include {when} yet",
        detail=f"it is at {lsn}, {frontier.position}",
        hint="headwater views",
    )
