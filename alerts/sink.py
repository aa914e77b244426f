"""Saved searches as a place that a view is written to: each change is matched, and what matched lies in the outbox.

    changes of an epoch ─▶ watch: who is concerned ─▶ outbox rows and the mark, in one transaction of Postgres

So everything that holds of sinks holds of alerts: they ride with the epochs, follow by themselves when they are behind,
delay nobody, and see every change once. What a view held before it had alerts, or is told again because it was built
anew, is not news: nobody is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import psycopg

from alerts.book import Book
from alerts.outbox import record
from alerts.standing import Standing
from alerts.watch import Watch
from cdc.addresses import KafkaAddress, PostgresAddress, Source
from cdc.errors import SinkUnavailable, SourceError
from cdc.failpoints import reached
from cdc.postgres import connect
from search.index import define
from views.sinks.sink import Change, HistorySink, Mark, Refused, SinkKind, ViewShape

RETRY_S: Final = 1.0
_PREPARE: Final = """
    insert into headwater.alert_places (view, generation, is_silent)
    values (%(view)s, %(generation)s, not exists (select from headwater.alert_places where view = %(view)s))
    on conflict do nothing
"""
_MARK: Final = "select mark::text, is_silent from headwater.alert_places where view = %s and generation = %s"
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

    name = "alerts"
    holds_rows = False

    def open(self, shape: ViewShape, generation: int) -> AlertSink:
        return AlertSink(self, shape, generation)

    def current(self, source: str, view: str) -> int | None:
        with _reached(), connect(self.postgres) as conn:
            row = conn.execute(_CURRENT, [view]).fetchone()
            return None if row is None else row[0]

    def switch(self, source: str, view: str, generation: int | None) -> None:
        with _reached(), connect(self.postgres) as conn:
            conn.execute(_SHOW, {"view": view, "generation": generation})


class AlertSink(HistorySink):
    def __init__(self, kind: AlertKind, shape: ViewShape, generation: int) -> None:
        self._postgres, self._shape, self._generation = kind.postgres, shape, generation
        folder = None if kind.folder is None else kind.folder / shape.source / shape.view
        book = Book(kind.postgres, kind.kafka, Source(shape.source), shape.view)
        self._watch = Watch(book, Standing(define(shape), folder))
        self._conn: psycopg.Connection | None = None
        self._since: Mark | None = None

    def prepare(self) -> None:
        with self._connected() as conn:
            conn.execute(_PREPARE, {"view": self._shape.view, "generation": self._generation})

    def mark(self) -> Mark | None:
        with self._connected() as conn:
            self._since, _ = self._known(conn)
            return self._since

    def apply(self, changes: Sequence[Change], mark: Mark, steps: Sequence[Mark] = ()) -> list[Refused]:
        view = self._shape.view
        with self._connected() as conn, conn.transaction():
            self._since, is_silent = self._known(conn)
            matches = [] if is_silent else list(self._watch.matches(changes, self._since, steps or [mark]))
            reached("matched")
            record(conn, view, mark.next_offset, matches, topic_id=mark.topic_id)
            reached("recorded")
            conn.execute(_MOVE, [msgspec.json.encode(mark).decode(), view, self._generation])
            reached("marked")
        reached("outbox-committed")
        self._since = mark
        return []

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
        return (None if row[0] is None else msgspec.json.decode(row[0], type=Mark)), row[1]

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection]:
        with _reached():
            if self._conn is None or self._conn.closed:
                self._conn = connect(self._postgres)
            yield self._conn


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
