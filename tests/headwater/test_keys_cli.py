"""`headwater keys`: a key made, listed and revoked in a real database, and what is said when it cannot be."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cdc.addresses import PostgresAddress
from cdc.errors import ConfigurationError
from headwater import cli
from headwater.api.access import Access, KeyStore
from headwater.api.problems import Unauthorized
from headwater.cli.keys import parse_time
from headwater.deployment import Deployment
from headwater.migrate import migrate

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("30d", timedelta(days=30)),
        ("12h", timedelta(hours=12)),
        ("90m", timedelta(minutes=90)),
        ("2w", timedelta(days=14)),
    ],
)
def test_times(text: str, span: timedelta) -> None:
    assert parse_time(text) == span


@pytest.mark.parametrize("text", ["0d", "soon", "30", "d", "-1d", "1.5d", "99999999w", ""])
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(ConfigurationError, match="not a time"):
        parse_time(text)


@pytest.mark.stack
class TestVerbs:
    @pytest.fixture
    def run(
        self,
        deployment: Deployment,
        postgres: PostgresAddress,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> Run:
        mine = replace(deployment, postgres=postgres)
        monkeypatch.setattr(Deployment, "resolve", lambda _settings: mine)

        def run(*arguments: str) -> tuple[int, str, str]:
            code = cli.run(["keys", *arguments])
            told = capsys.readouterr()
            return code, told.out, told.err

        return run

    def test_a_key_from_its_making_to_its_end(self, run: Run, postgres: PostgresAddress) -> None:
        migrate(postgres)
        code, out, err = run("create", "--label", "shop", "--expires-in", "30d")
        text = out.strip()
        assert code == 0
        assert len(out.splitlines()) == 1, "nothing but the key, for KEY=$(headwater keys create)"
        assert text not in err
        id_ = Access(KeyStore(postgres), is_required=True).caller(f"Bearer {text}", "read")
        _, out, _ = run("list", "--json")
        [key] = json.loads(out)["keys"]
        assert (key["id"], key["state"], key["scopes"], key["label"]) == (id_, "valid", ["read"], "shop")
        assert timedelta(days=29) < datetime.fromisoformat(key["expires_at"]) - datetime.now(UTC) < timedelta(days=30)
        assert text not in out

        assert run("revoke", text)[:2] == (0, f"key {id_} is revoked\n"), "by its text, as it is found in a leak"
        assert run("revoke", id_)[0] == 0
        with pytest.raises(Unauthorized):
            Access(KeyStore(postgres), is_required=True).caller(f"Bearer {text}", "read")
        code, out, _ = run("list")
        assert code == 0
        assert out.splitlines()[1].split()[:3] == [id_, "revoked", "read"]

    def test_several_scopes_as_json(self, run: Run, postgres: PostgresAddress) -> None:
        migrate(postgres)
        made = json.loads(run("create", "--scope", "read", "--scope", "alerts", "--json")[1])
        assert made["scopes"] == ["alerts", "read"]
        assert made["expires_at"] is None
        assert made["key"].startswith(f"hw_{made['id']}_")

    def test_what_cannot_be_is_explained(self, run: Run, postgres: PostgresAddress) -> None:
        code, _, err = run("list")
        assert code == 1
        assert "no table of keys yet" in err
        assert "headwater migrate up" in err
        migrate(postgres)
        code, _, err = run("create", "--scope", "write")
        assert code == 2
        assert "there are read, alerts, admin" in err
        code, out, _ = run("revoke", "nobody", "--json")
        assert code == 1
        assert json.loads(out)["error"]["fact"] == "no key nobody"
        assert run("create", "--expires-in", "never")[0] == 2
        assert KeyStore(postgres).list() == []
