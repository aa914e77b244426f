"""Were people told what they should have been? A stretch of a view's topic, looked at once more, by other means.

    the newest changes before the mark ─▶ the evaluator on every search (matcher/naive.py) ─▶ compared with the outbox

Expected is no difference. It shares with matching only the book, which is compared with a replay of the log in its own
test. Of events that depend on what was told before (dropped, rose) nothing is said; nor of searches that were changed
since: what they were told was told by what they said then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec
import psycopg

from alerts.book import Book
from alerts.matcher.naive import Naive
from alerts.outbox import Match
from alerts.saved_search import SavedSearch
from alerts.standing import Standing
from alerts.store import by_ids
from alerts.watch import Watch
from cdc.addresses import KafkaAddress, PostgresAddress, Source
from cdc.errors import ViewError
from cdc.postgres import connect, explained
from cdc.topics import find_state
from search.index import define
from views.sinks.following import ViewTopic, change, step
from views.sinks.sink import Change, Mark, ViewShape

CHANGES_MAX: Final = 500
"""Looked at in one sweep: each is evaluated against every search of the view."""
LOOKED_AT: Final = ("entered", "left", "changed")
_PLACE: Final = """
    select mark::text, first_offset from headwater.alert_places where view = %s and is_shown and mark is not null
"""
_RECORDED: Final = """
    select subscription_id, key, event, version, committed_at from headwater.outbox
    where view = %s and version >= %s and version < %s and event = any(%s)
"""


class Told(NamedTuple):
    """An event of an item for a search, wherever it is written."""

    subscription_id: int
    key: str
    event: str
    version: int


@dataclass(frozen=True)
class Swept:
    view: str
    changes: int
    expected: int
    """Events that people were to be told."""
    missed: tuple[Told, ...]
    wrong: tuple[Told, ...]
    """In the outbox, but by no rule."""

    @property
    def is_right(self) -> bool:
        return not self.missed and not self.wrong


@dataclass(frozen=True)
class Stretch:
    """Whole epochs of a view's topic."""

    changes: list[Change]
    since: Mark
    """The epoch before them."""
    epochs: list[Mark]


@dataclass(frozen=True)
class Sweep:
    postgres: PostgresAddress
    kafka: KafkaAddress
    source: Source
    topic: ViewTopic
    shape: ViewShape

    def __call__(self, changes_max: int = CHANGES_MAX) -> Swept:
        """Raises ViewError for a view that is not matched yet."""
        with connect(self.postgres) as conn, explained(conn):
            mark, first = self._place(conn)
            stretch = self._stretch(mark, first, changes_max)
            if stretch is None:
                return Swept(self.shape.view, 0, 0, (), ())
            book = Book(self.postgres, self.kafka, self.source, self.shape.view)
            watch = Watch(book, Standing(define(self.shape), matching=Naive))
            matches = list(watch.matches(stretch.changes, stretch.since, stretch.epochs))
            expected = set(self._expected(conn, matches))
            recorded = self._recorded(conn, stretch)
            unruly = recorded.keys() - {_told(match) for match in matches}
            known = by_ids(conn, sorted({each.subscription_id for each in unruly}))
        wrong = sorted(each for each in unruly if _is_as_it_was(known.get(each.subscription_id), recorded[each]))
        missed = sorted(expected - recorded.keys())
        return Swept(self.shape.view, len(stretch.changes), len(expected), tuple(missed), tuple(wrong))

    def _place(self, conn: psycopg.Connection) -> tuple[Mark, int]:
        row = conn.execute(_PLACE, [self.shape.view]).fetchone()
        if row is None:
            raise ViewError(
                f"changes of {self.shape.view} are not matched yet", hint=f"headwater views {self.shape.view}"
            )
        return msgspec.json.decode(row[0], type=Mark), row[1] or 0

    def _stretch(self, mark: Mark, first: int, changes_max: int) -> Stretch | None:
        """The newest epochs before the mark. The first one seen may be cut off: it only says where the others begin."""
        state = find_state(self.kafka, self.topic.name)
        start = max(first, mark.since, mark.next_offset - changes_max, state.low if state else 0)
        changes: list[Change] = []
        epochs: list[Mark] = []
        for piece in self.topic.records(start, mark.next_offset):
            for raw in piece:
                changes.append(change(raw))
                step(epochs, raw, mark)
        if len(epochs) < 2:
            return None
        since = epochs[0]
        return Stretch([each for each in changes if each.version >= since.next_offset], since, epochs[1:])

    def _expected(self, conn: psycopg.Connection, matches: list[Match]) -> Iterator[Told]:
        """Those that must be in the outbox: of searches that are what they were then."""
        searches = by_ids(conn, sorted({match.subscription_id for match in matches}))
        now = datetime.now(UTC)
        for match in matches:
            search, at = searches.get(match.subscription_id), match.committed_at
            if not _is_as_it_was(search, at) or search is None or at is None or search.silence(now) is not None:
                continue
            if match.event in LOOKED_AT:
                yield _told(match)

    def _recorded(self, conn: psycopg.Connection, stretch: Stretch) -> dict[Told, datetime | None]:
        """With the commit that each is of."""
        given = [self.shape.view, stretch.since.next_offset, stretch.epochs[-1].next_offset, list(LOOKED_AT)]
        return {Told(*row[:4]): row[4] for row in conn.execute(_RECORDED, given)}


def _told(match: Match) -> Told:
    return Told(match.subscription_id, match.key.decode(), match.event, match.version)


def _is_as_it_was(search: SavedSearch | None, at: datetime | None) -> bool:
    """Neither changed nor removed since then: what it said before is not known any more."""
    return search is not None and at is not None and search.updated_at <= at
