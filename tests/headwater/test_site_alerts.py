"""The page of one saved search, in a real Postgres; the view is made up, so nothing is known of its columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from headwater.pages.forms import TYPE
from tests.headwater.test_alerts_api import Desk, desk

__all__ = ["desk"]
pytestmark = pytest.mark.stack
HOOK = {"channel": "webhook", "target": "https://example.com/hook"}


@contextmanager
def signed_in(desk: Desk, owner: str) -> Iterator[httpx.Client]:
    link = desk.client.post("/v1/site/sessions", json={"owner": owner, "to": "alerts"}).raise_for_status()
    with httpx.Client(base_url=desk.client.base_url, timeout=60, follow_redirects=True) as client:
        assert client.get(link.json()["url"]).status_code == httpx.codes.OK
        yield client


def cookie(desk: Desk, **headers: str) -> tuple[str, set[str]]:
    """What somebody is signed in with, and for whom it is, as the browser is told both."""
    link = desk.client.post("/v1/site/sessions", json={"owner": "ada"}).raise_for_status().json()["url"]
    [told] = desk.client.get(link, headers=headers).headers.get_list("Set-Cookie")
    value, *flags = told.split("; ")
    return value, {flag for flag in flags if not flag.startswith("Max-Age=")}


def post(client: httpx.Client, path: str, token: str, **fields: str) -> httpx.Response:
    return client.post(path, data={"form_token": token, **fields}, headers={"Content-Type": TYPE})


def test_the_cookie_is_for_nobody_but_the_browser(desk: Desk) -> None:
    """No script reads it, no other site's form sends it, and where people come by https nobody hears it on the way."""
    value, flags = cookie(desk)
    assert value.startswith("headwater_site_")
    assert flags == {"HttpOnly", "Path=/", "SameSite=lax"}
    assert cookie(desk, **{"X-Forwarded-Proto": "https"})[1] == flags | {"Secure"}


def test_a_webhook_gets_its_secret_on_its_page(desk: Desk) -> None:
    id_ = desk.save(**HOOK)["id"]
    with signed_in(desk, "ada") as ada, signed_in(desk, "bob") as bob:
        shown = ada.get(f"/alerts/{id_}?saved=true").text
        assert "What it sends is signed" in shown
        assert "Told by webhook to https://example.com/hook." in shown
        assert "whsec_" not in shown
        [token] = set(re.findall(r'name="form_token" value="([^"]+)"', shown))
        answer = post(ada, f"/alerts/{id_}/secret", token)
        [secret] = re.findall(r'id="secret">(whsec_[^<]+)<', answer.text)
        [[kept]] = desk.conn.execute("select secrets[1] from headwater.endpoints").fetchall()
        assert secret.replace("&#43;", "+") == kept
        assert "whsec_" not in ada.get(f"/alerts/{id_}").text, "it is shown once"
        assert post(ada, f"/alerts/{id_}/secret", "guessed").status_code == httpx.codes.FORBIDDEN
        [theirs] = set(re.findall(r'name="form_token" value="([^"]+)"', bob.get("/alerts").text))
        assert post(bob, f"/alerts/{id_}/secret", theirs).status_code == httpx.codes.NOT_FOUND
        plain = desk.save()["id"]
        assert "New signing secret" not in ada.get(f"/alerts/{plain}").text
        assert post(ada, f"/alerts/{plain}/secret", token).status_code == httpx.codes.BAD_REQUEST


def test_what_a_form_does_not_show_stays(desk: Desk) -> None:
    """Of a view whose columns are not known here, those that a program chose are not unchosen."""
    given = {"events": ["changed"], "columns": ["price"], "expires_at": "2031-05-01T10:00:00Z"}
    id_ = desk.save(**given)["id"]
    with signed_in(desk, "ada") as ada:
        shown = ada.get(f"/alerts/{id_}").text
        [token] = set(re.findall(r'name="form_token" value="([^"]+)"', shown))
        [day] = re.findall(r'name="expires_was" value="([^"]*)"', shown)
        form = {"events": "changed", "label": "Cheap", "expires_on": day, "expires_was": day}
        assert post(ada, f"/alerts/{id_}", token, **form).status_code == httpx.codes.OK
        kept = desk.ask("GET", f"/{id_}")
        assert (kept["label"], kept["columns"], kept["expires_at"]) == ("Cheap", ["price"], given["expires_at"])
        assert post(ada, f"/alerts/{id_}", token, events="changed", expires_on="", expires_was=day).status_code == 200
        assert desk.ask("GET", f"/{id_}")["expires_at"] is None
