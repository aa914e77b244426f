"""The console: who comes in and how, what its pages say with and without data, and what moves on them."""

from __future__ import annotations

import asyncio
import io
import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from http.cookies import SimpleCookie
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import httpx
import msgspec
import psycopg
import pytest
from fastapi import Request, Response
from fastapi.testclient import TestClient
from rich.console import Console as Terminal

from cdc.addresses import PostgresAddress, Source
from cdc.catalog_reader import describe
from cdc.changelog import ChangeLog
from cdc.errors import SourceUnavailable, ViewError
from cdc.events import TableName
from cdc.findings import Finding
from headwater import cli
from headwater.api.access import KNOWN_S, ApiKey, KeyStore
from headwater.audit import os_actor
from headwater.audit_store import listed, spool_file
from headwater.deployment import Deployment
from headwater.http.app import make_app
from headwater.http.feed import Feed
from headwater.http.server import PageServer
from headwater.migrate import migrate
from headwater.pages import forms, sessions
from headwater.pages.console import Console
from headwater.pages.console_panels import panels_of
from headwater.pages.gate import Gate, NotSignedIn
from headwater.pages.sessions import Sessions, ShownLink
from headwater.pages.sign_in_routes import own_path
from headwater.service.terminal import picture
from headwater.settings import Settings
from headwater.stack.state import StackState
from headwater.views.place import Place
from headwater.views.verify_history import PlaceResult, VerifyHistory, VerifyRun, Why
from headwater.views_status import SinkLine, ViewLine, ViewsStatus
from tests.headwater.test_http import free_port, status
from tests.waiting import eventually
from views.generation import Generation, GenerationState
from views.maintain.book import Book, Held
from views.maintain.orders import Answer, Order, SinkAnswer, together
from views.maintain.registry import (
    STATE,
    Epochs,
    Registry,
    Review,
    Standby,
    State,
    ViewState,
    ViewStatus,
    Wanted,
    WantedView,
)
from views.rebuild import Origin, Rebuild, RebuildState, Stage
from views.sinks.lane import LaneState, SinkStatus
from views.sinks.letters import Letters
from views.sinks.sink import Change, Refused, ViewShape

PAGES = ("", "/views", "/source", "/alerts", "/dead-letters", "/audit", "/story")
FORMS = ("/sign-out", "/dead-letters", "/deliveries", "/quiet", "/capture", "/views/card/do", "/views/card/rebuild")
WITHOUT_SERVERS = ("", "/views")
"""Those that ask nobody."""
HOSTILE = "<script>alert(1)</script>"


def settings_in(folder: Path) -> Settings:
    return Settings.model_validate(
        {
            "source": "shop",
            "data_folder": str(folder),
            "http": {"port": free_port(), "hosts": "testserver, hw.example.org"},
        }
    )


@pytest.fixture
def server(tmp_path: Path) -> PageServer:
    return PageServer(Deployment.of(settings_in(tmp_path), StackState()))


@pytest.fixture
def client(server: PageServer) -> Iterator[TestClient]:
    yield TestClient(make_app(server), follow_redirects=False)
    server.stopping.set()


@pytest.fixture
def links(server: PageServer) -> Sessions:
    return Sessions(server.deployment.settings.data_folder)


def post(client: TestClient, path: str, headers: dict[str, str] | None = None, **fields: str) -> httpx.Response:
    return client.post(path, content=urlencode(fields), headers={"Content-Type": forms.TYPE, **(headers or {})})


def token_in(page: str) -> str:
    found = re.search(r'name="form_token" value="([^"]+)"', page)
    assert found, page
    return found[1]


def enter(client: TestClient, link: str) -> httpx.Response:
    page = client.get(f"/console/enter?link={link}")
    return post(client, "/console/enter", form_token=token_in(page.text), link=link)


@pytest.fixture
def signed_in(client: TestClient, links: Sessions) -> TestClient:
    assert enter(client, links.make_link("os:ann")).status_code == 303
    return client


def busy(*findings: Finding) -> ViewsStatus:
    return ViewsStatus(
        True,
        (
            ViewLine("card", "live", "", "g", None, "0/16", 0.4),
            ViewLine("late", "building", HOSTILE, "g", 0.25, "0/10", 9.0),
        ),
        Epochs(count=5, changes=1_234, behind_p50_ms=210.0, behind_p99_ms=400.0),
        None,
        (
            SinkLine("card", "cache", "riding", "", 0, 0, 300.0, 20.0),
            SinkLine("card", "search", "down", HOSTILE, 7, 3),
        ),
    )


# The door


@pytest.mark.parametrize("page", [*PAGES, "/views/card"])
def test_nobody_comes_in_without_signing_in(client: TestClient, page: str) -> None:
    answer = client.get(f"/console{page}?a=1")
    assert answer.status_code == 303
    wanted = urlsplit(answer.headers["Location"])
    assert wanted.path.endswith("console/sign-in")
    assert parse_qs(wanted.query)["to"] == [f"console{page}?a=1"]


def test_a_stream_says_that_it_needs_signing_in(client: TestClient) -> None:
    answer = client.get("/console/live", headers={"Accept": "text/event-stream"})
    assert answer.status_code == 401


def test_a_cookie_that_we_did_not_make_opens_nothing(client: TestClient, server: PageServer, links: Sessions) -> None:
    enter(client, links.make_link("os:ann"))
    [name] = [
        name
        for name in client.cookies
        if name.startswith("headwater_console_") and name.count("_") == 2 and "form" not in name
    ]
    client.cookies.set(name, "x" * 43)
    assert client.get("/console").status_code == 303
    client.cookies.set(name, "../../etc/passwd")
    assert client.get("/console").status_code == 303


def test_a_link_signs_in_once(client: TestClient, links: Sessions) -> None:
    link = links.make_link("os:ann")
    for _ in range(3):
        assert client.get(f"/console/enter?link={link}").status_code == 200, "looking at it does not use it up"
    assert enter(client, link).status_code == 303
    assert "Signed in as os:ann" in client.get("/console").text
    client.cookies.clear()
    answer = enter(client, link)
    assert answer.status_code == 401
    assert "used already" in answer.text
    assert client.get("/console").status_code == 303


