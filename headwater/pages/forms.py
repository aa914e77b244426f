"""What a browser posts: a form, bounded and parsed; and whether it came from a page of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from fastapi import Request

from cdc.errors import ConfigurationError
from headwater.api.problems import Forbidden

BYTES_MAX: Final = 64_000
FIELDS_MAX: Final = 500
TYPE: Final = "application/x-www-form-urlencoded"


class Form:
    """Its fields; of one that is named several times `value` is the last."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    def value(self, name: str, default: str = "") -> str:
        return next((value for key, value in reversed(self._pairs) if key == name), default)

    def values(self, name: str) -> list[str]:
        return [value for key, value in self._pairs if key == name]

    def items(self) -> list[tuple[str, str]]:
        return list(self._pairs)


async def read_form(request: Request) -> Form:
    """Raises ConfigurationError for what is no form, or is too large, and Forbidden for one of another site's pages."""
    require_same_origin(request.headers)
    if not request.headers.get("Content-Type", "").startswith(TYPE):
        raise ConfigurationError("the request is not a form", detail=f"it must be {TYPE}")
    held = b""
    async for chunk in request.stream():
        held += chunk
        if len(held) > BYTES_MAX:
            raise ConfigurationError("the form is too large", detail=f"at most {BYTES_MAX:,} bytes")
    try:
        pairs = parse_qsl(held.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError as error:
        raise ConfigurationError("the request is not a form", detail=str(error)) from error
    if any("\0" in text for pair in pairs for text in pair):  # no browser sends one, and Postgres takes it in no text
        raise ConfigurationError("the request is not a form", detail="it holds a NUL")
    return Form(pairs)


def require_same_origin(headers: Mapping[str, str]) -> None:
    """Browsers say where a form was: another site's is refused, whatever else it holds. Who says nothing is no browser,
    and the form's own token decides."""
    site = headers.get("Sec-Fetch-Site")
    if site is not None and site not in ("same-origin", "none"):
        raise Forbidden("the form is another site's", detail=f"Sec-Fetch-Site: {site}")
    origin = headers.get("Origin")
    if site is None and origin is not None:
        host = headers.get("X-Forwarded-Host") or headers.get("Host", "")
        if urlsplit(origin).netloc != host:
            raise Forbidden("the form is another site's", detail=f"Origin: {origin}")
