"""What people do on the pages: search, narrow, save, be told, mute, unsubscribe. A real browser on the real thing."""

from __future__ import annotations

import json
import re
from itertools import count
from urllib.parse import parse_qs, urlsplit

import httpx
import psycopg
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from headwater.api.owners import HEADER
from headwater.demo.searches import OWNER
from tests.browser.conftest import Shoot
from tests.browser.served import VIEW, Served
from tests.waiting import eventually

pytestmark = [pytest.mark.stack, pytest.mark.spark]

NUMBERS = count(900_001)
LIST = """
    insert into listings (id, agent_id, kind, title, description, city, country, postcode, lat, lon, price, area_m2,
        bedrooms, has_garden, listed_at, updated_at)
    values (%s, 1, %s, %s, %s, %s, 'Malta', 'VLT 1', 35.9, 14.5, %s, 80, 2, true, now(), now())
"""


def list_home(
    conn: psycopg.Connection, title: str, *, kind: str = "house", city: str = "Paris", price: int = 400_000
) -> None:
    """A home that comes on the market: one commit."""
    conn.execute(LIST, [next(NUMBERS), kind, title, "A place with a view.", city, price])


def counted(conn: psycopg.Connection, where: str) -> int:
    [[found]] = conn.execute(f"select count(*) from listings where status <> 'sold' and {where}").fetchall()
    return int(found)


def facet(page: Page, name: str, value: str) -> None:
    page.locator(f'a[data-facet="{name}"][data-value="{value}"]').click()


def test_search_narrow_save_be_told_mute(served: Served, page: Page, shoot: Shoot) -> None:
    everything_is_found(served.connection, page, shoot)
    houses = it_is_narrowed(served.connection, page, shoot)
    it_is_saved_with_a_preview(page, shoot, houses)
    control(served)
    page.reload()
    shoot(page, "alerts")
    a_home_is_told_in_the_open_inbox(served.connection, page, shoot)
    muted_it_is_silent(served.connection, page)
    it_is_changed_and_deleted(page, shoot)


def everything_is_found(conn: psycopg.Connection, page: Page, shoot: Shoot) -> None:
    page.goto("search")
    expect(page.get_by_role("heading", name="Listings")).to_be_visible()
    shoot(page, "views")
    page.get_by_role("link", name="Listings").click()
    expect(page.locator("#total")).to_contain_text(f"{counted(conn, 'true')} matches")
    expect(page.locator("#map[data-ready] .bunch").first).to_be_visible()
    shoot(page, "search")


def it_is_narrowed(conn: psycopg.Connection, page: Page, shoot: Shoot) -> int:
    """By two facets and a price: as many are left as Postgres says."""
    facet(page, "kind", "house")
    facet(page, "city", "Paris")
    most = page.get_by_label("Price, highest")
    most.fill("900000")
    most.press("Enter")
    houses = counted(conn, "kind = 'house' and city = 'Paris' and price <= 900000")
    expect(page.locator("#total")).to_contain_text(f"{houses} match")
    expect(page.locator(".chip")).to_have_text([re.compile("House"), re.compile("Paris"), re.compile("up to €900,000")])
    expect(page.locator('a[data-facet="kind"][data-value="flat"]')).to_be_visible()  # what could be chosen beside it
    shoot(page, "narrowed")
    return houses


def it_is_saved_with_a_preview(page: Page, shoot: Shoot, houses: int) -> None:
    page.get_by_role("link", name="Save this search").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("#preview .figure").first).to_have_text(re.compile(rf"Match now\s*{houses}$"))
    expect(dialog.get_by_text("in the last")).to_be_visible()
    shoot(page, "save")
    dialog.get_by_role("textbox", name="Name", exact=True).fill("Houses in Paris")
    it_is_sent_once(dialog.get_by_role("button", name="Save", exact=True))
    saved = page.locator(".alert", has_text="Houses in Paris")
    expect(saved).to_have_count(1)
    expect(saved.get_by_text("Active")).to_be_visible()


