"""Saved searches as a place that a view is written to: each change is matched, and what matched lies in the outbox.

    changes of an epoch ─▶ watch: who is concerned ─▶ outbox rows and the mark, in one transaction of Postgres

So everything that holds of sinks holds of alerts: they ride with the epochs, follow by themselves when they are behind,
delay nobody, and see every change once. What a view held before it had alerts, or is told again because it was built
anew, is not news: nobody is told.

Who stood still for more than a day finds a topic that was compacted: what changed twice meanwhile is not all there.
Events are never made up for it; that some may be missing, and of when, is kept beside the mark. So it is of changes
that were not matched yet when a view that was changed took over: what lies before it is of another shape.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import psycopg

from alerts.book import Book
from alerts.matched import Matched
from alerts.moves import REENTER_S
from alerts.outbox import record
from alerts.standing import Standing
from alerts.watch import Watch
from cdc.addresses import KafkaAddress, PostgresAddress, Source
from cdc.errors import SinkUnavailable, SourceError
from cdc.failpoints import reached
from cdc.postgres import connect
from search.index import define
from views.sinks.sink import Change, HistorySink, Mark, Refused, SinkKind, ViewShape
from views.sinks.wholeness import Stretch, follows, lost

RETRY_S: Final = 1.0
SHOWN_S: Final = 7 * 86_400
"""How long it is told that news was missed."""
PAST: Final = "what it would have told is past: drop the letter"
_PREPARE: Final = """
    insert into headwater.alert_places (view, generation, is_silent)
    values (%(view)s, %(generation)s, not exists (select from headwater.alert_places where view = %(view)s))
    on conflict do nothing
"""
_MARK: Final = "select mark::text, is_silent from headwater.alert_places where view = %s and generation = %s"
_SHOWN: Final = "select mark::text from headwater.alert_places where view = %s and is_shown and mark is not null"
_REPLACED: Final = """
    select mark::text from headwater.alert_places
    where view = %s and is_shown and generation <> %s and mark is not null
"""
_MOVE: Final = "update headwater.alert_places set mark = %s where view = %s and generation = %s"
_DROP: Final = "delete from headwater.alert_places where view = %s and generation = %s"
_CURRENT: Final = "select max(generation) from headwater.alert_places where view = %s and is_shown"
_SHOW: Final = """
    update headwater.alert_places set is_shown = generation = %(generation)s, is_silent = false,
        first_offset = case when is_silent then (mark->>'next_offset')::bigint else first_offset end
    where view = %(view)s and (is_shown or generation = %(generation)s)
