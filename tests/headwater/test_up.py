"""`headwater up` as a user has it: from nothing to moving data, over kill -9, to an orderly end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest

from headwater.deployment import Deployment
from headwater.service.ready import READY_FILE, is_ready, marked_ready
from headwater.service.steps import EXAMPLES
from headwater.settings import Settings
from headwater.stack import state as stack_state
from tests.waiting import eventually

UP_S_MAX = 300.0
VIEWS_S_MAX = 240.0
"""Spark starts, and the views are built."""
SERVERS = ("postgres", "kafka", "elasticsearch", "redis", "connect")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where the servers' account may enter, whoever runs the tests; nothing runs there any more afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="headwater-up-"))
    folder.chmod(0o755)
    yield folder
    headwater(folder, "down")
    shutil.rmtree(folder, ignore_errors=True)


def environment(folder: Path) -> dict[str, str]:
    """As in an empty folder without settings, but for a port of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    return {
        **kept,
        "HEADWATER_DATA_FOLDER": str(folder / "data folder"),
        "HEADWATER_HTTP__PORT": str(port_of(folder)),
        "HEADWATER_STACK__START_TIMEOUT_S": str(int(UP_S_MAX)),  # the machine may be busy with other tests
    }


def port_of(folder: Path) -> int:
    """One port for all commands of a test."""
    file = folder / "port"
    if not file.exists():
        with socket.create_server(("127.0.0.1", 0)) as probe:
            file.write_text(str(probe.getsockname()[1]))
    return int(file.read_text())


def headwater(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "headwater", *words]
    return subprocess.run(
        program, capture_output=True, text=True, check=False, env=environment(folder), cwd=folder, timeout=UP_S_MAX
    )


def asked(folder: Path, *words: str) -> Any:
    """What a verb says with --json."""
    answer = headwater(folder, *words, "--json")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return json.loads(answer.stdout)


def family(folder: Path) -> list[psutil.Process]:
    """The process that runs the stack, and all that it has started."""
    supervisor = stack_state.load(folder / "data folder").supervisor
    assert supervisor is not None
    process = supervisor.process()
    assert process is not None
    return [process, *process.children(recursive=True)]


def gone(processes: list[psutil.Process]) -> bool:
    return not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes)


def verb(process: psutil.Process) -> str:
    """The last word of its command line; nothing of one that is dead or gone."""
    try:
        return "".join(process.cmdline()[-1:])
    except psutil.Error:
        return ""


def kill_the_api(folder: Path, page: str) -> None:
    """Returns when another one answers, and is ready."""

    def serving() -> psutil.Process:
        [found] = [each for each in family(folder) if verb(each) == "serve"]
        return found

    first = serving()
    first.send_signal(signal.SIGKILL)

    def mended() -> None:
        try:
            assert serving() != first
            assert httpx.get(f"{page}/readyz").status_code == 200
        except (ValueError, httpx.TransportError) as error:
            raise AssertionError(error) from error

    eventually(mended)


def healthy(folder: Path) -> dict[str, Any]:
    def looked() -> dict[str, Any]:
        answer = headwater(folder, "status", "--json")
        assert answer.returncode == 0, answer.stdout
        told: dict[str, Any] = json.loads(answer.stdout)
        assert told["healthy"]
        return told

    return eventually(looked)


def moved(folder: Path) -> list[dict[str, Any]]:
    """Changes of the demo, out of the end of the log."""
    answer = headwater(folder, "log", "tail", "-n", "200", "--json")
    assert answer.returncode == 0, answer.stderr
    entries = [json.loads(line) for line in answer.stdout.splitlines()]
    return [entry for entry in entries if str(entry.get("table", "")).startswith("public.")]


def kept(folder: Path) -> None:
    """All example views are live, and hold what their SQL gives in Postgres while the demo moves; what the demo's saved
    searches tell arrives."""

    def live() -> None:
        states = {view["view"]: view["state"] for view in asked(folder, "views")["views"]}
        assert len(states) == len(list(EXAMPLES.rglob("*.sql")))
        assert set(states.values()) == {"live"}, states

    eventually(live, VIEWS_S_MAX)
    verified = headwater(folder, "verify", "listing_card", "city_stats", "--json")
    assert verified.returncode == 0, verified.stdout
    caught = f"http://127.0.0.1:{port_of(folder)}/demo/caught"
    eventually(lambda: bool(httpx.get(caught).json()["caught"]), VIEWS_S_MAX)
    told = {each["channel"]: each for each in asked(folder, "alerts", "list")["alerts"]}
    assert told["webhook"]["target"] == httpx.get(caught).json()["webhook"]
    for channel in ("webhook", "email"):  # to the verbs, too, the catchers are open
        asked(folder, "alerts", "test", str(told[channel]["id"]))


def lose_the_slot(folder: Path) -> None:
    """As a person does who finds a slot that holds up the disk."""
    deployment = Deployment.of(Settings(), stack_state.load(folder / "data folder"))
    slot = deployment.source.slot
    with psycopg.connect(deployment.postgres.conninfo(), autocommit=True) as connection:

        def dropped() -> None:
            connection.execute(
                "select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = %s and active",
                [slot],
            )
            connection.execute(
                "select pg_drop_replication_slot(slot_name) from pg_replication_slots"
                " where slot_name = %s and not active",
                [slot],
            )
            assert not connection.execute("select from pg_replication_slots where slot_name = %s", [slot]).fetchall()

        eventually(dropped)