def traces(folder: Path) -> list[tuple[str, str, str, dict[str, str]]]:
    """Of ends; they wait in the file, because there is no database."""
    found = [json.loads(line) for line in spool_file(settings_in(folder)).read_text().splitlines()]
    return [
        (each["verb"], each["event"], each["actor"], each["arguments"]) for each in found if each["event"] != "began"
    ]


def test_who_signs_in_is_traced(client: TestClient, links: Sessions, tmp_path: Path) -> None:
    link = links.make_link("os:ann")
    assert enter(client, link).status_code == 303
    assert traces(tmp_path) == [("console sign-in", "done", "os:ann", {"by": "link"})]
    enter(client, link)
    assert len(traces(tmp_path)) == 1, "nobody came in"
    assert link not in spool_file(settings_in(tmp_path)).read_text()


def test_a_link_of_yesterday_signs_nobody_in(client: TestClient, links: Sessions) -> None:
    links._links.clock = lambda: 1.0
    assert enter(client, links.make_link("os:ann")).status_code == 401


def test_the_cookie_is_out_of_reach(client: TestClient, links: Sessions) -> None:
    def flags(address: str) -> list[dict[str, str]]:
        under = TestClient(client.app, base_url=address, follow_redirects=False)
        cookies = SimpleCookie()
        for header in enter(under, links.make_link("os:ann")).headers.get_list("set-cookie"):
            cookies.load(header)
        return [dict(each) for each in cookies.values()]

    for each in flags("http://127.0.0.1:1"):
        assert each["httponly"]
        assert each["samesite"] == "strict"
        assert not each["secure"], "on loopback there is no TLS"
    assert all(each["secure"] for each in flags("https://hw.example.org"))


def test_what_is_kept_of_a_session_tells_no_secret(client: TestClient, links: Sessions, tmp_path: Path) -> None:
    link = links.make_link("os:ann")
    enter(client, link)
    files = list((tmp_path / sessions.FOLDER).iterdir())
    assert files
    secrets = [link, *client.cookies.values()]
    for file in files:
        assert file.stat().st_mode & 0o077 == 0
        assert not any(secret in file.read_text() or secret in file.name for secret in secrets)


def test_two_headwaters_of_one_machine_keep_their_cookies_apart(
    client: TestClient, links: Sessions, tmp_path: Path
) -> None:
    other = PageServer(Deployment.of(settings_in(tmp_path / "other"), StackState()))
    enter(client, links.make_link("os:ann"))
    mine = set(client.cookies)
    there = TestClient(make_app(other), follow_redirects=False)
    enter(there, Sessions(tmp_path / "other").make_link("os:ann"))
    assert {name for name in mine if "form" not in name} & set(there.cookies) == set()


@pytest.mark.parametrize("path", ["/console/sign-in", "/console/enter"])
def test_a_sign_in_form_of_nobody_is_refused(client: TestClient, links: Sessions, path: str) -> None:
    link = links.make_link("os:ann")
    assert post(client, path, link=link, key="hw_x").status_code == 403, "no form was asked for"
    client.get(path)
    assert post(client, path, link=link, key="hw_x", form_token="guessed").status_code == 403
    token = token_in(client.get(path).text)
    evil = {"Origin": "https://evil.example.org"}
    assert post(client, path, evil, link=link, key="hw_x", form_token=token).status_code == 403
    assert enter(client, link).status_code == 303, "nothing was used up"


def test_signing_out_ends_the_session_everywhere(signed_in: TestClient) -> None:
    page = signed_in.get("/console").text
    kept = dict(signed_in.cookies)
    assert post(signed_in, "/console/sign-out").status_code == 403, "a form without its token does nothing"
    assert signed_in.get("/console").status_code == 200
    assert post(signed_in, "/console/sign-out", form_token=token_in(page)).status_code == 303
    assert signed_in.get("/console").status_code == 303
    for name, value in kept.items():
        signed_in.cookies.set(name, value)
    assert signed_in.get("/console").status_code == 303, "also for who has kept the cookie"


@pytest.mark.parametrize(
    ("asked", "goes_to"),
    [
        ("console/views/card?x=1", "console/views/card?x=1"),
        ("console", "console"),
        ("", "console"),
        ("//evil.example.org", "console"),
        ("https://evil.example.org", "console"),
        ("console//evil", "console"),
        ("console/../../x", "console"),
        ("consolex", "console"),
        ("console\\evil", "console"),
        ("console\r\nSet-Cookie: a", "console"),
    ],
)
def test_signing_in_leads_to_pages_of_the_console_only(asked: str, goes_to: str) -> None:
    assert own_path(asked) == goes_to


def test_the_link_on_the_terminal_is_made_anew_when_it_was_used(links: Sessions) -> None:
    shown = ShownLink(links, "os:ann")
    first = shown.secret()
    assert shown.secret() == first
    assert links.enter(first) is not None
    second = shown.secret()
    assert second != first
    assert links.enter(second) is not None


def test_old_links_do_not_pile_up(links: Sessions, tmp_path: Path) -> None:
    for _ in range(sessions.LINKS_MAX + 5):
        last = links.make_link("os:ann")
    assert len(list((tmp_path / sessions.FOLDER).iterdir())) == sessions.LINKS_MAX
    assert links.enter(last) is not None


@pytest.mark.parametrize("path", FORMS)
def test_nothing_is_done_without_a_session_and_its_token(client: TestClient, links: Sessions, path: str) -> None:
    assert post(client, f"/console{path}", form_token="x", id="1", do="drop").status_code == 401
    enter(client, links.make_link("os:ann"))
    assert post(client, f"/console{path}", id="1", do="drop").status_code == 403
    assert post(client, f"/console{path}", form_token="guessed", id="1", do="drop").status_code == 403
    token = token_in(client.get("/console").text)
    evil = {"Sec-Fetch-Site": "cross-site"}
    assert post(client, f"/console{path}", evil, form_token=token, id="1", do="drop").status_code == 403


