"""Were people told what they should have been? A stretch of a view's topic, looked at once more, by other means.

    the newest changes before the mark ─▶ the evaluator on some searches ─▶ judged by what was told ─▶ the outbox

Expected is no difference. It shares with matching only the book, which is compared with a replay of the log in its own
test, and the rule of what is news (moves.py). Each sweep takes the next searches in their order, so all have their
turn, and what it costs does not grow with them; the newest rows of the outbox are looked at whosever they are. Nothing
is said of searches that were changed since: what they were told was told by what they said then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import psycopg

from alerts.book import Book
from alerts.judging import was_changed_since
from alerts.matched import Match
from alerts.matcher.naive import Evaluator
from alerts.moves import REENTER_S, window_s
from alerts.rechecking import Row, Told, compared
from alerts.saved_row import entry_of
from alerts.saved_search import SavedSearch
from alerts.store import by_ids, of_view
from alerts.subscription import Event
from alerts.waiting import UNREADABLE
from cdc.addresses import KafkaAddress, PostgresAddress, Source
from cdc.changelog import ChangeLog
from cdc.errors import ViewError
from cdc.position import Position
from cdc.postgres import connect, explained
from cdc.topics import find_state
from search.errors import QueryRefused
from search.index import IndexDefinition, decode_row, define
from views.sinks.following import ViewTopic, change, step
from views.sinks.sink import Change, Mark, ViewShape

CHANGES_MAX: Final = 500
SEARCHES_MAX: Final = 1_000
"""Evaluated on each change, some 20 µs each time."""
ROWS_MAX: Final = 20_000
"""The newest of the outbox: each is evaluated on the change that it is of."""
RECORDS_MAX: Final = 500_000
"""Of the change log, which says which searches were in force: what lies further back was looked at when it was new."""
LATE: Final = timedelta(hours=1)
"""Between a commit and its record, and between two clocks, at most."""
_PLACE: Final = """
    select mark::text, first_offset from headwater.alert_places where view = %s and is_shown and mark is not null
"""
_OF_SEARCHES: Final = """
    select subscription_id, key, event, version, position, committed_at from headwater.outbox
    where subscription_id = any(%(searches)s) and version >= %(from)s and version < %(to)s
"""
_NEWEST: Final = """
    select subscription_id, key, event, version, position, committed_at
    from (select * from headwater.outbox order by id desc limit %(rows)s) n
    where view = %(view)s and version >= %(from)s and version < %(to)s
"""
_OF_ITEMS: Final = """
    select subscription_id, key, event, version, position, committed_at, after::text from headwater.outbox
    join unnest(%s::bigint[], %s::bytea[]) n (subscription_id, key_hash) using (subscription_id, key_hash) order by id
