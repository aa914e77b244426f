"""A rig for each module (`rig`), and one for a test alone (`own_rig`)."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from cdc.addresses import Source
from cdc.publication import drop_capture_role
from headwater.deployment import Deployment
from headwater.migrate import migrate
from tests.conftest import fresh_database
from tests.maintain.child import archived
from tests.maintain.rig import Rig
from tests.views.conftest import scratch  # noqa: F401  # a fixture
from views.maintain.registry import Registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def rigged(
    deployment: Deployment,
    spark: SparkSession | None,
    ddl: str,
    fill: Callable[[psycopg.Connection], object] = lambda _connection: None,
) -> Iterator[Rig]:
    """A database with these tables, filled and captured; in UTC, every statement a transaction unless the test says
    otherwise."""
    name = f"t{uuid.uuid4().hex[:12]}"
    with ExitStack() as closing:
        for address in fresh_database(deployment.postgres, name):
            migrate(address)
            connection = closing.enter_context(psycopg.connect(address.conninfo(), autocommit=True))
            connection.execute("set timezone = 'UTC'")
            connection.execute(ddl)
            fill(connection)
            capture = replace(
                deployment.capture(),
                source=Source(name),
                postgres=address,
                capture=replace(address, user=f"{name}_capture", password="a capture password"),
                tables=("public.*",),
            )
            capture.ensure()
            folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="headwater-views-")))
            try:
                yield Rig(capture, Registry(folder), connection, spark)
            finally:
                capture.remove()
                drop_capture_role(connection, capture.capture.user)
                closing.close()


@pytest.fixture(scope="module")
def ddl() -> str:
    """A module's tables: to be overridden there."""
    raise NotImplementedError


@pytest.fixture(scope="module")
def rig(deployment: Deployment, spark: SparkSession, ddl: str) -> Iterator[Rig]:
    with rigged(deployment, spark, ddl) as made:
        yield made


@pytest.fixture
def own_rig(deployment: Deployment, spark: SparkSession, ddl: str) -> Iterator[Rig]:
    with rigged(deployment, spark, ddl) as made:
        yield made


@pytest.fixture
def lone_rig(deployment: Deployment, ddl: str, classes: Path) -> Iterator[Rig]:
    """Without a session in this process: the views are kept by a child."""
    with rigged(deployment, None, ddl) as made:
        made.classes = classes
        yield made


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return archived(tmp_path_factory.mktemp("java") / "spark.jsa")
