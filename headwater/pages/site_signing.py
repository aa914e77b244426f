"""Signing in and out: `POST /v1/site/sessions` for the application that vouches, the link that it gets, the cookie.

application ─ key, owner ─▶ a link, good for minutes ─ browser ─▶ a cookie ─▶ /search, /alerts, /inbox
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel, Field

from cdc.errors import ConfigurationError
from headwater.api.owners import OWNER_CHARACTERS_MAX, owner_for
from headwater.api.problems import Unauthorized
from headwater.pages.rendering import see_other
from headwater.pages.site_sessions import COOKIE, LINK, Session

if TYPE_CHECKING:
    from headwater.pages.site import Site

CREATED: Final = 201
VIEWS_MAX: Final = 50
PLACES: Final = ("search", "alerts", "inbox")


class Vouched(BaseModel):
    owner: str = Field(default="", max_length=OWNER_CHARACTERS_MAX, description="Who they are; the key's own, without")
    views: list[str] = Field(default=[], max_length=VIEWS_MAX, description="What they may search; all, without")
    to: str = Field(default="search", description="The page to open: search, search/VIEW, alerts or inbox")


def api(site: Site) -> APIRouter:
    routes, reading = APIRouter(prefix="/v1/site", tags=["site"]), site.reading

    @routes.post("/sessions", status_code=CREATED)
    async def sign_in(request: Request, vouched: Annotated[Vouched, Body()]) -> Response:
        """A link that signs somebody in to the pages. With a key of the scope `alerts`, for an owner it acts for."""
        await reading.admit(request, "alerts")
        key = await asyncio.to_thread(reading.access.key, request.headers.get("Authorization"), "alerts")
        owner = owner_for(key, vouched.owner)
        place(vouched.to)
        until = datetime.now(UTC) + timedelta(minutes=reading.deployment.settings.site.link_minutes)
        session = Session(owner, int(until.timestamp()), key is None or key.may("read"), tuple(vouched.views))
        told = {"owner": owner, "url": _link(site, request, session, vouched.to), "expires_at": session.expires_at}
        return Response(msgspec.json.encode(told), CREATED, media_type="application/json")

    return routes


def _link(site: Site, request: Request, session: Session, to: str) -> str:
    """Below the address that people use, as links in messages are."""
    base = site.reading.deployment.settings.alerts.public_url or str(request.base_url)
    return f"{base.rstrip('/')}/site/enter/{site.visitors.signer.written(session, LINK)}?to={to}"


def place(to: str) -> str:
    """A page of ours, below the root; never another site's. Raises ConfigurationError."""
    first, _, rest = to.partition("/")
    if first not in PLACES or (rest and not (rest.isascii() and rest.replace("_", "").isalnum())):
        raise ConfigurationError("not a page to open", hint=", ".join(PLACES))
    return to


def add_routes(routes: APIRouter, site: Site) -> None:
    @routes.get("/site/enter/{ticket}")
    async def enter(request: Request, ticket: str, to: str = "search") -> Response:
        site.reading.admit_anybody(request)
        now = datetime.now(UTC)
        session = site.visitors.signer.read(ticket, LINK, now)
        if session is None:
            raise Unauthorized("this link is not good any more", detail="Open it anew from your application.")
        lasts = timedelta(hours=site.reading.deployment.settings.site.session_hours)
        cookie = site.visitors.signer.written(session.until(now + lasts), COOKIE)
        answer = see_other(request, place(to))
        answer.set_cookie(
            site.visitors.cookie_name,
            cookie,
            max_age=int(lasts.total_seconds()),
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https" or request.headers.get("X-Forwarded-Proto") == "https",
        )
        return answer

    @routes.post("/site/leave")
    async def leave(request: Request) -> Response:
        await site.posted(request)
        answer = see_other(request, "search")
        answer.delete_cookie(site.visitors.cookie_name)
        return answer
