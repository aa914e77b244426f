"""What all pages share: templates that escape, links that hold behind a proxy, files that may be kept, forms."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlencode, urljoin

import httpx
import pytest
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.testclient import TestClient

from cdc.errors import ConfigurationError
from headwater.api import problems
from headwater.pages import forms, rendering, static_files
from headwater.pages.api_docs import calls
from headwater.pages.page_route import PageRoute
from headwater.pages.rendering import coded


@pytest.fixture
def client() -> TestClient:
    app = FastAPI()
    problems.register(app)
    app.include_router(static_files.router())

    @app.get("/a/{name}")
    def shown(request: Request, name: str) -> Response:
        return rendering.page(request, "error.html", fact=name, detail="<script>", hint='"&')

    @app.post("/a/b/form")
    async def posted(request: Request) -> Response:
        form = await forms.read_form(request)
        return rendering.see_other(request, "a/" + form.value("to"))

    routes = APIRouter(route_class=PageRoute)

    @routes.get("/wrong")
    def wrong() -> None:
        raise ConfigurationError("no view <b>", detail="there are a, b", hint="headwater views")

    app.include_router(routes)
    return TestClient(app, follow_redirects=False)


def post(client: TestClient, body: bytes | dict[str, str], **headers: str) -> httpx.Response:
    content = urlencode(body) if isinstance(body, dict) else body
    return client.post("/a/b/form", content=content, headers={"Content-Type": forms.TYPE, **headers})


def test_what_comes_from_outside_is_text(client: TestClient) -> None:
    text = client.get("/a/<b>x").text
    assert "&lt;b&gt;x" in text
    assert "<b>x" not in text
    assert "<script>" not in text


def test_only_our_own_files_may_run(client: TestClient) -> None:
    answer = client.get("/a/x")
    policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "<script>" not in answer.text
    assert " style=" not in answer.text, "the policy does not allow it"
    assert " onclick=" not in answer.text


def test_an_error_is_a_page_with_a_way_out(client: TestClient) -> None:
    answer = client.get("/wrong")
    assert answer.status_code == 400
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "No view &lt;b&gt;" in answer.text
    assert "headwater views" in answer.text


def test_a_form_with_a_nul_is_refused(client: TestClient) -> None:
    """Whatever asked Postgres with it was an internal error."""
    answer = post(client, b"to=a%00b")
    assert (answer.status_code, "NUL" in answer.text) == (400, True)


@pytest.mark.parametrize("prefix", ["", "/hw", "/tools/hw"])
def test_links_hold_behind_a_proxy(client: TestClient, prefix: str) -> None:
    """It takes its prefix away, and says nothing of it."""
    text = client.get("/a/x").text
    linked = next(part.split('"')[0] for part in text.split('href="') if "headwater.css" in part.split('"')[0])
    seen = urljoin(f"https://example.org{prefix}/a/x", linked)
    assert seen.startswith(f"https://example.org{prefix}/static/headwater.css?v=")
    answer = post(client, {"to": "y"})
    assert answer.status_code == 303
    assert urljoin(f"https://example.org{prefix}/a/b/form", answer.headers["Location"]) == (
        f"https://example.org{prefix}/a/y"
    )


def test_a_prefix_that_the_proxy_left_there(client: TestClient) -> None:
    under = TestClient(client.app, root_path="/hw")
    assert 'href="../static/' in under.get("/hw/a/x").text


def test_files_are_kept_for_ever_under_their_hash(client: TestClient) -> None:
    for file in static_files.static_files().values():
        answer = client.get("/" + file.address)
        assert answer.status_code == 200
        assert answer.content == file.content
        assert "immutable" in answer.headers["Cache-Control"]
    css = static_files.static_files()["headwater.css"]
    old = client.get("/static/headwater.css?v=0123")
    assert old.headers["Cache-Control"] == "no-cache", "an old page must not keep a new file under the old name"
    again = client.get("/static/headwater.css", headers={"If-None-Match": old.headers["ETag"]})
    assert again.status_code == 304
    assert old.headers["ETag"] == f'"{css.digest}"'


@pytest.mark.parametrize("name", ["no.css", "../rendering.py", "..%2frendering.py", "%2e%2e/__init__.py"])
def test_nothing_but_these_files_is_served(client: TestClient, name: str) -> None:
    assert client.get(f"/static/{name}").status_code == 404


def test_our_files_ask_nobody_else() -> None:
    for file in static_files.static_files().values():
        text = file.content.decode().replace("http://www.w3.org/", "")
        assert "http://" not in text, file.name
        assert "https://" not in text, file.name
        assert "innerHTML" not in text, "what comes out of a database is text, never markup"


READ: Final = ("text", "muted", "faint", "accent", "accent-strong", "ok", "warn", "bad", "info")
GROUNDS: Final = ("ground", "surface", "raised", "sunken")
CONTRAST_MIN: Final = 4.5
"""Of WCAG 2, level AA, for text of any size."""


def light_of(colour: str) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((light_of(one), light_of(other)))
    return (light + 0.05) / (dark + 0.05)


def test_every_colour_of_text_can_be_read_on_its_grounds() -> None:
    assert round(contrast("#ffffff", "#000000"), 1) == 21.0
    css = static_files.static_files()["headwater.css"].content.decode()
    bodies = re.findall(r":root[^{]*\{([^}]*)\}", css)
    looks = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", body)) for body in bodies]
    light, dark, dark_by_choice = looks
    assert light != dark == dark_by_choice
    pairs = [
        *((text, ground) for text in READ for ground in GROUNDS),
        *((kind, f"{kind}-soft") for kind in ("ok", "warn", "bad", "info")),
        *((text, f"{kind}-soft") for text in ("text", "muted") for kind in ("ok", "warn", "bad", "info", "accent")),
        *(("on-accent", ground) for ground in ("accent", "accent-strong")),
    ]
    for look in looks:
        found = {f"{text} on {ground}": contrast(look[text], look[ground]) for text, ground in pairs}
        assert {pair: round(ratio, 2) for pair, ratio in found.items() if ratio < CONTRAST_MIN} == {}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 303),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "null"}, 303),
        ({"Origin": "http://testserver"}, 303),
        ({"Origin": "https://hw.example.org", "X-Forwarded-Host": "hw.example.org"}, 303),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "https://evil.example.org"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_a_form_of_another_site_is_refused(client: TestClient, headers: dict[str, str], status: int) -> None:
    assert post(client, {"to": "y"}, **headers).status_code == status


def test_what_is_no_form_is_refused(client: TestClient) -> None:
    assert client.post("/a/b/form", json={"to": "y"}).status_code == 400
    assert post(client, b"to=" + b"x" * forms.BYTES_MAX).status_code == 400
    assert post(client, b"&".join(b"a=1" for _ in range(forms.FIELDS_MAX + 1))).status_code == 400
    assert post(client, b"\xff\xfe=\xff").status_code == 400


# The API's page


def test_a_call_is_told_with_its_body() -> None:
    body = {"content": {"application/json": {"schema": {"type": "object", "description": "view, query"}}}}
    [call] = calls({"paths": {"/v1/alerts": {"post": {"description": "Saves `it`.", "requestBody": body}}}})
    assert call.curl == """curl -X POST -H 'content-type: application/json' -d '{…}' "$HEADWATER/v1/alerts\""""
    assert (call.given[0].where, call.given[0].says) == ("body", "view, query")
    assert str(coded("a `<b>` c")) == "a <code>&lt;b&gt;</code> c"
