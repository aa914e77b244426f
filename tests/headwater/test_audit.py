"""The audit log: every action from its beginning to its end, in a real database, and while there is none."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
import typer
from psycopg import errors

from cdc.addresses import PostgresAddress
from cdc.errors import ConfigurationError, SourceError, ViewError
from headwater import cli
from headwater.api.access import ApiKey, KeyStore
from headwater.audit import audited, key_actor, masked, os_actor, told
from headwater.audit_store import ASIDE, SPOOL, bring_in, listed, spool_file
from headwater.cli.audit import parse_since
from headwater.deployment import Deployment
from headwater.migrate import migrate
from headwater.pages import generation_routes
from headwater.pages.forms import Form
from headwater.settings import Settings
from headwater.views.place import Place
from views.maintain.registry import Registry

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
POISON = "a \0 b \udce9"
"""NUL, and a byte of Latin-1 as Python tells it: Postgres takes neither in a text."""
WAITING = """{"action": "7c1f9f0a-9c3e-4d8a-8f57-0d2a53a1e001", "event": "began", "at": "2026-11-17T09:00:00Z",\
 "actor": "os:ada", "host": "h", "verb": "pause", "arguments": {}}
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", None),
        ("2026-11-17", datetime(2026, 11, 17, tzinfo=UTC)),
        ("2026-11-17T09:30Z", datetime(2026, 11, 17, 9, 30, tzinfo=UTC)),
        ("12h", NOW - timedelta(hours=12)),
    ],
)
def test_since(text: str, found: datetime | None) -> None:
    assert parse_since(text, NOW) == found


def test_since_that_is_none() -> None:
    with pytest.raises(ConfigurationError, match="not a time"):
        parse_since("yesterday", NOW)


def test_secrets_are_not_written() -> None:
    key = "hw_0123456789ab_" + "s" * 43
    assert told({"id": f"key {key}", "password": "x", "url": "redis://:hush@h/0", "view": "v", "all": False}) == {
        "id": "key hw_0123456789ab_***",
        "password": "***",
        "url": "redis://:***@h/0",
        "view": "v",
    }
    assert masked({"keys": [key], "api_key": "abc", "rows": 0}) == {
        "keys": ["hw_0123456789ab_***"],
        "api_key": "***",
        "rows": 0,
    }
    assert told({"rows": 0, "none": None, "empty": ""}) == {"rows": 0}


