"""`/v1/alerts/unsubscribe/{token}`: the link in a message. Needs no key: whoever has the message has the token.

GET shows what would end and ends nothing: mail readers and virus scanners open links. POST ends it, as the button of
the page and as the one-click of mail programs (RFC 8058), whatever the form says.
"""

from __future__ import annotations

import asyncio
from html import escape
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from alerts.refusals import NoSuchSearch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alerts.unsubscribing import Meant
    from headwater.api.reading import Reading

FORM_BYTES_MAX: Final = 10_000
NOT_FOUND: Final = 404
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'",
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex",
}
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Saved searches</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:34em;margin:4em auto;padding:0 1em}}</style>
</head><body>{body}</body></html>
"""
_FORM: Final = """<form method="post"><p>{everything}</p><button>Unsubscribe</button></form>"""
_EVERYTHING: Final = """<label><input type="checkbox" name="everything"> Send nothing to {target} any more</label>"""


def router(reading: Reading) -> APIRouter:
    routes = APIRouter(prefix="/v1/alerts/unsubscribe", tags=["alerts"])

    @routes.get("/{token}", response_class=HTMLResponse)
    async def ask(request: Request, token: str) -> HTMLResponse:
        """A page with a button; it changes nothing."""
        reading.admit_anybody(request)
        try:
            return _page(asked(await asyncio.to_thread(reading.searches.meant, token)))
        except NoSuchSearch as error:
            return _page(f"<p>{escape(error.fact)}.</p>", NOT_FOUND)

    @routes.post("/{token}", response_class=HTMLResponse)
    async def end(request: Request, token: str) -> HTMLResponse:
        """Ends the searches that the message named; with `everything=on` its target is told nothing any more."""
        reading.admit_anybody(request)
        everything = _wants_everything(await _form(request))
        try:
            ended = await asyncio.to_thread(reading.searches.unsubscribe, token, everything=everything)
        except NoSuchSearch as error:
            return _page(f"<p>{escape(error.fact)}.</p>", NOT_FOUND)
        return _page(f"<p>You are unsubscribed.</p>{_listed(ended)}")

    return routes


def asked(searches: Sequence[Meant]) -> str:
    waiting = [search for search in searches if not search.is_ended]
    if not waiting:
        return "<p>You are unsubscribed already.</p>"
    targets = sorted({search.target for search in waiting if search.channel == "email"})
    everything = _EVERYTHING.format(target=escape(", ".join(targets))) if targets else ""
    return f"<p>Stop telling you of these saved searches?</p>{_listed(waiting)}{_FORM.format(everything=everything)}"


def _listed(searches: Sequence[Meant]) -> str:
    return f"<ul>{''.join(f'<li>{escape(search.name)}</li>' for search in searches)}</ul>"


async def _form(request: Request) -> bytes:
    """No more of it than a form needs; what comes beyond that is not read."""
    held = b""
    async for chunk in request.stream():
        held += chunk
        if len(held) > FORM_BYTES_MAX:
            break
    return held[:FORM_BYTES_MAX]


def _wants_everything(form: bytes) -> bool:
    return parse_qs(form.decode("utf-8", "replace")).get("everything", [""])[-1] in ("on", "true", "1")


def _page(body: str, status: int = 200) -> HTMLResponse:
    return HTMLResponse(_PAGE.format(body=body), status, _HEADERS)
