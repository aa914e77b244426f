"""Moments of Postgres: what it shows to one snapshot, and how far its log is then."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import psycopg

from cdc.addresses import PostgresAddress
from cdc.errors import SourceError
from cdc.position import Lsn
from cdc.postgres import connect, explained

MOMENTS_S: Final = 1.0
SETTINGS: Final = {
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "search_path": "public, pg_catalog",
}
"""What the text of a value depends on, and where a name without a schema is looked for."""
_WAITING: Final = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'"
_POLL_S: Final = 0.1


@contextmanager
def snapshot(address: PostgresAddress, timeout_s: float) -> Iterator[tuple[psycopg.Connection, Lsn]]:
    """A transaction that sees one moment, and an LSN after everything that it sees."""
    with connect(address) as conn, explained(conn):
        _await_standbys(conn, timeout_s)
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        conn.read_only = True
        with conn.transaction():
            yield conn, pinned(conn)


def moments(conn: psycopg.Connection, timeout_s: float) -> Iterator[None]:
    """One after the other, for a while: every statement sees another."""
    _await_standbys(conn, timeout_s)
    _set(conn, is_local=False)
    until = time.monotonic() + MOMENTS_S
    while time.monotonic() < until:
        yield


@dataclass
class Shown:
    """The rows of moments one after the other, each between two ends of the log."""

    ends: list[Lsn]
    rows: list[dict[str, bytes]] = field(default_factory=list)

    def add(self, rows: dict[str, bytes], end: Lsn) -> None:
        self.rows.append(rows)
        self.ends.append(end)

    def after(self, commit: Lsn) -> list[dict[str, bytes]]:
        """Of the moments right after that commit: the one within which it was written, which may not have seen it, and
        the next. None of a commit before or after all of them."""
        at = bisect_left(self.ends, commit)
        if at == len(self.ends) or commit < self.ends[0]:
            return []
        return self.rows[max(at - 1, 0) : at + 1]


def pinned(conn: psycopg.Connection) -> Lsn:
    """The first statement of a transaction takes its snapshot, so the LSN comes after it."""
    _set(conn, is_local=True)
    return wal_end(conn)


def wal_end(conn: psycopg.Connection) -> Lsn:
    found = conn.execute("select pg_current_wal_insert_lsn()::text").fetchone()
    assert found is not None
    return Lsn.parse(found[0])


def _set(conn: psycopg.Connection, *, is_local: bool) -> None:
    for name, value in SETTINGS.items():
        conn.execute("select set_config(%s, %s, %s)", [name, value, is_local])


def _await_standbys(conn: psycopg.Connection, timeout_s: float) -> None:
    """Until no commit waits for one: it is in the log, and nobody sees it."""
    deadline = time.monotonic() + timeout_s
    while (row := conn.execute(_WAITING).fetchone()) and row[0]:
        if time.monotonic() > deadline:
            raise SourceError(
                "commits wait for a synchronous standby",
                detail="they are in the log, and not yet visible",
                hint="select * from pg_stat_replication",
            )
        time.sleep(_POLL_S)
