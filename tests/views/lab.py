"""Tables, what is done to them, and views over them, in one hand: say it in SQL, end the epoch, and the views are
compared with Postgres."""

from __future__ import annotations

import re
from types import TracebackType

import psycopg

from cdc.events import ChangeEvent
from tests.views.kept import Kept, planned
from tests.views.recorder import Recorder
from views.changes import Delta


class Lab:
    """Has the schema public for itself: whatever was there goes."""

    def __init__(self, connection: psycopg.Connection, ddl: str, views: str = "", *, shards: int = 1) -> None:
        self.connection = connection
        connection.execute("drop schema if exists public cascade")
        connection.execute("drop schema if exists recorder cascade")
        connection.execute("create schema public")
        connection.execute(ddl)
        self.recorder = Recorder.install(connection, re.findall(r"create table (\w+)", ddl))
        self.shards = shards
        self.watch(views)

    def watch(self, views: str) -> None:
        """From here on these views. To be called before the first epoch."""
        self.kept = Kept(planned(views, self.recorder.catalog), self.recorder.catalog, shards=self.shards)

    def commit(self, *statements: str) -> None:
        """One transaction."""
        with self.connection.transaction():
            for statement in statements:
                self.connection.execute(statement)

    def epoch(self, *statements: str) -> dict[str, list[Delta]]:
        """Ends the epoch after one transaction more, and compares every view. Says what changed in each."""
        if statements:
            self.commit(*statements)
        return self.take(self.recorder.events())

    def take(self, events: list[ChangeEvent]) -> dict[str, list[Delta]]:
        changed = self.kept.epoch(events)
        self.kept.check(self.connection)
        return changed

    def close(self) -> None:
        self.kept.close()

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