def test_the_command_prints_a_link_that_works(
    served: httpx.Client, server: PageServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = server.deployment.settings
    monkeypatch.setenv("HEADWATER_DATA_FOLDER", str(settings.data_folder))
    monkeypatch.setenv("HEADWATER_HTTP__PORT", str(settings.http.port))
    assert cli.run(["console", "--json"]) == 0
    link = json.loads(capsys.readouterr().out)["link"]
    assert link.startswith(server.url)
    with httpx.Client() as other:
        token = token_in(other.get(link).text)
        secret = parse_qs(urlsplit(link).query)["link"][0]
        fields = {"form_token": token, "link": secret}
        assert other.post(f"{server.url}console/enter", data=fields).status_code == 303
        assert other.get(f"{server.url}console").status_code == 200
    told = [(verb, event, actor) for verb, event, actor, _ in traces(settings.data_folder)[-2:]]
    assert told == [("console link", "done", os_actor()), ("console sign-in", "done", os_actor())]


def test_no_link_is_made_where_nobody_would_take_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWATER_DATA_FOLDER", str(tmp_path))
    monkeypatch.setenv("HEADWATER_HTTP__PORT", str(free_port()))
    assert cli.run(["console"]) == 1
    assert "headwater up" in capsys.readouterr().err
    assert not (tmp_path / sessions.FOLDER).exists()


def test_the_terminal_shows_the_link() -> None:
    shown = Terminal(width=200, record=True, file=io.StringIO())
    shown.print(picture(status(), "http://x/", "", "http://x/console/enter?link=abc"))
    assert "http://x/console/enter?link=abc" in shown.export_text()


# Pages


@pytest.mark.parametrize("page", WITHOUT_SERVERS)
def test_pages_are_whole_before_the_first_look(signed_in: TestClient, page: str) -> None:
    answer = signed_in.get(f"/console{page}")
    assert answer.status_code == 200
    assert "nobody has looked yet" in answer.text
    assert_accessible(answer.text)


@pytest.mark.parametrize("page", WITHOUT_SERVERS)
def test_pages_show_what_was_seen_and_escape_it(signed_in: TestClient, server: PageServer, page: str) -> None:
    server.status = replace(status(Finding("fail", HOSTILE, HOSTILE, HOSTILE)), views=busy())
    text = signed_in.get(f"/console{page}").text
    assert "<script>alert" not in text
    assert "&lt;script&gt;" in text
    assert "1 thing fails" in text
    assert_accessible(text)


def test_the_overview_draws_the_path_with_its_lags(signed_in: TestClient, server: PageServer) -> None:
    server.status = replace(status(), views=busy())
    text = signed_in.get("/console").text
    for told in ("Source", "Postgres", "Log", "Views", "1 of 2 live", "Cache", "320 ms after the commit", "Search"):
        assert told in text
    assert "210 ms" in text, "log to view"
    assert "7 changes to come" in text
    assert "3 refused" in text


def test_a_view_that_there_is_not_is_a_page(signed_in: TestClient) -> None:
    answer = signed_in.get("/console/views/nothing")
    assert answer.status_code == 400
    assert "No view nothing" in answer.text
    assert answer.headers["Content-Type"].startswith("text/html")


BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("/console/nope", 404, "There is no such page"),
        ("/nope/<script>", 404, "/nope/&lt;script&gt;"),
        ("/console/sign-out", 405, "the address of a form"),
        ("/alerts/abc", 400, "No page has that address"),
        ("/inbox?before=x", 400, "before: Input should be a valid integer"),
    ],
)
def test_who_goes_astray_in_a_browser_gets_a_page(client: TestClient, path: str, status: int, told: str) -> None:
    answer = client.get(path, headers=BROWSER)
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, "text/html; charset=utf-8")
    assert told in answer.text
    assert "<script>" not in answer.text
    assert_accessible(answer.text)


def test_programs_go_astray_in_json(client: TestClient) -> None:
    assert client.get("/console/nope").json() == {"detail": "Not Found"}
    assert client.get("/v1/nope", headers=BROWSER).json() == {"detail": "Not Found"}
    assert client.post("/livez").headers["Allow"] == "GET"


@pytest.mark.parametrize("path", ["/console/?a=1&b=%20", "/console/views/c%3Fd/", "/v1/status/"])
def test_a_slash_too_many_is_left_out_wherever_the_proxy_is(client: TestClient, path: str) -> None:
    answer = client.get(path, headers={"Host": "hw.example.org"})
    assert answer.status_code == 307
    bare, _, query = path.partition("?")
    for prefix in ("https://hw.example.org", "https://hw.example.org:8443/headwater"):
        there = urljoin(prefix + path, answer.headers["Location"])
        assert there == prefix + bare.rstrip("/") + (f"?{query}" if query else "")
    for nothing in ("/console/nope/", "/console//", "//evil.example.org//", "//"):
        assert client.get(f"http://testserver{nothing}").status_code == 404, nothing


def assert_accessible(text: str) -> None:
    """What can be told without a browser: landmarks, names, captions, labels."""
    assert '<html lang="en">' in text
    assert text.count("<main ") == text.count("<h1") == 1
    assert 'class="skip" href="#main"' in text
    assert text.count("<table") == text.count("<caption")
    for button in re.findall(r"<button[^>]*>(.*?)</button>", text, re.DOTALL):
        assert re.sub(r"<[^>]+>", "", button).strip() or "<svg" in button
    for field in re.findall(r"<(?:input|select|textarea) [^>]*>", text):
        hidden = 'type="hidden"' in field
        name = re.search(r' id="([^"]+)"', field)
        assert hidden or "aria-label" in field or (name and f'for="{name[1]}"' in text), field
    assert " style=" not in text
    assert not re.search(r" on[a-z]+=", text)
    for form in re.findall(r'<form method="post".*?</form>', text, re.DOTALL):
        assert 'name="form_token"' in form


# What is asked before


