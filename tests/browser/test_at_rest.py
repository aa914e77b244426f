"""Pages of a server whose views nobody keeps yet: the doors, what went wrong, what waits; and what moves on a page when
somebody has the keyboard. A real browser, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import psycopg
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from cdc.addresses import PostgresAddress, Source
from cdc.catalog_reader import describe
from cdc.events import TableName
from headwater.deployment import Deployment
from headwater.http.server import PageServer
from headwater.migrate import migrate
from headwater.pages.sessions import Sessions, address
from headwater.settings import Settings
from headwater.views.verify_history import PlaceResult, VerifyHistory, VerifyRun, Why
from tests.browser.conftest import Shoot, window
from tests.headwater.test_http import free_port
from tests.waiting import eventually
from views.generation import Generation, GenerationState
from views.maintain.book import Book
from views.maintain.registry import Registry, Review, State, ViewState, ViewStatus, Wanted, WantedView
from views.rebuild import Origin, Rebuild, RebuildState, Stage
from views.sinks.letters import Letters
from views.sinks.sink import Change, Refused, ViewShape

pytestmark = pytest.mark.stack

CARD = """CREATE MATERIALIZED VIEW card WITH (key = 'id', sinks = 'cache, search, alerts') AS
SELECT id, name
FROM makers
WHERE name <> ''"""


@dataclass(frozen=True)
class AtRest:
    server: PageServer
    registry: Registry

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def link(self) -> str:
        return address(self.url, Sessions(self.server.deployment.settings.data_folder).make_link("os:ann"))


@pytest.fixture
def at_rest(deployment: Deployment, postgres: PostgresAddress, source: Source, tmp_path: Path) -> Iterator[AtRest]:
    """One view was applied, and nobody has made anything of it."""
    migrate(postgres)
    settings = Settings.model_validate(
        {"source": source.name, "data_folder": str(tmp_path), "http": {"port": free_port()}}
    )
    with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
        conn.execute("create table makers (id int primary key, name text)")
        tables = describe(conn, [TableName("public", "makers")])
    registry = Registry(settings.views_state)
    registry.want(Wanted({"card": WantedView(CARD, tables, 1.0, "b")}))
    server = PageServer(replace(deployment, settings=settings, source=source, postgres=postgres))
    with server.running():
        yield AtRest(server, registry)


@pytest.fixture
def page(browser: Browser, at_rest: AtRest) -> Iterator[Page]:
    with window(browser, at_rest.url) as opened:
        yield opened


@pytest.fixture
def console(at_rest: AtRest, page: Page) -> Page:
    page.goto(at_rest.link)
    page.wait_for_url("**/console")
    return page


def test_the_doors(at_rest: AtRest, browser: Browser, page: Page, shoot: Shoot) -> None:
    page.goto("")
    expect(page.get_by_role("heading", name="Console")).to_be_visible()
    shoot(page, "front")
    page.goto("docs")
    page.locator("summary", has_text="POST /v1/alerts/preview").first.click()
    shoot(page, "api-docs")
    page.goto("console")
    page.get_by_label("Admin key").fill("hw_0_nothing")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("This key is not known")
    shoot(page, "sign-in")
    with window(browser, at_rest.url, scripts=False) as without:  # with them nobody sees it: it goes on at once
        without.goto(at_rest.link)
        shoot(without, "enter")
        without.get_by_role("button", name="Open the console").click()
        expect(without.get_by_role("heading", name="The path of a change")).to_be_visible()


def test_what_went_wrong_and_what_is_being_built(at_rest: AtRest, console: Page, shoot: Shoot) -> None:
    console.goto("console/views/nothing")
    expect(console.get_by_role("alert")).to_contain_text("No view nothing")
    shoot(console, "error")
    link = httpx.post(f"{at_rest.url}v1/site/sessions", json={"owner": "ada", "to": "search/card"})
    console.goto(link.raise_for_status().json()["url"])
    expect(console.get_by_role("heading", name="Card: being built")).to_be_visible()
    shoot(console, "building")


def test_a_dead_letter(at_rest: AtRest, console: Page, shoot: Shoot) -> None:
    place = at_rest.server.deployment
    shape = ViewShape(place.source.name, "card", (), ("id",))
    refused = Refused(Change(b'{"id":7}', b'{"id":7,"name":"Ann"}', 3), "mapper_parsing_exception: name is no number")
    Letters(place.kafka, place.source).tell(shape, "search", 1, [refused])
    console.on("dialog", lambda dialog: dialog.accept())
    console.goto("console/dead-letters")
    expect(console.get_by_text("1 open")).to_be_visible()
    console.locator("summary", has_text="The row").click()
    shoot(console, "console-dead-letter")
    console.get_by_role("checkbox").check()
    console.get_by_role("button", name="Drop the chosen").click()
    expect(console.get_by_text("No dead letters")).to_be_visible()


def test_a_review_and_wrong_rows(at_rest: AtRest, console: Page, shoot: Shoot) -> None:
    old, registry = at_rest.registry.wanted().views["card"], at_rest.registry
    changed = CARD.replace("id, name\n", "id, upper(name) AS name, length(name) AS letters\n")
    registry.want(Wanted({"card": WantedView(changed, old.tables, 2.0, "c", is_reviewed=False, previous=old)}))
    found = Review(12, 3, 1_204, 40_000, ("letters",), (), ('changed {"id":7}', 'added {"id":9}', 'removed {"id":2}'))
    registry.note(State(1.0, views={"card": ViewStatus(ViewState.READY, "g", 2.0, review=found)}))
    places = (PlaceResult("view", 41_000), PlaceResult("cache", 41_000, missing=1, different=1))
    run = VerifyRun("card", Why.SAMPLE, "service", 1_763_467_200_000_000, 2.5, places)
    VerifyHistory(registry.folder).add(run, {"cache": [("missing", '{"id":7}'), ("different", '{"id":8}')]})
    console.goto("console/views/card")
    expect(console.get_by_role("heading", name="A changed definition waits ready")).to_be_visible()
    expect(console.locator(".diff-added")).to_contain_text("upper(name)")
    expect(console.get_by_text("2 rows are wrong in the cache:")).to_be_visible()
    shoot(console, "console-review")
    console.locator("#generations").scroll_into_view_if_needed()
    shoot(console, "console-wrong-rows")
    console.once("dialog", lambda dialog: dialog.accept())
    console.get_by_role("button", name="Reject").click()
    expect(console.locator(".notice.ok")).to_contain_text("readers stay with card as it was")
    assert registry.wanted().views["card"].text == CARD


def rebuild(id_: str, state: RebuildState = RebuildState.RUNNING) -> Rebuild:
    return Rebuild(id_, "card", "search", 2, Origin.TOPIC, 1.0, stage=Stage.FILL, state=state, reason=f"rests {id_}")


def test_what_has_the_focus_stays_what_it_is(at_rest: AtRest, console: Page) -> None:
    """Something comes above it, goes, and becomes something else: who presses Enter gets what they read."""
    registry = at_rest.registry
    live = tuple(Generation("card", sink, 1, GenerationState.LIVE, 5.0) for sink in ("cache", "search"))
    focused = "document.activeElement.textContent.trim()"

    def told(*rebuilds: Rebuild) -> None:
        registry.note_book(Book(live, rebuilds))
        expect(console.locator(".rebuild")).to_have_count(len(rebuilds))

    told_again = Rebuild("r2", "card", "cache", 9, Origin.TOPIC, 1.0, stage=Stage.FILL)
    console.goto("console/views/card")
    told(rebuild("r1"))
    expect(console.locator(".rebuild .reason")).to_have_text("rests r1")
    give_up = console.locator(".rebuild", has_text="search").get_by_role("button", name="Give it up")
    give_up.focus()
    give_up.evaluate("it => { it.isTheSame = true; }")
    told(told_again, rebuild("r1"))
    assert console.evaluate("document.activeElement.isTheSame") is True
    told(rebuild("r1"))
    assert console.evaluate("document.activeElement.isTheSame") is True
    console.get_by_role("button", name="Hold").focus()
    told(rebuild("r1", RebuildState.PAUSED))
    expect(console.get_by_role("button", name="Go on", exact=True)).to_be_visible()
    assert console.evaluate("document.activeElement.dataset.panel") == "generations", "not the button beside it"
    pause = console.locator("tr", has_text="search").get_by_role("button", name="Pause")
    pause.focus()
    told()
    assert (console.evaluate(focused), pause.evaluate("it => it === document.activeElement")) == ("Pause", True)


def test_who_was_signed_out_is_told(at_rest: AtRest, console: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.pages.console_live.STREAM_S_MAX", 0.2)
    console.goto("console/views")
    console.context.clear_cookies()
    expect(console.locator("[data-link-state]")).to_contain_text("Signed out or gone")


class Line:
    """What an open inbox is answered: one stream after the other, and a refusal when there is none."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.asked: list[int] = []
        """After which news each time."""
        self.streams: list[range] = []
        page.clock.install()
        page.route("**/inbox/live?*", self._answer)

    def wait_for(self, asked: int) -> None:
        eventually(lambda: self._page.clock.fast_forward(5_000) or len(self.asked) >= asked)

    def _answer(self, route: Route) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        self.asked.append(int(query["after"][0]))
        if not self.streams:
            route.fulfill(status=502)
            return
        body = "retry: 100\n\n" + "".join(map(news, self.streams.pop(0)))
        route.fulfill(content_type="text/event-stream", body=body)


