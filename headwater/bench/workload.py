"""What the capture bench writes: rows of a property listing, some 300 bytes each, made by Postgres itself so that the
writer costs as little as can be.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import psycopg

from cdc.addresses import PostgresAddress
from cdc.position import Lsn
from headwater.bench.figures import Rate
from headwater.bench.progress import Advance

TRANSACTION_ROWS: Final = 1_000
BACKGROUND_TRANSACTION_ROWS: Final = 10
BACKGROUND_ID_FIRST: Final = 1 << 40
"""Beyond all other ids."""

TABLE: Final = """
    create table listings (
        id          bigint primary key,
        agent_id    bigint not null,
        kind        text not null,
        status      text not null,
        title       text not null,
        description text not null,
        city        text not null,
        postcode    text not null,
        lat         double precision not null,
        lon         double precision not null,
        price       numeric(12, 2) not null,
        area_m2     numeric(8, 1) not null,
        bedrooms    smallint not null,
        has_garden  boolean not null,
        listed_at   timestamptz not null,
        updated_at  timestamptz not null
    )
"""
_INSERT: Final = """
    insert into listings
    select n, n %% 500,
        (array['house', 'flat', 'studio', 'loft', 'cottage'])[1 + n %% 5],
        (array['for_sale', 'under_offer', 'sold'])[1 + n %% 3],
        'A bright flat on the second floor, number ' || n,
        'Oak parquet and high ceilings throughout. The kitchen is fitted, with room for a table. Reference '
            || md5(n::text),
        (array['Paris', 'Lyon', 'Lisboa', 'Amsterdam', 'Berlin'])[1 + n %% 5],
        lpad((n %% 100000)::text, 5, '0'),
        48 + (n %% 10000) / 10000.0, 2 + (n %% 7919) / 7919.0,
        100000 + (n * 7919) %% 900000 + 0.5, 20 + (n %% 2000) / 10.0, n %% 6, n %% 2 = 0, now(), now()
    from generate_series(%s::bigint, %s::bigint) n
"""
_ROW_BYTES: Final = "select coalesce(avg(pg_column_size(t.*)), 0)::int from (select * from listings limit 1000) t"
_LSN: Final = "select pg_current_wal_insert_lsn()::text"
_XID: Final = "select mod(pg_current_xact_id()::text::bigint, 4294967296)"


@dataclass(frozen=True, slots=True)
class Written:
    rate: Rate
    began_at: float
    """On the monotonic clock: before the first row was sent."""
    until: Lsn
    """The last transaction's commit lies at or after it, and nothing else of this writer does."""


class Writer:
    """One connection that inserts; ids go on counting."""

    def __init__(self, conn: psycopg.Connection, id_first: int = 1) -> None:
        self._conn = conn
        self._id_next = id_first

    def insert(self, rows: int) -> int:
        """One transaction; the 32 bits of its id that the log names it by."""
        with self._conn.transaction():
            self._conn.execute(_INSERT, [self._id_next, self._id_next + rows - 1])
            row = self._conn.execute(_XID).fetchone()
        self._id_next += rows
        assert row is not None
        return int(row[0])

    def write(self, rows: int, advance: Advance) -> Written:
        """So many rows, as fast as they go in, in transactions of TRANSACTION_ROWS."""
        began, until = time.monotonic(), Lsn(0)
        for size in transaction_sizes(rows):
            until = lsn(self._conn)
            self.insert(size)
            advance(size)
        return Written(Rate(rows, time.monotonic() - began), began, until)


def transaction_sizes(rows: int) -> Iterator[int]:
    """Whole transactions, and what is left over in a last one."""
    whole, left = divmod(rows, TRANSACTION_ROWS)
    yield from (TRANSACTION_ROWS for _ in range(whole))
    if left:
        yield left


@contextmanager
def background(address: PostgresAddress, rows_per_s: int) -> Iterator[None]:
    """A steady load beside what is measured, in small transactions; nothing at 0."""
    if rows_per_s <= 0:
        yield
        return
    stop = threading.Event()

    def load() -> None:
        with psycopg.connect(address.conninfo(), autocommit=True) as conn:
            writer, interval_s = Writer(conn, BACKGROUND_ID_FIRST), BACKGROUND_TRANSACTION_ROWS / rows_per_s
            due = time.monotonic()
            while not stop.wait(max(0.0, due - time.monotonic())):
                writer.insert(BACKGROUND_TRANSACTION_ROWS)
                due = max(due + interval_s, time.monotonic() - 1)

    thread = threading.Thread(target=load, name="bench-background", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def lsn(conn: psycopg.Connection) -> Lsn:
    row = conn.execute(_LSN).fetchone()
    assert row is not None
    return Lsn.parse(row[0])


def row_bytes(conn: psycopg.Connection) -> int:
    """The average size of a row in the table's pages."""
    row = conn.execute(_ROW_BYTES).fetchone()
    return int(row[0]) if row else 0
