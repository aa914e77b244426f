"""By which names the server may be called where it asks for no keys.

A page of another site can have its own name resolve to this machine (DNS rebinding): the browser then takes the API for
a part of that site, and the page may read and save what it likes. What such a page cannot change is `Host`, the name by
which the browser called. `X-Forwarded-Host` it can set, so that says nothing here.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.api.problems import Misdirected, answer
from headwater.settings import Settings

_HOST: Final = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::\d*)?")
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


def known_hosts(settings: Settings) -> frozenset[str]:
    """Names of this machine for itself, those that were set, and the one that links in messages have."""
    public = urlsplit(settings.alerts.public_url).netloc
    return LOOPBACK | {*settings.http.listed_hosts()} | ({name_of(public)} if public else set())


def name_of(host: str) -> str:
    """Without the port; as it is when it is none that a browser would send."""
    found = _HOST.fullmatch(host)
    return found[1].lower() if found else host


class KnownHosts:
    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Who names no host is let in: every browser does, some probes do not."""
        if scope["type"] == "http":
            for host in Headers(scope=scope).getlist("Host"):
                if name_of(host) not in self._names:
                    await answer(_refusal(host))(scope, receive, send)
                    return
        await self._app(scope, receive, send)


def _refusal(host: str) -> Misdirected:
    return Misdirected(
        "this server is not known by that name",
        detail=f"Host: {host[:200]}; without keys it is {', '.join(sorted(LOOPBACK))}",
        hint="set http.hosts to the names that it is called by, or api.keys to required",
    )
