"""A database of its own for each module that compares views with Postgres."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest

from headwater.deployment import Deployment
from tests.conftest import fresh_database

pytest.register_assert_rewrite("tests.views.kept")


@pytest.fixture(scope="module")
def scratch(deployment: Deployment) -> Iterator[psycopg.Connection]:
    """Empty, in UTC; every statement is a transaction unless the test says otherwise."""
    for address in fresh_database(deployment.postgres, f"t{uuid.uuid4().hex[:12]}"):
        with psycopg.connect(address.conninfo(), autocommit=True) as connection:
            connection.execute("set timezone = 'UTC'")
            yield connection
