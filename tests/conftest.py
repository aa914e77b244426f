"""The real stack, started once a run and shared; each test has its own database, source, topics and slots.

HEADWATER_TEST_STACK names the data folder of a running stack to attach to, which saves its start while developing.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import psycopg
import pytest
from psycopg import sql

from cdc.addresses import ConnectAddress, KafkaAddress, PostgresAddress, Source
from headwater.deployment import Deployment
from headwater.settings import Settings
from headwater.stack import state as stack_state
from headwater.stack.stack import StackPlan, running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc.capture import Capture

ATTACH = "HEADWATER_TEST_STACK"

# CI repeats the same examples, so that it judges the change and not its luck; everywhere else they are new every time.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
hypothesis.settings.register_profile("new", deadline=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "new")


def pytest_configure() -> None:
    """A job in the background of a script ignores Ctrl-C, and so would all that it starts."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _Verdict:
    status = pytest.ExitCode.INTERNAL_ERROR


def pytest_sessionfinish(exitstatus: int) -> None:
    _Verdict.status = pytest.ExitCode(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Leaves with the tests' verdict, without taking the interpreter down under the native threads of the client
    libraries (Kafka's, Arrow's, Delta's): a crash there once turned 2,651 passed tests into a failed run. Processes of
    the product end as they do for a user, and are tested by their exit codes."""
    if config.option.collectonly or hasattr(config, "workerinput"):
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_Verdict.status)


@pytest.fixture(scope="session")
def stack_folder() -> Iterator[Path]:
    """Readable by the account under which Postgres and Elasticsearch run when the tests run as root."""
    folder = Path(tempfile.mkdtemp(prefix="headwater-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def deployment(stack_folder: Path) -> Iterator[Deployment]:
    """All five servers, running."""
    attached = os.environ.get(ATTACH)
    if attached:
        yield Deployment.of(Settings(), stack_state.load(Path(attached)))
        return
    with running(StackPlan(folder=stack_folder)) as stack:
        yield Deployment.of(Settings(), stack.site.state)


@pytest.fixture(scope="session")
def kafka(deployment: Deployment) -> KafkaAddress:
    return deployment.kafka


@pytest.fixture(scope="session")
def connect(deployment: Deployment) -> ConnectAddress:
    return deployment.connect


@pytest.fixture
def unique() -> str:
    """A name that no other test has."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def source(unique: str) -> Source:
    return Source(unique)


@pytest.fixture
def postgres(deployment: Deployment, unique: str) -> Iterator[PostgresAddress]:
    """A fresh database, as its superuser."""
    yield from fresh_database(deployment.postgres, unique)


def fresh_database(server: PostgresAddress, name: str) -> Iterator[PostgresAddress]:
    admin = replace(server, database="postgres")
    with psycopg.connect(admin.conninfo(), autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    yield replace(server, database=name)
    with psycopg.connect(admin.conninfo(), autocommit=True) as connection:
        slots = connection.execute("select slot_name from pg_replication_slots where database = %s", [name]).fetchall()
        for (slot,) in slots:
            connection.execute(
                "select pg_terminate_backend(active_pid) from pg_replication_slots"
                " where slot_name = %s and active_pid is not null",
                [slot],
            )
            connection.execute("select pg_drop_replication_slot(%s)", [slot])
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def capture(deployment: Deployment, postgres: PostgresAddress, source: Source) -> Iterator[Capture]:
    """Capture of the fresh database's schema public: migrated, but not set up yet (`capture.ensure()`)."""
    from headwater.migrate import migrate

    migrate(postgres)
    wanted = replace(
        deployment.capture(),
        source=source,
        postgres=postgres,
        capture=replace(postgres, user=f"{source.name}_capture", password="a capture password"),
        tables=("public.*",),
    )
    yield wanted
    wanted.remove()
    with psycopg.connect(postgres.conninfo(), autocommit=True) as connection:
        from cdc.publication import drop_capture_role

        drop_capture_role(connection, wanted.capture.user)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from headwater.spark import session

    spark = session()
    yield spark
    spark.stop()
