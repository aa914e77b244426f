"""One view's changes against its saved searches, epoch by epoch, in the order of the log.

    book: the searches in force before the epoch ─▶ standing: matched ─▶ which change concerns which search
          whether it is quiet

What is relative to now in a query means the moment of the commit: the same changes give the same matches again. A row
that cannot be read (a number with thousands of digits in its JSON), or that search refuses, too, for the number of its
elements, is refused, and nothing else with it. Matches come
in the order of their changes, some changes at a time: a change may concern thousands of searches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import numpy as np

from alerts.book import Book
from alerts.matched import Matched
from alerts.matcher.events import Matches
from alerts.saved_row import fitting
from alerts.standing import Standing
from alerts.subscription import Entry
from cdc.errors import SinkUnavailable
from cdc.events import Row
from cdc.position import Position
from search.elements import require_few
from search.index import decode_row
from views.sinks.sink import Change, Mark, Refused

CHANGES_MAX: Final = 256
"""That are matched at once: what they concern is in memory together."""
_Rows = tuple[dict[str, Any] | None, dict[str, Any] | None]


class Watch:
    """Not shared between threads."""

    def __init__(self, book: Book, standing: Standing) -> None:
        self._definition, self._book, self._standing = standing.definition, book, standing
        self.unread: list[Refused] = []
        """Changes that could not be read; whoever asks for matches takes them."""

    def matches(self, changes: Sequence[Change], since: Mark | None, epochs: Sequence[Mark]) -> Iterator[Matched]:
        """Of the changes in some epochs, which come after the mark `since`."""
        left = list(changes)
        for epoch in epochs:
            self._reach(epoch, since)
            here = [change for change in left if change.version < epoch.next_offset]
            left = left[len(here) :]
            told = [change for change in here if not change.is_silent and change.before != change.after]
            if told and not self._book.is_quiet(epoch.offset):
                for first in range(0, len(told), CHANGES_MAX):
                    yield self._matched(told[first : first + CHANGES_MAX], epoch)

    def ready(self, epoch: Mark, since: Mark | None) -> None:
        """Knows the searches that are in force before the epoch: at the first time that can take minutes."""
        if not self._book.is_of(epoch.era):
            is_known = since is not None and since.era == epoch.era and since.offset > 0
            at = since.offset if since is not None and is_known else epoch.offset
            self._open(Position(epoch.era, at))

    def _reach(self, epoch: Mark, since: Mark | None) -> None:
        self.ready(epoch, since)
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
        """From a base that is no newer, and the log since then; or else from the table: a base is made of it first when
        it holds many."""
        if self._resumed(at):
            return
        most = self._standing.mapped_min
        if self._standing.folder is None or self._book.count(most) < most:
            self._standing.begin(entry for each in self._book.open(at) if (entry := self._entry(*each)))
            return
        self._standing.make_first(self._book, at)
        if not self._resumed(at):
            raise SinkUnavailable("the log went past the base of saved searches that was made of it")

    def _resumed(self, at: Position) -> bool:
        known = self._standing.resume()
        return known is not None and known.era == at.era and known.offset <= at.offset and self._book.resume(known)

    def _note(self, number: int, row: Row | None) -> None:
        self._standing.remove(number)
        entry = None if row is None else self._entry(number, row)
        if entry is not None:
            self._standing.put(entry)

    def _entry(self, number: int, row: Row) -> Entry | None:
        return fitting(number, row, self._definition)

    def _matched(self, changes: list[Change], epoch: Mark) -> Matched:
        now = datetime.fromtimestamp((epoch.committed_at_us or epoch.published_at_us) / 1e6, UTC)
        changes, rows = self._read(changes)
        found = self._unexpired(self._standing.match(rows, now), epoch)
        order = np.argsort(found.delta, kind="stable")
        found = Matches(found.delta[order], found.subscription[order], found.event[order])
        return Matched(changes, found, str(Position(epoch.era, epoch.offset)), epoch.committed_at_us)

    def _unexpired(self, found: Matches, epoch: Mark) -> Matches:
        """Without searches that had expired at the commit: they may have been given more time since."""
        at_us = epoch.committed_at_us
        if at_us is None:
            return found
        numbers = np.unique(found.subscription).tolist()
        expired = [number for number in numbers if self._book.has_expired(number, at_us)]
        kept = ~np.isin(found.subscription, expired)
        return Matches(found.delta[kept], found.subscription[kept], found.event[kept]) if expired else found

    def _read(self, changes: Sequence[Change]) -> tuple[list[Change], list[_Rows]]:
        readable, rows = list[Change](), list[_Rows]()
        for change in changes:
            try:
                rows.append((self._row(change.before), self._row(change.after)))
                readable.append(change)
            except (ValueError, TypeError, ArithmeticError, RecursionError, msgspec.MsgspecError) as error:
                self.unread.append(Refused(change, f"{type(error).__name__}: {error}"))
        return readable, rows

    def _row(self, row: bytes | None) -> dict[str, Any] | None:
        if row is None:
            return None
        decoded = decode_row(self._definition, row)
        require_few(self._definition, decoded)
        return decoded
