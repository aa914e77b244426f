"""Databases for the oracle: one with the demo's market, one for expressions; made once a run."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import duckdb
import psycopg
import pytest

from headwater.demo.dataset import Size
from headwater.demo.load import load
from headwater.deployment import Deployment
from tests.conftest import fresh_database
from tests.views.sql.evaluate import connection

pytest.register_assert_rewrite("tests.views.sql.oracle")

LISTINGS = 60


@pytest.fixture(scope="session")
def database(deployment: Deployment) -> Iterator[psycopg.Connection]:
    for address in fresh_database(deployment.postgres, f"sql{uuid.uuid4().hex[:10]}"):
        with psycopg.connect(address.conninfo(), autocommit=True) as conn:
            conn.execute("set timezone = 'UTC'")
            yield conn


@pytest.fixture(scope="session")
def market(database: psycopg.Connection) -> psycopg.Connection:
    """The demo's data, small."""
    load(database, Size(LISTINGS))
    return database


@pytest.fixture
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with connection() as con:
        yield con
