"""Puts the demo's data into Postgres, empties it, and says what is there.

Guarantees: tables that are not the demo's own are never written to or emptied; data is loaded once, until a reset;
every transaction of a load leaves the data consistent; a load that was cut off is known as such and is not taken for a
whole one. Everything else in the database stays as it is.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

import psycopg
from psycopg import Connection, Cursor, sql
from psycopg.types.json import JsonbDumper

from cdc.errors import SourceError
from headwater.demo.dataset import SEED, Part, Size, chunks
from headwater.demo.rows import IDENTITIES, ROWS

COMMENT_PREFIX: Final = "Headwater demo"
LOADS: Final = "demo_loads"
EVERY_TABLE: Final = (LOADS, *ROWS)
"""demo_loads first: whoever locks several of these takes that one first, so a reset and a mover never deadlock."""
LOCK_KEY: Final = 0x68_64_65_6D_6F
"""Of the advisory lock that a load or a reset holds from beginning to end ("hdemo")."""

Progress = Callable[[int], None]
"""Told the number of rows just committed."""


class NotLoaded(SourceError):
    """The demo's data is not there, or not all of it."""


@dataclass(frozen=True, slots=True)
class LoadReport:
    listings: int
    seed: int
    rows: Mapping[str, int]
    took_s: float

    @property
    def rows_total(self) -> int:
        return sum(self.rows.values())

    @property
    def rows_per_s(self) -> float:
        return self.rows_total / self.took_s if self.took_s else 0.0


@dataclass(frozen=True, slots=True)
class DemoStatus:
    installed: bool
    complete: bool
    seed: int | None = None
    listings_loaded: int | None = None
    rows: Mapping[str, int] | None = None


def load(
    conn: Connection[Any],
    size: Size | None = None,
    seed: int = SEED,
    *,
    reset: bool = False,
    progress: Progress | None = None,
) -> LoadReport:
    """Makes the tables where they are missing and fills them. The connection must be outside a transaction.

    Raises SourceError if data is there already and `reset` was not asked for.
    """
    size = size or Size()
    started = time.monotonic()
    rows: Counter[str] = Counter()
    with _alone(conn):
        _begin(conn, size, seed, reset)
        for chunk in chunks(size, seed):
            with conn.transaction(), rows_cursor(conn) as cur:
                for part in chunk:
                    _copy(cur, part)
                    rows[part.table] += len(part.rows)
            if progress:
                progress(sum(len(part.rows) for part in chunk))
        _finish(conn)
    return LoadReport(size.listings, seed, dict(rows), time.monotonic() - started)


def ensure_loaded(
    conn: Connection[Any], size: Size | None = None, seed: int = SEED, *, progress: Progress | None = None
) -> LoadReport | None:
    """Loads what is not there; begins anew after a load that was cut off; leaves whole data alone and returns None."""
    found = read_status(conn, count=False)
    if found.complete:
        return None
    return load(conn, size, seed, reset=found.seed is not None, progress=progress)


def reset(conn: Connection[Any]) -> None:
    """Empties the demo's tables with one TRUNCATE. The tables stay, and so does their place in a publication."""
    with _alone(conn), conn.transaction(), conn.cursor() as cur:
        if set(_owned(cur)) == set(EVERY_TABLE):
            _truncate(cur)


def read_status(conn: Connection[Any], *, count: bool = True) -> DemoStatus:
    with conn.transaction(), conn.cursor() as cur:
        if set(_owned(cur)) != set(EVERY_TABLE):
            return DemoStatus(installed=False, complete=False)
        rows = {table: _count(cur, table) for table in ROWS} if count else None
        found = cur.execute("SELECT complete, seed, listings FROM public.demo_loads").fetchone()
    if found is None:
        return DemoStatus(installed=True, complete=False, rows=rows)
    complete, seed, listings = found
    return DemoStatus(True, complete, seed, listings, rows)


