"""One row by its key: what `GET /v1/views/{view}/{key}` does, and a short way to it.

Applications ask for rows far more often than for anything else, and FastAPI takes longer to find and to fill the route
than the row takes to be read. So the plain request, without a query, is recognised before it: the same function
answers, and what goes wrong is told in the same words. The route stays, for the documentation and for other forms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from fastapi import FastAPI, Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from cdc.errors import HeadwaterError
from headwater.api.included import WAIT_MS, included
from headwater.api.problems import NotFound, answer
from headwater.views.key_text import named_values, words_of

if TYPE_CHECKING:
    from headwater.api.reading import Reading

CACHE: Final = "cache"
JSON: Final = "application/json"
PREFIX: Final = "/v1/views/"
TOKEN: Final = "X-Headwater-Token"


class Asked(NamedTuple):
    view: str
    key: str


async def one_row(reading: Reading, request: Request, asked: Asked, token: str | None, wait_ms: int) -> Response:
    """Raises what the answer is when it is not the row."""
    await reading.admit(request, "read")
    view, key = asked
    store = reading.shapes.store(view)
    encoded = reading.shapes.key(view, named_values(store, words_of(store, key)))
    fresh = await included(reading, view, CACHE, token, wait_ms)
    [row] = await reading.cache.rows(reading.source.name, view, [encoded])
    if row is None:
        stale = f"; the {CACHE} is stale: {fresh.stale}" if fresh.stale else ""
        raise NotFound(f"no row of {view} has the key {encoded.decode()}", detail=f"as of commit {fresh.lsn}{stale}")
    return answered({"view": view, "row": msgspec.Raw(row), "freshness": fresh}, fresh.headers())


def answered(body: object, headers: dict[str, str]) -> Response:
    return Response(msgspec.json.encode(body), media_type=JSON, headers=headers)


def shorten(app: FastAPI, reading: Reading) -> None:
    """To be called when the app has all its routes: a word that one of them has in the key's place is not a key, and
    one that a route has after the key is not its end."""
    paths = [path.split("/") for path in app.openapi()["paths"] if path.startswith(PREFIX)]
    words = frozenset(path[4] for path in paths if len(path) > 4 and not path[4].startswith("{"))
    ends = frozenset(path[5] for path in paths if len(path) > 5)
    app.add_middleware(KeyLookups, reading=reading, words=words, ends=ends)


class KeyLookups:
    def __init__(self, app: ASGIApp, reading: Reading, words: frozenset[str], ends: frozenset[str]) -> None:
        self._app, self._reading, self._words, self._ends = app, reading, words, ends

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = asked_for(scope, self._words, self._ends)
        if asked is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            response = await one_row(self._reading, request, asked, request.headers.get(TOKEN), WAIT_MS)
        except HeadwaterError as error:
            response = answer(error)
        await response(scope, receive, send)


def asked_for(scope: Scope, words: frozenset[str], ends: frozenset[str] = frozenset()) -> Asked | None:
    """The row that a request is for; None when it is for anything else, or in another form."""
    if scope["type"] != "http" or scope["method"] != "GET" or scope["query_string"]:
        return None
    path: str = scope["path"]
    if not path.startswith(PREFIX):
        return None
    view, _, key = path[len(PREFIX) :].partition("/")
    first, last = key.partition("/")[0], key.rpartition("/")
    is_row = view and key and first not in words and not (last[0] and last[2] in ends)
    return Asked(view, key) if is_row else None
