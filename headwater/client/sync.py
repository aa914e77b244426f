"""The client for programs without asyncio. Only talks: what to say is in `asking`, what to do next in `retries`."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
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


class Client:
    """May be shared between threads. Close it, or use it as a context manager.

    Numbers with a point are Decimal and keep their digits; `exact_numbers=False` makes them float. With a `token` (of
    `token_of`) an answer includes what was committed before it: the server waits for that up to `wait_ms`, then the
    read is NotYet. Every method raises one of headwater.client.failures.
    """

    def __init__(
        self,
        url: str = URL,
        *,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        patience: Patience | None = None,
        exact_numbers: bool = True,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._options = Options(url, api_key, timeout_s, patience or Patience(), exact_numbers)
        self._http = httpx.Client(**self._options.given(), transport=transport)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def get(
        self,
        view: str,
        key: Key = None,
        /,
        *,
        token: str | None = None,
        wait_ms: int | None = None,
        **columns: Value,
    ) -> Row | None:
        """A row by its key, None if there is none: get("card", 7), get("by_day", city="Lyon", day=date.today())."""
        return self._ask(asking.get(view, key, columns, Reading(token, wait_ms)))

    def get_many(
        self, view: str, keys: Iterable[Key], /, *, token: str | None = None, wait_ms: int | None = None
    ) -> list[Row | None]:
        """Rows in the order of the keys, None where there is none; a request for every 1,000."""
        asks = asking.get_many(view, keys, Reading(token, wait_ms))
        return [row for ask in asks for row in self._ask(ask)]

    def lookup(
        self, view: str, /, *, token: str | None = None, wait_ms: int | None = None, **column: Value
    ) -> list[Row]:
        """The rows with a value in a column that the view declares under `lookup`: lookup("card", slug="p-7")."""
        return self._ask(asking.lookup(view, column, Reading(token, wait_ms)))

    def search(
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
        """A page of what the query finds; its `next` is the `cursor` of the one after it. sort="-price,id"."""
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
        return self._ask(wanted)

    def story(self, view: str, key: Key, /, *, last: int | None = None, causes: bool = False) -> dict[str, Any]:
        """Every kept version of a row, as the API tells it (docs/api.md); `causes` takes a key of scope admin."""
        return self._ask(asking.story(view, key, last=last, causes=causes))

    def view_at(self, view: str, /, at: str, limit: int = 100) -> dict[str, Any]:
        """Rows as they were at an instant, an LSN or a position: the first by key, and how many there were."""
        return self._ask(asking.view_at(view, at, limit))

    def diff(self, view: str, /, from_: str, to: str = "now") -> dict[str, Any]:
        """What was added, removed and changed between two instants, LSNs or positions."""
        return self._ask(asking.diff(view, from_, to))

    def views(self) -> list[View]:
        """Every view with its sinks and how fresh each is."""
        return self._ask(asking.views())

    def changes(
        self, view: str, /, *, after: str | int | None = None, patience: Patience = FEED_PATIENCE
    ) -> Generator[Change, None, None]:
        """What changes from now on, after the change with that id, or from "earliest"; without end.

        A lost connection is made again where it was. Raises when that failed too often in a row, and at once when the
        server refuses. To go on after a restart of your own, keep the id of the last change that you have dealt with.
        """
        feed = Feed(view, after, patience, exact=self._options.exact_numbers)
        error: HeadwaterError | None
        while True:
            try:
                with self._http.stream(**feed.given(self._options.timeout_s)) as answer:
                    if answer.is_success:
                        for chunk in answer.iter_bytes():
                            yield from feed.take(chunk)
                    else:
                        answer.read()
                error = None if answer.is_success else refusal(answer.status_code, answer.headers, answer.content)
            except httpx.TransportError as problem:
                error = lost(problem, self._options.url)
            time.sleep(feed.pause_s(error))

    def _ask(self, ask: Ask[T]) -> T:
        tries = Tries(self._options.patience)
        while True:
            try:
                answer = self._http.request(**ask.given(self._options.timeout_s))
            except httpx.TransportError as error:
                time.sleep(tries.pause_s(lost(error, self._options.url)))
                continue
            if answer.is_success:
                return ask.answer(answer.content, exact=self._options.exact_numbers)
            time.sleep(tries.pause_s(refusal(answer.status_code, answer.headers, answer.content)))
