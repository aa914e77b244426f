"""`headwater migrate up|down|status` as a person or a program calls it, on a database of their own."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest

from cdc.addresses import PostgresAddress
from headwater.cli import run


@pytest.fixture
def own_database(postgres: PostgresAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PostgresAddress:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWATER_POSTGRES__URL", postgres.conninfo())
    return postgres


def test_up_status_down(own_database: PostgresAddress, capsys: pytest.CaptureFixture[str]) -> None:
    def verb(*words: str) -> dict[str, object]:
        assert run(["migrate", *words, "--json"]) == 0
        return dict(json.loads(capsys.readouterr().out))

    assert verb("status")["revision"] is None
    up = verb("up")
    assert (up["up_to_date"], up["watched"], up["revision"]) == (True, True, up["head"])
    assert verb("up") == up
    assert verb("status") == up
    assert verb("down")["revision"] is None
    assert run(["migrate", "status"]) == 0
    assert "headwater migrate up" in capsys.readouterr().out


def test_sql_needs_no_database(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["migrate", "up", "--sql"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("BEGIN;")
    assert "create table headwater.heartbeat" in text


def test_down_is_refused_while_the_slot_is_read(
    own_database: PostgresAddress, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"s{own_database.database}"
    monkeypatch.setenv("HEADWATER_SOURCE", name)
    assert run(["migrate", "up"]) == 0
    with psycopg.connect(own_database.conninfo() + "?replication=database", autocommit=True) as reader:
        reader.execute(f"CREATE_REPLICATION_SLOT headwater_{name} TEMPORARY LOGICAL pgoutput")
        assert run(["migrate", "down"]) == 1
        assert "capture is running" in capsys.readouterr().err
    assert run(["migrate", "status", "--json"]) == 0
    assert '"up_to_date": true' in capsys.readouterr().out
