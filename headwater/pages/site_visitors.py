"""Who looks at a page: the owner that a cookie names, or in the demo its one visitor.

The application that people are signed in to vouches for them: it asks for a link with a key of the scope `alerts`
(`POST /v1/site/sessions`) and sends them there. The demo's visitor needs none, and exists just where the database is
the demo's, the server listens on loopback alone and asks for no keys, and the browser itself calls it by such a name.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import psycopg
from fastapi import Request

from cdc.errors import HeadwaterError
from cdc.postgres import connect
from headwater import demo
from headwater.api.problems import Forbidden, NotFound, Unauthorized
from headwater.demo.searches import CURRENCY, OWNER
from headwater.pages.forms import Form
from headwater.pages.site_sessions import COOKIE, Session, Signer

if TYPE_CHECKING:
    from headwater.api.reading import Reading

COOKIE_NAME: Final = "headwater_site"
TOKEN: Final = "form_token"  # a field's name
LOOK_S: Final = 5.0
"""How often a database that is not the demo's is asked whether it is."""
_LOOPBACK: Final = ("127.0.0.1", "[::1]", "localhost")
_DEMO_COOKIE: Final = "demo"
_LONG: Final = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Visitor:
    session: Session
    token: str
    """What a form of theirs has to hold."""
    is_demo: bool = False

    @property
    def owner(self) -> str:
        return self.session.owner


class Visitors:
    def __init__(self, reading: Reading) -> None:
        settings = reading.deployment.settings
        secret = settings.site.secret.get_secret_value().encode() or reading.cursor_secret
        self._reading, self.signer, self._currency = reading, Signer(secret), settings.site.currency
        self.cookie_name = f"{COOKIE_NAME}_{hashlib.sha256(b'cookie' + secret).hexdigest()[:8]}"
        """Cookies know no ports: each Headwater of a machine has a name of its own."""
        self._is_demo, self._looked_at = False, float("-inf")

    def of(self, request: Request) -> Visitor:
        """Raises Unauthorized for who is not known. May ask the database: to be called in a thread."""
        visitor = self.known(request)
        if visitor is None:
            raise Unauthorized(
                "you are not signed in",
                detail="Your application signs you in: open your saved searches from there.",
            )
        return visitor

    def known(self, request: Request) -> Visitor | None:
        cookie = request.cookies.get(self.cookie_name, "")
        session = self.signer.read(cookie, COOKIE, datetime.now(UTC)) if cookie else None
        if session is not None:
            return Visitor(session, self.signer.form_token(cookie))
        if self._may_be_demo(request) and self.is_demo():
            until = int((datetime.now(UTC) + _LONG).timestamp())
            return Visitor(Session(OWNER, until, reads=True), self.signer.form_token(_DEMO_COOKIE), is_demo=True)
        return None

    def require_token(self, visitor: Visitor, form: Form) -> None:
        """Raises Forbidden for a form that no page of ours has shown to this visitor."""
        if not _same(form.value(TOKEN), visitor.token):
            raise Forbidden("the form is too old, or not one of ours", hint="open the page again")

    def require_view(self, visitor: Visitor, view: str) -> None:
        """Raises NotFound for a view that is not theirs to see, as for one that is not there."""
        if view not in self.views(visitor):
            raise NotFound(f"there is no search {view}", hint="open /search")

    def views(self, visitor: Visitor) -> list[str]:
        """What they may search, by name."""
        shapes, session = self._reading.shapes, visitor.session
        return [
            name
            for name in shapes.names()
            if (not session.views or name in session.views) and self._is_shown(name, session)
        ]

    def _is_shown(self, name: str, session: Session) -> bool:
        try:
            shapes = self._reading.shapes
            return shapes.has(name, "search") and (session.reads or shapes.has(name, "alerts"))
        except HeadwaterError:  # it is being made or replaced
            return False

    def currency(self) -> str:
        return self._currency or (CURRENCY if self._is_demo else "")

    def is_demo(self) -> bool:
        if not self._is_demo and time.monotonic() - self._looked_at > LOOK_S:
            self._looked_at = time.monotonic()
            try:
                with connect(self._reading.deployment.postgres) as conn:
                    self._is_demo = demo.read_status(conn, count=False).complete
            except (HeadwaterError, psycopg.Error):
                self._is_demo = False
        return self._is_demo

    def _may_be_demo(self, request: Request) -> bool:
        """A name that leads to loopback can be anybody's: what the browser calls us by has to be ours."""
        host = request.headers.get("Host", "")
        name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
        return not self._reading.access.is_required and name in _LOOPBACK


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
