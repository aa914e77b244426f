"""The client for asyncio: as `sync`, word for word, but for the waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any, TypeVar

import httpx

from cdc.errors import HeadwaterError
from headwater.client import asking
from headwater.client.asking import Ask, Key, Reading, Value
from headwater.client.connection import TIMEOUT_S, URL, Options
from headwater.client.failures import lost, refusal
from headwater.client.feed import Feed
from headwater.client.retries import FEED_PATIENCE, Patience, Tries
from headwater.client.values import Change, Page, Row, View

T = TypeVar("T")


class AsyncClient:
    """Client for asyncio: the same methods, to be awaited. For one event loop.

    Whoever leaves the loop over `changes` early closes it: `async with contextlib.aclosing(client.changes(…)) as feed`.
    """

    def __init__(
        self,
        url: str = URL,
        *,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        patience: Patience | None = None,
        exact_numbers: bool = True,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._options = Options(url, api_key, timeout_s, patience or Patience(), exact_numbers)
        self._http = httpx.AsyncClient(**self._options.given(), transport=transport)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def get(
        self,
        view: str,
        key: Key = None,
        /,
        *,
        token: str | None = None,
        wait_ms: int | None = None,
        **columns: Value,
    ) -> Row | None:
        return await self._ask(asking.get(view, key, columns, Reading(token, wait_ms)))

    async def get_many(
        self, view: str, keys: Iterable[Key], /, *, token: str | None = None, wait_ms: int | None = None
    ) -> list[Row | None]:
        asks = asking.get_many(view, keys, Reading(token, wait_ms))
        return [row for ask in asks for row in await self._ask(ask)]

    async def lookup(
        self, view: str, /, *, token: str | None = None, wait_ms: int | None = None, **column: Value
    ) -> list[Row]:
        return await self._ask(asking.lookup(view, column, Reading(token, wait_ms)))

    async def search(
        self,
        view: str,
        /,
        query: str = "",
        *,
        sort: str | None = None,
        size: int | None = None,
        cursor: str | None = None,
        facets: Iterable[str] = (),
        highlight: bool = False,
        token: str | None = None,
        wait_ms: int | None = None,
    ) -> Page:
        wanted = asking.search(
            view,
            query,
            Reading(token, wait_ms),
            sort=sort,
            size=size,
            cursor=cursor,
            facets=facets,
            highlight=highlight,
        )
        return await self._ask(wanted)

    async def story(self, view: str, key: Key, /, *, last: int | None = None, causes: bool = False) -> dict[str, Any]:
        """Every kept version of a row, as the API tells it (docs/api.md); `causes` takes a key of scope admin."""
        return await self._ask(asking.story(view, key, last=last, causes=causes))

    async def view_at(self, view: str, /, at: str, limit: int = 100) -> dict[str, Any]:
        """Rows as they were at an instant, an LSN or a position: the first by key, and how many there were."""
        return await self._ask(asking.view_at(view, at, limit))

    async def diff(self, view: str, /, from_: str, to: str = "now") -> dict[str, Any]:
        """What was added, removed and changed between two instants, LSNs or positions."""
        return await self._ask(asking.diff(view, from_, to))

    async def views(self) -> list[View]:
        return await self._ask(asking.views())

    async def changes(
        self, view: str, /, *, after: str | int | None = None, patience: Patience = FEED_PATIENCE
    ) -> AsyncGenerator[Change, None]:
        feed = Feed(view, after, patience, exact=self._options.exact_numbers)
        error: HeadwaterError | None
        while True:
            try:
                async with self._http.stream(**feed.given(self._options.timeout_s)) as answer:
                    if answer.is_success:
                        async for chunk in answer.aiter_bytes():
                            for change in feed.take(chunk):
                                yield change
                    else:
                        await answer.aread()
                error = None if answer.is_success else refusal(answer.status_code, answer.headers, answer.content)
            except httpx.TransportError as problem:
                error = lost(problem, self._options.url)
            await asyncio.sleep(feed.pause_s(error))

    async def _ask(self, ask: Ask[T]) -> T:
        tries = Tries(self._options.patience)
        while True:
            try:
                answer = await self._http.request(**ask.given(self._options.timeout_s))
            except httpx.TransportError as error:
                await asyncio.sleep(tries.pause_s(lost(error, self._options.url)))
                continue
            if answer.is_success:
                return ask.answer(answer.content, exact=self._options.exact_numbers)
            await asyncio.sleep(tries.pause_s(refusal(answer.status_code, answer.headers, answer.content)))
