"""Our own CSS and JavaScript, out of the package. An address carries its content's hash: it may be kept for ever."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from fastapi import APIRouter, Request, Response

PREFIX: Final = "static"
FOR_EVER: Final = "public, max-age=31536000, immutable"
ASK_AGAIN: Final = "no-cache"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    name: str
    content: bytes
    digest: str

    @property
    def address(self) -> str:
        """Below the root of the site."""
        return f"{PREFIX}/{self.name}?v={self.digest}"

    @property
    def media_type(self) -> str:
        return _TYPES[f".{self.name.rpartition('.')[2]}"]


@cache
def static_files() -> dict[str, StaticFile]:
    """All of them, read once: what is not in the package is never served."""
    folder = resources.files("headwater.pages").joinpath("static")
    found = {}
    for entry in folder.iterdir():
        if f".{entry.name.rpartition('.')[2]}" in _TYPES:
            content = entry.read_bytes()
            found[entry.name] = StaticFile(entry.name, content, hashlib.sha256(content).hexdigest()[:16])
    return found


def router() -> APIRouter:
    routes = APIRouter(prefix=f"/{PREFIX}", include_in_schema=False)

    @routes.get("/{name}")
    def serve(request: Request, name: str, v: str = "") -> Response:
        file = static_files().get(name)
        if file is None:
            return Response("there is no such file\n", 404, media_type="text/plain")
        headers = {
            "Cache-Control": FOR_EVER if v == file.digest else ASK_AGAIN,
            "ETag": f'"{file.digest}"',
            "X-Content-Type-Options": "nosniff",
        }
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers=headers, media_type=file.media_type)

    return routes
