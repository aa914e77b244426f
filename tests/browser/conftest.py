"""A real browser on the real thing: Chromium, and the demo's view served as `headwater up` does. Started once a folder.

HEADWATER_SCREENSHOTS names a folder for a picture of each page. Without a browser these tests are left out and say so;
in CI they fail, because there it has to be there (tools/install_browser).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.deployment import Deployment
from tests.browser.served import Served, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, ViewportSize
    from pyspark.sql import SparkSession

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SCREENSHOTS = "HEADWATER_SCREENSHOTS"
DEADLINE_MS = 60_000

PHONE: ViewportSize = {"width": 390, "height": 844}
PROBLEMS = """() => {
    const found = [], ids = [...document.querySelectorAll("[id]")].map(e => e.id);
    const named = e => (e.getAttribute("aria-label") || e.textContent || "").trim() || e.labels?.length || e.title;
    for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at))) found.push(`two of #${id}`);
    for (const e of document.querySelectorAll("a[href], button, select, textarea, input:not([type=hidden])"))
        if (!named(e)) found.push(`no name: ${e.outerHTML.slice(0, 120)}`);
    for (const e of document.querySelectorAll("img:not([alt])")) found.push(`no alt: ${e.src}`);
    if (document.querySelectorAll("h1").length !== 1) found.push(`${document.querySelectorAll("h1").length} h1`);
    for (const name of ["main", "header", "footer"]) if (!document.querySelector(name)) found.push(`no ${name}`);
    if (!document.documentElement.lang) found.push("no language");
    return found;
}"""
"""What people who do not see the page, or use no mouse, would miss."""

Shoot = Callable[["Page", str], None]


def browser_program() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Before anything is started for a test of this folder."""
    if browser_program() is None:
        said = f"there is no browser: none of {', '.join(NAMES)} is installed (tools/install_browser)"
        if os.environ.get("CI"):
            pytest.fail(said, pytrace=False)
        pytest.skip(said)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Of the package: while Playwright runs, this thread has an event loop, and other tests want their own."""
    program = browser_program()
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=DEADLINE_MS)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield started
        started.close()


@pytest.fixture(scope="package")
def served(browser: Browser, deployment: Deployment, spark: SparkSession) -> Iterator[Served]:
    with (
        tempfile.TemporaryDirectory(prefix="headwater-browser-") as folder,
        serving(deployment, spark, Path(folder)) as made,
    ):
        yield made


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    with window(browser, served.url) as opened:
        yield opened


@contextmanager
def window(browser: Browser, url: str, *, scripts: bool = True) -> Iterator[Page]:
    """One of its own, without cookies. What scripts could not do, or the policy forbade, fails the test."""
    size: ViewportSize = {"width": 1440, "height": 900}
    context = browser.new_context(base_url=url, viewport=size, locale="en-GB", java_script_enabled=scripts)
    context.set_default_timeout(DEADLINE_MS)
    opened, wrong = context.new_page(), list[str]()
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda said: wrong.append(said.text) if is_wrong(said) else None)
    yield opened
    context.close()
    assert wrong == []


def is_wrong(said: ConsoleMessage) -> bool:
    """Errors, but for an answer that a test may have asked for: a form that is refused is one."""
    return said.type == "error" and not said.text.startswith("Failed to load resource")


@pytest.fixture
def shoot() -> Shoot:
    """Looks whether a page can be used by everybody, and keeps a picture of it: light, dark, as wide as a phone."""
    folder = os.environ.get(SCREENSHOTS)

    def keep(page: Page, name: str) -> None:
        wide = page.viewport_size or {"width": 1440, "height": 900}
        assert page.evaluate(PROBLEMS) == [], name
        for sort, scheme, size in (("", "light", wide), ("-dark", "dark", wide), ("-phone", "light", PHONE)):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size(size)
            if folder:
                page.screenshot(path=f"{folder}/{name}{sort}.png")
        over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert over <= 0, f"{name} is {over} pixels wider than a phone"
        page.set_viewport_size(wide)

    return keep