def next_move(cur: Cursor[Any]) -> int:
    """A number for a transaction of a mover, never given before. Holds a reset off until that transaction ends."""
    try:
        found = cur.execute("SELECT nextval('public.demo_moves') FROM public.demo_loads WHERE complete").fetchone()
    except psycopg.errors.UndefinedTable:
        found = None
    if found is None:
        raise NotLoaded("the demo's data is not loaded", hint="headwater demo load")
    return int(found[0])


def rows_cursor(conn: Connection[Any]) -> Cursor[Any]:
    """A cursor that takes the rows of rows.py as they are: a dict is jsonb."""
    cur = conn.cursor()
    cur.adapters.register_dumper(dict, JsonbDumper)
    return cur


@contextmanager
def _alone(conn: Connection[Any]) -> Iterator[None]:
    """Two loads, or a load and a reset, would mix their rows. Postgres lets the lock go if the connection is lost."""
    with conn.transaction():
        found = conn.execute("SELECT pg_try_advisory_lock(%s)", (LOCK_KEY,)).fetchone()
    if not (found and found[0]):
        raise SourceError("another load or reset of the demo is running", hint="headwater demo status")
    try:
        yield
    finally:
        if not conn.closed:
            with conn.transaction():
                conn.execute("SELECT pg_advisory_unlock(%s)", (LOCK_KEY,))


def _begin(conn: Connection[Any], size: Size, seed: int, reset: bool) -> None:
    with conn.transaction(), conn.cursor() as cur:
        _owned(cur)
        cur.execute(resources.files("headwater.demo").joinpath("schema.sql").read_bytes())
        if reset:
            _truncate(cur)
        elif before := cur.execute("SELECT complete FROM public.demo_loads").fetchone():
            raise SourceError(
                "the demo's data is already loaded" if before[0] else "an earlier load of the demo did not finish",
                hint="headwater demo load --reset",
            )
        cur.execute("INSERT INTO public.demo_loads (seed, listings) VALUES (%s, %s)", (seed, size.listings))


def _finish(conn: Connection[Any]) -> None:
    """Numbers go on where the load ended, and the planner knows the tables."""
    with conn.transaction(), conn.cursor() as cur:
        for table in IDENTITIES:
            cur.execute(
                sql.SQL(
                    "SELECT setval(pg_get_serial_sequence({name}, 'id'), coalesce(max(id), 0) + 1, false) FROM {table}"
                ).format(name=sql.Literal(f"public.{table}"), table=sql.Identifier("public", table))
            )
        for table in ROWS:
            cur.execute(sql.SQL("ANALYZE {}").format(sql.Identifier("public", table)))
        cur.execute("UPDATE public.demo_loads SET complete = true")


def _copy(cur: Cursor[Any], part: Part) -> None:
    columns = sql.SQL(", ").join(map(sql.Identifier, ROWS[part.table]._fields))
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier("public", part.table), columns)
    with cur.copy(statement) as copy:
        for row in part.rows:
            copy.write_row(row)


def _owned(cur: Cursor[Any]) -> list[str]:
    """The demo's tables that are there; refuses if one of those names is someone else's."""
    found = cur.execute(
        "SELECT relname, coalesce(obj_description(oid, 'pg_class'), '') FROM pg_class"
        " WHERE relnamespace = 'public'::regnamespace AND relname = ANY(%s)",
        (list(EVERY_TABLE),),
    ).fetchall()
    foreign = sorted(name for name, comment in found if not comment.startswith(COMMENT_PREFIX))
    if foreign:
        raise SourceError(
            "the database has tables of its own by the names of the demo's",
            detail=", ".join(f"public.{name}" for name in foreign),
            hint="give the demo a database of its own and name it in headwater.toml, then: headwater demo load",
        )
    return [name for name, _ in found]


def _truncate(cur: Cursor[Any]) -> None:
    tables = sql.SQL(", ").join(sql.Identifier("public", table) for table in EVERY_TABLE)
    cur.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY").format(tables))


def _count(cur: Cursor[Any], table: str) -> int:
    found = cur.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier("public", table))).fetchone()
    return int(found[0]) if found else 0