@pytest.mark.parametrize(
    ("path", "fields", "question"),
    [
        ("views/card/do", {"do": "switch", "sink": "cache", "number": "3"}, "card (cache) to generation 3?"),
        ("views/card/do", {"do": "rollback", "sink": "cache"}, "Send the readers of card (cache) back?"),
        ("views/card/do", {"do": "restore"}, "the definition back that they left?"),
        ("views/card/do", {"do": "cancel", "rebuild": "r1"}, "Give the rebuild of card up?"),
        ("views/card/do", {"do": "retire", "sink": "cache", "number": "2"}, "Remove generation 2 of the cache?"),
        ("views/card/do", {"do": "pause", "with": "shelf"}, "Stop keeping card, shelf and all their sinks?"),
        ("views/card/do", {"do": "pause", "sink": HOSTILE}, "Stop feeding the &lt;script&gt;"),
        ("views/card/do", {"do": "pause", "sink": "alerts"}, "Nobody is told of a match until it goes on."),
        ("views/card/do", {"do": "approve"}, "Show the readers of card the new rows?"),
        ("views/card/do", {"do": "reject"}, "let go of what was built?"),
        ("dead-letters", {"do": "drop", "id": "abc@5"}, "Drop the chosen letters"),
        ("capture", {"do": "pause"}, "Stop reading?"),
        ("capture", {"do": "restart"}, "Stop the connector"),
    ],
)
def test_without_a_script_the_server_asks(
    signed_in: TestClient, monkeypatch: pytest.MonkeyPatch, path: str, fields: dict[str, str], question: str
) -> None:
    verbs = note_what_is_done(monkeypatch)
    token = token_in(signed_in.get("/console").text)
    answer = post(signed_in, f"/console/{path}", form_token=token, **fields)
    assert (answer.status_code, verbs) == (200, [])
    assert question in answer.text
    assert HOSTILE not in answer.text
    assert_accessible(answer.text)
    [form] = re.findall(r'<form class="card row".*?</form>', answer.text, re.DOTALL)
    said = {unescape(name): unescape(value) for name, value in re.findall(r'name="([^"]*)" value="([^"]*)"', form)}
    assert said == {**fields, "form_token": token, "asked": "yes"}
    assert post(signed_in, f"/console/{path}", **said).status_code == 204
    assert len(verbs) == 1


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("views/card/do", {"do": "hold", "rebuild": "r1"}),
        ("views/card/do", {"do": "resume"}),
        ("views/card/do", {"do": "verify"}),
        ("dead-letters", {"do": "replay", "id": "abc@5"}),
        ("capture", {"do": "resume"}),
    ],
)
def test_what_takes_nothing_away_is_done_at_once(
    signed_in: TestClient, monkeypatch: pytest.MonkeyPatch, path: str, fields: dict[str, str]
) -> None:
    verbs = note_what_is_done(monkeypatch)
    token = token_in(signed_in.get("/console").text)
    assert post(signed_in, f"/console/{path}", form_token=token, **fields).status_code == 204
    assert len(verbs) == 1


