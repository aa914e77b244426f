"""Brings the captured database's schema `headwater` to a revision, and takes it away again.

One transaction a run, under an advisory lock: a run happens whole or not at all, and concurrent runs queue. A second
run changes nothing. What is taken away is what a run made and nothing else: not the user's tables, not a schema
`headwater` that was there before, not objects that somebody else put in it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from psycopg import errors
from sqlalchemy import Connection, create_engine, exc, text
from sqlalchemy.pool import NullPool

from cdc.addresses import PostgresAddress
from cdc.errors import ConfigurationError, SourceError

SCHEMA: Final = "headwater"
CONNECT_TIMEOUT_S: Final = 10
LOCK_WAIT_S_MAX: Final = 60

_LOCK: Final = 0x6865_6164
_MADE_BY: Final = "made by headwater migrate"

# One screen for both ways of running it: on a connection, and printed for a DBA to run.
_CREATE_SCHEMA: Final = f"""do $$ begin
    if to_regnamespace('{SCHEMA}') is null then
        create schema {SCHEMA};
        comment on schema {SCHEMA} is '{_MADE_BY}';
    end if;
end $$"""

# Event triggers need a superuser: without one the migration goes on, and preflight warns. The next run tries again.
_WATCH: Final = """do $$ begin
    if not exists (select from pg_event_trigger where evtname = 'headwater_ddl') then
        create event trigger headwater_ddl on ddl_command_end
            when tag in ('ALTER TABLE', 'ALTER TYPE', 'ALTER DOMAIN', 'ALTER SCHEMA',
                         'CREATE PUBLICATION', 'ALTER PUBLICATION')
            execute function headwater.on_ddl();
    end if;
    if not exists (select from pg_event_trigger where evtname = 'headwater_drop') then
        create event trigger headwater_drop on sql_drop execute function headwater.on_ddl();
    end if;
exception when insufficient_privilege then
    raise notice using message = 'headwater: event triggers need a superuser and were not made';
end $$"""

_DROP_SCHEMA: Final = f"""do $$ begin
    drop table if exists {SCHEMA}.alembic_version;
    if obj_description(to_regnamespace('{SCHEMA}'), 'pg_namespace') = '{_MADE_BY}' then
        drop schema {SCHEMA};
    end if;
exception when dependent_objects_still_exist then
    drop table if exists {SCHEMA}.alembic_version;
end $$"""


@dataclass(frozen=True, slots=True)
class MigrationStatus:
    revision: str | None
    """The database's revision; None where nothing of Headwater's is there."""
    head: str
    """The newest revision that this Headwater has."""
    watched: bool
    """Whether the event triggers that follow schema changes are there."""

    @property
    def up_to_date(self) -> bool:
        return self.revision == self.head


def migrate(address: PostgresAddress, revision: str = "head") -> MigrationStatus:
    """Upgrades to the revision; a database that is there already, or beyond, is left as it is."""
    with _locked(address) as connection:
        connection.execute(text(_CREATE_SCHEMA))
        command.upgrade(_config(connection), revision)
        if connection.scalar(text("select to_regproc('headwater.on_ddl')")) is not None:
            connection.execute(text(_WATCH))
        return _status(connection)


def downgrade(address: PostgresAddress, revision: str = "base") -> MigrationStatus:
    """Goes back to the revision; `base` leaves the database as it was before the first `migrate`."""
    with _locked(address) as connection:
        if _revision(connection) is not None:
            command.downgrade(_config(connection), revision)
            if _revision(connection) is None:
                connection.execute(text(_DROP_SCHEMA))
        return _status(connection)


def current(address: PostgresAddress) -> str | None:
    """The revision that the database is at, without touching it."""
    return status(address).revision


def status(address: PostgresAddress) -> MigrationStatus:
    with _connected(address) as connection:
        return _status(connection)


def script(revision: str = "head") -> str:
    """The SQL of `migrate` on a fresh database, for people who let nobody else run DDL."""
    buffer = io.StringIO()
    config = _config(None)
    config.output_buffer = buffer
    with _explained(None):
        command.upgrade(config, revision, sql=True)
    body = buffer.getvalue().replace("BEGIN;", f"BEGIN;\n\n{_CREATE_SCHEMA};", 1)
    watched = f"{_WATCH};\n\nCOMMIT;" if "headwater.on_ddl()" in body else "COMMIT;"
    return watched.join(body.rsplit("COMMIT;", 1))


def folder() -> Path:
    """The revisions' folder: inside the installed package, or at the top of a checkout."""
    here = Path(__file__).resolve().parent
    found = next((place for place in (here / "migrations", here.parent / "migrations") if place.is_dir()), None)
    if found is None:
        raise ConfigurationError("the migrations are missing from this installation", hint="make install")
    return found


def _config(connection: Connection | None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(folder()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _revision(connection: Connection) -> str | None:
    context = MigrationContext.configure(connection, opts={"version_table_schema": SCHEMA})
    return context.get_current_revision()


def _status(connection: Connection) -> MigrationStatus:
    triggers = text("select count(*) = 2 from pg_event_trigger where evtname in ('headwater_ddl', 'headwater_drop')")
    head = ScriptDirectory.from_config(_config(None)).get_current_head()
    assert head is not None, "the revisions form one line with one end"
    return MigrationStatus(_revision(connection), head, bool(connection.scalar(triggers)))


@contextmanager
def _locked(address: PostgresAddress) -> Iterator[Connection]:
    with _connected(address) as connection:
        connection.execute(text(f"set local lock_timeout = '{LOCK_WAIT_S_MAX}s'"))
        connection.execute(text(f"select pg_advisory_xact_lock({_LOCK})"))
        yield connection


@contextmanager
def _connected(address: PostgresAddress) -> Iterator[Connection]:
    def connect() -> psycopg.Connection:
        return psycopg.connect(
            address.conninfo(), connect_timeout=CONNECT_TIMEOUT_S, application_name="headwater migrate"
        )

    engine = create_engine("postgresql+psycopg://", creator=connect, poolclass=NullPool)
    with _explained(address), engine.begin() as connection:
        yield connection


@contextmanager
def _explained(address: PostgresAddress | None) -> Iterator[None]:
    """Turns what the libraries raise into an error with a hint."""
    try:
        yield
    except CommandError as error:
        raise ConfigurationError(
            "no such revision", detail=str(error), hint="headwater migrate status; a newer Headwater may have been here"
        ) from error
    except exc.DBAPIError as error:
        raise _explain(address, error.orig) from error


def _explain(address: PostgresAddress | None, error: BaseException | None) -> SourceError:
    where = f"{address.host}:{address.port}/{address.database} as {address.user}" if address else ""
    detail = f"{where}: {str(error).strip()}"
    match error:
        case errors.InsufficientPrivilege():
            grant = "grant create on database … to …, or headwater migrate up as a superuser"
            return SourceError("the user may not migrate the database", detail=detail, hint=grant)
        case errors.LockNotAvailable():
            hint = "headwater migrate status, once the other run has ended"
            return SourceError("another migration holds the lock", detail=detail, hint=hint)
        case psycopg.OperationalError():
            return SourceError("cannot reach the source database", detail=detail, hint="headwater doctor")
        case _:
            return SourceError(
                "the migration failed; nothing was changed", detail=detail, hint="headwater migrate status"
            )
