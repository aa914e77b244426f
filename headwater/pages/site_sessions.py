"""Who somebody is, as a text that only we can write: in a link that signs them in, and in the cookie after it. Pure.

A text is good for one purpose and until one instant. What it says can be read by its holder; nothing can be changed.
The token in a form is made from the cookie, so a page of another site cannot know it.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from cdc.errors import ConfigurationError

TEXT_CHARACTERS_MAX: Final = 4_000
LINK: Final = "link"
COOKIE: Final = "cookie"
_FORM: Final = b"form"


class Session(msgspec.Struct, frozen=True, array_like=True):
    owner: str
    expires_at_s: int
    reads: bool = False
    """Whether the key that vouched for them may read: without it, just the views that have alerts are shown."""
    views: tuple[str, ...] = ()
    """No others than these; empty: all of them."""

    @property
    def expires_at(self) -> datetime:
        return datetime.fromtimestamp(self.expires_at_s, UTC)

    def until(self, at: datetime) -> Session:
        return Session(self.owner, int(at.timestamp()), self.reads, self.views)


_decoder: Final = msgspec.json.Decoder(Session)


@dataclass(frozen=True, slots=True)
class Signer:
    secret: bytes

    def written(self, session: Session, purpose: str) -> str:
        """Raises ConfigurationError for what `read` would take from nobody: it has to fit into a link and a cookie."""
        said = msgspec.json.encode(session)
        text = f"{_text(said)}.{_text(self._signature(purpose.encode(), said))}"
        if len(text) > TEXT_CHARACTERS_MAX:
            raise ConfigurationError(
                "too much for one link",
                detail=f"its text would have {len(text):,} characters, at most {TEXT_CHARACTERS_MAX:,}",
                hint="name fewer views",
            )
        return text

    def read(self, text: str, purpose: str, now: datetime) -> Session | None:
        """None for what we did not write, wrote for something else, or what has expired."""
        if len(text) > TEXT_CHARACTERS_MAX or not text.isascii():
            return None
        said, _, signature = text.partition(".")
        try:
            body, given = _bytes(said), _bytes(signature)
        except (NotBase64, ValueError):
            return None
        if not hmac.compare_digest(given, self._signature(purpose.encode(), body)):
            return None
        session = _decoder.decode(body)
        return session if session.expires_at > now else None

    def form_token(self, cookie: str) -> str:
        """For the forms of whoever holds this cookie."""
        return _text(self._signature(_FORM, cookie.encode()))

    def is_form_token(self, token: str, cookie: str) -> bool:
        return hmac.compare_digest(token.encode(), self.form_token(cookie).encode())

    def _signature(self, purpose: bytes, said: bytes) -> bytes:
        return hmac.digest(self.secret, b"headwater site\x00" + purpose + b"\x00" + said, hashlib.sha256)


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
