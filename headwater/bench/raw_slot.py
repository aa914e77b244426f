"""The limit that the log rate is held against: the same transactions, read through a slot of their own by a client that
does nothing but count (pgoutput.py). What is slower than this is not Postgres.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import psycopg
from psycopg import pq

from cdc.addresses import PostgresAddress
from cdc.errors import SourceError
from cdc.position import Lsn
from headwater.bench.figures import Rate
from headwater.bench.pgoutput import Tally, nothing_flushed, wants_answer

SILENCE_S_MAX: Final = 60.0
"""How long the server may send nothing before it counts as gone."""
DROP_INTERVAL_S: Final = 0.05
_MAKE: Final = "select pg_create_logical_replication_slot(%s, 'pgoutput')"
_DROP: Final = """
    select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = %s and not active
"""
_EXISTS: Final = "select 1 from pg_replication_slots where slot_name = %s"
_PEEK: Final = """
    select count(*) from pg_logical_slot_peek_binary_changes(
        %s, null, null, 'proto_version', '1', 'publication_names', %s)
    where get_byte(data, 0) in (ascii('I'), ascii('U'), ascii('D'))
"""


@dataclass(frozen=True, slots=True)
class RawRead:
    streamed: Rate
    """Over the replication protocol, from the first row's arrival to the last commit's."""
    bytes_per_s: float
    peeked: Rate
    """Counted inside Postgres by pg_logical_slot_peek_binary_changes: nothing travels, all of it is kept at once."""


@contextmanager
def slot_before(conn: psycopg.Connection, name: str) -> Iterator[str]:
    """A slot that sees what is committed within the block, and later; dropped at its end."""
    conn.execute(_MAKE, [name])
    try:
        yield name
    finally:
        _drop(conn, name)


def _drop(conn: psycopg.Connection, name: str) -> None:
    """Postgres takes a moment to notice that a reader has gone."""
    deadline = time.monotonic() + SILENCE_S_MAX
    while conn.execute(_EXISTS, [name]).fetchone() is not None:
        if time.monotonic() > deadline:
            raise SourceError(f"slot {name} is still in use", hint=f"select pg_drop_replication_slot('{name}')")
        conn.execute(_DROP, [name])
        time.sleep(DROP_INTERVAL_S)


def read(address: PostgresAddress, slot: str, publication: str, until: Lsn) -> RawRead:
    """Everything in the slot up to the first commit at or after `until`, twice: counted in place, and streamed."""
    with psycopg.connect(address.conninfo(), autocommit=True) as conn:
        began = time.monotonic()
        row = conn.execute(_PEEK, [slot, publication]).fetchone()
        peeked = Rate(row[0] if row else 0, time.monotonic() - began)
    connection = _replication(address)
    try:
        tally, took_s = _stream(connection, slot, publication, until)
    finally:
        connection.finish()
    # The first row's own arrival starts the clock.
    return RawRead(Rate(tally.rows - 1, took_s), tally.size_bytes / took_s if took_s else 0.0, peeked)


def _replication(address: PostgresAddress) -> pq.abc.PGconn:
    """psycopg itself does not speak the replication protocol; libpq, which it carries, does."""
    wanted = replace(address, options=(*address.options, ("replication", "database")))
    connection = pq.PGconn.connect(wanted.conninfo().encode())
    if connection.status != pq.ConnStatus.OK:
        raise _lost(connection)
    return connection


def _stream(connection: pq.abc.PGconn, slot: str, publication: str, until: Lsn) -> tuple[Tally, float]:
    command = (
        f"START_REPLICATION SLOT \"{slot}\" LOGICAL 0/0 (proto_version '1', publication_names '\"{publication}\"')"
    )
    if connection.exec_(command.encode()).status != pq.ExecStatus.COPY_BOTH:
        raise _lost(connection)
    tally, first_at = Tally(until), 0.0
    for message in _messages(connection):
        tally.take(message)
        if not first_at and tally.rows:
            first_at = time.monotonic()
        if tally.done:
            return tally, time.monotonic() - first_at
    raise _lost(connection)


def _messages(connection: pq.abc.PGconn) -> Iterator[memoryview]:
    while True:
        size, message = connection.get_copy_data(1)
        if size < 0:
            return
        if size:
            if wants_answer(message):
                connection.put_copy_data(nothing_flushed())
                connection.flush()
            yield message
            continue
        if not select.select([connection.socket], [], [], SILENCE_S_MAX)[0]:
            raise _lost(connection)
        connection.consume_input()


def _lost(connection: pq.abc.PGconn) -> SourceError:
    said = connection.error_message.decode(errors="replace").strip()
    return SourceError(
        "the raw slot could not be read to its end",
        detail=said or "Postgres went silent",
        hint="headwater logs postgres",
    )