def test_who(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    monkeypatch.delenv("SUDO_USER", raising=False)
    assert os_actor() == "os:ada"
    monkeypatch.setenv("SUDO_USER", "grace")
    assert os_actor() == "os:ada (sudo by grace)"
    assert key_actor(ApiKey("k1", ("admin",), "console", NOW)) == "key:k1 (console)"
    assert key_actor(None) == "http:without a key"


def kept_in(folder: Path, monkeypatch: pytest.MonkeyPatch, postgres: str) -> Settings:
    """A data folder with something in it, and a trace that waits; the settings say so."""
    (folder / "data" / "kafka").mkdir(parents=True)
    (folder / SPOOL).write_text(WAITING)
    mine = Settings(data_folder=folder, postgres={"url": postgres} if postgres else {})
    monkeypatch.setattr("headwater.settings.load", lambda: mine)
    return mine


def test_all_is_thrown_away_while_its_audit_log_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits goes with an embedded database, whose log it is; for one of the user's own it waits on."""
    own, embedded = tmp_path / "own", tmp_path / "embedded"
    kept_in(own, monkeypatch, "postgresql://me:x@127.0.0.1:1/shop")
    assert cli.run(["down", "--reset", "--yes"]) == 0
    assert [file.name for file in own.iterdir()] == [SPOOL]
    waits = [json.loads(line) for line in (own / SPOOL).read_text().splitlines()]
    assert [(each["verb"], each["event"]) for each in waits] == [
        ("pause", "began"), ("down --reset", "began"), ("down --reset", "done"),
    ]  # fmt: skip
    kept_in(embedded, monkeypatch, "")
    assert cli.run(["down", "--reset", "--yes"]) == 0
    assert not embedded.exists()


@pytest.mark.parametrize(
    ("asked", "verb"),
    [
        ({"do": "retire", "sink": "cache", "number": "2"}, ["generations", "card", "--sink", "cache", "--retire", "2"]),
        ({"do": "approve"}, ["apply", "--approve", "card"]),
        ({"do": "reject"}, ["apply", "--reject", "card"]),
        ({"do": "pause", "sink": "cache"}, ["pause", "card", "--sink", "cache"]),
        ({"do": "resume"}, ["resume", "card"]),
        ({"do": "switch", "sink": "cache"}, ["switch", "card", "--sink", "cache"]),
        ({"do": "rollback", "sink": "cache"}, ["rollback", "card", "--sink", "cache"]),
        ({"do": "restore"}, ["rollback", "card", "--definition"]),
        ({"do": "hold", "rebuild": "r1"}, ["rebuild", "--pause", "r1"]),
        ({"do": "go on", "rebuild": "r1"}, ["rebuild", "--resume", "r1"]),
        ({"do": "cancel", "rebuild": "r1"}, ["rebuild", "--cancel", "r1"]),
    ],
    ids=lambda given: given["do"] if isinstance(given, dict) else "",
)
def test_the_same_act_has_the_same_name_wherever_it_was_asked_for(
    asked: dict[str, str], verb: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever looks for one in the log finds what was done in the console as well as by the command line."""
    told: list[str] = []
    monkeypatch.setattr("headwater.audit_store.keep", lambda _deployment, trace: told.append(trace.verb))
    place: Any = SimpleNamespace(deployment=None, registry=Registry(tmp_path))
    monkeypatch.setattr(Place, "here", lambda: place)
    cli.run(verb)  # nobody keeps views here: it fails, and is traced all the same
    console: Any = SimpleNamespace(place=place)
    session: Any = SimpleNamespace(actor="key:1")
    name, _ = generation_routes._deed(console, session, "card", Form(list(asked.items())))
    assert told == [name, name]


@pytest.mark.stack
class TestKept:
    @pytest.fixture
    def mine(self, deployment: Deployment, postgres: PostgresAddress, tmp_path: Path) -> Deployment:
        migrate(postgres)
        return replace(deployment, postgres=postgres, settings=Settings(data_folder=tmp_path))

    @pytest.fixture
    def run(
        self, mine: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> Callable[..., str]:
        monkeypatch.setattr(Deployment, "resolve", lambda _settings: mine)

        def run(*arguments: str) -> str:
            assert cli.run(list(arguments)) == 0
            return capsys.readouterr().out

        return run

    def test_what_is_done_and_what_fails(self, mine: Deployment) -> None:
        with audited(mine, "rebuild", view="cards", sink=None) as action:
            [running] = listed(mine)
            assert (running.outcome, running.ended_at) == ("unfinished", None), "known before it has ended"
            action.result = {"generation": 4, "secret": "x"}
        with pytest.raises(ViewError), audited(mine, "switch", actor="key:1", view="cards"):
            raise ViewError("the new one is not verified", detail="a detail is not kept")
        with pytest.raises(typer.Exit), audited(mine, "verify"):
            raise typer.Exit(1)
        with pytest.raises(typer.Exit), audited(mine, "quiet end"):
            raise typer.Exit(0)
        quiet, verify, switch, rebuild = listed(mine)
        assert (rebuild.verb, rebuild.arguments, rebuild.outcome) == ("rebuild", {"view": "cards"}, "done")
        assert rebuild.result == {"generation": 4, "secret": "***"}
        assert rebuild.actor == os_actor()
        assert (switch.actor, switch.outcome, switch.reason) == ("key:1", "failed", "the new one is not verified")
        assert (verify.outcome, verify.reason) == ("failed", "exit code 1")
        assert quiet.outcome == "done"
        assert [each.verb for each in listed(mine, verb="quiet")] == ["quiet end"]
        assert listed(mine, since=datetime.now(UTC)) == []

    @pytest.mark.parametrize(
        "statement",
        ["update headwater.audit set actor = 'me'", "delete from headwater.audit", "truncate headwater.audit"],
    )
    def test_nothing_is_changed_afterwards(self, mine: Deployment, statement: str) -> None:
        with audited(mine, "rebuild"):
            pass
        with (
            psycopg.connect(mine.postgres.conninfo()) as conn,
            pytest.raises(errors.InsufficientPrivilege, match="append-only"),
        ):
            conn.execute(statement)  # type: ignore[call-overload]
        assert len(listed(mine)) == 1

    def test_what_was_thrown_away_is_told_of(
        self, mine: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        at, folder = mine.postgres, tmp_path / "thrown"
        kept_in(folder, monkeypatch, f"postgresql://{at.user}:{at.password}@{at.host}:{at.port}/{at.database}")
        assert cli.run(["down", "--reset", "--yes"]) == 0
        reset, waited = listed(mine)
        assert (reset.verb, reset.outcome, reset.arguments) == ("down --reset", "done", {"folder": str(folder)})
        assert waited.verb == "pause"
        assert not folder.exists()

    def test_a_database_that_is_away_fails_nothing(self, mine: Deployment) -> None:
        away = replace(mine, postgres=replace(mine.postgres, port=1))
        with audited(away, "capture pause"):
            pass
        spool = spool_file(mine.settings)
        assert len(spool.read_text().splitlines()) == 2
        spool.write_text(spool.read_text() + '{"action": "cut o')
        content = spool.read_bytes()
        with audited(mine, "capture resume"):
            pass
        assert spool.read_bytes() == b""
        assert [(each.verb, each.outcome) for each in listed(mine)] == [
            ("capture resume", "done"),
            ("capture pause", "done"),
        ]
        spool.write_bytes(content)  # as if it had been killed between the commit and the emptying
        bring_in(mine)
        assert len(listed(mine)) == 2

    def test_what_postgres_takes_in_no_text_is_replaced(self, mine: Deployment) -> None:
        with audited(mine, "quiet begin", actor=POISON, reason=POISON, keys={POISON: [POISON]}) as action:
            action.result = {"of": POISON}
        [found] = listed(mine)
        told = "a \N{REPLACEMENT CHARACTER} b \N{REPLACEMENT CHARACTER}"
        assert (found.actor, found.outcome, found.result) == (told, "done", {"of": told})
        assert found.arguments == {"reason": told, "keys": {told: [told]}}
        assert not spool_file(mine.settings).exists(), "nothing waits"
        assert listed(mine, verb=POISON, actor=POISON) == [], "nor is it an error to look for it"
        away = replace(mine, postgres=replace(mine.postgres, port=1))
        with audited(away, "quiet end", reason=POISON):
            pass
        assert [(each.verb, each.outcome) for each in listed(mine)] == [("quiet end", "done"), ("quiet begin", "done")]

    def test_a_line_that_is_never_taken_holds_up_no_other(self, mine: Deployment, tmp_path: Path) -> None:
        """What an earlier version wrote with a NUL comes in; a line that is wrong itself is set aside, and told."""
        poisoned = json.loads(WAITING) | {"verb": "quiet begin", "arguments": {"reason": POISON}}
        wrong = json.loads(WAITING) | {"action": "no uuid"}
        lines = [json.dumps(each) for each in (wrong, poisoned | {"event": "done"}, poisoned)]
        (tmp_path / SPOOL).write_text("\n".join(lines) + "\n")
        [found] = listed(mine)
        assert (found.verb, found.outcome) == ("quiet begin", "done")
        with audited(mine, "rebuild"):
            pass
        assert [each.verb for each in listed(mine)] == ["rebuild", "quiet begin"]
        assert (tmp_path / SPOOL).read_bytes() == b""
        assert [json.loads(line) for line in (tmp_path / ASIDE).read_text().splitlines()] == [wrong], "once"

    def test_a_log_that_cannot_be_read_says_why(self, mine: Deployment) -> None:
        with psycopg.connect(mine.postgres.conninfo(), autocommit=True) as conn:
            conn.execute("alter table headwater.audit rename column reason to why")
        with pytest.raises(SourceError, match="cannot be read"):
            listed(mine)

    def test_a_folder_that_cannot_be_written_fails_nothing(self, mine: Deployment, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        settings = Settings(data_folder=tmp_path / "file")
        with audited(replace(mine, postgres=replace(mine.postgres, port=1), settings=settings), "capture pause"):
            pass

    def test_verbs_leave_their_trace(self, mine: Deployment, run: Callable[..., str]) -> None:
        text = json.loads(run("keys", "create", "--label", "shop", "--json"))["key"]
        run("keys", "revoke", text)
        run("quiet", "begin", "--view", "cards", "--reason", "a bulk load")
        found = json.loads(run("audit", "--json"))["actions"]
        told = [(each["verb"], each["outcome"], each["arguments"]) for each in reversed(found)]
        [key] = KeyStore(mine.postgres).list()
        assert told == [
            ("keys create", "done", {"label": "shop", "scopes": ["read"]}),
            ("keys revoke", "done", {"id": key.id}),
            ("quiet begin", "done", {"view": "cards", "reason": "a bulk load"}),
        ]
        assert found[-1]["result"] == {"id": key.id}
        assert found[0]["host"] == os.uname().nodename
        out = run("audit", "--verb", "keys")
        assert len(out.splitlines()) == 3
        assert text not in out
