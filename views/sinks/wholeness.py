"""From which version on a history that was read from a view's topic is whole. Pure.

The topic has every version for a while (`WHOLE_MS`); after that a version that a newer one replaced may be gone, and of
a row that was deleted everything. So what is read early enough is whole, and what is read late is whole from its end
on: what was lost shows in nothing but offsets that nobody has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

WHOLE_MS: Final = 24 * 3600 * 1000
"""So long a view's topic keeps every version, for those who must see each change: a history, saved searches."""
COMPACTED_MS: Final = 2 * WHOLE_MS
"""After so long no older version of a row is left, however quiet the topic is."""
DELETIONS_MS: Final = 2 * WHOLE_MS
"""So long it tells that a row is gone, at least: until it is compacted, and for Kafka's `delete.retention.ms` then."""
_BETWEEN: Final = 1
"""Offsets between two epochs that hold no version: where Kafka notes that the first was committed."""


class Read(NamedTuple):
    """How far the topic was read."""

    whole_from: int
    """From this version on every one was read."""
    next_offset: int
    told_at_us: int
    """When the last version was published: those that follow came later."""


class Stretch(NamedTuple):
    """Of time, by when versions were published."""

    from_us: int
    until_us: int


def records_between(start: int, end: int, rows: int, all_from: int) -> int:
    """How many records there are between two offsets, at most: one a row where the topic was compacted, and from
    `all_from` on as many as offsets."""
    return max(0, min(end - start, rows + end - max(start, min(all_from, end))))


def follows(end: int, version: int) -> bool:
    """Whether a version is the first one from `end` on, by its offset."""
    return version <= end + _BETWEEN


def may_lack_deletions(end: int, first: tuple[int, int] | None, now_ms: int) -> bool:
    """Whether who has read up to `end`, and now meets `first` (offset, when it was written), may have missed that a row
    is gone. Not if the next version is there and young: then nothing between the two was forgotten yet."""
    return first is None or not follows(end, first[0]) or first[1] < now_ms - DELETIONS_MS


def read_on(known: Read, told: Iterable[tuple[int, int]], end: int, now_us: int) -> Read:
    """After versions, each with when it was published, up to `end` were read, not later than `now_us`."""
    whole_from, reached, told_at_us = known
    young_us = now_us - WHOLE_MS * 1000
    is_sure = told_at_us >= young_us
    for version, at_us in told:
        if at_us < young_us:
            whole_from, is_sure = version + 1, False
        elif not is_sure:
            whole_from, is_sure = whole_from if follows(reached, version) else version, True
        reached, told_at_us = version + 1, at_us
    if not is_sure and end > reached:
        whole_from = end
    return Read(whole_from, max(reached, end), told_at_us)


def lost(known: tuple[int, int], told: Iterable[tuple[int, int]], end: tuple[int, int], now_us: int) -> Stretch | None:
    """When versions were published that were never read and may be gone: after who had read up to an offset, told at
    that time, now reads these, up to the end. They lie where offsets lack that are old enough to be compacted."""
    reached, told_at_us = known
    young_us, found = now_us - WHOLE_MS * 1000, list[Stretch]()
    for version, at_us in [*told, end]:
        if version < reached:
            continue
        # Nothing lies before the first version, between two of one epoch, or between the last one and the end.
        between = 0 if not reached or at_us == told_at_us or (version, at_us) == end else _BETWEEN
        if version > reached + between and told_at_us < young_us:
            found.append(Stretch(told_at_us, min(at_us, young_us)))
        reached, told_at_us = version + 1, at_us
    return Stretch(found[0].from_us, found[-1].until_us) if found else None
