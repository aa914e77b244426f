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

from cdc.errors import HeadwaterError, SourceUnavailable
from headwater.api.access import KNOWN_S, ApiKey, KeyStore
from headwater.api.problems import Forbidden
from headwater.pages.forms import Form, read_form
from headwater.pages.sessions import SESSION_S, Session, Sessions

COOKIE: Final = "headwater_console"
TOKEN_FIELD: Final = "form_token"  # its name
SCOPE: Final = "admin"
UNASKED_S_MAX: Final = 15 * 60.0
"""How long a key that was good goes on being so while the database cannot be asked: then the console is needed most."""


class NotSignedIn(HeadwaterError):
    """Who asks has to sign in first."""


@dataclass
class Gate:
    sessions: Sessions
    keys: KeyStore
    folder: Path
    _seen: dict[str, tuple[float, ApiKey]] = field(default_factory=dict)
    """Each key as it was last known to be good, and when: a revoked one opens nothing KNOWN_S later."""
    _unanswered_at: float = float("-inf")
    """When the database was last asked in vain."""

    def __post_init__(self) -> None:
        """Cookies know no ports: each Headwater of a machine has a name of its own."""
        self.cookie = f"{COOKIE}_{hashlib.sha256(str(self.folder.absolute()).encode()).hexdigest()[:8]}"

    async def admit(self, request: Request) -> Session:
        """Raises NotSignedIn, and SourceUnavailable where nobody can say for too long whether the key is good."""
        secret = request.cookies.get(self.cookie, "")
        session = await asyncio.to_thread(self.sessions.find, secret)
        if session is None:
            raise NotSignedIn("sign in first", hint="headwater console")
        if session.key and not await self._opens(session.key):
            await asyncio.to_thread(self.sessions.end, secret)
            raise NotSignedIn("the key has expired or was revoked", hint="headwater keys list")
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

    async def _opens(self, id_: str) -> bool:
        now = time.monotonic()
        at, known = self._seen.get(id_, (float("-inf"), None))
        if known is not None and now - at <= KNOWN_S:
            return True
        is_trusted = known is not None and now - at <= UNASKED_S_MAX
        if not is_trusted or now - self._unanswered_at > KNOWN_S:  # one that hangs is not asked for every page
            try:
                known = await asyncio.to_thread(self.keys.by_id, id_)
                at = now
            except SourceUnavailable:
                if not is_trusted:
                    raise
                self._unanswered_at = time.monotonic()
        if known is None or not known.is_valid(datetime.now(UTC)) or not known.may(SCOPE):
            self._seen.pop(id_, None)
            return False
        self._seen[id_] = at, known
        return True


def require_token(form: Form, expected: str) -> None:
    if not expected or not hmac.compare_digest(form.value(TOKEN_FIELD).encode(), expected.encode()):
        raise Forbidden("the form is out of date", detail="it was made for another session", hint="open the page again")