def news(sequence: int) -> str:
    html = f'<li class="card news" data-sequence="{sequence}"><h2>House {sequence}</h2></li>'
    return f"id: {sequence}\nevent: news\ndata: {json.dumps({'sequence': sequence, 'html': html})}\n\n"


def open_inbox(at_rest: AtRest, page: Page) -> None:
    link = httpx.post(f"{at_rest.url}v1/site/sessions", json={"owner": "ada", "to": "inbox"})
    page.goto(link.raise_for_status().json()["url"])


def test_an_inbox_that_was_refused_asks_again(at_rest: AtRest, page: Page) -> None:
    line, said = Line(page), page.locator("#live-said")
    open_inbox(at_rest, page)
    expect(said).to_have_text("Connection lost, trying again")
    line.streams.append(range(1, 206))
    line.wait_for(2)
    expect(page.locator(".news")).to_have_count(200)
    expect(page.locator(".news h2").first).to_have_text("House 205")
    those_that_went = str(page.get_by_role("link", name="Older").get_attribute("href"))
    assert those_that_went.endswith("/inbox?before=6")
    line.wait_for(4)
    expect(said).to_have_text("Signed out or gone: load the page again")
    line.streams.append(range(204, 207))
    line.wait_for(5)
    expect(page.locator(".news h2").first).to_have_text("House 206")
    assert line.asked[:2] == [0, 0]
    assert 205 in line.asked[2:], "from where the page is"
    expect(page.locator(".news", has_text="House 205")).to_have_count(1)


