"""Every view delta against every subscription: exact, and fast with a million of them.

    put, remove ─▶ pending ─▶ small segments in memory ─▶ compact ─▶ base in mapped files, shared by processes
    match(deltas, now) ─▶ rows as numbers, once ─▶ each segment ─▶ Matches

A subscription counts from the next `match` on. One that was changed or removed is struck from its segment at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import numpy as np

from alerts.matcher import base as files
from alerts.matcher.draft import Draft
from alerts.matcher.events import Change, Matches
from alerts.matcher.lexicon import Lexicon
from alerts.matcher.rows import Reader
from alerts.matcher.segment import Segment
from alerts.subscription import Entry
from search.index import IndexDefinition, Row

GROWTH: Final = 3
"""A segment that is not so many times as large as the next one is joined with it."""
SEEN_MAX: Final = 2_000
"""Rows kept to observe what is frequent."""


class Matcher:
    """For one view. Not for several threads at once; each process opens its own."""

    def __init__(self, definition: IndexDefinition, opened: files.Base | None = None) -> None:
        self._definition = definition
        self.version = opened.meta.version if opened else ""
        """Of the base: what it was stamped with."""
        self.made_at = opened.made_at if opened else 0.0
        """Of the base."""
        self._lexicon = opened.lexicon if opened else Lexicon()
        self._base = Segment(definition, opened.arrays, opened.meta.watched, opened.query) if opened else None
        self._later: list[Segment] = []
        self._pending: dict[int, Entry] = {}
        self._reader = Reader(definition, self._lexicon)
        self._present = np.zeros(len(self._lexicon), np.uint8)
        self._seen: list[Row] = []

    @classmethod
    def open(cls, folder: Path, definition: IndexDefinition) -> Matcher:
        """With the newest base of the folder. What came after its version is put by the caller."""
        return cls(definition, files.read(folder, definition))

    @classmethod
    def build(
        cls,
        folder: Path,
        definition: IndexDefinition,
        entries: Iterable[Entry],
        seen: Sequence[Row] = (),
        version: str = "",
    ) -> Matcher:
        """A new base of these subscriptions, opened. `seen` are rows as they are to come: they say what is frequent."""
        lexicon = Lexicon()
        draft = Draft(definition, lexicon)
        draft.add_all(entries)
        arrays = draft.arrays(Reader(definition, lexicon).read(list(seen)))
        files.write(folder, version, definition, draft, lexicon, arrays)
        return cls.open(folder, definition)

    def compact(self, folder: Path, version: str = "") -> Matcher:
        """A new base with all that is in this one; this one stays as it is."""
        return self.build(folder, self._definition, self.entries(), self._seen, version)

    def __len__(self) -> int:
        return sum(map(len, self._segments())) + len(self._pending)

    @property
    def candidates(self) -> int:
        """Conjunctions looked at so far."""
        return sum(segment.candidates for segment in self._segments())

    @property
    def later(self) -> int:
        """Subscriptions that are not in the base yet."""
        return sum(map(len, self._later)) + len(self._pending)

    @property
    def seen(self) -> Sequence[Row]:
        """Rows as they came: they say what is frequent."""
        return self._seen

    def put(self, entry: Entry) -> None:
        """New, or instead of the one with that id."""
        self.remove(entry.id)
        self._pending[entry.id] = entry

    def remove(self, subscription: int) -> None:
        """Nothing happens when it is not there."""
        if self._pending.pop(subscription, None) is None:
            any(segment.remove(subscription) for segment in self._segments())

    def entries(self) -> Iterator[Entry]:
        for segment in self._segments():
            yield from segment.entries()
        yield from self._pending.values()

    def match(self, changes: Sequence[Change], now: datetime) -> Matches:
        """Each delta with each subscription at most once; what is relative to now means this moment."""
        self._seal()
        rows = self._reader.read([row for change in changes for row in change])
        self._observe(changes)
        return Matches.together(
            [segment.match(changes, rows, self._present, now) for segment in self._segments() if len(segment)]
        )

    def _segments(self) -> list[Segment]:
        return self._later if self._base is None else [self._base, *self._later]

    def _seal(self) -> None:
        """What is pending becomes a segment, joined with those before it that are not much larger."""
        if not self._pending:
            return
        entries = list(self._pending.values())
        while self._later and len(self._later[-1]) < GROWTH * len(entries):
            entries.extend(self._later.pop().entries())
        draft = Draft(self._definition, self._lexicon)
        draft.add_all(entries)
        arrays = draft.arrays(self._reader.read(self._seen[: len(entries)]))
        self._later.append(Segment(self._definition, arrays, draft.watched, draft.queries.__getitem__))
        self._pending = {}
        if len(self._present) < len(self._lexicon):
            self._present = np.zeros(len(self._lexicon), np.uint8)

    def _observe(self, changes: Sequence[Change]) -> None:
        if len(self._seen) < SEEN_MAX:
            self._seen.extend(after for _, after in changes[: SEEN_MAX - len(self._seen)] if after is not None)
