"""Whom some changes concern: what the matcher hands to the outbox. An object for each change, none for each match.

    watch ─▶ Matched, each of one epoch ─▶ parts: what is judged and written together ─▶ outbox

A Match is one of them as a value: for those that have to be judged one by one, and for who looks at them once more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from alerts.matcher.events import Matches
from alerts.subscription import Event
from cdc.errors import StateError
from views.sinks.sink import Change

HASH_BYTES: Final = 16
MATCHES_MAX: Final = 20_000
"""That are judged and written together, of a transaction that may hold many more."""
NAMES: Final = tuple((int(event), str(event.name).lower()) for event in Event)
"""Of events, by their bits."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Item = tuple[int, bytes]
"""A subscription's number and a key's hash."""


class Match(NamedTuple):
    """One event of one row for one saved search, as the matcher found it."""

    subscription_id: int
    key: bytes
    """The key's columns as JSON, as the view's topic has it."""
    event: str
    version: int
    """The change's offset in the view's topic."""
    position: str
    before: bytes | None = None
    after: bytes | None = None
    committed_at_us: int | None = None

    @property
    def item(self) -> Item:
        return self.subscription_id, key_hash(self.key)

    @property
    def committed_at(self) -> datetime | None:
        return at(self.committed_at_us)


@dataclass(frozen=True, slots=True)
class Matched:
    """Some changes of one epoch, in their order, and whom they concern."""

    changes: Sequence[Change]
    found: Matches
    """By change, in their order; `delta` is its place among them."""
    position: str
    committed_at_us: int | None

    def taken(self, rows: npt.NDArray[np.intp] | npt.NDArray[np.bool_] | slice) -> Matched:
        found = self.found
        some = Matches(found.delta[rows], found.subscription[rows], found.event[rows])
        return Matched(self.changes, some, self.position, self.committed_at_us)


@dataclass(frozen=True, slots=True)
class Part:
    """What is judged and written together."""

    changes: list[Change]
    """Those that concern somebody, in their order."""
    positions: list[str]
    committed_at_us: list[int | None]
    found: Matches
    """In the order of their changes; each subscription once a change."""

    @classmethod
    def of(cls, pieces: Sequence[Matched]) -> Part:
        part, found = cls([], [], [], Matches.together(())), list[Matches]()
        for piece in pieces:
            used, delta = np.unique(piece.found.delta, return_inverse=True)
            found.append(
                Matches((delta + len(part.changes)).astype(np.int32), piece.found.subscription, piece.found.event)
            )
            part.changes.extend(piece.changes[number] for number in used.tolist())
            part.positions.extend([piece.position] * len(used))
            part.committed_at_us.extend([piece.committed_at_us] * len(used))
        return cls(part.changes, part.positions, part.committed_at_us, Matches.together(found))

    @property
    def subscriptions(self) -> npt.NDArray[np.int64]:
        return np.unique(self.found.subscription)

    def match(self, number: int, subscription_id: int, event: str) -> Match:
        key, after, version, before, _ = self.changes[number]
        times = self.committed_at_us[number]
        return Match(subscription_id, key, event, version, self.positions[number], before, after, times)


def at(at_us: int | None) -> datetime | None:
    return None if at_us is None else _EPOCH + timedelta(microseconds=at_us)


def key_hash(key: bytes) -> bytes:
    return blake2b(key, digest_size=HASH_BYTES).digest()


def parts(matched: Iterable[Matched], start: int, end: int) -> Iterator[tuple[Part, bool]]:
    """In the order of the changes, what concerns one of them together: its events are judged as one; and whether it is
    all. Without what lies before `start`; nothing may lie at `end` or beyond."""
    held, size, is_all = list[Matched](), 0, True
    for piece in (cut for each in matched for cut in _cut(_since(each, start, end))):
        if held and size + len(piece.found) > MATCHES_MAX:
            is_all = False
            yield Part.of(held), is_all
            held, size = [], 0
        held.append(piece)
        size += len(piece.found)
    if held:
        yield Part.of(held), is_all


def _since(matched: Matched, start: int, end: int) -> Matched:
    versions = np.array([change.version for change in matched.changes], np.int64)[matched.found.delta]
    if (versions >= end).any():
        raise StateError("a match lies beyond the mark that it is recorded with", detail=f"the mark is {end}")
    return matched.taken(versions >= start)


def _cut(matched: Matched) -> Iterator[Matched]:
    """Between changes, into pieces that are no larger than a part, if one change is not."""
    delta, first = matched.found.delta, 0
    while first < len(delta):
        end = min(first + MATCHES_MAX, len(delta))
        if end < len(delta):
            edge = int(np.searchsorted(delta, delta[end]))
            end = edge if edge > first else int(np.searchsorted(delta, delta[first], "right"))
        yield matched.taken(slice(first, end))
        first = end


def by_change(matches: Iterable[Match]) -> Iterator[tuple[Item, list[Match]]]:
    """The events of one change of one item for one search, in the order of the changes."""
    found: dict[tuple[int, Item], list[Match]] = defaultdict(list)
    for match in matches:
        found[match.version, match.item].append(match)
    for (_, item), together in found.items():
        yield item, together
