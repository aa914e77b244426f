"""Which searches are in force at a position of the change log: one sees just the changes committed after it was saved,
and none that was committed while it was paused, or after it had expired, whenever that is matched. And whether it is
quiet there: nobody is told of changes committed between the two ends of a stretch.

    table headwater.subscriptions ─ as it is now, what changed since the position undone ─▶ as it was there ─▶ in the
    log's order from there on

Nothing is kept between two lives: the table and the log say it all. A search comes into force with the end of its
transaction, where the epoch is cut (cdc/epochs.py), so an epoch lies before or after it as a whole; what begins or ends
a stretch is an epoch by itself, and silent.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import psycopg
from psycopg.rows import dict_row

from alerts.expiries import Expiries
from alerts.gathering import Gathering, Logged
from alerts.quiet import Silence, going_on
from cdc.addresses import KafkaAddress, PostgresAddress, Source
from cdc.changelog import ChangeLog
from cdc.envelope import parse
from cdc.errors import LogError
from cdc.events import End, Record, Row
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
        threshold_unit, paused
    from {SUBSCRIPTIONS} where view = %(view)s and (%(only)s::bigint[] is null or id = any(%(only)s))
"""
_COUNT: Final = f"select count(*) from (select from {SUBSCRIPTIONS} where view = %s limit %s) s"


@dataclass
class Book:
    """Of one view. Not shared between threads."""

    postgres: PostgresAddress
    kafka: KafkaAddress
    source: Source
    view: str
    only: Sequence[int] | None = None
    """Of the searches that the table holds, these; all, without it."""
    _read_to: Position | None = field(default=None, init=False)
    _ahead: deque[Logged] = field(default_factory=deque, init=False)
    """Searches, read, and not in force yet."""
    _silence: Silence = field(init=False)
    _expiries: Expiries = field(default_factory=Expiries, init=False)
    _gathering: Gathering = field(default_factory=Gathering, init=False)

    def count(self, most: int) -> int:
        """How many searches the table holds, not further than that."""
        with connect(self.postgres) as conn, explained(conn):
            [[found]] = conn.execute(_COUNT, [self.view, most]).fetchall()
            return int(found)

    def open(self, at: Position) -> Iterator[tuple[int, Row]]:
        """The searches in force at the position, by id, one after the other; then `advance` goes on from there."""
        given = {"view": self.view, "only": None if self.only is None else list(self.only)}
        with (
            connect(self.postgres) as conn,
            explained(conn),
            conn.transaction(),
            conn.cursor("searches", row_factory=dict_row) as cursor,
        ):
            cursor.execute(_TABLE, given)  # what it will show is as of now
            with connect(self.postgres) as other, explained(other):
                self._begin(self._from(at), other)
            undone: set[int] = set()
            for saved in self._ahead:
                if saved.id not in undone:
                    undone.add(saved.id)
                    if (before := self._mine(saved.before)) is not None:
                        yield saved.id, before
            for row in cursor:
                if row["id"] not in undone and self._mine(row):
                    yield row["id"], row

    def resume(self, at: Position) -> bool:
        """`advance` goes on from a position whose searches are known; False where the log does not reach back to it."""
        low, _ = ChangeLog(self.kafka, self.source).bounds()
        if at.era < low.era or (at.era == low.era and at.offset < low.offset):
            return False
        with connect(self.postgres) as conn, explained(conn):
            self._begin(at, conn)
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
            self._expiries.take(saved)
            yield saved.id, self._mine(saved.after)

    def is_quiet(self, end: int) -> bool:
        """Whether nobody is told of an epoch that ends there; `advance` has come so far."""
        return self._silence.holds(end)

    def has_expired(self, number: int, at_us: int) -> bool:
        """Whether the search, as `open`, `resume` and `advance` have it in force, had expired at that instant."""
        return self._expiries.has_passed(number, at_us)

    def is_of(self, era: int) -> bool:
        """Whether it can go on into that era; if not it is to be opened there."""
        return self._read_to is not None and self._read_to.era == era

    def _mine(self, row: Row | None) -> Row | None:
        return row if row is not None and row.get("view") == self.view and not row.get("paused") else None

    def _begin(self, at: Position, conn: psycopg.Connection) -> None:
        """Reads the log from there on up to all that the tables showed."""
        self._silence = Silence(self.view, going_on(conn, self.view))
        self._expiries = Expiries.read(conn, self.view, self.only)
        found = conn.execute("select pg_current_wal_insert_lsn()::text").fetchone()
        assert found is not None
        self._read_to, self._ahead, self._gathering = at, deque(), Gathering()
        self._wait_for(Lsn.parse(found[0]), conn)
        self._read(topic_state(self.kafka, self.source.changes_topic).high)
        self._expiries.undo(self._ahead)

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
        for logged in self._gathering.take(self._records(self._read_to.offset, to)):
            if logged.table == SUBSCRIPTIONS:
                self._ahead.append(logged)
            else:
                self._silence.take(logged)
        self._read_to = Position(self._read_to.era, to)

    def _records(self, start: int, end: int) -> Iterator[Record]:
        assert self._read_to is not None
        for chunk in read_range(self.kafka, self.source.changes_topic, start, end):
            for raw in chunk:
                yield Record(Position(self._read_to.era, raw.offset), raw.written_at_ms, raw.key, raw.value)


def _has_passed(records: Iterable[Record], lsn: Lsn) -> bool:
    ends = (entry for record in records if isinstance(entry := parse(record), End))
    return any(end.commit_lsn >= lsn for end in ends)