def it_is_sent_once(save: Locator) -> None:
    """However often the button is pressed before there is an answer."""
    sent = save.evaluate(
        """it => {
            let sent = 0;
            addEventListener("submit", (event) => { sent += event.defaultPrevented ? 0 : 1; });
            it.click();
            it.click();
            return sent;
        }"""
    )
    assert sent == 1


def a_home_is_told_in_the_open_inbox(conn: psycopg.Connection, page: Page, shoot: Shoot) -> None:
    page.goto("inbox")
    expect(page.locator("#live-said")).to_have_text("Live")
    page.evaluate("window.isTheSame = true")
    list_home(conn, "Too dear in Montmartre", price=9_000_000)
    list_home(conn, "Blue door in Montmartre")
    blue = page.locator(".news", has_text="Blue door in Montmartre")
    expect(blue.get_by_text("New match")).to_be_visible()
    expect(blue.get_by_text("€400,000")).to_be_visible()
    assert page.evaluate("window.isTheSame") is True, "the page was loaded again"
    shoot(page, "inbox")


def muted_it_is_silent(conn: psycopg.Connection, page: Page) -> None:
    """The next house is told to nobody. Another search, of what is committed after it, does tell."""
    blue = page.locator(".news", has_text="Blue door in Montmartre")
    blue.get_by_role("button", name="Mute").click()
    expect(page.locator("#live-said")).to_have_text("Live")
    list_home(conn, "Red door in Montmartre")
    list_home(conn, "A studio, to be sure", kind="studio", city="Valletta")
    expect(page.locator(".news", has_text="A studio, to be sure")).to_be_visible()
    expect(page.locator(".news", has_text="Blue door in Montmartre")).to_have_count(1)
    expect(page.locator(".news", has_text="Red door in Montmartre")).to_have_count(0)
    expect(page.locator(".news", has_text="Too dear")).to_have_count(0)
    page.reload()
    expect(page.locator(".news", has_text="A studio, to be sure")).to_have_count(1)
    expect(page.locator(".news", has_text="Red door in Montmartre")).to_have_count(0)


def it_is_changed_and_deleted(page: Page, shoot: Shoot) -> None:
    page.goto("alerts")
    saved = page.locator(".alert", has_text="Houses in Paris")
    expect(saved.get_by_text("Paused")).to_be_visible()
    saved.get_by_role("button", name="Resume").click()
    expect(saved.get_by_text("Active")).to_be_visible()
    saved.get_by_label("How often").select_option("Once a day")
    saved.get_by_role("button", name="Change").click()
    expect(saved.get_by_label("How often")).to_have_value("daily")
    saved.get_by_role("link", name="Edit").click()
    expect(page.get_by_label("How often")).to_have_value("daily")
    expect(page.locator(".news", has_text="Blue door")).to_be_visible()
    shoot(page, "alert")
    page.get_by_label("The price drops").check()
    page.get_by_role("button", name="Save changes").click()
    expect(page.get_by_label("The price drops")).to_be_checked()
    page.get_by_label("The price drops").uncheck()
    page.get_by_role("button", name="Save changes").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_label("The price drops")).not_to_be_checked()
    page.get_by_label("Quiet from").fill("22:00")
    page.get_by_role("button", name="Save changes").click()
    expect(page.get_by_role("alert")).to_contain_text("Quiet hours are from one time to another")
    page.goto("alerts")
    saved.locator("summary", has_text="Delete").click()
    saved.get_by_role("button", name="Delete for good").click()
    expect(saved).to_have_count(0)


