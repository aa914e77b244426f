"""Preflight says what stands in the way and how to get past it, on a real server and for states too dear to make."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from cdc.addresses import PostgresAddress, Source
from cdc.errors import PreflightError
from cdc.findings import Finding
from cdc.preflight import check, require, server_findings
from cdc.publication import ensure_publication
from cdc.relations import Relation
from cdc.server import ServerFacts
from cdc.table_checks import table_findings
from headwater.migrate import migrate

SOURCE = Source("test")
GOOD = ServerFacts(version=180006, database="shop")
SLOT = replace(GOOD, slot_exists=True, slot_database="shop", slot_plugin="pgoutput", slot_wal_status="reserved")
NOT_SUPER = replace(GOOD, superuser=False)


def bad(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.level, finding.name) for finding in findings if finding.level != "ok"]


@pytest.mark.parametrize("facts", [GOOD, SLOT, NOT_SUPER, replace(SLOT, slot_reader="Debezium Streaming")])
def test_good_servers(facts: ServerFacts) -> None:
    assert bad(server_findings(facts, SOURCE)) == []


@pytest.mark.parametrize(
    ("facts", "level", "name", "hint"),
    [
        (replace(GOOD, version=130012), "fail", "version", "upgrade Postgres to 14"),
        (replace(GOOD, wal_level="replica"), "fail", "wal_level", "alter system set wal_level = logical"),
        (replace(GOOD, in_recovery=True), "fail", "role", "primary"),
        (replace(GOOD, encoding="LATIN1"), "fail", "encoding", "UTF8"),
        (replace(GOOD, wal_keep_max="-1"), "warn", "max_slot_wal_keep_size", "max_slot_wal_keep_size = "),
        (replace(GOOD, slots_used=10), "fail", "max_replication_slots", "max_replication_slots = 20"),
        (replace(GOOD, senders_used=10), "fail", "max_wal_senders", "max_wal_senders = 20"),
        (replace(GOOD, migrated=False), "warn", "migrations", "headwater migrate up"),
        (replace(GOOD, event_triggers=1), "warn", "migrations", "superuser"),
        (replace(SLOT, slot_database="other"), "fail", "slot headwater_test", "another `source`"),
        (replace(SLOT, slot_plugin="wal2json"), "fail", "slot headwater_test", "pg_drop_replication_slot"),
        (replace(SLOT, slot_wal_status="lost"), "fail", "lost slot headwater_test", "headwater recover"),
        (replace(SLOT, slot_invalidation="idle_timeout"), "fail", "lost slot headwater_test", "new era"),
        (replace(SLOT, slot_reader="psql"), "fail", "slot headwater_test", "stop the other reader"),
        (replace(SLOT, slot_reader=""), "fail", "slot headwater_test", "stop the other reader"),
        (replace(NOT_SUPER, creates_in_database=False), "fail", "privileges", 'grant create on database "shop"'),
        (replace(NOT_SUPER, replicates=False), "fail", "privileges", "replication"),
        (replace(NOT_SUPER, creates_roles=False), "warn", "privileges", "superuser"),
        (replace(NOT_SUPER, version=150000), "warn", "privileges", "superuser"),
    ],
)
def test_one_thing_wrong_is_one_finding(facts: ServerFacts, level: str, name: str, hint: str) -> None:
    (finding,) = [found for found in server_findings(facts, SOURCE) if found.level != "ok"]
    assert (finding.level, finding.name) == (level, name)
    assert hint in finding.hint


def test_what_is_in_use_by_us_counts_as_free() -> None:
    full = replace(SLOT, slots_used=10, senders_used=10, slot_reader="Debezium Streaming")
    assert bad(server_findings(full, SOURCE)) == []


@pytest.mark.parametrize(
    ("relation", "facts", "level", "text"),
    [
        (Relation(1, "public", "t", owned=False), NOT_SUPER, "fail", "only owners may publish"),
        (
            Relation(1, "public", "t", row_security=True),
            replace(NOT_SUPER, bypasses_row_security=False),
            "fail",
            "row security",
        ),
        (Relation(1, "public", "t", virtual_columns=("v",)), GOOD, "warn", "not in the log: v"),
        (Relation(1, "public", "t", stored_columns=("s",)), replace(GOOD, version=170000), "warn", "columns: s"),
    ],
)
def test_tables(relation: Relation, facts: ServerFacts, level: str, text: str) -> None:
    (finding,) = table_findings(relation, [relation], facts)
    assert (finding.level, finding.name) == (level, "table public.t")
    assert text in finding.detail
    assert finding.hint


@pytest.fixture
def conn(postgres: PostgresAddress) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres.conninfo(), autocommit=True) as opened:
        opened.execute("create table listings (id int primary key)")
        yield opened


def test_a_ready_database_has_no_fails(conn: psycopg.Connection, postgres: PostgresAddress) -> None:
    migrate(postgres)
    source = Source(f"p{uuid.uuid4().hex[:8]}")
    ensure_publication(conn, source, ["public.*"])
    findings = require(postgres, source, ["public.*"])
    assert ("ok", "tables", "1 chosen, 0 problems") in [(f.level, f.name, f.detail) for f in findings]
    assert {name for _, name in bad(findings)} <= {"max_slot_wal_keep_size"}
    conn.execute("alter event trigger headwater_ddl disable")
    conn.execute("alter table listings add column price numeric")
    assert {("warn", "migrations"), ("warn", "catalog")} <= set(bad(check(postgres, source, ["public.*"])))


def test_everything_in_the_way_comes_at_once(conn: psycopg.Connection, postgres: PostgresAddress) -> None:
    conn.execute("create table bare (id int)")
    conn.execute("create table quiet (id int primary key)")
    conn.execute("alter table quiet replica identity nothing")
    conn.execute("create unlogged table scratch (id int primary key)")
    conn.execute("create table hits (id int, at date) partition by range (at)")
    conn.execute("create table hits_2026 partition of hits for values from ('2026-01-01') to ('2027-01-01')")
    found = bad(check(postgres, SOURCE, ["public.*"]))
    assert ("warn", "table public.scratch") in found
    assert {name for level, name in found if level == "fail"} == {
        "table public.bare",
        "table public.quiet",
        "table public.hits_2026",
    }
    with pytest.raises(PreflightError) as caught:
        require(postgres, SOURCE, ["public.*"])
    for part in ("public.bare", "public.quiet", "public.hits_2026"):
        assert part in caught.value.detail
    assert 'alter table "public"."bare" replica identity full' in caught.value.hint
    conn.execute('alter table "public"."bare" replica identity full')
    conn.execute('alter table "public"."quiet" replica identity default')
    conn.execute('alter table "public"."hits_2026" replica identity full')
    require(postgres, SOURCE, ["public.*"])


@pytest.mark.parametrize(
    ("ddl", "pattern", "text"),
    [
        ("create view cheap as select 1 as id", "public.cheap", "view"),
        ("create unlogged table scratch (id int primary key)", "public.scratch", "unlogged"),
        ("select 1", "public.listing", "no such table"),
    ],
)
def test_names_that_cannot_be_captured(
    conn: psycopg.Connection, postgres: PostgresAddress, ddl: str, pattern: str, text: str
) -> None:
    conn.execute(ddl)
    (finding,) = [found for found in check(postgres, SOURCE, [pattern]) if found.level == "fail"]
    assert finding.name == "tables"
    assert text in finding.detail
    assert finding.hint


def test_a_slot_of_another_database_is_in_the_way(conn: psycopg.Connection, postgres: PostgresAddress) -> None:
    source = Source(f"p{uuid.uuid4().hex[:8]}")
    conn.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [source.slot])
    try:
        assert ("fail", f"slot {source.slot}") not in bad(check(postgres, source, ["public.*"]))
        elsewhere = replace(postgres, database="template1")
        assert ("fail", f"slot {source.slot}") in bad(check(elsewhere, source, ["public.*"]))
    finally:
        conn.execute("select pg_drop_replication_slot(%s)", [source.slot])


def test_a_user_without_privileges_is_told_each_of_them(conn: psycopg.Connection, postgres: PostgresAddress) -> None:
    name = f"plain_{uuid.uuid4().hex[:8]}"
    conn.execute(f"create role {name} login password 'x'")
    try:
        fails = [
            f for f in check(replace(postgres, user=name, password="x"), SOURCE, ["public.*"]) if f.level == "fail"
        ]
        assert [(f.name) for f in fails] == ["privileges", "privileges", "table public.listings"]
    finally:
        conn.execute(f"drop role {name}")


def test_no_server_is_a_finding_without_the_password() -> None:
    (finding,) = check(PostgresAddress("127.0.0.1", 1, "nowhere", "nobody", "hidden"), SOURCE, ["public.*"])
    assert (finding.level, finding.name) == ("fail", "connection")
    assert "hidden" not in str(finding)
    with pytest.raises(PreflightError):
        require(PostgresAddress("127.0.0.1", 1, "nowhere", "nobody", "hidden"), SOURCE, ["public.*"])


def test_values_that_would_be_wrong_in_the_log_are_refused(conn: psycopg.Connection, postgres: PostgresAddress) -> None:
    conn.execute("create table clock (id int primary key, at timetz)")
    conn.execute("create table sums (id int primary key, parts numeric[])")
    conn.execute("create type nothing as enum ()")
    fails = {f.name: f for f in check(postgres, SOURCE, ["public.*"]) if f.level == "fail"}
    assert set(fails) == {"table public.clock", "table public.sums", "type nothing"}
    assert "column at (time with time zone)" in fails["table public.clock"].detail
    conn.execute(fails["table public.sums"].hint)
    conn.execute("drop type nothing")
    conn.execute("drop table clock")
    require(postgres, SOURCE, ["public.*"])
