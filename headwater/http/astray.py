"""Requests that no route takes. One with a slash too many is sent on; a browser is told on a page, a program in JSON.

Where it is sent on to is relative, like all links (pages/rendering.py): behind a proxy nobody here knows the address
that the browser used.
"""

from __future__ import annotations

from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.exception_handlers import http_exception_handler
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from headwater.pages.rendering import page, path_of

API: Final = "/v1/"
NOT_FOUND: Final = 404
_FACTS: Final = {NOT_FOUND: "there is no such page", 405: "this is the address of a form, not of a page"}


def register(app: FastAPI) -> None:
    app.router.redirect_slashes = False  # those would name a host

    @app.exception_handler(HTTPException)
    async def explain(request: Request, error: HTTPException) -> Response:
        if error.status_code == NOT_FOUND and (way := _without_slash(app, request)):
            return RedirectResponse(way)
        if "text/html" not in request.headers.get("Accept", "") or request.scope["path"].startswith(API):
            return await http_exception_handler(request, error)
        fact = _FACTS.get(error.status_code, str(error.detail))
        told = {"fact": fact, "detail": request.scope["path"][:200], "hint": ""}
        return page(request, "error.html", error.status_code, error.headers, **told)


def _without_slash(app: FastAPI, request: Request) -> str:
    """The way to the same address without the slash at its end; empty if that is not what is wrong."""
    raw, scope = path_of(request), {**request.scope, "path": request.scope["path"].removesuffix("/")}
    name = raw.removesuffix("/").rpartition("/")[2]
    if not name or not raw.endswith("/") or all(each.matches(scope)[0] is Match.NONE for each in app.router.routes):
        return ""
    return f"../{name}" + (f"?{request.url.query}" if request.url.query else "")