def hide(page: Page, is_hidden: bool) -> None:
    """As another tab in front does."""
    page.evaluate(
        """is => {
            Object.defineProperty(document, "hidden", { get: () => is, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        is_hidden,
    )


def test_a_page_out_of_sight_lets_its_connection_go(console: Page) -> None:
    """A browser has six of them for a server: the seventh tab would wait for ever."""
    begun, ended = list[str](), list[str]()

    def so_many(streams: int, over: int) -> bool:
        console.title()  # what happened meanwhile is told with an answer
        return [sum("/live?page=views" in url for url in urls) for urls in (begun, ended)] == [streams, over]

    console.clock.install()
    console.on("request", lambda request: begun.append(request.url))
    console.on("requestfailed", lambda request: ended.append(request.url))
    console.goto("console/views")
    eventually(lambda: so_many(1, 0))
    console.clock.pause_at(datetime.now(UTC) + timedelta(hours=1))
    hide(console, True)
    console.clock.fast_forward(4_000)
    hide(console, False)
    console.clock.fast_forward(6_000)
    assert so_many(1, 0), "a short look elsewhere"
    hide(console, True)
    console.clock.fast_forward(5_000)
    eventually(lambda: so_many(1, 1))
    hide(console, False)
    eventually(lambda: so_many(2, 1))


def test_an_inbox_out_of_sight_still_counts_what_came(at_rest: AtRest, page: Page) -> None:
    line = Line(page)
    open_inbox(at_rest, page)
    expect(page.locator("#live-said")).to_have_text("Connection lost, trying again")
    hide(page, True)
    page.clock.fast_forward(5_000)
    line.streams.append(range(1, 3))
    page.clock.fast_forward(60_000)
    expect(page).to_have_title("(2) Inbox · Headwater")
    hide(page, False)
    expect(page).to_have_title("Inbox · Headwater")