def test_what_is_done_is_what_the_page_showed(
    signed_in: TestClient, server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent twice, or by two people, a form does not do more than it said."""
    registry = Registry(server.deployment.settings.views_state)
    text = "create materialized view card as select id from makers"
    used, changed = WantedView(text, [], 1.0, "b"), WantedView(f"{text} ", [], 2.1, "c", is_reviewed=False)
    registry.want(Wanted({"card": msgspec.structs.replace(changed, previous=used)}))
    registry.note(
        State(
            time.time(),
            views={"card": ViewStatus(ViewState.READY, "g", 2.1)},
            standbys=[Standby("card", "g7", 1.0, 9.0, is_ready=True)],
        )
    )
    generations = (
        Generation("card", "cache", 2, GenerationState.LIVE, 5.0),
        Generation("card", "cache", 1, GenerationState.STANDBY, 5.0),
    )
    ready = Rebuild("r2", "card", "search", 3, Origin.TOPIC, 1.0, stage=Stage.SWITCH, state=RebuildState.READY)
    registry.note_book(Book(generations, (ready,)))
    given: list[Order] = []

    def answered(place: Place, order: Order) -> Answer:
        given.append(order)
        return Answer(order.id, True, "done")

    monkeypatch.setattr("headwater.rebuilds.answered", answered)
    token = token_in(signed_in.get("/console").text)
    console = Console(server, Feed(ChangeLog(server.deployment.kafka, server.deployment.source), Event()))
    panels = "".join(each.html("./") for each in panels_of(console, "view", "card", token))
    shown = {}
    for form in re.findall(r"<form .*?</form>", panels, re.DOTALL):
        fields = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', form))
        shown[fields["do"]] = {**fields, "asked": "yes"}
    for do in ("switch", "rollback"):
        post(signed_in, "/console/views/card/do", **shown[do])
    assert [(each.verb, each.sink, each.number) for each in given] == [
        ("switch", "search", 3),
        ("rollback", "cache", 1),
    ]
    for do, field, other in (
        ("restore", "group", "g6"),
        ("approve", "applied_at_s", "2.0"),
        ("reject", "applied_at_s", "2.0"),
    ):
        assert shown[do][field] in ("g7", "2.1")
        post(signed_in, "/console/views/card/do", **{**shown[do], field: other})
        assert "view card changed since you looked" in signed_in.get("/console").text.lower(), do
    post(signed_in, "/console/views/card/do", **shown["approve"])
    assert registry.wanted().views["card"].is_reviewed
    for wrong in ({"number": "9" * 5_000}, {"number": "x"}):
        assert post(signed_in, "/console/views/card/do", **{**shown["rollback"], **wrong}).status_code == 400
    assert post(signed_in, "/console/views/card/do", **{**shown["reject"], "applied_at_s": "x"}).status_code == 400


@pytest.mark.parametrize("error", [ViewError("no verdict", detail=HOSTILE, hint="headwater views"), OSError(HOSTILE)])
def test_work_that_failed_says_so_until_the_next_begins(
    signed_in: TestClient, server: PageServer, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    made: list[Console] = []
    monkeypatch.setattr("headwater.http.app.Console", lambda *given: made.append(Console(*given)) or made[0])
    client = TestClient(make_app(server), cookies=signed_in.cookies, follow_redirects=False)
    [console] = made
    monkeypatch.setattr(console.kept, "view", lambda name: None)
    ended, goes_on = Event(), Event()

    def verify_apart(*_given: object) -> bool:
        if ended.is_set():
            return goes_on.wait(60)
        raise error

    monkeypatch.setattr("headwater.pages.generation_routes.verify_apart", verify_apart)
    token = token_in(client.get("/console").text)

    def shown() -> str:
        [panel] = [each for each in panels_of(console, "view", "card", token) if each.name == "generations"]
        return panel.html("./")

    assert "failed" not in shown()
    post(client, "/console/views/card/do", form_token=token, do="verify")
    eventually(lambda: "The verification that was begun here failed" in shown())
    assert "&lt;script&gt;" in shown()
    assert HOSTILE not in shown()
    assert "Verify every row now" in shown(), "and can be tried again"
    ended.set()
    post(client, "/console/views/card/do", form_token=token, do="verify")
    assert "being verified" in shown()
    assert "failed" not in shown()
    goes_on.set()
    eventually(lambda: "being verified" not in shown())
    assert "failed" not in shown()


def note_what_is_done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    verbs: list[str] = []

    async def done(
        _console: object, _request: object, _session: object, verb: str, *_: object, **__: object
    ) -> Response:
        verbs.append(verb)
        return Response(status_code=204)

    for name in ("capture_routes", "console_actions", "generation_routes"):
        monkeypatch.setattr(f"headwater.pages.{name}.done", done)
    return verbs


# What moves


@pytest.fixture
def served(server: PageServer, links: Sessions) -> Iterator[httpx.Client]:
    """For real, signed in: a stream has no end."""
    with server.running(), httpx.Client(base_url=server.url, timeout=30) as client:
        page = client.get("console/enter", params={"link": links.make_link("os:ann")})
        fields = {"form_token": token_in(page.text), "link": parse_qs(urlsplit(str(page.url)).query)["link"][0]}
        assert client.post("console/enter", data=fields).status_code == 303
        yield client


def events(answer: httpx.Response) -> Iterator[tuple[str, str, object]]:
    name = id_ = ""
    for line in answer.iter_lines():
        if line.startswith("id: "):
            id_ = line.removeprefix("id: ")
        elif line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, id_, json.loads(line.removeprefix("data: "))


def test_the_stream_tells_what_changed_and_goes_on_after_a_cut(served: httpx.Client, server: PageServer) -> None:
    server.status = replace(status(), views=busy())
    with served.stream("GET", "console/live", params={"page": "overview", "root": "./"}) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        assert answer.headers["X-Accel-Buffering"] == "no"
        assert "no-transform" in answer.headers["Cache-Control"]
        stream = events(answer)
        panels, last = {}, ""
        while {"health", "path", "findings", "servers", "changes"} - set(panels) or not last:
            name, id_, told = next(stream)
            if name == "panel":
                assert isinstance(told, dict)
                panels[told["name"]] = told["html"]
            else:
                assert isinstance(told, list)
                assert told[-1]["cache_ms"] == 320.0
                last = id_
        assert "healthy" in panels["health"]
        server.status = replace(
            status(Finding("fail", "redis", "down", "")), at=server.status.at + timedelta(seconds=1)
        )
        assert "1 thing fails" in next(
            told["html"]
            for name, _, told in stream
            if name == "panel" and told["name"] == "health"  # type: ignore[index,call-overload]
        )
    headers = {"Last-Event-ID": last}
    with served.stream("GET", "console/live", params={"page": "overview"}, headers=headers) as answer:
        points = next(told for name, _, told in events(answer) if name == "points")
        assert isinstance(points, list)
        assert len(points) == 1, "the one that was missed"


def test_a_stream_that_has_nothing_to_say_beats(served: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.pages.panels.BEAT_S", 0.2)
    with served.stream("GET", "console/live", params={"page": "views"}) as answer:
        assert next(line for line in answer.iter_lines() if line.startswith(":"))


def test_a_panel_that_fails_says_so_in_its_place_and_the_others_go_on(
    served: httpx.Client, server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry(server.deployment.settings.views_state)
    registry.folder.mkdir(parents=True)
    registry.note(State())
    damaged = registry.folder / STATE
    whole = damaged.read_bytes()
    damaged.write_bytes(b"{")
    monkeypatch.setattr("headwater.rebuilds.book", lambda *given: {}[HOSTILE])
    with served.stream("GET", "console/live", params={"page": "view", "view": "card", "root": "../../"}) as answer:
        stream = events(answer)

        def until(name: str, told: str) -> str:
            panels = (each for kind, _, each in stream if kind == "panel" and isinstance(each, dict))
            return next(each["html"] for each in panels if each["name"] == name and told in each["html"])

        until("health", "nobody has looked yet")
        assert 'role="alert"' in until("review", str(damaged))
        assert "last commit included" in until("view-state", "").lower(), "what reads no state file"
        failed = until("generations", "This part of the page cannot be shown")
        assert "<script>" not in failed
        assert "KeyError" in failed
        damaged.write_bytes(whole)
        assert until("review", "").strip() == "", "it is whole again, on the same stream"
        server.status = status()
        until("health", "healthy")


def test_a_page_is_there_without_a_part_that_fails(
    signed_in: TestClient, server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.status = replace(status(), views=busy())
    monkeypatch.setattr("headwater.pages.console_panels.view_kind", None)
    answer = signed_in.get("/console/views")
    assert answer.status_code == 200
    assert "This part of the page cannot be shown" in answer.text
    assert_accessible(answer.text)


def test_no_stream_holds_up_the_end(served: httpx.Client, server: PageServer) -> None:
    with served.stream("GET", "console/live") as answer:
        lines = answer.iter_lines()
        next(lines)
        server.stopping.set()
        assert list(lines) is not None, "it ends by itself"


def test_actions_that_hang_keep_nobody_waiting_who_reads(server: PageServer) -> None:
    console, let_go = (
        Console(server, Feed(ChangeLog(server.deployment.kafka, server.deployment.source), Event())),
        Event(),
    )

    async def ask() -> str:
        hanging = [asyncio.ensure_future(console.away(lambda: let_go.wait(60))) for _ in range(40)]
        try:
            async with asyncio.timeout(30):
                return await asyncio.to_thread(lambda: "answered")
        finally:
            let_go.set()
            await asyncio.gather(*hanging)

    assert asyncio.run(ask()) == "answered"


# With the real servers


@pytest.fixture
def real(deployment: Deployment, postgres: PostgresAddress, source: Source, tmp_path: Path) -> Iterator[TestClient]:
    migrate(postgres)
    page = PageServer(replace(deployment, settings=settings_in(tmp_path), source=source, postgres=postgres))
    page.status = replace(status(), views=busy())
    yield TestClient(make_app(page), follow_redirects=False)
    page.stopping.set()


def sign_in(client: TestClient, key: str, to: str = "") -> httpx.Response:
    token = token_in(client.get("/console/sign-in").text)
    return post(client, "/console/sign-in", key=key, to=to, form_token=token)


@pytest.mark.stack
def test_an_admin_key_opens_the_console_until_it_is_revoked(
    real: TestClient,
    deployment: Deployment,
    postgres: PostgresAddress,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headwater.pages.gate.KNOWN_S", 0.0)
    keys = KeyStore(postgres)
    for wrong in ("", "hw_0_nothing", keys.create(["read", "alerts"])[1]):
        answer = sign_in(real, wrong)
        assert answer.status_code == 401, wrong
        assert real.get("/console").status_code == 303
    assert "scope admin" in answer.text
    key, text = keys.create(["admin"], label="Ann")
    answer = sign_in(real, text, "console/views")
    assert (answer.status_code, answer.headers["Location"]) == (303, "../console/views")
    assert f"key:{key.id} (Ann)" in real.get("/console").text
    [trace] = listed(replace(deployment, postgres=postgres, settings=settings_in(tmp_path)))
    assert (trace.verb, trace.actor, trace.arguments) == ("console sign-in", f"key:{key.id} (Ann)", {"by": "key"})
    keys.revoke(key.id)
    assert real.get("/console").status_code == 303


@pytest.mark.stack
def test_an_outage_of_the_database_is_looked_at_by_who_signed_in_by_a_key(
    real: TestClient, postgres: PostgresAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.pages.gate.KNOWN_S", 0.0)
    by_id, asked = KeyStore.by_id, [postgres]
    monkeypatch.setattr(KeyStore, "by_id", lambda _store, id_: by_id(KeyStore(asked[-1]), id_))
    key, text = KeyStore(postgres).create(["admin"])
    sign_in(real, text)
    assert real.get("/console").status_code == 200
    asked.append(replace(postgres, port=1))
    assert real.get("/console").status_code == 200
    with monkeypatch.context() as at_last:
        at_last.setattr("headwater.pages.gate.UNASKED_S_MAX", 0.0)
        assert real.get("/console").status_code == 503
    asked.append(postgres)
    KeyStore(postgres).revoke(key.id)
    assert real.get("/console").status_code == 303


def test_a_key_is_not_trusted_beyond_what_is_known_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While nobody can be asked: not past its end, nor by a process that never saw it; and one that hangs is spared."""
    now, asked = [0.0], list[str]()
    monkeypatch.setattr("headwater.pages.gate.time", SimpleNamespace(monotonic=lambda: now[0]))
    ends = ApiKey("ends", ("admin",), "", datetime.now(UTC), expires_at=datetime.now(UTC) + timedelta(hours=1))

    def away(id_: str) -> ApiKey:
        asked.append(id_)
        raise SourceUnavailable("away")

    def admitted(gate: Gate) -> str:
        cookie = f"{gate.cookie}={Sessions(tmp_path).begin('key:ends', 'ends')}"
        return asyncio.run(gate.admit(Request({"type": "http", "headers": [(b"cookie", cookie.encode())]}))).key

    stores: list[Any] = [SimpleNamespace(by_id=by_id) for by_id in (away, lambda _id: ends)]
    fresh, gate = (Gate(Sessions(tmp_path), store, tmp_path) for store in stores)
    with pytest.raises(SourceUnavailable):
        admitted(fresh)
    assert admitted(gate) == "ends"
    gate.keys = fresh.keys
    asked.clear()
    now[0] += KNOWN_S + 1
    for _ in range(3):
        assert admitted(gate) == "ends"
    assert asked == ["ends"]
    later = datetime.now(UTC) + timedelta(hours=2)
    monkeypatch.setattr("headwater.pages.gate.datetime", SimpleNamespace(now=lambda _zone: later))
    with pytest.raises(NotSignedIn):
        admitted(gate)


@pytest.mark.stack
def test_a_stream_ends_with_its_key(
    deployment: Deployment, postgres: PostgresAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.pages.gate.KNOWN_S", 0.0)
    monkeypatch.setattr("headwater.pages.panels.BEAT_S", 0.1)
    migrate(postgres)
    page, keys = PageServer(replace(deployment, settings=settings_in(tmp_path), postgres=postgres)), KeyStore(postgres)
    key, text = keys.create(["admin"])
    with page.running(), httpx.Client(base_url=page.url, timeout=30) as client:
        token = token_in(client.get("console/sign-in").text)
        client.post("console/sign-in", data={"key": text, "to": "", "form_token": token})
        with client.stream("GET", "console/live") as answer:
            lines = answer.iter_lines()
            assert next(lines).startswith("retry")
            keys.revoke(key.id)
            assert list(lines) is not None, "it ends by itself"


@pytest.mark.stack
@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_there_before_anything_has_happened(
    real: TestClient, postgres: PostgresAddress, page: str
) -> None:
    _, text = KeyStore(postgres).create(["admin"])
    sign_in(real, text)
    answer = real.get(f"/console{page}")
    assert answer.status_code == 200, answer.text
    assert_accessible(answer.text)


@pytest.mark.stack
def test_what_is_done_is_traced_under_the_name_of_who_did_it(real: TestClient, postgres: PostgresAddress) -> None:
    key, text = KeyStore(postgres).create(["admin"])
    sign_in(real, text)
    token = token_in(real.get("/console").text)
    answer = post(real, "/console/quiet", form_token=token, do="begin", view="card", reason=HOSTILE)
    assert (answer.status_code, answer.headers["Location"]) == (303, "../console/alerts")
    page = real.get("/console/alerts").text
    assert "card is quiet" in page
    assert "quiet now" in page
    assert HOSTILE not in page
    assert "card is quiet" not in real.get("/console/alerts").text, "it is said once"
    post(real, "/console/quiet", form_token=token, do="begin", view="card", reason="another's")
    first, second = sorted(re.findall(r'name="id" value="(\d+)"', real.get("/console/alerts").text), key=int)
    post(real, "/console/quiet", form_token=token, do="end", id=second)
    assert "card stays quiet, by 1 more" in real.get("/console/alerts").text
    post(real, "/console/quiet", form_token=token, do="end", id=first)
    page = real.get("/console/alerts").text
    assert "card is told of again" in page
    assert "quiet now" not in page
    post(real, "/console/quiet", form_token=token, do="end", view="card")
    assert "card is not quiet" in real.get("/console/alerts").text, "what went wrong is said, too"
    audit = real.get("/console/audit").text
    assert audit.count(f"key:{key.id}") >= 3
    assert "quiet begin" in audit
    assert HOSTILE not in audit
    assert_accessible(audit)


def letter_in(page: str) -> str:
    [letter] = re.findall(r'name="id" value="([0-9a-f]+@[0-9]+)"', page)
    return str(letter)


@pytest.mark.stack
def test_a_dead_letter_is_dropped_by_its_form(
    real: TestClient, deployment: Deployment, source: Source, postgres: PostgresAddress
) -> None:
    letters = Letters(deployment.kafka, source)
    shape = ViewShape(source.name, "card", (), ("id",))
    letters.tell(shape, "search", 1, [Refused(Change(b'{"id":7}', b'{"id":7}', 3), HOSTILE)])
    _, text = KeyStore(postgres).create(["admin"])
    sign_in(real, text)
    page = real.get("/console/dead-letters").text
    assert "1 open" in page
    assert HOSTILE not in page
    assert_accessible(page)
    token = token_in(page)
    for id_ in (None, "", "@3", letter_in(page).partition("@")[0]):
        fields = {} if id_ is None else {"id": id_}
        answer = post(real, "/console/dead-letters", form_token=token, do="drop", asked="yes", **fields)
        page = real.get("/console/dead-letters").text
        assert (answer.status_code == 400 or "an id is empty" in page.lower(), "1 open" in page) == (True, True), id_
    old = letter_in(page)
    letters.tell(shape, "search", 1, [Refused(Change(b'{"id":7}', b'{"id":7, "n": 2}', 9), "a newer row")])
    for do in ("drop", "replay"):
        post(real, "/console/dead-letters", form_token=token, do=do, id=old, asked="yes")
        page = real.get("/console/dead-letters").text
        assert "is about a newer row now" in page, "nobody has seen what it is about"
        assert "1 open" in page
    letter = letter_in(page)
    assert post(real, "/console/dead-letters", form_token=token, do="drop", id=letter, asked="yes").status_code == 303
    page = real.get("/console/dead-letters").text
    assert "1 dropped" in page
    assert "No dead letters" in page


CARD = "CREATE MATERIALIZED VIEW card WITH (key = 'id', sinks = 'cache, search') AS SELECT id, name FROM makers"


@pytest.fixture
def kept(real: TestClient, postgres: PostgresAddress, tmp_path: Path) -> Registry:
    """A view that was applied, of which nobody has made anything yet; and somebody who is signed in."""
    with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
        conn.execute("create table makers (id int primary key, name text)")
        tables = describe(conn, [TableName("public", "makers")])
    registry = Registry(tmp_path / "views")
    registry.want(Wanted({"card": WantedView(CARD, tables, 1.0, "b")}))
    sign_in(real, KeyStore(postgres).create(["admin"])[1])
    return registry


@pytest.mark.stack
def test_a_view_shows_its_plan_and_its_generations(real: TestClient, kept: Registry) -> None:
    running = Rebuild(
        "r1", "card", "search", 2, Origin.LOG, 1.0, stage=Stage.FILL, done=250, total=1_000, rows_per_s=50
    )
    ready = Rebuild("r2", "card", "cache", 3, Origin.TOPIC, 1.0, stage=Stage.SWITCH, state=RebuildState.READY)
    failed = Rebuild(
        "r0", "card", "search", 1, Origin.TOPIC, 1.0, state=RebuildState.FAILED, ended_at_s=3.0, reason=HOSTILE
    )
    kept.note_book(
        Book(
            (
                Generation("card", "cache", 2, GenerationState.LIVE, 5.0),
                Generation("card", "cache", 1, GenerationState.STANDBY, 5.0, keep_until_s=9.0),
                Generation("card", "search", 1, GenerationState.LIVE, 5.0),
                Generation("other", "search", 7, GenerationState.STANDBY, 5.0),
            ),
            (failed, running, ready),
        )
    )
    history = VerifyHistory(kept.folder)
    history.add(VerifyRun("card", Why.ON_DEMAND, "os:ann", 1, 0.1, (PlaceResult("view", 0, note="nobody keeps it"),)))
    down = SinkStatus("card", "cache", LaneState.DOWN, 1, reason=HOSTILE, stale="it is down", stale_since_s=7.0)
    kept.note(State(1.0, beside=[down]))
    text = real.get("/console/views/card").text
    assert_accessible(text)
    assert HOSTILE not in text
    assert "not all looked at" in text
    assert '<span class="badge ok">equal</span>' not in text, "what was not looked at is not equal"
    assert '<svg class="plan"' in text
    assert '<span class="sql-word">SELECT</span>' in text
    assert "250 of 1,000 records, 25 %" in text
    assert "about 15.0 s left" in text
    assert re.search(r'<li class="past">compute.*?<li class="now" aria-current="step">fill', text, re.DOTALL)
    assert text.count(">Hold<") == text.count(">Switch readers to it<") == text.count(">Roll back to it<") == 1
    assert "kept fed until 1970-01-01 00:00:09 UTC" in text
    assert "not fed" in text
    assert "since 1970-01-01 00:00:07 UTC: it is down: &lt;script&gt;" in text


@pytest.mark.stack
def test_who_did_not_go_back_is_told_beside_who_did(
    real: TestClient, kept: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    went = SinkAnswer("cache", 1, True, "readers of the cache use generation 1 again")
    stays = SinkAnswer("search", 1, False, "generation 1 of the search is behind", "it is down")
    monkeypatch.setattr("headwater.rebuilds.answered", lambda place, order: together(order, [went, stays]))
    token = token_in(real.get("/console/views/card").text)
    post(real, "/console/views/card/do", form_token=token, do="rollback", asked="yes")
    text = real.get("/console/views/card").text
    assert 'class="notice bad"' in text
    assert "readers of the search of card stay where they are" in text
    assert "cache: readers of the cache use generation 1 again" in text
    assert "search: generation 1 of the search is behind (it is down)" in text


@pytest.mark.stack
def test_a_rebuild_says_why_it_stands(real: TestClient, kept: Registry) -> None:
    resting = Rebuild("r1", "card", "search", 2, Origin.LOG, 1.0, stage=Stage.FILL, reason=f"rests: {HOSTILE}")
    kept.note_book(Book((), (resting,)))
    text = real.get("/console/views/card").text
    assert "rests: &lt;script&gt;" in text
    assert 'data-key="rebuild r1"' in text, "what has a button is known by name, not by where it stands"
    assert 'data-key="cancel/search/r1/"' in text


CHANGED = CARD.replace("SELECT id, name", "SELECT id, upper(name) AS name")


@pytest.fixture
def waiting(kept: Registry) -> Registry:
    """A changed definition, built beside the one that readers use."""
    old = kept.wanted().views["card"]
    kept.want(Wanted({"card": WantedView(CHANGED, old.tables, 2.0, "c", is_reviewed=False, previous=old)}))
    return kept


@pytest.mark.stack
def test_a_changed_definition_waits_for_somebody_who_looks(real: TestClient, waiting: Registry) -> None:
    text = real.get("/console/views/card").text
    assert "being built" in text
    assert ">Approve<" not in text, "there is nothing to look at yet"
    assert ">Reject<" in text
    found = Review(3, 1, 1_200, 40, ("shout",), (), (f'changed {{"id":"{HOSTILE}"}}',))
    waiting.note(State(1.0, views={"card": ViewStatus(ViewState.READY, "g", 2.0, review=found)}))
    text = real.get("/console/views/card").text
    assert_accessible(text)
    assert HOSTILE not in text
    for told in ("1,200", "shout", "&lt;script&gt;", "diff-removed", "upper(name)"):
        assert told in text
    token = token_in(text)
    assert post(real, "/console/views/card/do", form_token=token, do="approve", asked="yes").status_code == 303
    assert "readers go over to the new card" in real.get("/console/views/card").text
    assert waiting.wanted().views["card"].is_reviewed
    post(real, "/console/views/card/do", form_token=token, do="approve", asked="yes")
    text = real.get("/console/views/card").text
    assert "does not wait for a decision" in text
    assert ">Approve<" not in text
    audit = real.get("/console/audit").text
    assert audit.count("apply approve") == 2


@pytest.mark.stack
def test_a_changed_definition_is_rejected(real: TestClient, waiting: Registry) -> None:
    token = token_in(real.get("/console/views/card").text)
    post(real, "/console/views/card/do", form_token=token, do="reject", asked="yes")
    assert "readers stay with card as it was" in real.get("/console/views/card").text
    assert waiting.wanted().views["card"].text == CARD


@pytest.mark.stack
def test_wrong_rows_are_shown_with_what_mends_them(real: TestClient, kept: Registry) -> None:
    history = VerifyHistory(kept.folder)
    assert "Write the wrong rows again" not in real.get("/console/views/card").text
    wrong = {"view": [("different", '{"id":1}')], "cache": [("missing", f'{{"id":"{HOSTILE}"}}')]}
    places = (PlaceResult("view", 9, different=1), PlaceResult("cache", 9, missing=1))
    history.add(VerifyRun("card", Why.ON_DEMAND, "os:ann", 1, 0.1, places), wrong)
    text = real.get("/console/views/card").text
    assert_accessible(text)
    assert HOSTILE not in text
    assert "1 row is wrong in the cache:" in text
    assert "rebuild it from the change log" in text, "a view that is wrong itself is not mended by writing it again"
    assert text.count("Write the wrong rows again") == 1
    post(real, "/console/views/card/do", form_token=token_in(text), do="repair")
    text = real.get("/console/views/card").text
    assert 'class="notice bad"' in text, "nobody keeps the view: it is said at once"


@pytest.mark.stack
@pytest.mark.parametrize("do", ["switch", "rollback", "pause", "hold"])
def test_what_nobody_can_obey_is_said(real: TestClient, kept: Registry, do: str) -> None:
    token = token_in(real.get("/console/views/card").text)
    answer = post(real, "/console/views/card/do", form_token=token, do=do, sink="cache", rebuild="r1", asked="yes")
    assert answer.status_code == 303
    assert 'class="notice bad"' in real.get("/console/views/card").text
    assert post(real, "/console/views/card/do", form_token=token, do="format the disk").status_code == 400
    assert post(real, "/console/views/card/do", do=do).status_code == 403


@pytest.mark.stack
def test_views_that_are_kept_together_are_paused_together(
    real: TestClient, kept: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, list[str]]] = []

    def pause(place: object, views: list[str], sink: str, by: str) -> str:
        asked.append((sink, views))
        return "paused"

    monkeypatch.setattr("headwater.rebuilds.pause", pause)
    both = {name: ViewStatus(ViewState.LIVE, "g", 1.0, serving="g") for name in ("card", "shelf")}
    kept.note(State(views=both))
    text = real.get("/console/views/card").text
    assert_accessible(text)
    assert "Pause the view with shelf" in text
    assert '<input type="hidden" name="with" value="shelf">' in text
    assert "Stop keeping card, shelf and all their sinks?" in text
    post(real, "/console/views/card/do", form_token=token_in(text), do="pause", asked="yes", **{"with": "shelf"})
    assert asked == [("", ["card", "shelf"])]
    kept.note_book(Book(held=(Held("card"), Held("shelf"))))
    assert "Resume the view with shelf" in real.get("/console/views/card").text


@pytest.mark.stack
def test_a_story_of_nothing_says_why(real: TestClient, kept: Registry) -> None:
    for asked in ("", "?view=card&key=7", "?view=nothing&key=7", "?view=card&key='", f"?view=card&key={HOSTILE}"):
        answer = real.get(f"/console/story{asked}")
        assert answer.status_code == 200, asked
        assert_accessible(answer.text)
        assert HOSTILE not in answer.text
        assert ('class="notice bad"' in answer.text) == bool(asked)
