"""Who is signed in to the console: by an admin key, or by a link that `headwater console` made on this machine.

A link works once and for minutes. Who can make one can read the data folder, where the embedded servers' passwords are:
it gives nothing away. A session ends by itself, by signing out, or with its key.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

import msgspec

from headwater.pages.secret_files import SecretFiles

FOLDER: Final = "console"
SESSION_S: Final = 12 * 3_600.0
LINK_S: Final = 15 * 60.0
RENEW_S: Final = 60.0
"""A link that is shown is made anew when it has less left than that."""
SESSIONS_MAX: Final = 1_000
LINKS_MAX: Final = 50


class Session(msgspec.Struct, frozen=True):
    actor: str
    """Who it is, as the audit log names them."""
    form_token: str
    """In every form of theirs: another site's page does not know it."""
    key: str = ""
    """The id of the admin key; empty for who came by a link."""


class Link(msgspec.Struct, frozen=True):
    actor: str


class Sessions:
    def __init__(self, data_folder: Path) -> None:
        folder = data_folder / FOLDER
        self._sessions = SecretFiles(folder, "session", Session, lives_s=SESSION_S, most=SESSIONS_MAX)
        self._links = SecretFiles(folder, "link", Link, lives_s=LINK_S, most=LINKS_MAX)

    def begin(self, actor: str, key: str = "") -> str:
        """The secret that the browser keeps."""
        return self._sessions.make(Session(actor, secrets.token_urlsafe(24), key))

    def find(self, secret: str) -> Session | None:
        return self._sessions.read(secret) if secret else None

    def end(self, secret: str) -> None:
        self._sessions.take(secret)

    def make_link(self, actor: str) -> str:
        return self._links.make(Link(actor))

    def enter(self, secret: str) -> str | None:
        """The session that a link stands for; None for one that was used or is too old."""
        link = self._links.take(secret) if secret else None
        return None if link is None else self.begin(link.actor)

    def link_left_s(self, secret: str) -> float:
        return self._links.left_s(secret)


class ShownLink:
    """The link on a terminal that stays open: made anew once it was used or is about to end."""

    def __init__(self, sessions: Sessions, actor: str) -> None:
        self._sessions, self._actor, self._secret = sessions, actor, ""

    def secret(self) -> str:
        if not self._secret or self._sessions.link_left_s(self._secret) < RENEW_S:
            self._secret = self._sessions.make_link(self._actor)
        return self._secret


def address(page_url: str, secret: str) -> str:
    return f"{page_url}console/enter?link={secret}"
