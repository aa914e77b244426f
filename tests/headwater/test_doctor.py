"""The doctor: every check can say no, says what to do then, and repeats no password."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cdc.errors import SourceError
from cdc.findings import Finding
from headwater import cli, doctor
from headwater.doctor import machine, servers
from headwater.settings import Settings

SECRET = "s3cr3t-Pa55"


def settings(**sections: Any) -> Settings:
    return Settings.model_validate(sections)


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def only(findings: list[Finding]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


# The doctor as a whole


def test_a_check_that_raises_is_a_finding_and_stops_no_other() -> None:
    def refused(_: Settings) -> list[Finding]:
        raise SourceError("a fact", detail="a detail", hint="a hint")

    def broken(_: Settings) -> list[Finding]:
        raise ZeroDivisionError("oh")

    def fine(_: Settings) -> list[Finding]:
        return [Finding("ok", "fine", "")]

    found = doctor.examine(settings(), (refused, broken, fine))
    assert found[0] == Finding("fail", "refused", "a fact: a detail", "a hint")
    assert (found[1].level, found[1].name) == ("fail", "broken")
    assert "ZeroDivisionError: oh" in found[1].detail
    assert found[2].level == "ok"


@pytest.mark.parametrize(("level", "code"), [("ok", 0), ("warn", 0), ("fail", 1)])
def test_the_exit_code_follows_the_worst_finding(level, code, monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    found = [Finding("ok", "first", "fine"), Finding(level, "second", "so [so]", "do this")]
    monkeypatch.setattr(doctor, "examine", lambda _settings: found)
    assert cli.run(["doctor", "--json"]) == code
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is (code == 0)
    assert told["checks"][1] == {"level": level, "name": "second", "detail": "so [so]", "hint": "do this"}
    assert cli.run(["doctor"]) == code
    out = capsys.readouterr().out
    assert "second: so [so]" in out
    assert ("do this" in out) is (level != "ok")


def test_nothing_of_the_users_is_checked_while_all_is_embedded() -> None:
    checks = (servers.postgres, servers.kafka, servers.connect, servers.elasticsearch, servers.redis, machine.files)
    assert doctor.examine(settings(), checks) == []


# This machine


@pytest.mark.parametrize(("version", "level"), [((3, 10, 9), "fail"), ((3, 11, 0), "ok"), ((4, 0, 0), "ok")])
def test_python(version, level) -> None:
    assert machine.judge_python(version).level == level


def test_packages() -> None:
    assert only(machine.packages(settings())).level == "ok"
    assert "is 4.2.0, not <4" in machine.wrong_package("pyspark<4")
    assert machine.wrong_package("no-such-package>=1") == "no-such-package is not installed"
    assert machine.wrong_package("no-such-package>=1; extra == 'dev'") == ""


def fake_java(folder: Path, version: str) -> Path:
    program = folder / "java"
    program.write_text(
        f"#!/bin/sh\necho '    java.home = {folder}'\necho '    java.specification.version = {version}'\n"
    )
    program.chmod(0o755)
    return program


def test_java(tmp_path: Path) -> None:
    good = settings(stack={"java": str(fake_java(tmp_path, "21"))})
    assert only(doctor.examine(good, (machine.java,))) == Finding("ok", "java", f"21 at {tmp_path / 'java'}")
    old = settings(stack={"java": str(fake_java(tmp_path, "1.8"))})
    finding = only(doctor.examine(old, (machine.java,)))
    assert (finding.level, finding.name) == ("fail", "java")
    assert "stack.java" in finding.hint
    missing = settings(stack={"java": str(tmp_path / "none")})
    assert only(doctor.examine(missing, (machine.java,))).level == "fail"


@pytest.mark.parametrize(("available", "level"), [(99, "fail"), (101, "warn"), (199, "warn"), (200, "ok")])
def test_memory(available: int, level: str) -> None:
    assert machine.judge_memory(available, 200).level == level


def test_memory_needed_counts_what_is_embedded() -> None:
    everything = machine.needed_bytes(settings())
    fewer = machine.needed_bytes(settings(kafka={"bootstrap": "h:1"}))
    assert everything - fewer == pytest.approx(512 * 2**20 * machine.BESIDE_HEAP, abs=1)
    assert only(machine.memory(settings())).name == "memory"


@pytest.mark.parametrize(("free", "level"), [(10**6, "fail"), (10**9, "warn"), (10**10, "ok")])
def test_disk(free: int, level: str, tmp_path: Path) -> None:
    assert machine.judge_disk("data folder", tmp_path, free, machine.DATA_FREE_GOOD_BYTES).level == level


def test_disk_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert machine.free_bytes(tmp_path / "a" / "b") > 0
    names = [finding.name for finding in machine.disk(settings(data_folder=str(tmp_path / "a")))]
    assert names == ["data folder", "artifact cache"]


def test_http_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        assert only(machine.http_port(settings(http={"port": taken}))).level == "warn"
    assert only(machine.http_port(settings(http={"port": closed_port()}))).level == "ok"


def test_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert only(machine.cpus(settings())).level == "warn"


@pytest.mark.skipif(os.geteuid() != 0, reason="the account only matters to root")
def test_account_of_root() -> None:
    assert only(doctor.examine(settings(), (machine.account,))).level == "ok"
    for name in ("no_such_account", "root"):
        assert only(doctor.examine(settings(stack={"account": name}), (machine.account,))).level == "fail"


def test_files_that_the_settings_name_must_be_readable(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("x")
    named = {"url": "postgresql://u@h/d", "sslrootcert": str(tmp_path / "there"), "sslkey": str(tmp_path / "gone")}
    finding = only(machine.files(settings(postgres=named)))
    assert finding.level == "fail"
    assert finding.detail.startswith("postgres.sslkey")


# The user's servers


class _Handler(BaseHTTPRequestHandler):
    answers: dict[str, tuple[int, str]] = {}  # noqa: RUF012
    heard: list[str] = []  # noqa: RUF012

    def do_GET(self) -> None:
        code, text = self.answers.get(self.path, (404, ""))
        self.heard.append(self.headers.get("Authorization", ""))
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def web() -> Iterator[tuple[str, type[_Handler]]]:
    handler = type("Handler", (_Handler,), {"answers": {}, "heard": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", handler
        server.shutdown()
        thread.join()


def test_connect_must_have_debezium(web) -> None:
    url, handler = web
    theirs = settings(connect={"url": url, "user": "u", "password": SECRET})
    handler.answers["/connector-plugins"] = (200, json.dumps([{"class": servers.DEBEZIUM_CLASS, "version": "3.7.0"}]))
    assert only(servers.connect(theirs)) == Finding("ok", "connect", f"{url} with Debezium 3.7.0", "")
    assert handler.heard[0].startswith("Basic ")
    handler.answers["/connector-plugins"] = (200, "[]")
    assert "no Debezium" in only(servers.connect(theirs)).detail
    handler.answers["/connector-plugins"] = (401, "")
    assert "HTTP 401" in only(servers.connect(theirs)).detail
    handler.answers["/connector-plugins"] = (200, "not json")
    assert only(servers.connect(theirs)).level == "fail"


@pytest.mark.parametrize(("status", "level"), [("green", "ok"), ("yellow", "ok"), ("red", "fail")])
def test_elasticsearch(web, status: str, level: str) -> None:
    url, handler = web
    handler.answers["/_cluster/health"] = (200, json.dumps({"status": status}))
    assert only(servers.elasticsearch(settings(elasticsearch={"url": url, "api_key": SECRET}))).level == level
    assert handler.heard == [f"ApiKey {SECRET}"]


def test_servers_that_do_not_answer_are_named_without_their_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "TIMEOUT_S", 0.5)
    place = f"127.0.0.1:{closed_port()}"
    sasl = {"security_protocol": "SASL_PLAINTEXT", "sasl_username": "u", "sasl_password": SECRET}
    theirs = settings(
        postgres={"url": f"postgresql://u:{SECRET}@{place}/d"},
        kafka={"bootstrap": place, **sasl},
        connect={"url": f"http://{place}", "user": "u", "password": SECRET},
        elasticsearch={"url": f"http://{place}", "user": "u", "password": SECRET},
        redis={"url": f"redis://:{SECRET}@{place}/0"},
    )
    checks = (servers.postgres, servers.kafka, servers.connect, servers.elasticsearch, servers.redis)
    found = doctor.examine(theirs, checks)
    failed = [finding for finding in found if finding.level == "fail"]
    assert len(failed) == len(checks)
    assert all(finding.hint for finding in failed)
    assert SECRET not in repr(found)


def test_a_message_of_a_library_is_cleared_of_secrets() -> None:
    theirs = settings(redis={"url": "redis://:p%40ss-word@h:1/0"}, kafka={"bootstrap": "h:1"})
    assert servers._told("no\nlogin with p@ss-word or p%40ss-word", theirs) == "no login with *** or ***"
