"""The console's door: which session a request belongs to, and whether a form of it is ours."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from fastapi import Request, Response

from cdc.errors import HeadwaterError
from headwater.api.access import KNOWN_S, KeyStore
from headwater.api.problems import Forbidden
from headwater.pages.forms import Form, read_form
from headwater.pages.sessions import SESSION_S, Session, Sessions

COOKIE: Final = "headwater_console"
TOKEN_FIELD: Final = "form_token"  # its name
SCOPE: Final = "admin"


class NotSignedIn(HeadwaterError):
    """Who asks has to sign in first."""


@dataclass
class Gate:
    sessions: Sessions
    keys: KeyStore
    folder: Path
    _seen: dict[str, float] = field(default_factory=dict)
    """When each key was last known to be good: a revoked one opens nothing KNOWN_S later."""

    def __post_init__(self) -> None:
        """Cookies know no ports: each Headwater of a machine has a name of its own."""
        self.cookie = f"{COOKIE}_{hashlib.sha256(str(self.folder.absolute()).encode()).hexdigest()[:8]}"

    async def admit(self, request: Request) -> Session:
        """Raises NotSignedIn."""
        secret = request.cookies.get(self.cookie, "")
        session = await asyncio.to_thread(self.sessions.find, secret)
        if session is None:
            raise NotSignedIn("sign in first", hint="headwater console")
        if session.key and time.monotonic() - self._seen.get(session.key, float("-inf")) > KNOWN_S:
            if not await asyncio.to_thread(self._is_good, session.key):
                await asyncio.to_thread(self.sessions.end, secret)
                raise NotSignedIn("the key has expired or was revoked", hint="headwater keys list")
            self._seen[session.key] = time.monotonic()
        return session

    async def admits(self, request: Request) -> bool:
        """Whether who was admitted still may, for what goes on after that. While the database is away nobody can be
        shut out there, and the console goes on showing that it is."""
        try:
            await self.admit(request)
        except NotSignedIn:
            return False
        except HeadwaterError:
            return True
        return True

    async def admit_form(self, request: Request) -> tuple[Session, Form]:
        """For every request that changes something. Raises NotSignedIn, and Forbidden for a form that is not ours."""
        session = await self.admit(request)
        form = await read_form(request)
        require_token(form, session.form_token)
        return session, form

    def keep(self, request: Request, response: Response, secret: str) -> None:
        """The browser's part: no script reads it, no other site's page sends it along."""
        response.set_cookie(
            self.cookie,
            secret,
            max_age=int(SESSION_S),
            path="/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )

    def forget(self, request: Request, response: Response) -> None:
        response.delete_cookie(
            self.cookie, path="/", secure=request.url.scheme == "https", httponly=True, samesite="strict"
        )

    def _is_good(self, id_: str) -> bool:
        key = self.keys.by_id(id_)
        return key is not None and key.is_valid(datetime.now(UTC)) and key.may(SCOPE)


def require_token(form: Form, expected: str) -> None:
    if not expected or not hmac.compare_digest(form.value(TOKEN_FIELD).encode(), expected.encode()):
        raise Forbidden("the form is out of date", detail="it was made for another session", hint="open the page again")
