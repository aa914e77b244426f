"""What an administrator does in the console: come in by a link, watch, rebuild, switch, roll back. A real browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from headwater.pages.sessions import Sessions, address
from headwater.status import Observer
from tests.browser.conftest import Shoot, window
from tests.browser.served import VIEW, Served
from views.generation import GenerationState

pytestmark = [pytest.mark.stack, pytest.mark.spark]

REBUILD_MS = 120_000


@pytest.fixture
def watched(served: Served) -> Iterator[Served]:
    """With a status that is looked at, as `headwater up` does."""
    observer, stop = Observer(served.place), threading.Event()

    def look() -> None:
        while not stop.is_set():
            served.server.status = observer.look()
            stop.wait(1)

    thread = threading.Thread(target=look, name="looking", daemon=True)
    thread.start()
    yield served
    stop.set()
    thread.join(30)
    served.server.status = None


@pytest.fixture
def console(watched: Served, page: Page) -> Page:
    """Signed in by a link: no second click is needed."""
    link = Sessions(watched.place.settings.data_folder).make_link("os:ann")
    page.goto(address(watched.url, link))
    page.wait_for_url("**/console")
    assert link not in page.url
    return page


def test_the_path_moves(watched: Served, console: Page, shoot: Shoot) -> None:
    expect(console.get_by_role("heading", name="The path of a change")).to_be_visible()
    expect(console.locator(".stop-name", has_text="Search")).to_be_visible()
    expect(console.locator(".plot path.line").first).to_be_attached()
    watched.connection.execute("update listings set price = price + 1 where id = 1")
    row = console.locator(".changes tr", has_text="listings")
    expect(row.first).to_be_visible()
    shoot(console, "console")
    console.keyboard.press("Home")
    plot = console.locator(".plot svg[role=img]").first
    plot.focus()
    console.keyboard.press("ArrowLeft")
    expect(console.locator(".plot .readout").first).to_contain_text("in the log")
    for plot, line in (("Freshness", "in the view"), ("Rates", "to the warehouse"), ("Warehouse", "in the warehouse")):
        legend = console.get_by_role("region", name=plot, exact=True).locator(".legend li", has_text=line)
        expect(legend).to_be_visible()
    console.get_by_role("button", name="Hold still").click()
    expect(console.get_by_role("button", name="Let it move")).to_have_attribute("aria-pressed", "true")
    toggle = console.get_by_role("button", name="Colours: as the system")
    toggle.click()
    toggle = console.get_by_role("button", name="Colours: light")
    toggle.click()
    assert console.evaluate("document.documentElement.dataset.theme") == "dark"
    console.reload()
    assert console.evaluate("document.documentElement.dataset.theme") == "dark", "it is remembered"


def test_every_page_can_be_used(console: Page, shoot: Shoot) -> None:
    for path in ("views", f"views/{VIEW}", "source", "alerts", "dead-letters", "audit"):
        console.goto(f"console/{path}")
        expect(console.get_by_role("heading", level=1)).to_be_visible()
        expect(console.locator("[data-panel=health]")).to_contain_text("source")
        shoot(console, f"console-{path.replace('/', '-')}")


def test_a_row_tells_its_story(watched: Served, console: Page, shoot: Shoot) -> None:
    watched.connection.execute("update listings set price = price + 5 where id = 2")
    watched.rig.reached(VIEW)
    console.goto(f"console/views/{VIEW}")
    console.get_by_role("link", name="Story of a row").click()
    console.get_by_label("Key").fill("2")
    console.get_by_role("button", name="Tell it").click()
    expect(console.locator(".timeline > .changed").first).to_contain_text("price")
    expect(console.locator(".cause").first).to_contain_text("Transaction")
    shoot(console, "console-story")


def test_rebuild_watch_switch_roll_back(watched: Served, console: Page, shoot: Shoot) -> None:
    console.on("dialog", lambda dialog: dialog.accept())
    console.goto(f"console/views/{VIEW}")
    console.get_by_label("Rebuild", exact=True).select_option("search")
    console.get_by_label("switch once it is verified").uncheck()
    console.get_by_role("button", name="Plan a rebuild").click()
    expect(console.get_by_role("heading", name=f"Rebuild {VIEW}: the plan")).to_be_visible()
    expect(console.locator(".steps")).to_contain_text("compare every row")
    shoot(console, "console-rebuild")
    console.get_by_role("button", name="Begin the rebuild").click()
    expect(console.locator(".notice.ok")).to_contain_text("under way")
    switch = console.get_by_role("button", name="Switch readers to it")
    expect(switch).to_be_visible(timeout=REBUILD_MS)
    expect(console.locator(".rebuild")).to_contain_text("equal")
    shoot(console, "console-rebuild-ready")
    before = live(watched)
    switch.click()
    back = console.get_by_role("button", name="Roll back to it")
    expect(back).to_be_visible(timeout=REBUILD_MS)
    assert live(watched) == before + 1
    shoot(console, "console-rebuild-done")
    back.click()
    expect(console.locator(".notice.ok")).to_be_visible()
    expect(console.locator("#generations tr", has_text="search").filter(has_text="live").first).to_contain_text(
        str(before), timeout=REBUILD_MS
    )
    assert live(watched) == before
    console.goto("console/audit")
    for verb in ("rebuild", "switch", "rollback"):
        expect(console.get_by_role("row", name="os:ann").filter(has_text=verb).first).to_contain_text("done")


def test_without_scripts_the_server_asks(watched: Served, browser: Browser, shoot: Shoot) -> None:
    with window(browser, watched.url, scripts=False) as page:
        page.goto(address(watched.url, Sessions(watched.place.settings.data_folder).make_link("os:ann")))
        page.get_by_role("button", name="Open the console").click()
        page.goto(f"console/views/{VIEW}")
        page.get_by_role("button", name="Pause", exact=True).first.click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("Stop feeding the")
        shoot(page, "console-question")
        page.get_by_role("link", name="No, go back").click()
        expect(page.get_by_role("heading", name=VIEW, level=1)).to_be_visible()
        assert not watched.rig.registry.book().held
        page.get_by_role("button", name="Pause", exact=True).first.click()
        page.get_by_role("button", name="Yes, do it").click()
        expect(page.locator(".notice.ok")).to_be_visible()
        page.get_by_role("button", name="Go on feeding").click()
        expect(page.locator(".notice.ok")).to_be_visible()
        assert not watched.rig.registry.book().held


def test_a_rebuild_by_the_keyboard_alone(watched: Served, console: Page) -> None:
    """From the plan to the switch, while the page moves under the focus."""
    console.on("dialog", lambda dialog: dialog.accept())
    console.goto(f"console/views/{VIEW}")
    before = live(watched)
    tab_to(console, "r-sink")
    console.keyboard.type("cache")
    tab_to(console, "r-switches")
    console.keyboard.press("Space")
    press(console, "Plan a rebuild")
    expect(console.locator(".steps")).to_contain_text("compare every row")
    press(console, "Begin the rebuild")
    expect(console.get_by_role("button", name="Switch readers to it")).to_be_visible(timeout=REBUILD_MS)
    press(console, "Switch readers to it")
    expect(console.get_by_role("button", name="Roll back to it").first).to_be_visible(timeout=REBUILD_MS)
    [cache] = [each for each in watched.rig.registry.book().of(VIEW, "cache") if each.state is GenerationState.LIVE]
    assert (cache.number > 1, live(watched)) == (True, before)


FOCUSED = "(() => { const it = document.activeElement; return it.id || it.textContent.trim(); })()"
TABS_MAX = 150


def tab_to(page: Page, wanted: str) -> None:
    """By its id, or what it says."""
    for _ in range(TABS_MAX):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED) == wanted:
            return
    raise AssertionError(f"{wanted} cannot be reached with Tab")


def press(page: Page, button: str) -> None:
    tab_to(page, button)
    page.keyboard.press("Enter")


def live(served: Served) -> int:
    book = served.rig.registry.book()
    [found] = [each for each in book.of(VIEW, "search") if each.state is GenerationState.LIVE] or [None]
    if found is not None:
        return found.number
    return next(each.generation for each in served.rig.registry.state().sinks if each.sink == "search")
