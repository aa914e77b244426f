"""Which searches are saved at a position of the change log: a saved search sees just the changes committed after it.

    table headwater.subscriptions ─ as it is now, what changed since the position undone ─▶ as it was there ─▶ in the
    log's order from there on

Nothing is kept between two lives: the table and the log say it all. A search comes into force with the end of its
transaction, where the epoch is cut (cdc/epochs.py), so an epoch lies before or after it as a whole.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import psycopg
from psycopg.rows import dict_row

from cdc.addresses import KafkaAddress, PostgresAddress, Source
from cdc.changelog import ChangeLog
from cdc.envelope import parse, table_of
from cdc.epochs import mark_of
from cdc.errors import LogError
from cdc.events import UNCHANGED, ChangeEvent, End, Op, Record, Row
from cdc.position import Lsn, Position
from cdc.postgres import connect, explained
from cdc.reader import read_range
from cdc.relations import SUBSCRIPTIONS
from cdc.topics import topic_state

ARRIVE_S_MAX: Final = 30.0
"""How long the log may take to tell what the table already holds."""
_POLL_S: Final = 0.05
_TABLE: Final = f"""
    select id, owner, view, query::text as query, events, columns, watched_column, threshold::text as threshold,
        threshold_unit
    from {SUBSCRIPTIONS} where view = %s
"""


@dataclass(frozen=True, slots=True)
class Saved:
    """A change of a saved search."""

    end: int
    """One past the end of its transaction: what lies after it, the search sees."""
    id: int
    before: Row | None
    after: Row | None


@dataclass
class Gathering:
    """Finds the changes of saved searches among the log's records, which may be given piece by piece."""

    _held: list[ChangeEvent] = field(default_factory=list, init=False)

    def take(self, records: Iterable[Record]) -> Iterator[Saved]:
        """In the log's order, each when its transaction is complete."""
        for record in records:
            value = record.value
            if value is None:
                continue
            if table_of(value) == SUBSCRIPTIONS and isinstance(event := parse(record), ChangeEvent):
                self._held.append(event)
            if self._held and mark_of(value).completes:
                yield from (saved for event in self._held for saved in _saved(event, record.position.offset + 1))
                self._held.clear()


def _saved(event: ChangeEvent, end: int) -> Iterator[Saved]:
    before, after = event.before, event.after
    if event.op is Op.TRUNCATE or not (row := after or before):
        return  # nobody empties the table: searches are removed one by one
    if before and after:
        after = {name: before.get(name) if value is UNCHANGED else value for name, value in after.items()}
    number = row["id"]
    assert isinstance(number, int)
    yield Saved(end, number, before, after)


@dataclass
class Book:
    """Of one view. Not shared between threads."""

    postgres: PostgresAddress
    kafka: KafkaAddress
    source: Source
    view: str
    _read_to: Position | None = field(default=None, init=False)
    _ahead: deque[Saved] = field(default_factory=deque, init=False)
    """Read, and not in force yet."""
    _gathering: Gathering = field(default_factory=Gathering, init=False)

    def open(self, at: Position) -> dict[int, Row]:
        """The searches in force at the position, by id; `advance` goes on from there."""
        with connect(self.postgres) as conn, explained(conn):
            rows = self._table(conn)
            found = conn.execute("select pg_current_wal_insert_lsn()::text").fetchone()
            assert found is not None
            self._read_to, self._ahead, self._gathering = self._from(at), deque(), Gathering()
            self._wait_for(Lsn.parse(found[0]), conn)
        self._read(topic_state(self.kafka, self.source.changes_topic).high)
        undone: set[int] = set()
        for saved in self._ahead:
            if saved.id not in undone:
                undone.add(saved.id)
                rows.pop(saved.id, None)
                if (before := self._mine(saved.before)) is not None:
                    rows[saved.id] = before
        return rows

    def resume(self, at: Position) -> bool:
        """`advance` goes on from a position whose searches are known; False where the log does not reach back to it."""
        low, _ = ChangeLog(self.kafka, self.source).bounds()
        if at.era < low.era or (at.era == low.era and at.offset < low.offset):
            return False
        self._read_to, self._ahead, self._gathering = at, deque(), Gathering()
        return True

    @property
    def settled(self) -> Position | None:
        """The position up to which every search was handed out by `advance`; None while some are ahead of it."""
        return None if self._ahead else self._read_to

    def advance(self, to: int) -> Iterator[tuple[int, Row | None]]:
        """What comes into force before an epoch that ends there: a search by its id, None where it is gone."""
        assert self._read_to is not None
        if to > self._read_to.offset:
            self._read(to)
        while self._ahead and self._ahead[0].end < to:
            saved = self._ahead.popleft()
            yield saved.id, self._mine(saved.after)

    def is_of(self, era: int) -> bool:
        """Whether it can go on into that era; if not it is to be opened there."""
        return self._read_to is not None and self._read_to.era == era

    def _mine(self, row: Row | None) -> Row | None:
        return row if row is not None and row.get("view") == self.view else None

    def _table(self, conn: psycopg.Connection) -> dict[int, Row]:
        with conn.cursor(row_factory=dict_row) as cursor:
            return {row["id"]: row for row in cursor.execute(_TABLE, [self.view])}

    def _from(self, at: Position) -> Position:
        """The position, or the oldest that the log still has."""
        low, _ = ChangeLog(self.kafka, self.source).bounds()
        return at if at.era != low.era or at.offset >= low.offset else low

    def _wait_for(self, lsn: Lsn, conn: psycopg.Connection) -> None:
        """Until the log holds every commit that the table showed; a commit of our own comes after them."""
        log, deadline = ChangeLog(self.kafka, self.source), time.monotonic() + ARRIVE_S_MAX
        conn.execute("select headwater.tick_canary()")
        _, high = log.bounds()
        while not _has_passed(self._tail(high.offset), lsn):
            if time.monotonic() > deadline:
                raise LogError(
                    "the log does not get on", detail=f"it has not told of {lsn} yet", hint="headwater status"
                )
            time.sleep(_POLL_S)
            _, high = log.bounds()

    def _tail(self, high: int) -> Iterator[Record]:
        assert self._read_to is not None
        return self._records(max(self._read_to.offset, high - 100), high)

    def _read(self, to: int) -> None:
        assert self._read_to is not None
        self._ahead.extend(self._gathering.take(self._records(self._read_to.offset, to)))
        self._read_to = Position(self._read_to.era, to)

    def _records(self, start: int, end: int) -> Iterator[Record]:
        assert self._read_to is not None
        for chunk in read_range(self.kafka, self.source.changes_topic, start, end):
            for raw in chunk:
                yield Record(Position(self._read_to.era, raw.offset), raw.written_at_ms, raw.key, raw.value)


def _has_passed(records: Iterable[Record], lsn: Lsn) -> bool:
    ends = (entry for record in records if isinstance(entry := parse(record), End))
    return any(end.commit_lsn >= lsn for end in ends)
