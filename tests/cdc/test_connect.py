"""The client of Kafka Connect: against answers made by hand, and against the real one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import psycopg
import pytest

from cdc import connect as connect_module
from cdc.addresses import ConnectAddress, Source
from cdc.capture import Capture, offset_lsn
from cdc.connect import ConnectClient, ConnectorStatus, TaskStatus, root_cause
from cdc.errors import CaptureError
from tests.waiting import eventually

TRACE = """org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler
\tat org.apache.kafka.connect.runtime.AbstractWorkerSourceTask.execute(AbstractWorkerSourceTask.java:365)
\tSuppressed: java.lang.IllegalStateException: while closing
\t\tat io.debezium.connector.postgresql.PostgresConnectorTask.doStop(PostgresConnectorTask.java:440)
\tCaused by: java.lang.Error: of the suppressed one
Caused by: io.debezium.DebeziumException: Couldn't obtain encoding for database demo
\tat io.debezium.connector.postgresql.connection.PostgresConnection.getDatabaseCharset(PostgresConnection.java:549)
\t... 8 more
Caused by: org.postgresql.util.PSQLException: FATAL: password authentication failed for user "capture"
\tat org.postgresql.core.v3.ConnectionFactoryImpl.doAuthentication(ConnectionFactoryImpl.java:693)
\t... 19 more
"""

Answer = Callable[[httpx.Request], httpx.Response]


def client_of(answer: Answer) -> ConnectClient:
    client = ConnectClient(ConnectAddress("http://connect.test:8083"))
    client._http = httpx.Client(base_url="http://connect.test:8083", transport=httpx.MockTransport(answer))
    return client


def answering(*responses: httpx.Response) -> tuple[ConnectClient, list[httpx.Request]]:
    """One answer after the other; the last one for ever."""
    left, asked = list(responses), list[httpx.Request]()

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return left.pop(0) if len(left) > 1 else left[0]

    return client_of(answer), asked


def status_answer(connector: str = "RUNNING", *tasks: str, trace: str = "") -> httpx.Response:
    told: dict[str, Any] = {
        "name": "c",
        "connector": {"state": connector, "worker_id": "w:1"},
        "tasks": [{"id": n, "state": state, "worker_id": "w:1"} for n, state in enumerate(tasks)],
    }
    if trace:
        told["tasks"][0]["trace"] = trace
    return httpx.Response(200, json=told)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect_module, "REBALANCE_POLL_S", 0.01)


# What is told


@pytest.mark.parametrize(
    ("connector", "tasks", "summary", "running"),
    [
        ("RUNNING", ["RUNNING"], "RUNNING", True),
        ("RUNNING", ["RUNNING", "FAILED"], "FAILED", False),
        ("FAILED", [], "FAILED", False),
        ("RUNNING", [], "UNASSIGNED", False),
        ("RUNNING", ["UNASSIGNED"], "UNASSIGNED", False),
        ("RUNNING", ["RESTARTING"], "RESTARTING", False),
        ("PAUSED", ["PAUSED"], "PAUSED", False),
        ("STOPPED", [], "STOPPED", False),
        ("STOPPED", ["FAILED"], "FAILED", False),
    ],
)
def test_a_connector_is_as_well_as_its_worst_part(connector, tasks, summary, running) -> None:
    client, _ = answering(status_answer(connector, *tasks))
    status = client.status("c")
    assert status is not None
    assert (status.summary, status.running, status.failed) == (summary, running, summary == "FAILED")


def test_the_reason_is_the_innermost_cause() -> None:
    client, _ = answering(status_answer("RUNNING", "FAILED", trace=TRACE))
    status = client.status("c")
    assert status is not None
    told = 'org.postgresql.util.PSQLException: FATAL: password authentication failed for user "capture"'
    assert status.reason == told
    assert status.traces == (TRACE,)
    assert (
        ConnectorStatus("c", "FAILED", "w", (TaskStatus(0, "RUNNING", "w"),), trace="one line\n\tat x").reason
        == "one line"
    )
    assert ConnectorStatus("c", "RUNNING", "w", ()).reason == ""


@pytest.mark.parametrize(
    ("trace", "cause"), [("", ""), ("\n", ""), ("a: b", "a: b"), ("a\nCaused by: b \n\tat c", "b")]
)
def test_root_causes(trace: str, cause: str) -> None:
    assert root_cause(trace) == cause


# How it asks


def test_a_rebalance_is_waited_out() -> None:
    busy = httpx.Response(409, json={"error_code": 409, "message": "Cannot complete request momentarily"})
    client, asked = answering(busy, busy, httpx.Response(200, json=["a", "b"]))
    assert client.connectors() == ["a", "b"]
    assert len(asked) == 3


def test_a_rebalance_is_not_waited_out_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect_module, "REBALANCE_WAIT_S_MAX", 0.05)
    client, asked = answering(httpx.Response(409, json={"error_code": 409, "message": "a rebalance is under way"}))
    with pytest.raises(CaptureError, match=r"refused PUT /connectors/c/pause \(409\)") as raised:
        client.pause("c")
    assert raised.value.detail == "a rebalance is under way"
    assert len(asked) > 1


@pytest.mark.parametrize(
    "ask", [lambda client: client.delete_offsets("c"), lambda client: client.alter_offset("c", {}, {"lsn": 1})]
)
def test_offsets_that_could_not_be_written_are_written_again(ask: Callable[[ConnectClient], None]) -> None:
    failed = httpx.Response(500, json={"error_code": 500, "message": "Failed to modify offsets for source connector c"})
    client, asked = answering(failed, failed, httpx.Response(200, json={"message": "done"}))
    ask(client)
    assert len(asked) == 3
    assert len({request.content for request in asked}) == 1


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (httpx.Response(400, json={"error_code": 400, "message": "Connector configuration is invalid"}), "is invalid"),
        (httpx.Response(500, text="<html>proxy</html>"), "<html>proxy</html>"),
        (httpx.Response(500, json=["not", "an object"]), "not"),
    ],
)
def test_a_refusal_says_what_was_refused_and_why(answer: httpx.Response, detail: str) -> None:
    client, asked = answering(answer)
    with pytest.raises(CaptureError, match="Kafka Connect refused PUT /connectors/c/stop") as raised:
        client.stop("c")
    assert detail in raised.value.detail
    assert "headwater logs connect" in raised.value.hint
    assert len(asked) == 1


def test_who_does_not_answer_is_named() -> None:
    def cut(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("Connection refused", request=request)

    with pytest.raises(CaptureError, match=r"Kafka Connect at http://connect\.test:8083 does not answer") as raised:
        client_of(cut).connectors()
    assert raised.value.detail == "Connection refused"


def test_somebody_else_at_its_address_is_told() -> None:
    client, _ = answering(httpx.Response(200, text="<html>welcome</html>"))
    with pytest.raises(CaptureError, match="is not Kafka Connect") as raised:
        client.connectors()
    assert "welcome" in raised.value.detail


def test_what_is_not_there_is_none_and_no_error() -> None:
    client, _ = answering(httpx.Response(404, json={"error_code": 404, "message": "not found"}))
    assert client.status("c") is None
    assert client.config("c") is None
    assert client.offsets("c") == ()
    assert client.delete("c") is False
    with pytest.raises(CaptureError, match="refused PUT /connectors/c/resume"):
        client.resume("c")


def test_an_unchanged_configuration_is_not_put_again() -> None:
    client, asked = answering(httpx.Response(200, json={"name": "c", "tasks.max": "1"}))
    assert client.put("c", {"tasks.max": "1"}) is False
    assert [request.method for request in asked] == ["GET"]
    assert client.put("c", {"tasks.max": "2"}) is True
    assert json.loads(asked[-1].content) == {"tasks.max": "2"}


def test_what_debezium_has_against_a_configuration_is_told_by_setting() -> None:
    answer = {
        "configs": [
            {"value": {"name": "database.hostname", "errors": ["is required", "is empty"]}},
            {"value": {"name": "tasks.max", "errors": []}},
        ]
    }
    client, asked = answering(httpx.Response(200, json=answer))
    found = client.validate("c", {"connector.class": "io.debezium.connector.postgresql.PostgresConnector"})
    assert found == ["database.hostname: is required", "database.hostname: is empty"]
    assert asked[0].url.path == "/connector-plugins/PostgresConnector/config/validate"


# How it waits


def test_a_failure_that_was_put_right_is_not_believed_at_once() -> None:
    client, _ = answering(status_answer("RUNNING", "FAILED", trace=TRACE), status_answer("RUNNING", "RUNNING"))
    assert client.wait("c", timeout_s=30).running


def test_a_failure_that_lasts_is_raised_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect_module, "SETTLE_S", 0.05)
    client, _ = answering(status_answer("RUNNING", "FAILED", trace=TRACE))
    with pytest.raises(CaptureError, match="connector c failed") as raised:
        client.wait("c", timeout_s=30)
    assert "password authentication failed" in raised.value.detail


@pytest.mark.parametrize(
    ("answer", "state"), [(status_answer("RUNNING"), "UNASSIGNED"), (httpx.Response(404), "absent")]
)
def test_who_does_not_run_in_time_is_told(answer: httpx.Response, state: str) -> None:
    client, _ = answering(answer)
    with pytest.raises(CaptureError, match=r"did not run within 0\.05 s") as raised:
        client.wait("c", timeout_s=0.05)
    assert state in raised.value.detail


def test_stopped_is_when_no_task_is_left() -> None:
    client, asked = answering(status_answer("STOPPED", "RUNNING"), status_answer("STOPPED"))
    client.wait_stopped("c", timeout_s=30)
    assert len(asked) == 2
    client, _ = answering(status_answer("STOPPED", "RUNNING"))
    with pytest.raises(CaptureError, match=r"did not stop within 0\.05 s"):
        client.wait_stopped("c", timeout_s=0.05)
    client, _ = answering(httpx.Response(404))
    client.wait_stopped("c", timeout_s=30)


# The real one


@pytest.mark.stack
def test_the_life_of_a_connector(capture: Capture) -> None:
    name = capture.source.connector
    with psycopg.connect(capture.postgres.conninfo(), autocommit=True) as conn:
        conn.execute("create table t (id int primary key)")
    assert capture.ensure() is True
    assert capture.ensure() is False, "nothing changes, nothing restarts"
    with ConnectClient(capture.connect) as client:
        assert "io.debezium.connector.postgresql.PostgresConnector" in client.plugins()
        assert name in client.connectors()
        assert client.wait(name, 60).running
        eventually(lambda: bool(client.offsets(name)))

        client.pause(name)
        eventually(lambda: state(client, name) == "PAUSED")
        client.resume(name)
        eventually(lambda: state(client, name) == "RUNNING")

        with pytest.raises(CaptureError, match="refused DELETE"):
            client.delete_offsets(name)  # not while it runs
        client.stop(name)
        client.wait_stopped(name, 60)
        assert state(client, name) == "STOPPED"
        client.delete_offsets(name)
        assert client.offsets(name) == ()
        assert client.delete(name) is True
        eventually(lambda: client.config(name) is None)
        assert client.delete(name) is False


@pytest.mark.stack
def test_debezium_refuses_what_it_cannot_use(capture: Capture) -> None:
    config = capture.config(()).to_connect()
    with ConnectClient(capture.connect) as client:
        wrong = client.validate(capture.source.connector, {**config, "database.password": "wrong"})
        assert any("password authentication failed" in line for line in wrong), wrong
        assert not any(capture.capture.password in line for line in wrong)


def state(client: ConnectClient, name: str) -> str:
    status = client.status(name)
    return status.summary if status else "MISSING"


def test_an_offset_that_was_deleted_is_none() -> None:
    """While a new era begins, Connect may still list the partition, with nothing."""
    told = {"offsets": [{"partition": {"server": "s"}, "offset": None}]}
    client, _ = answering(httpx.Response(200, json=told))
    assert client.offsets("c") == ()
    assert offset_lsn(client, Source("s")) is None
