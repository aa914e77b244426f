"""`/v1/alerts/unsubscribe/{token}`: the link in a message. Needs no key: whoever has the message has the token.

GET shows what would end and ends nothing: mail readers and virus scanners open links. POST ends it, as the button of
the page and as the one-click of mail programs (RFC 8058), whatever the form says.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from alerts.refusals import NoSuchSearch
from headwater.pages.rendering import page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alerts.unsubscribing import Meant
    from headwater.api.reading import Reading

FORM_BYTES_MAX: Final = 10_000
NOT_FOUND: Final = 404
_HEADERS: Final = {"Referrer-Policy": "no-referrer"}
"""The address is the token: no page that is opened from here may learn it."""


def router(reading: Reading) -> APIRouter:
    routes = APIRouter(prefix="/v1/alerts/unsubscribe", tags=["alerts"])

    @routes.get("/{token}", response_class=HTMLResponse)
    async def ask(request: Request, token: str) -> HTMLResponse:
        """A page with a button; it changes nothing."""
        reading.admit_anybody(request)
        try:
            meant = await asyncio.to_thread(reading.searches.meant, token)
        except NoSuchSearch as error:
            return _missing(request, error)
        return _asked(request, [search for search in meant if not search.is_ended])

    @routes.post("/{token}", response_class=HTMLResponse)
    async def end(request: Request, token: str) -> HTMLResponse:
        """Ends the searches that the message named; with `everything=on` its target is told nothing any more."""
        reading.admit_anybody(request)
        everything = _wants_everything(await _form(request))
        try:
            ended = await asyncio.to_thread(reading.searches.unsubscribe, token, everything=everything)
        except NoSuchSearch as error:
            return _missing(request, error)
        said = "We do not tell you of these any more:" if ended else ""
        return _page(request, "You are unsubscribed", said, ended)

    return routes


def _asked(request: Request, waiting: Sequence[Meant]) -> HTMLResponse:
    if not waiting:
        return _page(request, "You are unsubscribed already")
    targets = sorted({search.target for search in waiting if search.channel == "email"})
    said = "This ends these saved searches. Others of yours go on."
    return _page(request, "Stop these messages?", said, waiting, targets=targets, asks=True)


def _missing(request: Request, error: NoSuchSearch) -> HTMLResponse:
    return _page(request, "This link does not work", f"{error.fact[:1].upper()}{error.fact[1:]}.", status=NOT_FOUND)


def _page(
    request: Request,
    heading: str,
    said: str = "",
    searches: Sequence[Meant] = (),
    *,
    targets: Sequence[str] = (),
    asks: bool = False,
    status: int = 200,
) -> HTMLResponse:
    names = [search.name for search in searches]
    shown: dict[str, object] = {"heading": heading, "said": said, "names": names, "targets": targets, "asks": asks}
    return page(request, "site/unsubscribe.html", status, _HEADERS, **shown)


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
