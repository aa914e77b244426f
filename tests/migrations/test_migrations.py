"""Up, down, again, at once, without privileges, and as a script: schema `headwater` in a real Postgres."""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest
from psycopg import sql

from cdc.addresses import PostgresAddress
from cdc.errors import ConfigurationError, SourceError
from headwater.migrate import current, downgrade, migrate, script, status

OBJECTS = """
    select 'relation', oid::regclass::text from pg_class
    where relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace, 'pg_toast'::regnamespace)
    union all select 'function', oid::regprocedure::text from pg_proc
    where pronamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
    union all select 'schema', nspname from pg_namespace where not starts_with(nspname, 'pg_')
    union all select 'event trigger', evtname from pg_event_trigger
    union all select 'type', oid::regtype::text from pg_type where typnamespace::regnamespace::text = 'headwater'
    order by 1, 2
"""


def objects(address: PostgresAddress) -> list[tuple[str, str]]:
    with psycopg.connect(address.conninfo()) as conn:
        return conn.execute(OBJECTS).fetchall()


def execute(address: PostgresAddress, *statements: str) -> None:
    with psycopg.connect(address.conninfo(), autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement)


@pytest.fixture
def plain_user(postgres: PostgresAddress) -> Iterator[PostgresAddress]:
    """Somebody who may create in the database, and is no superuser."""
    name = f"plain_{uuid.uuid4().hex[:8]}"
    execute(
        postgres,
        f"create role {name} login password 'secret'",
        f"grant create on database {postgres.database} to {name}",
    )
    yield replace(postgres, user=name, password="secret")
    execute(postgres, f"drop owned by {name} cascade", f"drop role {name}")


def test_up_makes_the_tables_and_their_single_rows(postgres: PostgresAddress) -> None:
    assert current(postgres) is None
    found = migrate(postgres)
    assert found.up_to_date
    assert found.watched
    assert current(postgres) == found.head
    with psycopg.connect(postgres.conninfo()) as conn:
        assert conn.execute("select id, beats from headwater.heartbeat").fetchall() == [(1, 0)]
        assert conn.execute("select id, number from headwater.canary").fetchall() == [(1, 0), (2, None)]
        assert conn.execute("select count(*) from headwater.signal").fetchone() == (0,)
        identities = conn.execute(
            "select relreplident, exists (select from pg_index where indrelid = c.oid and indisprimary)"
            " from pg_class c where relnamespace = 'headwater'::regnamespace and relkind = 'r'"
        ).fetchall()
        assert all(identity == "f" or key for identity, key in identities)


def test_second_run_writes_nothing(postgres: PostgresAddress) -> None:
    migrate(postgres)
    before = objects(postgres)
    with psycopg.connect(postgres.conninfo()) as conn:
        versions = "select relname, xmin::text from pg_class where relnamespace = 'headwater'::regnamespace order by 1"
        rows = conn.execute(versions).fetchall()
        beat = conn.execute("select xmin::text from headwater.heartbeat").fetchone()
        conn.commit()
        assert migrate(postgres).up_to_date
        assert conn.execute(versions).fetchall() == rows
        assert conn.execute("select xmin::text from headwater.heartbeat").fetchone() == beat
    assert objects(postgres) == before


def test_down_leaves_what_was_there_before(postgres: PostgresAddress) -> None:
    execute(postgres, "create table keep (id int primary key)", "insert into keep values (1)")
    before = objects(postgres)
    migrate(postgres)
    execute(postgres, "create publication headwater_test for table keep, headwater.catalog")
    assert downgrade(postgres).revision is None
    assert objects(postgres) == before
    with psycopg.connect(postgres.conninfo()) as conn:
        assert conn.execute("select * from keep").fetchall() == [(1,)]
    assert downgrade(postgres).revision is None
    assert migrate(postgres).up_to_date


