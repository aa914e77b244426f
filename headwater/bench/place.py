"""Where a bench runs: on a stack of its own in a temporary folder, or on the one that runs; there in a database of its
own, under a source of its own. Nothing of it is left behind, also after Ctrl-C.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, LiteralString

from psycopg import sql

from cdc.addresses import PostgresAddress, Source
from cdc.capture import Capture
from cdc.kafka import REQUEST_S_MAX, admin, log_errors
from cdc.postgres import connect, explained
from cdc.publication import drop_capture_role
from cdc.topics import delete_topic
from headwater.bench.progress import Progress
from headwater.bench.workload import TABLE
from headwater.deployment import Deployment, stack_plan
from headwater.settings import Settings
from headwater.stack.stack import Stack

SERVERS: Final = ("postgres", "kafka", "connect")
SINKS: Final = ("elasticsearch", "redis")


def embedded_only(settings: Settings, folder: Path, servers: tuple[str, ...] = SERVERS) -> Settings:
    """The same pace and heaps, but with servers of our own in that folder."""
    defaults = Settings()
    own = {name: getattr(defaults, name) for name in servers}
    return settings.model_copy(update={**own, "data_folder": folder})


@contextmanager
def own_stack(settings: Settings, progress: Progress, servers: tuple[str, ...] = SERVERS) -> Iterator[Deployment]:
    """Servers of our own, started for the block and deleted after it."""
    folder = Path(tempfile.mkdtemp(prefix="headwater-bench-"))
    # Postgres runs under another account when we are root.
    folder.chmod(0o755)
    wanted = embedded_only(settings, folder, servers)
    # Whoever measures here does not give way, and so do the servers.
    stack = Stack(replace(stack_plan(wanted), servers=servers, niceness=0))
    try:
        if missing := stack.missing_bytes():
            with progress.amount("fetching the servers", missing) as advance:
                stack.fetch(lambda _name, size: advance(size))
        stack.start(lambda server, what: progress.step(f"{server}: {what}"))
        try:
            yield Deployment.of(wanted, stack.site.state)
        finally:
            data = stack.site.data
            stack.stop()
            shutil.rmtree(data, ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def here(settings: Settings, progress: Progress, servers: tuple[str, ...] = SERVERS) -> Iterator[Deployment]:
    """What runs already; refused when it does not."""
    progress.step("on the running stack")
    yield Deployment.resolve(settings)


@contextmanager
def fresh_source(deployment: Deployment, progress: Progress) -> Iterator[Capture]:
    """A new database with the bench's table, captured under a name of its own; all of it removed after the block."""
    with fresh_database(deployment, progress, TABLE, ("public.listings",)) as capture:
        capture.ensure(progress.step)
        yield capture


@contextmanager
def fresh_database(
    deployment: Deployment, progress: Progress, ddl: LiteralString, tables: tuple[str, ...]
) -> Iterator[Capture]:
    """A new database with some tables, and its capture, not begun yet; all of it removed after the block."""
    from headwater.migrate import migrate

    name = f"bench_{secrets.token_hex(4)}"
    postgres = replace(deployment.postgres, database=name)
    capture = replace(
        deployment.capture(),
        source=Source(name),
        postgres=postgres,
        capture=replace(
            deployment.capture_postgres, database=name, user=f"{name}_capture", password=secrets.token_urlsafe(18)
        ),
        tables=tables,
    )
    _in_admin_database(deployment.postgres, sql.SQL("create database {}").format(sql.Identifier(name)))
    try:
        migrate(postgres)
        with connect(postgres) as conn, explained(conn):
            conn.execute(ddl)
        yield capture
    finally:
        progress.step("cleaning up")
        _remove(deployment.postgres, capture)


def _remove(server: PostgresAddress, capture: Capture) -> None:
    capture.remove()
    with connect(capture.postgres) as conn:
        drop_capture_role(conn, capture.capture.user)
    _in_admin_database(
        server, sql.SQL("drop database {} with (force)").format(sql.Identifier(capture.postgres.database))
    )
    for topic in topics_of(capture):
        delete_topic(capture.kafka, topic)


def topics_of(capture: Capture) -> list[str]:
    """Every topic that bears the source's name, random and so nobody else's; also those that Debezium names."""
    with log_errors(capture.kafka, "listing topics"):
        found = admin(capture.kafka).list_topics(timeout=REQUEST_S_MAX).topics
    return sorted(topic for topic in found if capture.source.name in topic)


def _in_admin_database(server: PostgresAddress, statement: sql.Composed) -> None:
    """From the database that the user works in: a database cannot be made or dropped from within itself."""
    admin = replace(server, database="postgres")
    with connect(admin) as conn, explained(conn):
        conn.execute(statement)
