"""`/v1/search/{view}`: pages, counts, similar rows, and why a row matches; each answer with its freshness.

The engine asks Elasticsearch and waits, so every call runs in a thread. Engines are kept by the shape that they were
made for: a view that was changed gets another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import msgspec
from fastapi import APIRouter, Body, Query, Request, Response

from cdc.errors import ConfigurationError
from headwater.api.freshness import Freshness
from headwater.api.included import WAIT_MS, included
from headwater.api.key_lookup import answered
from headwater.api.problems import NotFound
from headwater.api.views_routes import Token, Wait
from headwater.views.key_text import named_values
from search.answers import Bucket, Facet, Hit, Page, Sort
from search.engine import SearchEngine
from search.query import Query as SearchQuery
from search.query import Range
from search.query_json import from_json, to_json
from search.query_text import to_text

if TYPE_CHECKING:
    from headwater.api.reading import Reading
    from views.sinks.sink import ViewShape

SEARCH: Final = "search"
SIZE: Final = 20
SPELL_BELOW: Final = 1
"""A search that finds fewer rows is told what may have been meant."""

T = TypeVar("T")
Asked = Annotated[str, Query(alias="q", description='As people write it: city:paris price:..500000 "south facing"')]
Sorting = Annotated[str, Query(description="Columns, separated by commas; with - in front downwards.")]
Facets = Annotated[str, Query(description="Columns whose values are counted, separated by commas.")]


class Engines:
    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._made: dict[str, tuple[ViewShape, SearchEngine]] = {}

    def engine(self, view: str) -> SearchEngine:
        self._reading.shapes.require(view, SEARCH)
        shape = self._reading.shapes.shape(view)
        known = self._made.get(view)
        if known is None or known[0] != shape:
            secret = self._reading.cursor_secret
            known = self._made[view] = (shape, SearchEngine.open(self._reading.deployment.elasticsearch, shape, secret))
        return known[1]


class Asking:
    """Runs a question in a thread, once the index includes what it has to include."""

    def __init__(self, reading: Reading) -> None:
        self.reading, self._engines = reading, Engines(reading)

    async def __call__(
        self, view: str, token: str | None, wait_ms: int, work: Callable[[SearchEngine], T]
    ) -> tuple[T, Freshness]:
        engine = await asyncio.to_thread(self._engines.engine, view)
        fresh = await included(self.reading, view, SEARCH, token, wait_ms)
        return await asyncio.to_thread(work, engine), fresh


def router(reading: Reading) -> APIRouter:
    routes = APIRouter(prefix="/v1/search", tags=["search"])
    asked = Asking(reading)
    _add_searches(routes, asked)
    _add_questions(routes, asked)
    return routes


def _add_searches(routes: APIRouter, asked: Asking) -> None:
    reading = asked.reading

    @routes.get("/{view}")
    async def search(
        request: Request,
        view: str,
        q: Asked = "",
        sort: Sorting = "",
        size: Annotated[int, Query(ge=1, le=1_000)] = SIZE,
        cursor: str | None = None,
        facets: Facets = "",
        highlight: bool = False,
        token: Token = None,
        wait_ms: Wait = WAIT_MS,
    ) -> Response:
        """One page of the rows that match, and a cursor for the next one, of the same moment."""
        await reading.admit(request, "read")

        def work(engine: SearchEngine) -> dict[str, Any]:
            return _searched(engine, engine.query(q), _sorts(sort), size, cursor, _facets(facets), highlight)

        found, fresh = await asked(view, token, wait_ms, work)
        return answered({"view": view, **found, "freshness": fresh}, fresh.headers())

    @routes.post("/{view}")
    async def search_json(
        request: Request,
        view: str,
        body: Annotated[
            dict[str, Any], Body(description="query (the JSON form), sort, size, cursor, facets, highlight")
        ],
        token: Token = None,
        wait_ms: Wait = WAIT_MS,
    ) -> Response:
        """The same with the query in its JSON form."""
        await reading.admit(request, "read")
        unknown = set(body) - {"query", "sort", "size", "cursor", "facets", "highlight"}
        if unknown:
            raise ConfigurationError(
                f"no {', '.join(sorted(unknown))} in a search", hint="query, sort, size, cursor, facets"
            )

        def work(engine: SearchEngine) -> dict[str, Any]:
            query = from_json(body["query"], engine.definition) if "query" in body else engine.query("")
            return _searched(
                engine,
                query,
                _sorts(str(body.get("sort", ""))),
                int(body.get("size", SIZE)),
                body.get("cursor"),
                _facets(str(body.get("facets", ""))),
                bool(body.get("highlight", False)),
            )

        found, fresh = await asked(view, token, wait_ms, work)
        return answered({"view": view, **found, "freshness": fresh}, fresh.headers())


def _add_questions(routes: APIRouter, asked: Asking) -> None:
    reading = asked.reading

    @routes.get("/{view}/count")
    async def count(
        request: Request, view: str, q: Asked = "", token: Token = None, wait_ms: Wait = WAIT_MS
    ) -> Response:
        """How many rows match."""
        await reading.admit(request, "read")
        found, fresh = await asked(view, token, wait_ms, lambda engine: engine.count(q))
        return answered({"view": view, "count": found, "freshness": fresh}, fresh.headers())

    @routes.get("/{view}/similar/{key:path}")
    async def similar(
        request: Request, view: str, key: str, size: Annotated[int, Query(ge=1, le=100)] = 10
    ) -> Response:
        """Rows with the most telling words of this one."""
        await reading.admit(request, "read")
        row, encoded = await _row(reading, view, key)
        found, fresh = await asked(view, None, 0, lambda engine: engine.similar(row, encoded, size))
        return answered({"view": view, "hits": list(map(_hit, found)), "freshness": fresh}, fresh.headers())

    @routes.get("/{view}/explain/{key:path}")
    async def explain(request: Request, view: str, key: str, q: Asked = "") -> Response:
        """Why a row matches, or does not, clause by clause."""
        await reading.admit(request, "read")
        row, _ = await _row(reading, view, key)
        found, fresh = await asked(view, None, 0, lambda engine: engine.explain(q, row))
        return answered({"view": view, "explanation": asdict(found), "freshness": fresh}, fresh.headers())


def _searched(
    engine: SearchEngine,
    query: SearchQuery,
    sort: list[Sort],
    size: int,
    cursor: str | None,
    facets: list[Facet],
    highlight: bool,
) -> dict[str, Any]:
    page = engine.search(query, sort=sort, size=size, cursor=cursor, facets=facets, highlight=highlight)
    meant = engine.did_you_mean(query) if page.total < SPELL_BELOW else None
    return {
        "query": {"text": to_text(query, engine.definition), "json": to_json(query)},
        **_page(page),
        "did_you_mean": meant.text if meant else None,
    }


async def _row(reading: Reading, view: str, key: str) -> tuple[bytes, bytes]:
    """A row from the cache, for what is asked about it; with its key."""
    reading.shapes.require(view, "cache")
    store = reading.shapes.store(view)
    words = [key] if len(store.key) == 1 else key.split(",")
    encoded = reading.shapes.key(view, named_values(store, words))
    [row] = await reading.cache.rows(reading.source.name, view, [encoded])
    if row is None:
        raise NotFound(f"no row of {view} has the key {encoded.decode()}")
    return row, encoded


def _sorts(text: str) -> list[Sort]:
    return [Sort(word.lstrip("-"), word.startswith("-")) for word in _words(text)]


def _facets(text: str) -> list[Facet]:
    return [Facet(word) for word in _words(text)]


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _page(page: Page) -> dict[str, Any]:
    return {
        "hits": [_hit(hit) for hit in page.hits],
        "total": page.total,
        "next": page.cursor,
        "facets": {name: [_bucket(bucket) for bucket in buckets] for name, buckets in page.facets.items()},
        "took_ms": page.took_ms,
    }


def _hit(hit: Hit) -> dict[str, Any]:
    shown = {"highlights": [asdict(each) for each in hit.highlights]} if hit.highlights else {}
    return {"row": msgspec.Raw(hit.row), "version": hit.version, "score": hit.score, **shown}


def _bucket(bucket: Bucket) -> dict[str, Any]:
    value = to_json(bucket.value) if isinstance(bucket.value, Range) else bucket.value
    return {
        "value": value if isinstance(value, str | int | float | bool | dict | None) else str(value),
        "count": bucket.count,
    }
