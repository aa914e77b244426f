"""headwater.catalog follows the published tables, in the transaction that changes them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from cdc.addresses import PostgresAddress
from headwater.migrate import migrate

TYPES = """
    create schema app;
    create type app.mood as enum ('low', 'high');
    create domain app.positive as numeric(10, 2) check (value > 0);
    create domain app.positives as app.positive[];
    create type app.place as (street text, moods app.mood[], worth app.positive);
"""
TABLE = """
    create table app.thing (
        id bigint, code varchar(10) not null, tags varchar(10)[], mood app.mood, worth app.positive,
        worths app.positives, nested app.positive[], span int4range, spans nummultirange, place app.place,
        places app.place[], vector oidvector, doubled bigint generated always as (id * 2) stored,
        primary key (code, id)
    )
"""


@pytest.fixture
def conn(postgres: PostgresAddress) -> Iterator[psycopg.Connection[dict[str, Any]]]:
    migrate(postgres)
    with psycopg.connect(postgres.conninfo(), autocommit=True, row_factory=dict_row) as opened:
        opened.execute(TYPES)
        opened.execute(TABLE)
        opened.execute("create publication headwater_test for table app.thing")
        yield opened


def thing(conn: psycopg.Connection[dict[str, Any]]) -> dict[str, Any]:
    row = conn.execute("select * from headwater.catalog where schema_name = 'app'").fetchone()
    assert row is not None
    return row


def column(conn: psycopg.Connection[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(found for found in thing(conn)["columns"] if found["name"] == name)


RESOLVED = [
    ("id", "bigint", "bigint", "b", 0),
    ("tags", "character varying(10)[]", "character varying(10)", "b", 1),
    ("mood", "app.mood", "app.mood", "e", 0),
    ("worth", "app.positive", "numeric(10,2)", "b", 0),
    ("worths", "app.positives", "numeric(10,2)", "b", 1),
    ("nested", "app.positive[]", "numeric(10,2)", "b", 1),
    ("span", "int4range", "int4range", "r", 0),
    ("spans", "nummultirange", "nummultirange", "m", 0),
    ("place", "app.place", "app.place", "c", 0),
    ("places", "app.place[]", "app.place", "c", 1),
    ("vector", "oidvector", "oidvector", "b", 0),
]
CHANGES = {
    "alter table app.thing add column extra text": "extra",
    "alter type app.mood add value 'middle'": "middle",
    "alter type app.place add attribute zip text": "zip",
    "alter table app.thing rename column tags to labels_of": "labels_of",
    "alter schema app rename to app2": "app2",
}
LEAVING = (
    "drop table app.thing",
    "alter publication headwater_test drop table app.thing",
    "drop publication headwater_test",
    "drop schema app cascade",
)


def test_types_are_resolved(conn: psycopg.Connection[dict[str, Any]]) -> None:
    found = {c["name"]: (c["name"], c["type"], c["base"], c["kind"], c["dims"]) for c in thing(conn)["columns"]}
    assert [found[name] for name, *_ in RESOLVED] == RESOLVED


def test_a_row_describes_key_columns_and_parts(conn: psycopg.Connection[dict[str, Any]]) -> None:
    row = thing(conn)
    assert row["key_columns"] == ["code", "id"]
    assert row["replica_identity"] == "d"
    assert [found["name"] for found in row["columns"]][:2] == ["id", "code"]
    assert column(conn, "code")["not_null"]
    assert column(conn, "doubled")["generated"] == "s"
    assert column(conn, "mood")["labels"] == ["low", "high"]
    assert column(conn, "span")["subtype"] == "integer"
    fields = column(conn, "places")["fields"]
    assert [(part["name"], part["base"], part["dims"]) for part in fields] == [
        ("street", "text", 0),
        ("moods", "app.mood", 1),
        ("worth", "numeric(10,2)", 0),
    ]


def test_a_schema_change_is_one_row_in_its_own_transaction(conn: psycopg.Connection[dict[str, Any]]) -> None:
    before = conn.execute("select * from headwater.catalog").fetchall()
    for change, seen in CHANGES.items():
        with conn.transaction():
            conn.execute(change)
            (changed,) = conn.execute("select * from headwater.catalog").fetchall()
            assert seen in str(changed), change
            assert changed["version"] > before[0]["version"], change
            raise psycopg.Rollback
        assert conn.execute("select * from headwater.catalog").fetchall() == before, change


def test_tables_that_leave_are_removed(conn: psycopg.Connection[dict[str, Any]]) -> None:
    for change in LEAVING:
        thing(conn)
        with conn.transaction():
            conn.execute(change)
            assert conn.execute("select * from headwater.catalog").fetchall() == [], change
            raise psycopg.Rollback


def test_identity_index_is_the_key(conn: psycopg.Connection[dict[str, Any]]) -> None:
    conn.execute("create unique index by_code on app.thing (code) include (tags)")
    conn.execute("alter table app.thing replica identity using index by_code")
    assert thing(conn)["key_columns"] == ["code"]
    assert thing(conn)["replica_identity"] == "i"


def test_unrelated_changes_write_nothing(conn: psycopg.Connection[dict[str, Any]]) -> None:
    conn.execute("create table other (id int)")
    with conn.transaction():
        conn.execute("alter table other add column more int")
        conn.execute("create temporary table passing (id int)")
        conn.execute("alter table passing add column more int")
        conn.execute("drop table passing")
        conn.execute("drop table other")
        conn.execute("analyze app.thing")
        written = conn.execute("select count(*) from headwater.catalog where xmin::text = pg_current_xact_id()::text")
        assert written.fetchone() == {"count": 0}
    assert conn.execute("select headwater.refresh_catalog() as rows").fetchone() == {"rows": 0}


def test_a_version_is_never_given_twice(conn: psycopg.Connection[dict[str, Any]]) -> None:
    version = thing(conn)["version"]
    conn.execute("alter publication headwater_test drop table app.thing")
    conn.execute("alter publication headwater_test add table app.thing")
    assert thing(conn)["version"] > version


def test_other_peoples_ddl_works_and_is_followed(
    conn: psycopg.Connection[dict[str, Any]], postgres: PostgresAddress
) -> None:
    """Somebody without any privilege on schema headwater alters a table of their own."""
    name = f"owner_{uuid.uuid4().hex[:8]}"
    conn.execute(f"create role {name}")
    try:
        conn.execute(f"grant all on schema app to {name}")
        conn.execute(f"alter table app.thing owner to {name}")
        with conn.transaction():
            conn.execute(f"set local role {name}")
            with pytest.raises(psycopg.errors.InsufficientPrivilege), conn.transaction():
                conn.execute("select * from headwater.catalog")
            conn.execute("alter table app.thing add column extra text")
        assert column(conn, "extra")["type"] == "text"
    finally:
        conn.execute(f"drop owned by {name} cascade")
        conn.execute(f"drop role {name}")


def test_a_broken_catalog_never_breaks_the_users_ddl(conn: psycopg.Connection[dict[str, Any]]) -> None:
    notices: list[str] = []
    conn.add_notice_handler(lambda notice: notices.append(f"{notice.severity_nonlocalized}: {notice.message_primary}"))
    conn.execute("alter table headwater.catalog add constraint closed check (false) not valid")
    notices.clear()
    conn.execute("alter table app.thing add column extra text")
    assert conn.execute("select extra from app.thing").fetchall() == []
    assert any(text.startswith("WARNING: headwater: the catalog was not refreshed") for text in notices)