@pytest.mark.parametrize("mine", ["before", "inside"])
def test_down_keeps_a_schema_that_is_somebody_elses(postgres: PostgresAddress, mine: str) -> None:
    if mine == "before":
        execute(postgres, "create schema headwater", "create table headwater.theirs (id int)")
    migrate(postgres)
    if mine == "inside":
        execute(postgres, "create table headwater.theirs (id int)")
    downgrade(postgres)
    assert [name for kind, name in objects(postgres) if name.startswith("headwater")] == [
        "headwater.theirs",
        "headwater",
        "headwater.theirs",
        "headwater.theirs[]",
    ]


def test_down_keeps_an_empty_schema_that_was_there_before(postgres: PostgresAddress) -> None:
    execute(postgres, "create schema headwater")
    before = objects(postgres)
    migrate(postgres)
    downgrade(postgres)
    assert objects(postgres) == before


def test_every_revision_goes_down_and_up_again(postgres: PostgresAddress) -> None:
    migrate(postgres, "0001")
    first = objects(postgres)
    assert not status(postgres).up_to_date
    migrate(postgres)
    downgrade(postgres, "0001")
    assert objects(postgres) == first
    assert migrate(postgres).up_to_date


def test_concurrent_runs_queue(postgres: PostgresAddress) -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            assert migrate(postgres).up_to_date
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_without_a_superuser_only_the_event_triggers_are_missing(
    postgres: PostgresAddress, plain_user: PostgresAddress
) -> None:
    found = migrate(plain_user)
    assert found.up_to_date
    assert not found.watched
    assert migrate(postgres).watched, "a later run by a superuser makes them"
    downgrade(postgres)


def test_a_user_who_may_not_create_is_told_so(postgres: PostgresAddress, plain_user: PostgresAddress) -> None:
    execute(postgres, f"revoke create on database {postgres.database} from {plain_user.user}")
    with pytest.raises(SourceError, match="may not migrate") as caught:
        migrate(plain_user)
    assert "grant create" in caught.value.hint
    assert "secret" not in str(caught.value)


def test_no_server_is_told_so() -> None:
    with pytest.raises(SourceError, match="cannot reach") as caught:
        migrate(PostgresAddress("127.0.0.1", 1, "nowhere", "nobody", "hidden"))
    assert "hidden" not in str(caught.value)


def test_unknown_revision(postgres: PostgresAddress) -> None:
    with pytest.raises(ConfigurationError, match="no such revision"):
        migrate(postgres, "0999")
    assert current(postgres) is None


def test_a_database_of_a_newer_headwater_is_refused(postgres: PostgresAddress) -> None:
    migrate(postgres)
    execute(postgres, "update headwater.alembic_version set version_num = '0999'")
    with pytest.raises(ConfigurationError, match="revision"):
        migrate(postgres)


def test_the_script_does_the_same_as_a_run(postgres: PostgresAddress) -> None:
    text = script()
    migrate(postgres)
    by_run = objects(postgres)
    downgrade(postgres)
    execute(postgres, text)
    assert objects(postgres) == by_run
    assert migrate(postgres).up_to_date


def test_canary_counts_commits_without_gaps(postgres: PostgresAddress) -> None:
    migrate(postgres)
    with psycopg.connect(postgres.conninfo()) as one, psycopg.connect(postgres.conninfo()) as two:
        assert one.execute("select headwater.tick_canary()").fetchone() == (1,)
        one.rollback()
        assert two.execute("select headwater.tick_canary()").fetchone() == (1,)
        two.commit()
        assert one.execute("select headwater.tick_canary()").fetchone() == (2,)


def test_migrating_is_quiet() -> None:
    """Alembic must neither print nor take over logging."""
    code = "import logging; from headwater.migrate import script; script(); print(logging.getLogger().handlers)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert done.stderr == ""


def test_database_names_are_quoted(postgres: PostgresAddress) -> None:
    """Nothing here is pasted into SQL: a database with a bad name migrates as well."""
    name = f'we"ird %s :x {uuid.uuid4().hex[:6]}'
    with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
        conn.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        try:
            assert migrate(replace(postgres, database=name)).up_to_date
        finally:
            conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