"""


@dataclass(frozen=True)
class Swept:
    view: str
    changes: int
    expected: int
    """Events that people were to be told, of the searches that were looked at."""
    missed: tuple[Told, ...]
    wrong: tuple[Told, ...]
    """In the outbox, but by no rule."""
    searches: int = 0
    next_search: int = 0
    """The next sweep goes on after the search of that number."""

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

    def holds(self, row: Row) -> bool:
        """Offsets of a topic that was made anew begin anew; positions do not."""
        return _position(self.since) < row.position <= _position(self.epochs[-1])


@dataclass(frozen=True)
class Sweep:
    postgres: PostgresAddress
    kafka: KafkaAddress
    source: Source
    topic: ViewTopic
    shape: ViewShape
    reenter_s: float = REENTER_S
    keep_s: float = 90 * 86_400
    """How long the outbox keeps what was told."""

    def __call__(
        self, changes_max: int = CHANGES_MAX, searches_max: int = SEARCHES_MAX, after_search: int = 0
    ) -> Swept:
        """Raises ViewError for a view that is not matched yet."""
        with connect(self.postgres) as conn, explained(conn):
            mark, first = self._place(conn)
            stretch = self._stretch(mark, first, changes_max)
            if stretch is None:
                return Swept(self.shape.view, 0, 0, (), (), 0, after_search)
            turn, next_search = self._turn(conn, after_search, searches_max)
            mine = frozenset(turn)
            newest = self._rows(conn, _NEWEST, stretch)
            rows = {row.told: row for row in (*newest, *self._rows(conn, _OF_SEARCHES, stretch, mine))}
            matches = list(self._matches(stretch, mine, rows))
            theirs = [match for match in matches if match.subscription_id in mine]
            before = (row for row in self._before(conn, theirs) if row.position <= _position(stretch.since))
            searches = by_ids(conn, sorted({told.subscription_id for told in rows} | {*mine}))
            found = compared(theirs, rows, before, searches, self._is_judged, self.reenter_s)
        unruly = found.unruly | (rows.keys() - {Told.of(match) for match in matches})
        wrong = sorted(e for e in unruly if _is_as_it_was(searches.get(e.subscription_id), rows[e].committed_at))
        missed, counts = sorted(found.expected - rows.keys()), (len(stretch.changes), len(found.expected))
        return Swept(self.shape.view, *counts, tuple(missed), tuple(wrong), len(mine), next_search)

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
        low, high = ChangeLog(self.kafka, self.source).bounds()
        oldest = Position(high.era, max(low.offset, high.offset - RECORDS_MAX))
        recent = [number for number, epoch in enumerate(epochs) if number and _position(epoch) >= oldest]
        if not recent:
            return None
        since = epochs[recent[0] - 1]
        return Stretch([each for each in changes if each.version >= since.next_offset], since, epochs[recent[0] :])

    def _turn(self, conn: psycopg.Connection, after: int, most: int) -> tuple[list[int], int]:
        """The searches whose turn it is, and after which one the next sweep goes on; after the last come the first."""
        found = of_view(conn, self.shape.view, after, most)
        if len(found) < most and after:
            found += [each for each in of_view(conn, self.shape.view, 0, most - len(found)) if each.id <= after]
        return [search.id for search in found], found[-1].id if len(found) == most else 0

    def _rows(self, conn: psycopg.Connection, asked: Any, stretch: Stretch, searches: Iterable[int] = ()) -> list[Row]:
        given = {"view": self.shape.view, "searches": list(searches), "rows": ROWS_MAX}
        versions = {"from": stretch.since.next_offset, "to": stretch.epochs[-1].next_offset}
        return [row for each in conn.execute(asked, given | versions) if stretch.holds(row := _row(*each))]

    def _before(self, conn: psycopg.Connection, matches: Iterable[Match]) -> Iterator[Row]:
        items = {match.item for match in matches}
        for each in conn.execute(_OF_ITEMS, [[id_ for id_, _ in items], [hash_ for _, hash_ in items]]):
            yield _row(*each)

    def _matches(self, stretch: Stretch, mine: frozenset[int], rows: Iterable[Told]) -> Iterator[Match]:
        """Of the searches whose turn it is, all; of others, those that are of the same change as a row of theirs."""
        others: dict[int, set[int]] = defaultdict(set)
        for told in rows:
            if told.subscription_id not in mine:
                others[told.version].add(told.subscription_id)
        chosen = mine.union(*others.values())
        book = Book(self.postgres, self.kafka, self.source, self.shape.view, sorted(chosen))
        evaluator = Evaluator(definition := define(self.shape))
        left = stretch.changes
        for epoch in stretch.epochs:
            for id_, saved in _in_force(book, epoch, stretch.since):
                evaluator.remove(id_)
                with suppress(QueryRefused):  # it is broken, which is told elsewhere
                    if saved is not None and id_ in chosen:
                        evaluator.put(entry_of(id_, saved, definition))
            here = [each for each in left if each.version < epoch.next_offset]
            left = left[len(here) :]
            if book.is_quiet(epoch.offset):
                continue
            now = datetime.fromtimestamp((epoch.committed_at_us or epoch.published_at_us) / 1e6, UTC)
            for each in (each for each in here if not each.is_silent and each.before != each.after):
                with suppress(*UNREADABLE):  # it is a dead letter of the matcher
                    pair = _decoded(each.before, definition), _decoded(each.after, definition)
                    for id_, bits in list(evaluator.events(pair, now, mine | others[each.version])):
                        yield from _made(id_, each, bits, epoch)

    def _is_judged(self, search: SavedSearch | None, at: datetime | None) -> bool:
        """Whether the outbox has to hold what it was told then, and what it was told before."""
        if search is None or at is None:
            return False
        now, window = datetime.now(UTC), window_s(search.wish, self.reenter_s)
        kept = now - at < timedelta(seconds=self.keep_s - window) - LATE
        return kept and _is_as_it_was(search, at) and search.silence(now) is None


def _in_force(book: Book, epoch: Mark, since: Mark) -> Iterator[tuple[int, Any]]:
    """What is to be known of searches before an epoch that was not known before the last one."""
    if not book.is_of(epoch.era):
        is_known = since.era == epoch.era and since.offset > 0
        yield from list(book.open(Position(epoch.era, since.offset if is_known else epoch.offset)))
    yield from book.advance(epoch.offset)


def _decoded(row: bytes | None, definition: IndexDefinition) -> dict[str, Any] | None:
    return None if row is None else decode_row(definition, row)


def _made(id_: int, each: Change, bits: int, epoch: Mark) -> Iterator[Match]:
    for event in Event(bits):
        name, position = str(event.name).lower(), str(_position(epoch))
        yield Match(id_, each.key, name, each.version, position, each.before, each.after, epoch.committed_at_us)


def _position(mark: Mark) -> Position:
    return Position(mark.era, mark.offset)


def _row(
    id_: int, key: str, event: str, version: int, position: str, at: datetime | None, after: str | None = None
) -> Row:
    row = None if after is None else after.encode()
    return Row(Told(id_, key, event, version), Position.parse(position), at, row)


def _is_as_it_was(search: SavedSearch | None, at: datetime | None) -> bool:
    """Neither changed nor removed since then: what it said before is not known any more."""
    return search is not None and at is not None and search.updated_at <= at and not was_changed_since(search, at)
