"""Values that must never be printed: a secret shows as ***, a URL shows without the password inside it.

Stands under every section of the settings. Guarantees that neither `repr`, `str`, `config show` nor an error message
made here contains a password, whatever a person wrote into the URL.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pydantic import Secret

HIDDEN: Final = "***"
_SENSITIVE: Final = re.compile(r"pass|secret|token|credential|(api|access|account|private)[._-]?key", re.IGNORECASE)
_PLACE: Final = re.compile(r"^[A-Za-z0-9._\-\[\]:,%]*(/[^@?#]*)?$")
"""What may follow the password: hosts and a path. Anything else may be a part of a password that was not encoded."""


class SecretUrl(Secret[str]):
    """A URL that may carry a password."""

    def _display(self) -> str:
        return masked_url(self.get_secret_value())

    def __bool__(self) -> bool:
        return bool(self.get_secret_value())

    def passwords(self) -> list[str]:
        """The password inside, as written and decoded; none for a URL that has none."""
        password = urlsplit(self.get_secret_value()).password
        return [password, unquote(password)] if password else []


def is_sensitive(name: str) -> bool:
    """Whether a name (of a parameter, an option, a log field) speaks of a secret."""
    return _SENSITIVE.search(name) is not None


def masked_url(url: str) -> str:
    """The URL with its password and secret parameters as ***; all of it as *** when it cannot be told what is what."""
    if not url:
        return ""
    scheme, separator, rest = url.partition("://")
    if not separator or not scheme.replace("+", "").isalnum():
        return HIDDEN
    # The last @ ends the password: one written without percent-encoding may itself hold an @.
    login, at, place = rest.rpartition("@")
    place, question, query = place.partition("?")
    if not _PLACE.match(place) or (not at and _port_is_odd(place)):
        return HIDDEN
    if re.search(r"[/?#]", login):
        # A password that was not encoded, or an @ among the parameters: nobody can tell.
        return HIDDEN
    user, colon, _ = login.partition(":")
    shown = f"{scheme}://{user}{f':{HIDDEN}' if colon else ''}{at}{place}"
    return f"{shown}?{_masked_query(query)}" if question else shown


def _port_is_odd(place: str) -> bool:
    """True for `user:password` with the @host forgotten."""
    port = place.partition("/")[0].rpartition("]")[2].rpartition(":")[2]
    return ":" in place and not port.isdigit()


def _masked_query(query: str) -> str:
    """All of it is hidden once one parameter is secret: an & inside its value looks like the next one."""
    secret = any(is_sensitive(name) for name, _ in parse_qsl(query, keep_blank_values=True))
    return HIDDEN if secret else query


def split_url(url: str, schemes: tuple[str, ...]) -> SplitResult:
    """The parts of a URL, or a ValueError that says what is wrong without repeating any of it."""
    wrong = _wrong_with(url, schemes)
    if wrong:
        raise ValueError(wrong)
    return urlsplit(url)


def _wrong_with(url: str, schemes: tuple[str, ...]) -> str:
    encode = "write / ? # @ of a user name or password percent-encoded"
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        # The library's own message repeats what it could not read, and that may be the password.
        return f"is not a URL: the host or port cannot be read; {encode}"
    if parts.scheme not in schemes:
        return f"must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}"
    if not host:
        return "names no host"
    if port == 0 or "," in parts.netloc.rpartition("@")[2]:
        return "must name one host and one port"
    if "@" in parts.path or parts.fragment:
        return f"is not a URL: {encode}"
    return ""
