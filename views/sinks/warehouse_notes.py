"""What each commit to a table of the warehouse says of it: up to where it was read, and from where on it is whole."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import msgspec

from cdc.archive_delta import Commit
from views.sinks.sink import Change, Mark
from views.sinks.wholeness import Read


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
