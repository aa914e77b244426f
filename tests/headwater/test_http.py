"""The HTTP pages: health for probes, status and metrics for programs, the front page for people."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from cdc.addresses import PostgresAddress, Source
from cdc.capture import Capture
from cdc.errors import ConfigurationError
from cdc.events import ChangeEvent, Op, TableName
from cdc.findings import Finding
from cdc.guardian import Observation
from cdc.position import Lsn, Position
from cdc.slots import Forecast, SlotState
from cdc.snapshots import SnapshotProgress
from headwater.deployment import Deployment
from headwater.http import app as app_module
from headwater.http.feed import KEPT_MAX, Feed
from headwater.http.server import PageServer, require_port
from headwater.settings import HttpSettings, Settings
from headwater.stack.state import StackState
from headwater.status import LogStatus, Observer, ServerStatus, Status
from tests.conftest import ATTACH
from tests.waiting import eventually

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WARNING = Finding("warn", "slot lag", "90 s behind", "headwater status")
FAILURE = Finding("fail", "redis", "is not running", "headwater logs redis")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def settings(**more: object) -> Settings:
    return Settings.model_validate({"source": "shop", "http": {"port": free_port()}, **more})


def status(*findings: Finding, at: datetime | None = None) -> Status:
    slot = SlotState(
        "headwater_shop", AT, Lsn(0x16_B374D848), exists=True, active=True, lag_bytes=123, retained_bytes=456
    )
    return Status(
        at=at or datetime.now(UTC),
        source="shop",
        servers=(
            ServerStatus(
                "postgres", embedded=True, running=True, address="127.0.0.1:1/shop", version="18", memory_mb=99
            ),
            ServerStatus("redis", embedded=True, running=False, address="127.0.0.1:2/0"),
        ),
        connector="RUNNING",
        connector_reason="",
        slot=Observation(slot, Forecast(1.5, None), "RUNNING"),
        snapshot=SnapshotProgress(Position(7, 9), rows=9, begun=1, complete=True),
        log=LogStatus("shop.changes", 7, 0, 42, Lsn(0x16_B374D000), AT, 12.5),
        records_per_s=3.5,
        findings=findings,
    )


@pytest.fixture
def server() -> Iterator[PageServer]:
    """Served for real, with a status that nobody had to observe."""
    page = PageServer(Deployment.of(settings(), StackState()))
    with page.running():
        yield page


@pytest.fixture
def client(server: PageServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=20) as client:
        yield client


def events(client: httpx.Client) -> Iterator[tuple[str, object]]:
    """What the live stream says, without an end."""
    with client.stream("GET", "v1/live") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        name = ""
        for line in answer.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))


def metrics(client: httpx.Client) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    answer = client.get("metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.text)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


# Health


def test_alive_is_not_ready(client: httpx.Client) -> None:
    assert client.get("livez").json() == {"status": "alive"}
    answer = client.get("readyz")
    assert (answer.status_code, answer.json()) == (503, {"ready": False, "findings": ["not looked yet"]})
    assert client.get("v1/status").status_code == 503


def test_ready_while_nothing_fails(server: PageServer, client: httpx.Client) -> None:
    server.status = status()
    answer = client.get("readyz")
    assert (answer.status_code, answer.json()) == (200, {"ready": True, "findings": []})
    server.status = status(WARNING)
    answer = client.get("readyz")
    assert (answer.status_code, answer.json()) == (200, {"ready": True, "findings": ["slot lag: 90 s behind"]})
    server.status = status(WARNING, FAILURE)
    answer = client.get("readyz")
    assert answer.status_code == 503
    assert answer.json() == {"ready": False, "findings": ["redis: is not running", "slot lag: 90 s behind"]}
    assert client.get("livez").status_code == 200


def test_a_status_that_nobody_has_renewed_is_not_ready(server: PageServer, client: httpx.Client) -> None:
    """The watch may hang, or be busy with starting a dead server again: what it saw before proves nothing."""
    server.status = status(at=datetime.now(UTC) - timedelta(seconds=app_module.STATUS_AGE_S_MAX + 5))
    answer = client.get("readyz")
    assert answer.status_code == 503
    assert re.search(r"last looked (3[5-9]|4\d) s ago", answer.json()["findings"][0])


# Status and metrics


def test_the_status_as_json(server: PageServer, client: httpx.Client) -> None:
    server.status = status(FAILURE, at=AT)
    answer = client.get("v1/status")
    assert answer.headers["content-type"] == "application/json"
    told = answer.json()
    assert set(told) == {
        "at", "source", "servers", "connector", "connector_reason", "slot", "snapshot", "log", "records_per_s",
        "findings", "healthy", "views", "gaps",
    }  # fmt: skip
    assert told["at"] == "2026-01-02T03:04:05+00:00"
    assert told["healthy"] is False
    assert told["findings"] == [
        {"level": "fail", "name": "redis", "detail": "is not running", "hint": "headwater logs redis"}
    ]
    assert told["slot"]["state"]["current_lsn"] == "16/B374D848", "as people write it"
    assert (told["log"]["topic"], told["log"]["end_offset"]) == ("shop.changes", 42)
    assert told["servers"][0]["memory_mb"] == 99


def test_metrics_come_as_prometheus_reads_them(server: PageServer, client: httpx.Client) -> None:
    assert not any(name.startswith("headwater_slot") for name, _ in metrics(client))
    server.status = status(FAILURE)
    told = metrics(client)
    source = (("source", "shop"),)
    assert told["headwater_healthy", source] == 0
    assert told["headwater_server_up", (("server", "postgres"),)] == 1
    assert told["headwater_server_up", (("server", "redis"),)] == 0
    assert told["headwater_slot_lag_bytes", source] == 123
    assert told["headwater_slot_retained_wal_bytes", source] == 456
    assert told["headwater_connector_state", (("source", "shop"), ("state", "RUNNING"))] == 1
    topic = (("topic", "shop.changes"),)
    assert told["headwater_log_end_offset", topic] == 42
    assert told["headwater_log_commit_delay_seconds", topic] == 0.0125
    assert told["headwater_log_last_commit_timestamp_seconds", topic] == AT.timestamp()


def test_metrics_leave_out_what_is_not_known(server: PageServer, client: httpx.Client) -> None:
    server.status = replace(status(), slot=None, log=None)
    told = {name for name, _ in metrics(client)}
    assert "headwater_healthy" in told
    assert not any(name.startswith("headwater_log") for name in told)


# The page


def test_the_front_page_leads_on_and_asks_nobody_else(client: httpx.Client) -> None:
    answer = client.get("")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert "<title>Headwater</title>" in answer.text
    assert 'href="./console"' in answer.text
    assert 'href="./docs"' in answer.text
    assert "http://" not in answer.text
    assert "https://" not in answer.text


def test_the_page_of_calls_names_each_and_asks_nobody_else(client: httpx.Client) -> None:
    answer = client.get("docs")
    assert answer.status_code == 200
    assert "http://" not in answer.text
    assert "https://" not in answer.text
    described = client.get("openapi.json").json()["paths"]
    assert len(described) > 20
    for path, methods in described.items():
        for method in methods:
            assert f"{method.upper()} {path}".replace("'", "&#39;") in answer.text
    assert "X-Headwater-Token" in answer.text, "what a call takes is said"


def test_the_live_stream_says_the_status_again_and_again(server: PageServer, client: httpx.Client) -> None:
    server.status = status()
    stream = events(client)
    name, told = next(stream)
    assert name == "status"
    assert isinstance(told, dict)
    assert told["healthy"] is True
    server.status = status(FAILURE)
    assert next(told["healthy"] for name, told in stream if name == "status") is False  # type: ignore[index]
    stream.close()


def test_rows_are_shown_to_administrators_only_where_keys_are_needed() -> None:
    page = PageServer(Deployment.of(settings(api={"keys": "required"}), StackState()))
    with page.running():
        assert httpx.get(f"{page.url}v1/live").status_code == 401
        assert httpx.get(f"{page.url}livez").status_code == 200


def test_no_key_of_a_row_is_told_to_who_has_none_where_keys_are_needed(tmp_path: Path) -> None:
    page = PageServer(Deployment.of(settings(api={"keys": "required"}, data_folder=str(tmp_path)), StackState()))
    wrong = Finding("warn", "cache of card", "has 1 row wrong, such as id=ann@example.org", "headwater repair card")
    broken = Finding("fail", "view card", "is not what its SQL gives: 1 row, such as id=ann@example.org", "")
    page.status = status(wrong, broken)
    with page.running():
        told = httpx.get(f"{page.url}readyz")
        assert (told.status_code, told.json()["findings"]) == (503, ["view card", "cache of card"])
        for path in ("readyz", "v1/status", "demo/caught", "metrics", ""):
            assert "ann@example.org" not in httpx.get(f"{page.url}{path}").text, path
        assert httpx.get(f"{page.url}v1/status").status_code == 401
        assert httpx.get(f"{page.url}demo/caught").status_code == 401


@pytest.mark.parametrize("path", ["livez", "v1/views", "v1/views/card/1", "v1/status", "console"])
def test_a_name_that_is_not_ours_is_refused_where_nobody_needs_a_key(client: httpx.Client, path: str) -> None:
    """Otherwise the page of a site whose name resolves to this machine reads everything."""
    for host in (
        "evil.example.org",
        "evil.example.org:8321",
        "localhost.evil.example.org",
        "[::2]:8321",
        "127.0.0.1@x",
        "[::1]x",
    ):
        answer = client.get(path, headers={"Host": host, "X-Forwarded-Host": "localhost"})
        assert answer.status_code == 421, host
        assert host in answer.json()["detail"]
        assert "http.hosts" in answer.json()["hint"]
    for host in ("localhost", "LocalHost:1", "127.0.0.1:8321", "[::1]:8321"):
        assert client.get(path, headers={"Host": host}).status_code != 421, host


def test_names_that_were_set_are_answered() -> None:
    wanted = settings(
        http={"port": free_port(), "hosts": "Hw.example.org, [fd00::1]"},
        alerts={"public_url": "https://alerts.example.org/hw"},
    )
    with PageServer(Deployment.of(wanted, StackState())).running() as page:
        for host in ("hw.example.org", "hw.example.org:443", "[fd00::1]:80", "alerts.example.org", "localhost"):
            assert httpx.get(f"{page.url}livez", headers={"Host": host}).status_code == 200, host
        assert httpx.get(f"{page.url}livez", headers={"Host": "example.org"}).status_code == 421


def test_where_keys_are_needed_any_name_will_do() -> None:
    with PageServer(Deployment.of(settings(api={"keys": "required"}), StackState())).running() as page:
        assert httpx.get(f"{page.url}livez", headers={"Host": "hw.example.org"}).status_code == 200


def test_a_viewer_does_not_hold_up_the_end(client: httpx.Client, server: PageServer) -> None:
    stream = events(client)
    next(stream)
    server.stopping.set()
    assert all(name for name, _ in stream), "the stream ends by itself"


def change(number: int, op: Op = Op.UPDATE, **after: object) -> ChangeEvent:
    return ChangeEvent(
        position=Position(7, number), op=op, table=TableName("public", "t"), before={"id": number, "price": 1, "b": 2},
        after={"id": number, "price": 2, "b": 2, **after}, lsn=Lsn(number), xid=1, event_at=AT, captured_at=AT,
        key={"id": number},
    )  # fmt: skip


def test_the_feed_keeps_the_newest_and_gives_each_viewer_what_it_has_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = Feed(None, None)  # type: ignore[arg-type]
    monkeypatch.setattr(feed, "_start", lambda: None)
    for number in range(KEPT_MAX + 5):
        feed._add(change(number))
    seen, everything = feed.since(0)
    assert len(everything) == KEPT_MAX
    assert everything[-1]["changed"] == {"price": 2}, "only what the update changed"
    assert everything[-1]["position"] == f"7:{KEPT_MAX + 4}"
    assert feed.since(seen) == (seen, [])
    feed._add(change(1_000))
    assert [told["key"] for told in feed.since(seen)[1]] == [{"id": 1_000}]


# Its port


def test_a_port_that_is_taken_is_told_with_a_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port {port} is taken") as raised:
            require_port(HttpSettings(port=port))
        assert "HEADWATER_HTTP__PORT" in raised.value.hint
        page = PageServer(Deployment.of(settings(http={"port": port}), StackState()))
        with pytest.raises(ConfigurationError, match="is taken"), page.running():
            pass


def test_the_port_is_free_again_after_the_end() -> None:
    wanted = settings()
    for _ in range(2):
        with PageServer(Deployment.of(wanted, StackState())).running() as page:
            assert httpx.get(f"{page.url}livez").status_code == 200
    require_port(wanted.http)


# The real thing


@pytest.mark.stack
def test_a_commit_shows_on_the_page(
    deployment: Deployment, stack_folder: Path, capture: Capture, postgres: PostgresAddress, source: Source
) -> None:
    folder = Path(os.environ.get(ATTACH) or stack_folder)
    real = replace(deployment, settings=settings(data_folder=folder), source=source, postgres=postgres)
    with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
        conn.execute("create table t (id int primary key, price numeric, note text)")
        capture.ensure()
        observer = Observer(real)
        with PageServer(real).running() as page, httpx.Client(base_url=page.url, timeout=60) as client:

            def ready() -> None:
                page.status = observer.look()
                assert client.get("readyz").status_code == 200, client.get("readyz").json()

            eventually(ready)
            stream = events(client)
            assert next(stream)[0] == "status"
            conn.execute("insert into t values (1, 'NaN', '<b>')")
            seen: list[dict[str, object]] = []
            for number, (name, told) in enumerate(stream):
                assert number < 100, "the change never came"
                if name == "changes":
                    assert isinstance(told, list)
                    seen += told
                if any(entry["table"] == "public.t" for entry in seen):
                    break
                conn.execute("insert into t select max(id) + 1 from t")
            stream.close()
            found = next(entry for entry in seen if entry["table"] == "public.t")
            assert found["op"] == "insert"
            assert metrics(client)["headwater_slot_active", (("source", source.name),)] == 1
            told = client.get("v1/status").json()
            assert told["connector"] == "RUNNING"
            assert all(server["running"] for server in told["servers"])
            password = postgres.password
            assert password not in client.get("v1/status").text