def test_what_is_seldom_needed_is_folded_away(served: Served, page: Page, shoot: Shoot) -> None:
    """By the keyboard: by how much a price drops, until when, to a program; and what that program verifies with."""
    page.goto(f"search/{VIEW}/save?is.kind=flat&is.city=Lyon")
    name = page.get_by_role("textbox", name="Name", exact=True)
    name.fill("Flats in Lyon")
    expect(page.get_by_label("How much")).to_be_hidden()
    page.get_by_label("The price drops").focus()
    page.keyboard.press("Space")
    page.get_by_label("Anything about a match changes").check()
    page.locator("summary", has_text="More options").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("5")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    page.get_by_role("group", name="Columns").get_by_label("Title").check()
    page.get_by_label("Until the last day").fill("2031-05-01")
    page.get_by_label("E-mail").fill("ada@example.org")
    page.get_by_label("Webhook").fill("https://example.com/hook")
    shoot(page, "save-more")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("by e-mail or by webhook")
    expect(page.get_by_label("How much")).to_have_value("5")
    page.get_by_label("E-mail").fill("")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("What it sends is signed")).to_be_visible()
    expect(page.get_by_text("Told by webhook to https://example.com/hook.")).to_be_visible()
    page.get_by_role("button", name="New signing secret").click()
    expect(page.locator("#secret")).to_contain_text("whsec_")
    shoot(page, "alert-webhook")
    kept = "select threshold, threshold_unit, columns, secrets[1] from headwater.subscriptions join headwater.endpoints"
    kept += " using (owner, channel, target) where label = 'Flats in Lyon'"
    [(threshold, unit, columns, secret)] = served.connection.execute(kept).fetchall()
    assert (threshold, unit, columns) == (5, "percent", ["title"])
    assert page.locator("#secret").inner_text() == secret
    expect(page.get_by_label("Until the last day")).to_have_value("2031-05-01")


def control(served: Served, query: str = "kind:studio city:valletta", label: str = "Studios in Valletta") -> None:
    """Another search of the same visitor's: what it tells says that what did not come would have come by then."""
    wish = {"view": VIEW, "query": query, "label": label}
    httpx.post(f"{served.url}v1/alerts", json=wish, headers={HEADER: OWNER}).raise_for_status()


def test_an_inbox_goes_on_after_the_last_event_it_had(served: Served) -> None:
    control(served, "kind:land city:gozo", "Land on Gozo")
    for title in ("First", "Second", "Third"):
        list_home(served.connection, f"{title} plot of three", kind="land", city="Gozo")
    [first, second, _] = live(served, 0, "plot of three", 3)
    assert [name for _, name in live(served, first[0], "plot of three", 2)] == ["Second", "Third"]
    assert [name for _, name in live(served, second[0], "plot of three", 1)] == ["Third"]


def live(served: Served, after: int, what: str, most: int) -> list[tuple[int, str]]:
    """Numbers and first words of so many news, as a browser that comes back gets them."""
    found: list[tuple[int, str]] = []
    with httpx.stream("GET", f"{served.url}inbox/live", headers={"Last-Event-ID": str(after)}, timeout=60) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: ") and what in line:
                told = json.loads(line.removeprefix("data: "))
                found.append((told["sequence"], str(re.search(rf"(\w+) {what}", told["html"])[1])))  # type: ignore[index]
            if len(found) == most:
                break
    return found


def test_unsubscribe_by_link(served: Served, page: Page, shoot: Shoot) -> None:
    conn, ada = served.connection, "ada@example.org"
    page.goto(f"search/{VIEW}/save?is.kind=cottage&is.city=Mdina&q=view")
    page.get_by_role("textbox", name="Name", exact=True).fill("Cottages in Mdina")
    page.get_by_label("E-mail").fill(ada)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    list_home(conn, "Cottage with a <b>view</b>", kind="cottage", city="Mdina")
    [mail] = eventually(lambda: served.mails.to(ada) or False)
    link = str(mail["List-Unsubscribe"]).strip("<>")

    # The link asks, and ends nothing: whoever looks at mails opens it, too.
    page.goto(link)
    expect(page.get_by_role("heading", name="Stop these messages?")).to_be_visible()
    expect(page.get_by_text("Cottages in Mdina")).to_be_visible()
    shoot(page, "unsubscribe")
    state = "select unsubscribed_at is not null from headwater.subscriptions where label = 'Cottages in Mdina'"
    assert conn.execute(state).fetchall() == [(False,)]

    # Its button does.
    page.get_by_role("button", name="Unsubscribe").click()
    expect(page.get_by_role("heading", name="You are unsubscribed")).to_be_visible()
    assert conn.execute(state).fetchall() == [(True,)]
    shoot(page, "unsubscribed")
    page.goto("alerts")
    expect(page.locator(".alert", has_text="Cottages in Mdina").get_by_text("Unsubscribed")).to_be_visible()
    page.goto("inbox")
    expect(page.locator(".news", has_text="Cottage with a <b>view</b>")).to_be_visible()  # a stranger's text stays text


