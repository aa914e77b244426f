"""A migrated database, shared by the tests here and emptied before each: migrating takes longer than most of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg
import pytest

from cdc.addresses import PostgresAddress
from headwater.deployment import Deployment
from headwater.migrate import migrate
from tests.conftest import fresh_database

TABLES = (
    "deliveries", "notifications", "told_values", "outbox_marks", "outbox", "owners", "subscriptions", "endpoints",
    "suppressions", "quiet",
)  # fmt: skip
Connect = Callable[[], psycopg.Connection]


def empty(conn: psycopg.Connection) -> None:
    conn.execute("; ".join(f"delete from headwater.{name}" for name in TABLES))


@pytest.fixture(scope="session")
def alerts_address(deployment: Deployment) -> Iterator[PostgresAddress]:
    for address in fresh_database(deployment.postgres, f"alerts_{uuid.uuid4().hex[:8]}"):
        migrate(address)
        yield address


@pytest.fixture
def connect(alerts_address: PostgresAddress) -> Iterator[Connect]:
    """Another connection to the emptied database, as often as it is called."""
    with ExitStack() as closing:

        def connected() -> psycopg.Connection:
            return closing.enter_context(psycopg.connect(alerts_address.conninfo(), autocommit=True))

        empty(connected())
        yield connected


@pytest.fixture
def conn(connect: Connect) -> psycopg.Connection:
    return connect()
