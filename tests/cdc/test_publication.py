"""The publication lists exactly what was chosen, and the capture role may do exactly what capture needs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import errors, sql

from cdc.addresses import PostgresAddress, Source
from cdc.capture_role import ROLE_COMMENT, drop_capture_role
from cdc.errors import ConfigurationError, PreflightError, SourceError
from cdc.events import TableName
from cdc.publication import drop_publication, ensure_capture_role, ensure_publication, published
from cdc.relations import OWN_TABLES, Relation, identity_findings, passed_over, resolve
from headwater.migrate import migrate

SOURCE = Source("test")
ODD = 'odd "Name" %s'
SCHEMA = f"""
    create table listings (id int primary key, price numeric, twice numeric generated always as (price * 2) stored);
    create table agents (id int primary key);
    create table secrets (id int primary key);
    create schema app;
    create table app."{ODD.replace('"', '""')}" (id int primary key);
    create table hits (id int, at date, primary key (id, at)) partition by range (at);
    create table hits_2026 partition of hits for values from ('2026-01-01') to ('2027-01-01');
    create view cheap as select * from listings;
    create unlogged table scratch (id int primary key);
"""
OWN = [str(table) for table in OWN_TABLES]


def relation(name: str, schema: str = "public", **facts: object) -> Relation:
    return replace(Relation(hash((schema, name)), schema, name), **facts)  # type: ignore[arg-type]


def names(found: tuple[Relation, ...]) -> list[str]:
    return [str(one.table) for one in found]


KNOWN = [
    relation("agents"),
    relation("listings"),
    relation("cheap", kind="v"),
    relation("scratch", persistence="u"),
    relation("remote", kind="f"),
    relation("hits", kind="p"),
    relation("hits_2026", root=hash(("public", "hits"))),
    relation("heartbeat", "headwater"),
    relation("other", "app"),
]


def test_patterns_name_tables() -> None:
    assert names(resolve(["public.*"], KNOWN)) == ["public.agents", "public.hits", "public.listings"]
    assert names(resolve(["listings", "public.listings", "app.*"], KNOWN)) == ["app.other", "public.listings"]
    assert names(resolve(["*.*"], KNOWN)) == ["app.other", "public.agents", "public.hits", "public.listings"]
    assert names(resolve(["public.*s"], KNOWN)) == ["public.agents", "public.hits", "public.listings"]
    assert names(passed_over(["public.*"], KNOWN)) == ["public.scratch", "public.remote"]


@pytest.mark.parametrize(
    ("pattern", "fact", "hint"),
    [
        ("public.listing", "no such table: public.listing", "did you mean public.listings"),
        ("lstings", "no such table", "did you mean public.listings"),
        ("shop.*", "no table to capture matches shop.*", "headwater config show"),
        ("headwater.*", "no table to capture matches", "headwater config show"),
        ("public.cheap", "public.cheap cannot be captured", "tables that it is made from"),
        ("public.scratch", "public.scratch cannot be captured", 'alter table "public"."scratch" set logged'),
        ("public.remote", "public.remote cannot be captured", "instead"),
        ("public.hits_2026", "public.hits_2026 cannot be captured", "partitioned table"),
    ],
)
def test_what_cannot_be_captured_is_refused_by_name(pattern: str, fact: str, hint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve([pattern], KNOWN)
    assert fact in caught.value.fact
    assert hint in caught.value.hint


@given(st.text(min_size=1).filter(lambda text: "*" not in text), st.text(min_size=1).filter(lambda t: "*" not in t))
def test_a_full_name_means_that_table_alone(name: str, other: str) -> None:
    known = [relation(name), relation(name + other), relation(other + name)]
    assert [one.name for one in resolve([f"public.{name}"], known)] == [name]


@pytest.mark.parametrize(
    ("facts", "hint"),
    [
        ({}, None),
        ({"replica_identity": "f", "usable_index": False, "has_primary_key": False}, None),
        ({"replica_identity": "i", "has_primary_key": False}, None),
        ({"usable_index": False, "has_primary_key": False}, "replica identity full"),
        ({"usable_index": False}, "replica identity full"),
        ({"replica_identity": "n"}, "replica identity default"),
        ({"replica_identity": "i", "usable_index": False, "has_primary_key": False}, "replica identity full"),
        ({"replica_identity": "f", "virtual_columns": ("v",)}, "replica identity default"),
    ],
)
def test_identity(facts: dict[str, object], hint: str | None) -> None:
    table = relation("t", **facts)
    found = identity_findings(table, [table])
    assert [finding.level for finding in found] == ([] if hint is None else ["fail"])
    assert hint is None or hint in found[0].hint


def test_identity_of_a_partitioned_table_is_that_of_its_partitions() -> None:
    root = relation("hits", kind="p")
    partition = relation("hits_1", root=root.oid, usable_index=False, has_primary_key=False)
    assert [finding.name for finding in identity_findings(root, [root, partition])] == ["table public.hits_1"]


@pytest.fixture
def conn(postgres: PostgresAddress) -> Iterator[psycopg.Connection]:
    migrate(postgres)
    with psycopg.connect(postgres.conninfo(), autocommit=True) as opened:
        opened.execute(SCHEMA)
        yield opened


def listed(tables: tuple[TableName, ...]) -> list[str]:
    return [str(table) for table in tables]


def test_publication_follows_what_is_chosen(conn: psycopg.Connection) -> None:
    made = ensure_publication(conn, SOURCE, ["public.listings", "public.hits"])
    assert made.created
    assert listed(made.tables) == [*OWN, "public.hits", "public.listings"]
    assert published(conn, SOURCE) == made.tables
    again = ensure_publication(conn, SOURCE, ["public.listings", "public.hits"])
    assert (again.created, again.added, again.removed, again.altered) == (False, (), (), False)
    moved = ensure_publication(conn, SOURCE, ["public.listings", "app.*"])
    assert (listed(moved.added), listed(moved.removed)) == ([f"app.{ODD}"], ["public.hits"])
    assert published(conn, SOURCE) == moved.tables
    described = conn.execute("select schema_name || '.' || table_name from headwater.catalog order by 1").fetchall()
    assert sorted(name for (name,) in described) == sorted(listed(moved.tables))
    drop_publication(conn, SOURCE)
    assert published(conn, SOURCE) == ()


def test_what_others_did_to_the_publication_is_undone(conn: psycopg.Connection) -> None:
    ensure_publication(conn, SOURCE, ["public.listings"])
    for change in (
        "set (publish = 'insert')",
        "set (publish_via_partition_root = false)",
        "set (publish_generated_columns = none)",
        f"set table only listings where (id > 5), {', '.join(OWN)}",
        f"set table listings (id), {', '.join(OWN)}",
    ):
        conn.execute(f"alter publication {SOURCE.publication} {change}")
        assert ensure_publication(conn, SOURCE, ["public.listings"]).altered, change
        assert not ensure_publication(conn, SOURCE, ["public.listings"]).altered, change
    row = conn.execute(
        "select attnames, rowfilter from pg_publication_tables where pubname = %s and tablename = 'listings'",
        [SOURCE.publication],
    ).fetchone()
    assert row == (["id", "price", "twice"], None)


def test_publication_for_all_tables_is_not_ours(conn: psycopg.Connection) -> None:
    conn.execute(f"create publication {SOURCE.publication} for all tables")
    with pytest.raises(SourceError, match="for all tables"):
        ensure_publication(conn, SOURCE, ["public.listings"])


def test_publishing_never_breaks_the_users_updates(conn: psycopg.Connection) -> None:
    """Postgres refuses updates of a published table without identity: Headwater refuses first, and changes nothing."""
    conn.execute("create table bare (id int)")
    conn.execute("create table full_virtual (id int primary key, v int generated always as (id) virtual)")
    conn.execute("alter table full_virtual replica identity full")
    conn.execute("create table late (id int primary key deferrable)")
    for table in ("bare", "full_virtual", "late"):
        with pytest.raises(PreflightError) as caught:
            ensure_publication(conn, SOURCE, ["public.listings", f"public.{table}"])
        assert f'alter table "public"."{table}" replica identity' in caught.value.hint
    assert published(conn, SOURCE) == ()
    conn.execute("alter table bare replica identity full")
    conn.execute("alter table full_virtual replica identity default")
    conn.execute("alter table late replica identity full")
    ensure_publication(conn, SOURCE, ["public.*"])
    for table in ("bare", "full_virtual", "late", "listings"):
        conn.execute(f"insert into {table} (id) values (1)")
        conn.execute(f"update {table} set id = 2")
        conn.execute(f"delete from {table}")


def test_children_by_inheritance_are_published_only_when_named(conn: psycopg.Connection) -> None:
    conn.execute("create table villas (garden text, primary key (id)) inherits (listings)")
    assert "public.villas" not in listed(ensure_publication(conn, SOURCE, ["public.listings"]).tables)
    assert listed(published(conn, SOURCE)) == [*OWN, "public.listings"]


def test_not_migrated_is_told_so(postgres: PostgresAddress) -> None:
    with psycopg.connect(postgres.conninfo()) as opened:
        opened.execute("create table listings (id int primary key)")
        with pytest.raises(SourceError, match="not migrated") as caught:
            ensure_publication(opened, SOURCE, ["public.*"])
    assert caught.value.hint == "headwater migrate up"


@pytest.fixture
def role(conn: psycopg.Connection) -> Iterator[str]:
    name = f'Capture "{uuid.uuid4().hex[:8]}"'
    yield name
    drop_capture_role(conn, name)
    assert conn.execute("select 1 from pg_roles where rolname = %s", [name]).fetchone() is None


def refused(capture: psycopg.Connection, statement: str) -> bool:
    try:
        capture.execute(statement)
    except errors.InsufficientPrivilege:
        return True
    return False


def test_capture_role_may_do_what_capture_needs_and_nothing_else(
    conn: psycopg.Connection, postgres: PostgresAddress, role: str
) -> None:
    tables = ensure_publication(conn, SOURCE, ["public.listings", "app.*"]).tables
    conn.execute("insert into listings values (1, 10)")
    ensure_capture_role(conn, role, "pass'word", tables)
    address = replace(postgres, user=role, password="pass'word")
    with psycopg.connect(address.conninfo(), autocommit=True) as capture:
        assert capture.execute("select id from listings").fetchall() == [(1,)]
        capture.execute("update headwater.heartbeat set beat_at = now(), beats = beats + 1 where id = 1")
        capture.execute("insert into headwater.signal values ('a', 'execute-snapshot', '{}')")
        for statement in (
            "select * from secrets",
            "select * from agents",
            "insert into listings values (2)",
            "update listings set price = 0",
            "delete from listings",
            "truncate listings",
            "update headwater.canary set number = 0",
            "select headwater.tick_canary()",
            "select headwater.refresh_catalog()",
            "delete from headwater.signal",
            "create table mine (id int)",
            "create schema mine",
            "create role mine",
            f"drop publication {SOURCE.publication}",
        ):
            assert refused(capture, statement), statement
        slot = f"hw_{uuid.uuid4().hex[:8]}"
        capture.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
        capture.execute("select pg_drop_replication_slot(%s)", [slot])


def test_capture_role_follows_the_publication(conn: psycopg.Connection, postgres: PostgresAddress, role: str) -> None:
    ensure_capture_role(conn, role, "one", ensure_publication(conn, SOURCE, ["public.listings"]).tables)
    conn.execute(sql.SQL("grant delete on listings to {}").format(sql.Identifier(role)))
    ensure_capture_role(conn, role, "two", ensure_publication(conn, SOURCE, ["public.*", "app.*"]).tables)
    with psycopg.connect(replace(postgres, user=role, password="two").conninfo(), autocommit=True) as capture:
        capture.execute("select * from agents, hits, listings")
        assert refused(capture, "delete from listings")
        ensure_capture_role(conn, role, "two", ensure_publication(conn, SOURCE, ["public.agents"]).tables)
        capture.execute("select * from agents")
        assert refused(capture, "select * from listings")
    assert not conn.execute("select 1 from pg_roles where rolname = %s and rolsuper", [role]).fetchall()


def test_password_reaches_the_server_only_as_a_verifier(conn: psycopg.Connection, role: str) -> None:
    tables = ensure_publication(conn, SOURCE, ["public.listings"]).tables
    ensure_capture_role(conn, role, "open sesame", tables)
    row = conn.execute("select rolpassword from pg_authid where rolname = %s", [role]).fetchone()
    assert row is not None
    assert row[0].startswith("SCRAM-SHA-256$")
    conn.execute(sql.SQL("set role {}").format(sql.Identifier(role)))
    with pytest.raises(SourceError) as caught:
        ensure_capture_role(conn, role, "open sesame", tables)
    assert "open sesame" not in str(caught.value)
    conn.execute("reset role")


def test_somebody_elses_role_is_never_altered(conn: psycopg.Connection, role: str) -> None:
    with pytest.raises(SourceError, match="is not Headwater's"):
        ensure_capture_role(conn, "pg_monitor", "x", [])
    with pytest.raises(SourceError, match="is a superuser"):
        ensure_capture_role(conn, conn.info.user, "x", [])
    conn.execute(sql.SQL("create role {}").format(sql.Identifier(role)))
    with pytest.raises(SourceError) as caught:
        ensure_capture_role(conn, role, "x", list(OWN_TABLES))
    assert ROLE_COMMENT in caught.value.hint
    conn.execute(caught.value.hint.split("hand it over: ")[1])
    ensure_capture_role(conn, role, "x", list(OWN_TABLES))


def test_row_security_hides_nothing_from_the_snapshot(
    conn: psycopg.Connection, postgres: PostgresAddress, role: str
) -> None:
    conn.execute("insert into listings values (1, 10)")
    tables = ensure_publication(conn, SOURCE, ["public.listings"]).tables
    ensure_capture_role(conn, role, "x", tables)
    bypasses = "select rolbypassrls from pg_roles where rolname = %s"
    assert conn.execute(bypasses, [role]).fetchone() == (False,)
    conn.execute("alter table listings enable row level security")
    ensure_capture_role(conn, role, "x", tables)
    with psycopg.connect(replace(postgres, user=role, password="x").conninfo()) as capture:
        assert capture.execute("select id from listings").fetchall() == [(1,)]
    conn.execute("alter table listings disable row level security")
    ensure_capture_role(conn, role, "x", tables)
    assert conn.execute(bypasses, [role]).fetchone() == (False,)