def recover(folder: Path, page: str) -> None:
    eventually(lambda: httpx.get(f"{page}/readyz").status_code == 503)
    found = headwater(folder, "recover", "--json")
    assert found.returncode == 2, found.stdout + found.stderr
    assert "slot missing" in [gap["code"] for gap in json.loads(found.stdout)["gaps"]]
    assert asked(folder, "recover", "--yes")["is_done"]
    eventually(lambda: httpx.get(f"{page}/readyz").status_code == 200)


def end_in_order(folder: Path) -> None:
    processes = family(folder)
    assert asked(folder, "down") == {"stopped": True, "reset": False}
    assert gone(processes)
    assert stack_state.load(folder / "data folder").processes == {}
    assert not (folder / "data folder" / READY_FILE).exists()
    said = (folder / "data folder" / "logs" / "up.log").read_text()
    stops = [line.split()[2] for line in said.splitlines() if line.endswith("stopped")]
    assert stops == ["connect", "redis", "elasticsearch", "kafka", "postgres"]
    assert asked(folder, "down", "--reset", "--yes") == {"stopped": False, "reset": True}
    assert not (folder / "data folder").exists()


@pytest.mark.stack
@pytest.mark.spark
@pytest.mark.alone
@pytest.mark.timeout(1500)
def test_from_nothing_to_moving_data_over_kill_9_to_an_orderly_end(folder: Path) -> None:
    up = headwater(folder, "up", "--detach", "--demo", "--listings", "50", "--rate", "20")
    assert up.returncode == 0, up.stdout + up.stderr
    assert f"http://127.0.0.1:{port_of(folder)}/" in up.stdout

    # It runs, and says so to people, programs and probes.
    told = healthy(folder)
    assert sorted(server["name"] for server in told["servers"]) == sorted(SERVERS)
    assert all(server["running"] for server in told["servers"])
    assert told["connector"] == "RUNNING"
    assert "RUNNING" in headwater(folder, "status").stdout
    page = f"http://127.0.0.1:{port_of(folder)}"
    eventually(lambda: httpx.get(f"{page}/readyz").status_code == 200)
    assert "headwater_slot_lag_bytes" in httpx.get(f"{page}/metrics").text
    assert asked(folder, "doctor")["ok"] is True
    lines = headwater(folder, "logs", "--json").stdout.splitlines()
    assert {json.loads(line)["component"] for line in lines} >= {*SERVERS, "headwater"}

    # The demo moves, and its changes come down the log.
    eventually(lambda: bool(moved(folder)))

    # The example views are built and follow.
    kept(folder)
    shown = json.loads(headwater(folder, "show", "listing_card", "7", "--json").stdout)
    assert (shown["state"], shown["key"]) == ("live", {"id": "7"})  # its row comes and goes: the demo moves
    assert "headwater_view_behind_seconds" in httpx.get(f"{page}/metrics").text

    # Whoever answers over HTTP may die: it is started again, and knows what the watch sees.
    kill_the_api(folder, page)

    # A second one disturbs nobody.
    again = headwater(folder, "up", "--detach", "--demo")
    assert again.returncode == 0
    assert "already running" in again.stdout

    # kill -9 of the one process takes everything with it, and nothing of the data.
    before, processes = asked(folder, "log", "seek", "latest")["position"], family(folder)
    processes[0].send_signal(signal.SIGKILL)
    eventually(lambda: gone(processes))
    stopped = headwater(folder, "status", "--json")
    assert stopped.returncode == 1
    assert json.loads(stopped.stdout)["error"]["hint"] == "headwater up"
    assert (folder / "data folder" / READY_FILE).exists(), "what it left behind must not fool the next start"

    up = headwater(folder, "up", "--detach", "--demo", "--listings", "50", "--rate", "20")
    assert up.returncode == 0, up.stdout + up.stderr
    healthy(folder)
    era, offset = before.split(":")

    def went_on() -> None:
        now_era, now_offset = asked(folder, "log", "seek", "latest")["position"].split(":")
        assert now_era == era, "the same history goes on"
        assert int(now_offset) > int(offset)

    eventually(went_on)
    kept(folder)

    # A slot that is lost takes changes with it: noticed, said, and brought back by one command.
    lose_the_slot(folder)
    recover(folder, page)
    assert asked(folder, "log", "seek", "latest")["position"].split(":")[0] != era
    kept(folder)

    # An orderly end leaves nothing running, and nothing to clear away.
    end_in_order(folder)


def test_a_taken_port_is_told_before_anything_is_started(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", port_of(folder))):
        answer = headwater(folder, "up")
    assert answer.returncode == 2
    assert f"port {port_of(folder)} is taken" in answer.stderr
    assert "HEADWATER_HTTP__PORT" in answer.stderr
    assert not (folder / "data folder").exists()


def test_a_start_that_fails_in_the_background_is_told(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", port_of(folder))):
        answer = headwater(folder, "up", "--detach")
    assert answer.returncode == 1
    assert "the stack did not come up" in answer.stderr
    assert f"detail: error: port {port_of(folder)} is taken" in answer.stderr


def test_status_of_nothing_has_a_hint(folder: Path) -> None:
    answer = headwater(folder, "status")
    assert answer.returncode == 1
    assert "is not running" in answer.stderr
    assert "hint: headwater up" in answer.stderr


def test_ready_is_said_by_the_process_that_is(tmp_path: Path) -> None:
    assert not is_ready(tmp_path, os.getpid())
    with marked_ready(tmp_path):
        assert is_ready(tmp_path, os.getpid())
        assert not is_ready(tmp_path, os.getpid() + 1)
    assert not is_ready(tmp_path, os.getpid())
