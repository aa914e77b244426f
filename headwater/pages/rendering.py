"""A template and its values ▶ a page. What comes out of a database is escaped; nothing runs but our own files.

Links in pages are relative (`root`), so they hold behind a proxy that serves us under any prefix, told of it or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Final

import msgspec
from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from headwater import __version__
from headwater.pages.static_files import static_files
from headwater.units import bytes_text, duration_text

SEE_OTHER: Final = 303
CONTENT_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Final = {
    "Content-Security-Policy": CONTENT_POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Robots-Tag": "noindex",
}


def page(
    request: Request, template: str, status: int = 200, headers: Mapping[str, str] | None = None, **values: object
) -> HTMLResponse:
    """The template with its values; `root` leads to the root of the site, `here` is the path below it."""
    known = {"root": root_of(request), "here": path_of(request)}
    text = environment().get_template(template).render(known | values)
    return HTMLResponse(text, status, {**HEADERS, **(headers or {})})


def see_other(request: Request, path: str) -> RedirectResponse:
    """After a form: to `path` below the root (`console/views`), relative, so that it holds behind any proxy."""
    return RedirectResponse(root_of(request) + path, SEE_OTHER, dict(HEADERS))


def root_of(request: Request) -> str:
    """From the page to the root of the site: `./` of /console, `../` of /console/views."""
    return "../" * (path_of(request).count("/") - 1) or "./"


def path_of(request: Request) -> str:
    """As the browser wrote it, without what a proxy puts before it."""
    raw = request.scope.get("raw_path") or request.scope["path"].encode()
    return str(raw.decode("ascii", "replace").partition("?")[0]).removeprefix(request.scope.get("root_path", ""))


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("headwater.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["asset"] = lambda name: static_files()[name].address
    made.globals["version"] = __version__
    made.filters |= {
        "bytes": lambda count: "" if count is None else bytes_text(count),
        "duration": lambda seconds: "" if seconds is None else duration_text(seconds),
        "ms": lambda ms: "" if ms is None else duration_text(ms / 1000),
        "count": lambda number: "" if number is None else f"{number:,}",
        "instant": instant,
        "sentence": lambda text: text[:1].upper() + text[1:],
        "coded": coded,
        "json": lambda value: msgspec.json.encode(value).decode(),
    }
    return made


def coded(text: str) -> Markup:
    """What stands between backticks is code."""
    parts = [
        Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(text.split("`"))
    ]
    return Markup("").join(parts)


def instant(at: datetime | float | None) -> str:
    """As people read it: `2026-11-17 13:58:23 UTC`. A number is microseconds since 1970."""
    if at is None:
        return ""
    known = at if isinstance(at, datetime) else datetime.fromtimestamp(at / 1e6, UTC)
    return f"{known.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
