"""`/console/sign-in`, `/console/enter`, `/console/sign-out`: how a person comes in and leaves."""

from __future__ import annotations

import asyncio
import secrets
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request, Response

from headwater.audit import audited, key_actor
from headwater.pages.forms import read_form
from headwater.pages.gate import SCOPE, require_token
from headwater.pages.page_route import PageRoute
from headwater.pages.rendering import page, see_other

if TYPE_CHECKING:
    from headwater.api.access import ApiKey
    from headwater.pages.console import Console

FORM_COOKIE: Final = "headwater_console_form"
"""Before there is a session: the same secret in the form and in a cookie, which another site can set neither of."""
FORM_S: Final = 3_600
UNAUTHORIZED: Final = 401
KEY_CHARACTERS_MAX: Final = 200


def router(console: Console) -> APIRouter:
    routes = APIRouter(route_class=PageRoute, include_in_schema=False)

    @routes.get("/console/sign-in")
    def ask(request: Request, to: str = "") -> Response:
        return _form(request, "sign_in.html", to=own_path(to), problem="")

    @routes.post("/console/sign-in")
    async def sign_in(request: Request) -> Response:
        """With an admin key."""
        console.reading.admit_anybody(request)
        form = await read_form(request)
        require_token(form, request.cookies.get(FORM_COOKIE, ""))
        to = own_path(form.value("to"))
        text = form.value("key").strip()[:KEY_CHARACTERS_MAX]
        key = await asyncio.to_thread(console.gate.keys.find, text) if text else None
        problem = _against(key)
        if key is None or problem:
            return _form(request, "sign_in.html", UNAUTHORIZED, to=to, problem=problem)
        secret = await console.away(partial(_by_key, console, key))
        return _entered(console, request, secret, to)

    @routes.get("/console/enter")
    def confirm(request: Request, link: str = "") -> Response:
        """Uses nothing up: who previews links, or fetches them ahead, must not take a person's only one."""
        return _form(request, "enter.html", link=link, problem="")

    @routes.post("/console/enter")
    async def enter(request: Request) -> Response:
        console.reading.admit_anybody(request)
        form = await read_form(request)
        require_token(form, request.cookies.get(FORM_COOKIE, ""))
        secret = await console.away(partial(_by_link, console, form.value("link")))
        if secret is None:
            problem = "This link was used already, or is too old."
            return _form(request, "enter.html", UNAUTHORIZED, link="", problem=problem)
        return _entered(console, request, secret, "")

    @routes.post("/console/sign-out")
    async def sign_out(request: Request) -> Response:
        await console.gate.admit_form(request)
        await asyncio.to_thread(console.gate.sessions.end, request.cookies.get(console.gate.cookie, ""))
        answer = see_other(request, "console/sign-in")
        console.gate.forget(request, answer)
        return answer

    return routes


def own_path(path: str) -> str:
    """Where to go after signing in: a page of the console, and never another site's."""
    is_ours = path.startswith("console") and path.isprintable() and not any(sign in path for sign in ("//", "..", "\\"))
    return path if is_ours and path[7:8] in ("", "/", "?") else "console"


def _by_key(console: Console, key: ApiKey) -> str:
    actor = key_actor(key)
    with audited(console.deployment, "console sign-in", actor, by="key"):
        return console.gate.sessions.begin(actor, key.id)


def _by_link(console: Console, link: str) -> str | None:
    """Whose link it is is known once it is used up."""
    secret = console.gate.sessions.enter(link)
    session = console.gate.sessions.find(secret) if secret else None
    if session is None:
        return None
    with audited(console.deployment, "console sign-in", session.actor, by="link"):
        return secret


def _against(key: ApiKey | None) -> str:
    if key is None or not key.is_valid(datetime.now(UTC)):
        return "This key is not known, has expired or was revoked."
    if not key.may(SCOPE):
        return f"Key {key.id} may not open the console: it takes the scope admin, this one has {', '.join(key.scopes)}."
    return ""


def _form(request: Request, template: str, status: int = 200, **values: object) -> Response:
    token = request.cookies.get(FORM_COOKIE, "") or secrets.token_urlsafe(24)
    answer = page(request, template, status, None, form_token=token, **values)
    secure = request.url.scheme == "https"
    answer.set_cookie(FORM_COOKIE, token, max_age=FORM_S, path="/", secure=secure, httponly=True, samesite="strict")
    return answer


def _entered(console: Console, request: Request, secret: str, to: str) -> Response:
    answer = see_other(request, to or "console")
    console.gate.keep(request, answer, secret)
    return answer
