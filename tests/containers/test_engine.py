"""Where a container engine answers: capture is set up on the official Postgres image, and our images build.

Skipped everywhere else: nothing of Headwater needs an engine but compose.yaml.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import psycopg
import pytest

from cdc import preflight
from cdc.addresses import PostgresAddress, Source
from cdc.postgres import connect
from cdc.publication import ensure_capture_role, ensure_publication, published
from headwater.migrate import migrate, status
from tests.containers.container_files import ROOT, read_compose

pytestmark = pytest.mark.engine

POSTGRES = read_compose()["services"]["postgres"]
SOURCE = Source("engine")
BUILD_S_MAX = 1_800


@pytest.fixture(scope="module")
def engine() -> str:
    """The engine's version; skips where none answers."""
    from docker import DockerClient
    from docker.errors import DockerException
    from testcontainers.core.docker_client import DockerClient as Configured

    try:
        client: DockerClient = Configured().client
        return str(client.version()["Version"])
    except (DockerException, OSError) as error:
        pytest.skip(f"no container engine answers: {error}")


@pytest.fixture(scope="module")
def postgres(engine: str) -> Iterator[PostgresAddress]:
    """The official image with compose.yaml's own command line."""
    from testcontainers.community.postgres import PostgresContainer

    container = PostgresContainer(POSTGRES["image"], username="postgres", password="engine", dbname="demo", driver=None)
    container.with_command(POSTGRES["command"])
    container.with_env("POSTGRES_INITDB_ARGS", POSTGRES["environment"]["POSTGRES_INITDB_ARGS"])
    with container:
        host, port = container.get_container_host_ip(), container.get_exposed_port(5432)
        yield PostgresAddress(host, port, "demo", "postgres", "engine")


def test_capture_is_set_up_on_the_official_postgres(postgres: PostgresAddress) -> None:
    with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
        conn.execute("create table public.items (id int primary key, name text)")
    migrate(postgres)
    assert status(postgres).up_to_date
    preflight.require(postgres, SOURCE, ["public.*"])
    findings = {finding.name: finding.level for finding in preflight.check(postgres, SOURCE, ["public.*"])}
    assert set(findings.values()) == {"ok"}, findings
    with connect(postgres) as conn:
        change = ensure_publication(conn, SOURCE, ["public.*"])
        ensure_capture_role(conn, "engine_capture", "a password", change.tables)
        assert "public.items" in map(str, published(conn, SOURCE))
    capturing = PostgresAddress(postgres.host, postgres.port, "demo", "engine_capture", "a password")
    with psycopg.connect(capturing.conninfo(), autocommit=True) as conn:
        assert conn.execute("select count(*) from public.items").fetchone() == (0,)


@pytest.mark.timeout(BUILD_S_MAX)
@pytest.mark.parametrize("target", ["connect", "headwater"])
def test_our_images_build(engine: str, target: str) -> None:
    if not shutil.which("docker"):
        pytest.skip("the docker client is not installed")
    command = ["docker", "build", "--quiet", "--target", target, str(ROOT)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr[-2_000:]
    words = {"headwater": ["--version"], "connect": ["ls", "/opt/connect/plugins/debezium-connector-postgres"]}[target]
    ran = subprocess.run(
        ["docker", "run", "--rm", answer.stdout.strip(), *words], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2_000:]
    assert {"headwater": "headwater ", "connect": "debezium-connector-postgres-"}[target] in ran.stdout
