"""A person is known by a key of any type: in the change log, which has its own form of each, and in the source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cdc.archive import Archiver, archive_folder
from cdc.capture import Capture
from cdc.changelog import ChangeLog
from cdc.envelope import parse
from cdc.events import ChangeEvent, Record, TableName
from headwater.deployment import Deployment
from headwater.erasing.finding import find_person, find_shape, is_in_source
from headwater.erasing.log_places import LogArchive, LogTopic, is_theirs
from headwater.erasing.person import Person
from headwater.settings import Settings
from tests.headwater.persons import shape
from tests.waiting import eventually
from views.lineage import Part

TABLE = TableName("public", "customers")
KEYS = {
    "integer": "99",
    "bigint": "9007199254740993",
    "numeric": "12345678901234567890.50",
    "numeric(10,0)": "12345",
    "double precision": "0.1",
    "boolean": "true",
    "date": "2026-01-01",
    "timestamp": "2026-01-01 10:00:00.25",
    "timestamptz": "2026-01-01 10:00:00+02",
    "time": "10:00:00",
    "interval": "1 mon 3 days -04:00:00",
    "uuid": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "bytea": "\\xdeadbeef",
    "text": "anna",
    "varchar(9)": "ada  ",
    "char(9)": "ada",
    "citext": "ADA",
    "mood": "happy",
    "inet": "10.0.0.1",
    "integer[]": "{1,2}",
}
"""By type, a key as people type it."""
OTHERS = {**dict.fromkeys(KEYS, "1"), "boolean": "false", "date": "2026-01-02", "timestamp": "2026-01-02",
          "timestamptz": "2026-01-02", "time": "10:00:01", "uuid": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12",
          "bytea": "\\x00", "mood": "sad", "inet": "10.0.0.2", "integer[]": "{2,1}"}  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "printed", "logged", "other"),
    [
        ("integer", 5, b'{"id":5}', b'{"id":55}'),
        ("numeric(10,0)", 12345, b'{"id":"12345"}', b'{"id":"1234"}'),
        ("numeric", "12345678901234567890.50", b'{"id":"12345678901234567890.5"}', b'{"id":"12345678901234567890.4"}'),
        ("numeric", "NaN", b'{"id":"NAN"}', b'{"id":"0"}'),
        ("date", "2026-01-01", b'{"id":20454}', b'{"id":20455}'),
        ("timestamp without time zone", "2026-01-01T00:00:00", b'{"id":1767225600000000}', b'{"id":1767225600000001}'),
        ("timestamp with time zone", "2026-01-01T02:00:00+02:00", b'{"id":"2026-01-01T00:00:00Z"}', b'{"id":"x"}'),
        ("interval", "1 mon", b'{"id":"P0Y0M30DT0H0M0S"}', b'{"id":"P0Y0M31DT0H0M0S"}'),
        ("boolean", True, b'{"id":true}', b'{"id":false}'),
        ("bytea", "\\xab", b'{"id":"qw=="}', b'{"id":"AA=="}'),
        ("character(4)", "ab  ", b'{"id":"ab"}', b'{"id":"a"}'),
        ("citext", "Ada", b'{"id":"aDA"}', b'{"id":"ad"}'),
        ("text", "ab ", b'{"id":"ab "}', b'{"id":"ab"}'),
        ("text", "99", b'{"id":99}', b'{"id":9}'),  # it was a number once
    ],
)
def test_a_key_is_known_in_the_form_of_the_log(type_: str, printed: Any, logged: bytes, other: bytes) -> None:
    person = Person(shape("customers", id=type_), ((printed,),))
    assert person.is_key(logged)
    assert not person.is_key(other)
    assert not person.is_key(logged.replace(b"id", b"order"))
    part = Part(TABLE, {"id": frozenset({"id"})}, {})
    assert person.is_row([part], json.dumps({"id": printed}).encode()), "views print it as the source does"


def test_a_key_that_a_view_has_twice_and_by_another_type() -> None:
    person = Person(shape("customers", id="integer"), ((5,), (6,)))
    part = Part(TABLE, {"id": frozenset({"id", "buyer"})}, {})
    assert person.is_row([part], b'{"id":5,"buyer":5.00}')
    assert not person.is_row([part], b'{"id":5,"buyer":7.00}')


@dataclass
class Caught:
    """Tables that are captured, and what the log says of them."""

    capture: Capture
    conn: psycopg.Connection
    deployment: Deployment

    def records(self) -> list[Record]:
        log = ChangeLog(self.capture.kafka, self.capture.source)
        return list(log.read(log.bounds()[0]))

    def of(self, table: TableName) -> list[Record]:
        return [each for each in self.records() if isinstance(e := parse(each), ChangeEvent) and e.table == table]

    def person(self, key: dict[str, Any], where: str = "") -> Person:
        return find_person(self.conn, TABLE, where, [key] if key else [], self.records())


@contextmanager
def caught(capture: Capture, deployment: Deployment, folder: Path, *tables: str) -> Iterator[Caught]:
    settings = Settings(data_folder=folder, warehouse={"folder": str(folder / "w")}, source=capture.source.name)
    mine = replace(deployment, source=capture.source, postgres=capture.postgres, settings=settings)
    with psycopg.connect(capture.postgres.conninfo(), autocommit=True) as conn:
        for table in tables:
            conn.execute(f"create table {table}")
        capture.ensure()
        yield Caught(capture, conn, mine)


@pytest.mark.stack
def test_a_key_of_any_type_is_found_in_the_log_and_in_the_source(
    capture: Capture, deployment: Deployment, tmp_path: Path
) -> None:
    with psycopg.connect(capture.postgres.conninfo(), autocommit=True) as conn:
        conn.execute("create extension if not exists citext")
        conn.execute("create type mood as enum ('happy', 'sad', '1')")
    tables = [f"c{number} (id {type_} primary key, email text)" for number, type_ in enumerate(KEYS)]
    with caught(capture, deployment, tmp_path, *tables) as shop:
        names = {type_: TableName("public", f"c{number}") for number, type_ in enumerate(KEYS)}
        for type_, name in names.items():
            for key, email in ((KEYS[type_], f"ada.{name.name}@x.org"), (OTHERS[type_], "bob")):
                shop.conn.execute(f"insert into {name} values (%s, %s)", [key, email])
            shop.conn.execute(f"delete from {name} where email <> 'bob'")
        eventually(lambda: len(shop.of(names["integer[]"])) == 3)
        records = shop.records()
        for type_, name in names.items():
            person = find_person(shop.conn, name, "", [{"id": _given(type_)}], records)
            assert f"ada.{name.name}@x.org" in person.values, type_
            hers = [each for each in records if person.is_key(each.key) and is_theirs(person, each)]
            assert len(hers) == 2, f"{type_}: she came and went"
            now = find_shape(shop.conn, name)
            there = {each.key: is_in_source(shop.conn, now, each.key) for each in shop.of(name)}
            assert sorted(there.values()) == [False, True], type_
            assert not any(there[each.key] for each in hers), type_


def _given(type_: str) -> Any:
    return [1, 2] if type_ == "integer[]" else KEYS[type_].lower() if type_ == "citext" else KEYS[type_]


@pytest.mark.stack
@pytest.mark.parametrize("type_", ["text", "numeric(10,0)", "date"])
def test_rows_of_others_keep_their_records(
    capture: Capture, deployment: Deployment, tmp_path: Path, type_: str
) -> None:
    """A view that is built from the archive later needs them; those that are gone go with her."""
    ada, bob, *orders = {"date": [f"2026-01-0{day}" for day in range(1, 6)]}.get(
        type_, ["12345", "6", "77", "78", "79"]
    )
    tables = f"customers (id {type_} primary key, email text)", f"orders (id {type_} primary key, contact text)"
    with caught(capture, deployment, tmp_path, *tables) as shop:
        insert = "insert into {} values (%s, %s)".format
        for id_, email in ((ada, "ada@example.org"), (bob, "bob@example.org")):
            shop.conn.execute(insert("customers"), [id_, email])
        for id_, contact in zip(orders, ("ada@example.org", "ada@example.org", "bob"), strict=True):
            shop.conn.execute(insert("orders"), [id_, contact])
        shop.conn.execute("delete from orders where id = %s", [orders[1]])
        shop.conn.execute("delete from customers where id = %s", [ada])
        given = {"id": int(ada) if type_ != "date" else ada}
        person = eventually(lambda: _with_values(shop.person(given)))
        assert person.keys == ((given["id"] if type_ != "text" else ada,),), "as Postgres prints it"
        eventually(lambda: LogTopic(shop.deployment, person).count() == 4)
    settings, source = shop.deployment.settings, shop.capture.source
    Archiver(capture.kafka, source, settings.warehouse_folder).step()
    archive = LogArchive(shop.deployment, person)
    line = archive.erase()
    assert (line.erased, archive.count()) == (4, 0), "she came and went, and so did an order that is gone"
    assert "1 rows of public.orders hold a value of theirs today" in line.note
    table = archive_folder(str(settings.warehouse_folder), source).open()
    assert table is not None
    left = table.to_pyarrow_table(columns=["key", "value"]).to_pylist()
    values = [str(row["value"]) for row in left]
    assert sum("ada@example.org" in each for each in values) == 1
    assert sum("bob" in each for each in values) == 2
    gone = {record.key for record in shop.of(TableName("public", "orders")) if b'"op":"d"' in (record.value or b"")}
    assert gone.isdisjoint(row["key"] for row in left), "a part of a story is none"


def _with_values(person: Person) -> Person:
    assert "ada@example.org" in person.values
    return person


@pytest.mark.stack
def test_what_others_share_is_not_looked_for_however_it_is_printed(postgres: Any) -> None:
    """Blanks at the end of char(n), and the mask of an address, are not in each of Postgres' texts of it."""
    with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
        conn.execute("create table customers (id integer primary key, city char(12), address inet, email text)")
        conn.execute("insert into customers values (1, 'Paris', '10.0.0.1', 'ada@x.org'), (2, 'Paris', '10.0.0.1', '')")
        person = find_person(conn, TABLE, "id = 1", [], [])
    assert person.shared == ("city", "address")
    assert person.values == {"ada@x.org"}
