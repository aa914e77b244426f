"""One view's changes against its saved searches, epoch by epoch, in the order of the log.

    book: the searches in force before the epoch ─▶ standing: matched ─▶ which change concerns which search
          whether it is quiet

What is relative to now in a query means the moment of the commit: the same changes give the same matches again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from alerts.book import Book
from alerts.outbox import Match
from alerts.saved_row import entry_of
from alerts.standing import Standing
from alerts.subscription import Entry, Event
from cdc.events import Row
from cdc.position import Position
from search.errors import QueryRefused
from search.index import decode_row
from views.sinks.sink import Change, Mark


class Watch:
    """Not shared between threads."""

    def __init__(self, book: Book, standing: Standing) -> None:
        self._definition, self._book, self._standing = standing.definition, book, standing
        self.refused: dict[int, str] = {}
        """Searches that the view, as it is now, cannot answer: its columns have changed since they were saved."""

    def matches(self, changes: Sequence[Change], since: Mark | None, epochs: Sequence[Mark]) -> Iterator[Match]:
        """Of the changes in some epochs, which come after the mark `since`."""
        left = list(changes)
        for epoch in epochs:
            self._reach(epoch, since)
            here = [change for change in left if change.version < epoch.next_offset]
            left = left[len(here) :]
            told = [change for change in here if not change.is_silent and change.before != change.after]
            if told and not self._book.is_quiet(epoch.offset):
                yield from self._matched(told, epoch)

    def _reach(self, epoch: Mark, since: Mark | None) -> None:
        if not self._book.is_of(epoch.era):
            is_known = since is not None and since.era == epoch.era and since.offset > 0
            at = since.offset if since is not None and is_known else epoch.offset
            self._open(Position(epoch.era, at))
        for number, changed in self._book.advance(epoch.offset):
            self._note(number, changed)

    def tend(self) -> None:
        """Now and then, between two epochs."""
        at = self._book.settled
        if at is not None:
            self._standing.tend(at)

    def close(self) -> None:
        self._standing.close()

    def _open(self, at: Position) -> None:
        """From a base that is no newer, and the log since then; or else from the table."""
        self.refused = {}
        known = self._standing.resume()
        if known is None or known.era != at.era or known.offset > at.offset or not self._book.resume(known):
            rows = self._book.open(at)
            self._standing.begin((entry for each in rows.items() if (entry := self._entry(*each))), at)

    def _note(self, number: int, row: Row | None) -> None:
        self._standing.remove(number)
        self.refused.pop(number, None)
        entry = None if row is None else self._entry(number, row)
        if entry is not None:
            self._standing.put(entry)

    def _entry(self, number: int, row: Row) -> Entry | None:
        try:
            return entry_of(number, row, self._definition)
        except QueryRefused as error:
            self.refused[number] = error.summary
            return None

    def _matched(self, changes: list[Change], epoch: Mark) -> Iterator[Match]:
        now = datetime.fromtimestamp((epoch.committed_at_us or epoch.published_at_us) / 1e6, UTC)
        rows = [(self._row(change.before), self._row(change.after)) for change in changes]
        found = self._standing.match(rows, now)
        position = str(Position(epoch.era, epoch.offset))
        for at, number, bits in zip(
            found.delta.tolist(), found.subscription.tolist(), found.event.tolist(), strict=True
        ):
            change = changes[at]
            for event in Event(bits):
                yield Match(
                    number,
                    change.key,
                    str(event.name).lower(),
                    change.version,
                    position,
                    change.before,
                    change.after,
                    epoch.committed_at_us,
                )

    def _row(self, row: bytes | None) -> dict[str, Any] | None:
        return None if row is None else decode_row(self._definition, row)
