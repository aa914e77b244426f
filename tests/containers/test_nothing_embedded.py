"""`headwater up` where every server is somebody else's, as in its container: nothing is started, no Java is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cdc.addresses import PostgresAddress
from cdc.changelog import ChangeLog
from cdc.errors import StackError
from headwater.deployment import Deployment, embedded_servers, stack_plan
from headwater.service.steps import Bringing, Wanted, bring_up
from headwater.settings import Settings, load
from headwater.stack.stack import Stack, StackPlan, running
from headwater.stack.state import is_running


@pytest.fixture
def _no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)


class Silent:
    """A steps.Reporter that nobody listens to."""

    def fetching(self, total_bytes: int) -> Callable[[str, int], None]:
        raise AssertionError("there is nothing to fetch")

    def server(self, name: str, what: str) -> None:
        raise AssertionError(f"{name} is not ours to start: {what}")

    def step(self, what: str) -> None:
        return

    def loading(self, rows_total: int) -> Callable[[int], None]:
        return lambda _rows: None


@pytest.mark.usefixtures("_no_java")
def test_a_stack_without_servers_needs_no_java(tmp_path: Path) -> None:
    with running(StackPlan(tmp_path / "data", servers=())) as stack:
        assert is_running(tmp_path / "data")
        assert stack.running() == {}
        stack.mend()
        with pytest.raises(StackError, match="no server of this stack runs on Java"):
            _ = stack.site.java
    assert not is_running(tmp_path / "data")


@pytest.mark.usefixtures("_no_java")
@pytest.mark.parametrize("server", ["kafka", "connect", "elasticsearch"])
def test_a_server_on_java_does_need_it(server: str, tmp_path: Path) -> None:
    with pytest.raises(StackError, match="Java was not found"):
        Stack(StackPlan(tmp_path / "data", servers=(server,))).start()
    assert not is_running(tmp_path / "data")


@pytest.fixture
def external(
    deployment: Deployment, postgres: PostgresAddress, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Settings]:
    """The running servers, given by address as in compose.yaml."""
    monkeypatch.chdir(tmp_path)
    settings = load(
        environ={
            "HEADWATER_SOURCE": unique,
            "HEADWATER_DATA_FOLDER": str(tmp_path / "data"),
            "HEADWATER_POSTGRES__HOST": postgres.host,
            "HEADWATER_POSTGRES__PORT": str(postgres.port),
            "HEADWATER_POSTGRES__DATABASE": postgres.database,
            "HEADWATER_POSTGRES__USER": postgres.user,
            "HEADWATER_POSTGRES__PASSWORD": postgres.password,
            "HEADWATER_POSTGRES__CAPTURE_USER": f"{unique}_capture",
            "HEADWATER_POSTGRES__CAPTURE_PASSWORD": "a capture password",
            "HEADWATER_KAFKA__BOOTSTRAP": deployment.kafka.bootstrap,
            "HEADWATER_CONNECT__URL": deployment.connect.url,
            "HEADWATER_ELASTICSEARCH__URL": deployment.elasticsearch.url,
            "HEADWATER_ELASTICSEARCH__USER": "elastic",
            "HEADWATER_ELASTICSEARCH__PASSWORD": deployment.elasticsearch.password or "none",
            "HEADWATER_REDIS__URL": deployment.redis.url,
        }
    )
    yield settings
    _clean_up(Deployment.resolve(settings))


def _clean_up(deployment: Deployment) -> None:
    from cdc.postgres import connect
    from cdc.publication import drop_capture_role

    deployment.capture().remove()
    with connect(deployment.postgres) as conn:
        drop_capture_role(conn, deployment.capture_postgres.user)


@pytest.mark.stack
@pytest.mark.usefixtures("_no_java")
def test_up_captures_from_servers_that_it_did_not_start(external: Settings) -> None:
    assert embedded_servers(external) == ()
    stack = Stack(stack_plan(external))
    deployment = bring_up(Bringing(external, stack, Wanted(demo=True, listings=20), Silent()))
    try:
        assert stack.running() == {}
        low, high = ChangeLog(deployment.kafka, deployment.source).bounds()
        assert high.era == low.era
        assert deployment.capture().ensure() is False, "a second start finds everything as it should be"
    finally:
        stack.stop()