def test_a_link_of_the_application_signs_somebody_in(served: Served, page: Page) -> None:
    """Another owner than the demo's visitor: what is theirs is theirs alone, until they sign out."""
    made = httpx.post(f"{served.url}v1/site/sessions", json={"owner": "shop/7", "views": [VIEW], "to": "alerts"})
    page.goto(made.raise_for_status().json()["url"])
    expect(page).to_have_url(f"{served.url}alerts")
    expect(page.get_by_text("shop/7")).to_be_visible()
    expect(page.get_by_text("No saved searches yet")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("Demo", exact=True)).to_be_visible()


def test_an_area_of_the_map(served: Served, page: Page) -> None:
    """Moved by keys and buttons; what lies in the area is what Postgres says."""
    page.goto(f"search/{VIEW}?is.country=France")
    area = page.locator("#map[data-ready]")
    expect(area.locator(".bunch").first).to_be_visible()
    area.focus()
    page.keyboard.press("ArrowUp")
    page.get_by_role("button", name="Zoom in").click()
    page.get_by_role("button", name="Search this area").click()
    expect(page.locator(".chip", has_text="Area on the map")).to_be_visible()
    [box] = parse_qs(urlsplit(page.url).query)["box"]
    north, west, south, east = map(float, box.split(","))
    inside = f"country = 'France' and lat between {south} and {north} and lon between {west} and {east}"
    expect(page.locator("#total")).to_contain_text(f"{counted(served.connection, inside)} match")
    assert counted(served.connection, inside) < counted(served.connection, "country = 'France'")


def test_what_is_empty_can_be_chosen(served: Served, page: Page) -> None:
    list_home(served.connection, "A house in no city", city="")

    def found() -> None:
        page.goto(f"search/{VIEW}?is.city=")
        assert "1 match" in page.locator("#total").inner_text()

    eventually(found)
    page.get_by_label("Price, highest").fill("900000")
    page.get_by_label("Price, highest").press("Enter")
    expect(page.locator(".chip")).to_have_text([re.compile(r"City \(empty\)"), re.compile("up to €900,000")])
    expect(page.locator('a[data-facet="city"][data-value=""]')).to_have_attribute("aria-current", "true")
    expect(page.locator("#total")).to_contain_text("1 match")


def test_without_scripts(served: Served, browser: Browser) -> None:
    """The form, the facets, the pages and saving are the server's."""
    context = browser.new_context(base_url=served.url, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"search/{VIEW}?q=garden")
    facet(page, "status", "for_sale")
    expect(page.locator(".chip")).to_have_count(2)
    first = page.locator(".hit h2").first.inner_text()
    page.get_by_role("link", name="Next page").click()
    expect(page.locator(".hit")).not_to_have_count(0)
    assert page.locator(".hit h2").first.inner_text() != first
    page.get_by_role("link", name="Save this search").click()
    expect(page.get_by_text("Match now")).to_be_visible()
    context.close()


def test_forms_of_others_are_refused(served: Served) -> None:
    """A form without the page's token, or from another site, changes nothing."""
    form = {"view": VIEW, "query": "*", "label": "Not mine"}
    for headers in ({}, {"Origin": "https://evil.example"}):
        answer = httpx.post(f"{served.url}alerts", data=form, headers=headers)
        assert answer.status_code == httpx.codes.FORBIDDEN
    assert (
        httpx.get(f"{served.url}inbox", headers={"Host": "rebound.example"}).status_code
        == httpx.codes.MISDIRECTED_REQUEST
    )
    found = served.connection.execute("select 1 from headwater.subscriptions where label = 'Not mine'").fetchall()
    assert found == []
