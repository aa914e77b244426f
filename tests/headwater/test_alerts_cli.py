"""`headwater alerts` and `headwater quiet` as people call them, in a real database; the views are made up."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from alerts import quiet
from alerts.channels.channel import TargetRefused
from alerts.saved_search import CHANNELS, EVENTS, FIELDS
from cdc.addresses import PostgresAddress
from cdc.errors import ConfigurationError
from headwater import cli, saved_searches
from headwater.cli.alerts import parse_fields
from headwater.deployment import Deployment
from headwater.http.app import make_app
from headwater.http.server import PageServer
from headwater.migrate import migrate
from headwater.saved_searches import SavedSearches
from headwater.settings import Settings
from headwater.settings.alerts import AlertsSettings
from headwater.stack.state import StackState
from headwater.status import Observer
from headwater.targets import target_check
from tests.alerts.store.wishes import match, record, wish
from tests.headwater.test_alerts_api import MadeUp
from views.maintain.registry import Registry, Wanted, WantedView

Run = Callable[..., tuple[int, str, str]]


def test_fields_are_read_by_their_sort() -> None:
    assert parse_fields(
        ["events=entered, left", "digest_hour=9", "paused=true", "label=a=b", "quiet_from=", "reenter_s=0"]
    ) == {
        "events": ["entered", "left"],
        "digest_hour": 9,
        "paused": True,
        "label": "a=b",
        "quiet_from": None,
        "reenter_s": 0,
    }
    for word in ("channel", "chanel=feed"):
        with pytest.raises(ConfigurationError, match="not a field") as caught:
            parse_fields([word])
        assert "channel" in caught.value.hint


def test_a_target_is_refused_when_it_is_saved() -> None:
    check = target_check(Settings())
    with pytest.raises(ConfigurationError, match="no mail"):
        check(wish(channel="email", target="ada@example.com"))
    with pytest.raises(TargetRefused):
        check(wish(channel="webhook", target="https://user:password@example.com/"))
    check(wish(channel="webhook", target="https://example.com/hook"))
    check(wish())
    mail = Settings.model_validate({"mail": {"host": "mail.example.com", "sender": "news@example.com"}})
    target_check(mail)(wish(channel="email", target="ada@example.com"))
    with pytest.raises(TargetRefused):
        target_check(mail)(wish(channel="email", target="ada@exa mple@com"))


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
        monkeypatch.setattr(SavedSearches, "of", lambda *_given: SavedSearches(postgres, MadeUp()))

        def run(*arguments: str) -> tuple[int, str, str]:
            code = cli.run(list(arguments))
            told = capsys.readouterr()
            return code, told.out, told.err

        return run

    def asked(self, run: Run, *arguments: str) -> Any:
        code, out, err = run("alerts", *arguments, "--json")
        assert code == 0, err + out
        return json.loads(out)

    def test_a_search_from_its_saving_to_its_end(self, run: Run, postgres: PostgresAddress) -> None:
        migrate(postgres)
        made = self.asked(run, "add", "listing", "city:paris", "--owner", "ada", "--set", "label=Paris")
        id_ = str(made["id"])
        assert (made["owner"], made["label"], made["state"]) == ("ada", "Paris", "active")
        assert self.asked(run, "show", id_) == made
        assert self.asked(run, "add", "listing", "*")["owner"] == "local"
        assert [each["owner"] for each in self.asked(run, "list")["alerts"]] == ["ada", "local"]
        assert [each["id"] for each in self.asked(run, "list", "--owner", "ada")["alerts"]] == [made["id"]]
        assert self.asked(run, "edit", id_, "--set", "frequency=daily", "--set", "query=city:lyon")["query_text"] == (
            "city:lyon"
        )
        assert self.asked(run, "pause", id_)["state"] == "paused"
        assert self.asked(run, "resume", id_)["state"] == "active"
        code, out, _ = run("alerts", "list")
        assert code == 0
        assert out.splitlines()[1].split()[:5] == [id_, "ada", "active", "listing", "city:lyon"]
        code, out, _ = run("alerts", "show", id_)
        assert "query_text: city:lyon" in out
        assert run("alerts", "remove", id_)[:2] == (0, f"saved search {id_} is removed\n")
        code, out, _ = run("alerts", "show", id_, "--json")
        assert (code, json.loads(out)["error"]["fact"]) == (1, f"no saved search {id_}")

    def test_a_list_that_goes_on_says_so(
        self, run: Run, postgres: PostgresAddress, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        migrate(postgres)
        monkeypatch.setattr(saved_searches, "EVERYBODYS_MAX", 2)
        ids = [self.asked(run, "add", "listing", "*", "--owner", owner)["id"] for owner in ("bob", "ada", "eve")]
        first = self.asked(run, "list")
        assert ([each["id"] for each in first["alerts"]], first["next"]) == (ids[:2], ids[1])
        last = self.asked(run, "list", "--after", str(first["next"]))
        assert ([each["id"] for each in last["alerts"]], last["next"]) == (ids[2:], None)
        assert f"headwater alerts list --after {ids[1]}" in run("alerts", "list")[1]

    def test_a_webhook_comes_with_its_secret(self, run: Run, postgres: PostgresAddress) -> None:
        migrate(postgres)
        hook = ("listing", "*", "--set", "channel=webhook", "--set", "target=https://example.com/hook")
        made = self.asked(run, "add", *hook)
        id_, first = str(made["id"]), made["secret"]
        assert first.startswith("whsec_")
        code, out, _ = run("alerts", "add", *hook)
        assert (code, f"secret: {first}" in out) == (0, True), "one secret a URL"
        assert "whsec_" not in run("alerts", "show", id_)[1] + run("alerts", "edit", id_, "--set", "label=x")[1]
        moved = self.asked(run, "edit", id_, "--set", "target=https://example.com/other")
        assert moved["secret"] not in ("", first)
        assert self.asked(run, "edit", id_, "--set", "target=https://example.com/hook")["secret"] == first
        second = self.asked(run, "secret", id_)
        assert (second["id"], second["secret"] != first) == (made["id"], True)
        code, out, _ = run("alerts", "secret", id_)
        third = out.split("secret: ")[1].split()[0]
        with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
            [[kept]] = conn.execute("select secrets from headwater.endpoints where target like '%hook'").fetchall()
            traces = conn.execute("select verb, event, result::text from headwater.audit where verb = 'alerts secret'")
            told = traces.fetchall()
        assert kept == [third, second["secret"]]
        assert [(verb, event) for verb, event, _ in told].count(("alerts secret", "done")) == 2
        assert "whsec_" not in str(told)
        plain = str(self.asked(run, "add", "listing", "*")["id"])
        code, _, err = run("alerts", "secret", plain)
        assert (code, "webhook" in err) == (2, True)

    def test_a_preview_and_the_reasons(self, run: Run, postgres: PostgresAddress) -> None:
        migrate(postgres)
        found = self.asked(run, "preview", "listing", "city:paris price:..500", "--days", "10")
        assert (found["matching"], found["events"]) == (20, {"entered": 2})
        code, out, _ = run("alerts", "preview", "listing", "city:paris price:..500", "--days", "10")
        assert (code, out.splitlines()[:2]) == (0, ["matching now: 20", "in the last 10.0 days: 2 entered"])
        id_ = self.asked(run, "add", "listing", "price:..500")["id"]
        with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
            record(conn, "listing", 1, [match(id_)])
        found = self.asked(run, "explain", str(id_), "1")
        assert (found["matches"], found["news"][0]["event"]) == (False, "entered")
        code, out, _ = run("alerts", "explain", str(id_), "1")
        assert out.startswith("no  price:..500")
        assert "entered (is new), waits until 20" in out
        assert "no row of listing" in run("alerts", "explain", str(id_), "2")[1]

    def test_quiet(self, run: Run, postgres: PostgresAddress) -> None:
        migrate(postgres)
        code, out, _ = run("quiet", "begin", "--view", "listing", "--reason", "bulk load")
        assert (code, out.startswith("listing: quiet since")) == (0, True)
        [stretch] = json.loads(run("quiet", "list", "--json")[1])["quiet"]
        assert (stretch["view"], stretch["reason"], stretch["ended_at"]) == ("listing", "bulk load", None)
        assert run("quiet", "end")[0] == 2, "all views are not quiet, one is"
        assert run("quiet", "end", "--view", "listing")[0] == 0
        assert "still quiet" not in run("quiet", "list")[1]

    def test_quiet_for_a_view_that_is_not_there(
        self,
        run: Run,
        deployment: Deployment,
        postgres: PostgresAddress,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        migrate(postgres)
        mine = replace(deployment, postgres=postgres, settings=Settings(data_folder=tmp_path))
        monkeypatch.setattr(Deployment, "resolve", lambda _settings: mine)
        assert run("quiet", "begin", "--view", "lsting")[0] == 0, "this machine knows no views at all"
        Registry(mine.settings.views_state).want(Wanted({"listing": WantedView("", [], 0.0, "a")}))
        code, _, err = run("quiet", "begin", "--view", "lsting")
        assert (code, 'did you mean "listing"?' in err) == (2, True)
        ids = [json.loads(run("quiet", "begin", *view, "--json")[1])["id"] for view in (["--view", "listing"], [])]
        code, out, _ = run("quiet", "end", str(ids[1]))
        assert (code, out.startswith("all views: quiet from")) == (0, True)
        code, out, _ = run("quiet", "list")
        assert [line.split()[0] for line in out.splitlines()[1:]] == [str(ids[1]), str(ids[0]), str(ids[0] - 1)]

    def test_status_warns_of_a_quiet_stretch_that_may_be_forgotten(
        self, deployment: Deployment, postgres: PostgresAddress, tmp_path: Path
    ) -> None:
        observer = Observer(replace(deployment, postgres=postgres, settings=Settings(data_folder=tmp_path)))
        assert all("quiet" not in found.detail for found in observer.look().findings), "before there are any alerts"
        migrate(postgres)
        with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
            quiet.begin(conn, "listing", "just now")
            old = quiet.begin(conn, None, "nightly import").id
            conn.execute(
                "update headwater.quiet set began_at = now() - interval '7 hours 1 minute' where id = %s", [old]
            )
        [found] = [each for each in observer.look().findings if "quiet" in each.detail]
        assert (found.level, found.name, found.hint) == ("warn", "alerts of all views", f"headwater quiet end {old}")
        assert found.detail == "are quiet since 7 h 1 min: nightly import"

    def test_what_cannot_be_is_explained(self, run: Run, postgres: PostgresAddress) -> None:
        code, _, err = run("alerts", "list")
        assert code == 1
        assert "headwater migrate up" in err
        migrate(postgres)
        code, _, err = run("alerts", "add", "listing", "prise:1")
        assert code != 0
        assert "did you mean price" in err
        assert run("alerts", "add", "listing", "*", "--set", "digest_hour=never")[0] == 2


def test_the_page_about_alerts_leaves_nothing_out() -> None:
    page = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text()
    names = [*FIELDS, *EVENTS, *CHANNELS, *(f"alerts.{name}" for name in AlertsSettings.model_fields)]
    assert [name for name in names if f"`{name}`" not in page] == []
    paths = make_app(PageServer(Deployment.of(Settings(), StackState()))).openapi()["paths"]
    mine = [path.replace("id_", "id") for path in paths if path.startswith("/v1/alerts")]
    assert len(mine) >= 6
    assert [path for path in mine if path not in page] == []
