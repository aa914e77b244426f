"""What each commit to a table of the warehouse says of it: up to where it was read, from where on it is whole, and
which versions were nobody's news."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

import msgspec

from cdc.archive_delta import Commit
from views.sinks.sink import Change, Mark
from views.sinks.wholeness import Read

SILENT_MAX: Final = 1_000
"""So many stretches are remembered, the newest: one each time a view was built, or computed anew."""


class Note(msgspec.Struct, frozen=True):
    """What a table says of itself."""

    mark: Mark
    known_before: int
    """Every version in the history is below it; for the current rows: in the history that they include."""
    whole_from: int | None = None
    """From this version on the history has every one. None in tables of before it was noted: nothing is known."""
    told_at_us: int = 0
    """When the last version that was read had been published."""
    inherited_from: int | None = None
    """From this version on the generation before has nothing that is not here. None: it was not asked yet."""
    silent: tuple[tuple[int, int], ...] = ()
    """Stretches of versions, from one up to before another, that no change of the source made: the view was built, or
    computed anew."""

    @property
    def is_whole_from(self) -> int:
        return self.mark.next_offset if self.whole_from is None else self.whole_from


def note_of(commit: Commit | None) -> Note | None:
    return msgspec.json.decode(commit.note, type=Note) if commit is not None else None


def known_before(note: Note | None) -> int:
    return note.known_before if note is not None else 0


def read_so_far(past: Note | None, now: Note | None, mark: Mark) -> Read:
    """How far the topic was read: what brought no version moves the mark of the current rows only."""
    if past is None:
        return Read(mark.since, mark.since, 0)
    further = max(past, now or past, key=lambda note: note.mark.next_offset)
    return Read(past.is_whole_from, further.mark.next_offset, max(past.told_at_us, further.told_at_us))


def published(changes: Sequence[Change], steps: Sequence[Mark]) -> Iterator[tuple[int, int]]:
    """Each version, with when it was published."""
    ends = [step.next_offset for step in steps]
    for change in changes:
        yield change.version, steps[min(bisect_right(ends, change.version), len(ends) - 1)].published_at_us


def silent_stretches(changes: Sequence[Change], start: int, end: int) -> list[tuple[int, int]]:
    """Of a batch that holds all there is between two versions: offsets without one belong to what is around them."""
    ordered = sorted((change for change in changes if change.version >= start), key=lambda change: change.version)
    runs = [(is_silent, next(run).version) for is_silent, run in groupby(ordered, lambda change: change.is_silent)]
    firsts = [start, *(version for _, version in runs[1:])]
    ends = [*firsts[1:], end]
    return [(first, last) for (is_silent, _), first, last in zip(runs, firsts, ends, strict=False) if is_silent]


def from_version(stretches: Iterable[tuple[int, int]], start: int) -> list[tuple[int, int]]:
    """What was read of a topic that has let versions go may take some of those for silent: who had them knows."""
    return [(max(first, start), end) for first, end in stretches if end > start]


def together(*stretches: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Stretches that touch are one."""
    found = list[tuple[int, int]]()
    for first, end in sorted(each for some in stretches for each in some):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((first, end))
    return tuple(found[-SILENT_MAX:])
