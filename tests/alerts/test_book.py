"""Opened at whatever position, the book holds what a replay of the whole log holds there, and goes on the same way:
which searches are in force, and whether it is quiet."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from alerts import quiet
from alerts.book import Book
from alerts.gathering import Gathering, Logged
from alerts.standing import Standing
from cdc import eras
from cdc.capture import Capture
from cdc.changelog import ChangeLog
from cdc.envelope import table_of
from cdc.errors import ConfigurationError
from cdc.events import End, Record
from cdc.position import Position
from cdc.relations import QUIET, SUBSCRIPTIONS
from search.index import define
from tests.alerts.crash.items import shape
from tests.waiting import eventually

pytestmark = pytest.mark.stack

SAVE = """
    insert into headwater.subscriptions (owner, view, query, events, channel, unsubscribe_token)
    values (%s, %s, jsonb_build_object('equals', %s::text), '{entered}', 'feed', gen_random_uuid()::text)
    returning id
"""

CHANGES = {
    "change": "label = label || 'x'",
    "move": "view = 'one'",
    "pause": "paused = not paused",
    "expire": "expires_at = now() + id * interval '1 hour'",
    "endless": "expires_at = null",
}


def churn(connection: psycopg.Connection, draw: random.Random, saved: list[int]) -> None:
    """A transaction with some changes of saved searches among others; large values stay where they are."""
    with connection.transaction():
        for _ in range(draw.randrange(3)):
            connection.execute("insert into items default values")
        for _ in range(draw.randrange(3)):
            action = draw.choice(("save", *CHANGES, "remove")) if saved else "save"
            if action == "save":
                query = "x" * draw.choice((5, 20_000))
                found = connection.execute(SAVE, [f"o{len(saved)}", draw.choice(("one", "other")), query]).fetchone()
                assert found is not None
                saved.append(found[0])
            elif action == "remove":
                number = saved.pop(draw.randrange(len(saved)))
                connection.execute("delete from headwater.subscriptions where id = %s", [number])
            else:
                connection.execute(
                    f"update headwater.subscriptions set {CHANGES[action]} where id = %s",
                    [draw.choice(saved)],
                )
        for view in draw.sample((None, "one", "other"), draw.choice((0, 0, 1))):
            begins = draw.random() < 0.5
            with suppress(ConfigurationError):  # it was not quiet
                quiet.begin(connection, view) if begins else quiet.end(connection, view)


def shown(rows: Mapping[int, Mapping[str, object]]) -> dict[int, tuple[object, object]]:
    return {number: (row["owner"], row["query"]) for number, row in rows.items()}


def test_the_book_is_what_a_replay_gives_wherever_it_is_opened(capture: Capture, tmp_path: Path) -> None:
    draw, saved = random.Random(7), list[int]()
    with psycopg.connect(capture.postgres.conninfo(), autocommit=True) as connection:
        connection.execute("create table items (id bigint generated always as identity primary key)")
        churn(connection, draw, saved)
        capture.ensure()
        for _ in range(30):
            churn(connection, draw, saved)
    log = ChangeLog(capture.kafka, capture.source)
    records = eventually(lambda: whole(capture, log, len(saved)))

    told = [record.value for record in records if record.value and table_of(record.value) == SUBSCRIPTIONS]
    assert told
    assert not any(b'"unsubscribe_token"' in value for value in told), "it stays in the database"
    boundaries = [
        r.position.offset + 1 for r in records if r.value is not None and r.value.startswith(b'{"status":"END')
    ]
    era = eras.current(capture.kafka, capture.source).era
    silent = silenced(records, boundaries)
    assert 0 < len(silent) < len(boundaries)
    standing = Standing(define(shape("market")), tmp_path / "base", 1)
    standing.make_first(Book(capture.postgres, capture.kafka, capture.source, "one"), Position(era, boundaries[-1]))
    assert standing.resume() == Position(era, boundaries[-1]), "by a process of its own"
    for at in draw.sample(boundaries, 4):
        book = Book(capture.postgres, capture.kafka, capture.source, "one")
        rows = dict(book.open(Position(era, at)))
        assert shown(rows) == replayed(records, at)
        assert expiries(book, rows) == expiring(records, at)
        resumed, again = Book(capture.postgres, capture.kafka, capture.source, "one"), dict(rows)
        assert resumed.resume(Position(era, at)), "who knows what was in force there need not look at the table"
        assert not resumed.resume(Position(era - 1, at))
        for later in (end for end in boundaries if end > at):
            for one, known in ((book, rows), (resumed, again)):
                for number, row in one.advance(later):
                    known.pop(number, None)
                    if row is not None:
                        known[number] = row
            assert shown(rows) == shown(again) == replayed(records, later - 1), (at, later)
            assert expiries(book, rows) == expiries(resumed, rows) == expiring(records, later - 1), (at, later)
            assert book.is_quiet(later) == resumed.is_quiet(later) == (later in silent), (at, later)


def whole(capture: Capture, log: ChangeLog, saved: int) -> list[Record]:
    """The records, once they hold everything that was committed."""
    era = eras.current(capture.kafka, capture.source)
    records = list(log.read(Position(era.era, era.first_offset)))
    everywhere: dict[int, object] = {}
    for change in searches(records):
        everywhere[change.id] = change.after
    assert sum(row is not None for row in everywhere.values()) == saved
    assert any(isinstance(entry, End) for entry in log.entries(Position(era.era, era.first_offset)))
    return records


def searches(records: list[Record]) -> list[Logged]:
    return [change for change in Gathering().take(records) if change.table == SUBSCRIPTIONS]


def silenced(records: list[Record], boundaries: list[int]) -> set[int]:
    """The transactions that nobody is told of, each by its end: begun, ended, or in between."""
    edges = [change for change in Gathering().take(records) if change.table == QUIET]
    going, silent = set[int](), set[int]()
    for end in boundaries:
        here = [edge for edge in edges if edge.end == end or (end == boundaries[0] and edge.end < end)]
        mine = [edge for edge in here if (edge.after or edge.before or {})["view"] in (None, "one")]
        if going or mine:
            silent.add(end)
        for edge in mine:
            going = going - {edge.id} if edge.after is None or edge.after["ended_at"] else going | {edge.id}
    return silent


def expiries(book: Book, numbers: Iterable[int]) -> dict[int, int]:
    """To the hour, of those that expire: CHANGES lets each do so after its number of hours."""
    at_us, hour_us = time.time_ns() // 1000, 3_600_000_000
    last = {n: next((h for h in range(n + 2) if book.has_expired(n, at_us + h * hour_us)), None) for n in numbers}
    return {number: hours for number, hours in last.items() if hours is not None}


def expiring(records: list[Record], to: int) -> dict[int, int]:
    return {number: number for number, row in in_force(records, to).items() if row["expires_at"] is not None}


def replayed(records: list[Record], to: int) -> dict[int, tuple[object, object]]:
    return shown(in_force(records, to))


def in_force(records: list[Record], to: int) -> dict[int, Mapping[str, object]]:
    """The searches of view one that are in force at a position."""
    rows: dict[int, Mapping[str, object]] = {}
    for change in searches(records):
        if change.end > to:
            break
        rows.pop(change.id, None)
        if change.after is not None and change.after["view"] == "one" and not change.after["paused"]:
            rows[change.id] = change.after
    return rows