"""


@dataclass(frozen=True)
class AlertKind(SinkKind):
    postgres: PostgresAddress
    kafka: KafkaAddress
    folder: Path | None = None
    """Where many saved searches lie in files; None: in memory."""
    reenter_s: float = REENTER_S
    rows_per_apply_max = 100
    """Each may concern thousands, whose owners wait for the end of the transaction."""

    name = "alerts"
    holds_rows = False

    def open(self, shape: ViewShape, generation: int) -> AlertSink:
        return AlertSink(self, shape, generation)

    def made_for(self, shape: ViewShape) -> str:
        """It holds no rows: what comes is matched as the view is declared then."""
        return ""

    def current(self, source: str, view: str) -> int | None:
        with _reached(), connect(self.postgres) as conn:
            row = conn.execute(_CURRENT, [view]).fetchone()
            return None if row is None else row[0]

    def switch(self, source: str, view: str, generation: int | None) -> None:
        with _reached(), connect(self.postgres) as conn:
            conn.execute(_SHOW, {"view": view, "generation": generation})


class Lacks(msgspec.Struct, frozen=True):
    """Changes that nobody was told of, because they were forgotten before they were matched: when they were made."""

    from_us: int
    until_us: int
    noticed_at_us: int

    def is_shown(self, now_us: int) -> bool:
        return now_us - self.noticed_at_us < SHOWN_S * 1_000_000


class _Noted(msgspec.Struct, frozen=True):
    """What lies beside a mark."""

    lacks: Lacks | None = None


def lacking(conn: psycopg.Connection, view: str) -> Lacks | None:
    """Of the alerts of a view, lately noticed."""
    row = conn.execute(_SHOWN, [view]).fetchone()
    found = None if row is None else msgspec.json.decode(row[0], type=_Noted).lacks
    return found if found is not None and found.is_shown(time.time_ns() // 1000) else None


class AlertSink(HistorySink):
    def __init__(self, kind: AlertKind, shape: ViewShape, generation: int) -> None:
        self._postgres, self._shape, self._generation = kind.postgres, shape, generation
        self._reenter_s = kind.reenter_s
        folder = None if kind.folder is None else kind.folder / shape.source / shape.view
        book = Book(kind.postgres, kind.kafka, Source(shape.source), shape.view)
        self._definition = define(shape)
        self._watch = Watch(book, Standing(self._definition, folder))
        self._conn: psycopg.Connection | None = None
        self._since: Mark | None = None
        self._lacks: Lacks | None = None
        self._told_at_us = 0
        """When the last change was published that it has matched."""

    def prepare(self) -> None:
        with self._connected() as conn:
            conn.execute(_PREPARE, {"view": self._shape.view, "generation": self._generation})

    def mark(self) -> Mark | None:
        with self._connected() as conn:
            self._since, _ = self._known(conn)
            return self._since

    def apply(self, changes: Sequence[Change], mark: Mark, steps: Sequence[Mark] = ()) -> list[Refused]:
        view = self._shape.view
        with self._connected() as conn:
            self._since, is_silent = self._known(conn)
            if not is_silent:
                self._watch.ready((steps or [mark])[0], self._since)  # nobody waits for a transaction meanwhile
        with self._connected() as conn, conn.transaction():
            self._since, is_silent = self._known(conn)
            self._watch.unread = []
            lacks = self._lacks
            if not is_silent:
                is_new = self._since is None
                lacks = self._left(conn, mark, steps) if is_new else self._lacking(changes, mark, steps or [mark])
            matches = () if is_silent else self._matched(changes, steps or [mark])
            record(
                conn,
                self._definition,
                mark.next_offset,
                matches,
                topic_id=mark.topic_id,
                reenter_s=self._reenter_s,
            )
            reached("recorded")
            kept = msgspec.structs.asdict(mark) | ({} if lacks is None else {"lacks": lacks})
            conn.execute(_MOVE, [msgspec.json.encode(kept).decode(), view, self._generation])
            reached("marked")
        reached("outbox-committed")
        self._since, self._lacks = mark, lacks
        self._told_at_us = max(self._told_at_us, (steps or [mark])[-1].published_at_us)
        return self._watch.unread

    def _matched(self, changes: Sequence[Change], steps: Sequence[Mark]) -> Iterator[Matched]:
        yield from self._watch.matches(changes, self._since, steps)
        reached("matched")

    def _lacking(self, changes: Sequence[Change], mark: Mark, steps: Sequence[Mark]) -> Lacks | None:
        """With what was noticed lately."""
        now_us = time.time_ns() // 1000
        before = self._lacks if self._lacks is not None and self._lacks.is_shown(now_us) else None
        if self._since is None or not self._since.is_whole:
            return before
        ends, last = [step.next_offset for step in steps], len(steps) - 1
        told = [(each.version, steps[min(bisect_right(ends, each.version), last)].published_at_us) for each in changes]
        known = self._since.next_offset, max(self._since.published_at_us, self._told_at_us)
        found = lost(known, told, (mark.next_offset, max(mark.published_at_us, steps[-1].published_at_us)), now_us)
        return _together(before, found, now_us)

    def _left(self, conn: psycopg.Connection, mark: Mark, steps: Sequence[Mark]) -> Lacks | None:
        """What the place that this one replaces lacked, and what it had not matched when the present shape began:
        this one begins there."""
        row = conn.execute(_REPLACED, [self._shape.view, self._generation]).fetchone()
        if row is None:
            return None
        now_us = time.time_ns() // 1000
        old, before = msgspec.json.decode(row[0], type=Mark), msgspec.json.decode(row[0], type=_Noted).lacks
        if before is not None and not before.is_shown(now_us):
            before = None
        if old.topic_id != mark.topic_id or not old.is_whole or follows(old.next_offset, mark.since):
            return before
        began_at_us = steps[0].published_at_us if steps else now_us
        return _together(before, Stretch(old.published_at_us, max(began_at_us, old.published_at_us)), now_us)

    def again(self, changes: Sequence[Change]) -> list[Refused]:
        """Takes none of them, and touches no mark: the log has gone past the searches that were in force there."""
        return [Refused(change, PAST) for change in changes]

    def tend(self) -> None:
        """The searches of a view, when they are many; the outbox is the notifier's to clear."""
        self._watch.tend()

    def rows(self) -> Iterator[bytes]:
        """It holds none: what it was told is in the outbox, for those whom it concerned."""
        return iter(())

    def read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        return {}

    def drop(self) -> None:
        with self._connected() as conn:
            conn.execute(_DROP, [self._shape.view, self._generation])

    def close(self) -> None:
        self._watch.close()
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _known(self, conn: psycopg.Connection) -> tuple[Mark | None, bool]:
        row = conn.execute(_MARK, [self._shape.view, self._generation]).fetchone()
        if row is None:
            return None, True
        if row[0] is None:
            return None, row[1]
        self._lacks = msgspec.json.decode(row[0], type=_Noted).lacks
        return msgspec.json.decode(row[0], type=Mark), row[1]

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection]:
        with _reached():
            if self._conn is None or self._conn.closed:
                self._conn = connect(self._postgres)
            yield self._conn


def _together(before: Lacks | None, found: Stretch | None, now_us: int) -> Lacks | None:
    if found is None:
        return before
    since = found if before is None else before
    return Lacks(min(since.from_us, found.from_us), max(since.until_us, found.until_us), now_us)


@contextmanager
def _reached() -> Iterator[None]:
    """Without the database nobody can be told anything: tried again later."""
    try:
        yield
    except (SourceError, psycopg.OperationalError) as error:
        fact = error.fact if isinstance(error, SourceError) else "lost the source database"
        unavailable = SinkUnavailable(fact, detail=str(error).strip(), hint="headwater doctor")
        unavailable.retry_after_s = RETRY_S
        raise unavailable from error
