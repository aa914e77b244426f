"""What each read sends and how its answer is read: the part that both clients share. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from itertools import islice
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote
from uuid import UUID

from cdc.errors import ConfigurationError
from headwater.client.failures import ApiError
from headwater.client.values import Freshness, Page, Row, Values, View

KEYS_MAX: Final = 1_000
"""Of one request; `get_many` makes several."""
WAIT_MS: Final = 5_000
"""How long the server waits for a token when it is not told."""

Value = str | int | float | bool | Decimal | date | datetime | time | UUID | bytes | None
Key = Value | Mapping[str, Value]
"""The value of a key of one column, or all columns of a key by name."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reading:
    """For read-your-writes: the answer includes what was committed before the token, or is NotYet after the wait."""

    token: str | None = None
    wait_ms: int | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {"X-Headwater-Token": self.token} if self.token else {}

    @property
    def params(self) -> dict[str, str]:
        return {} if self.wait_ms is None else {"wait_ms": str(self.wait_ms)}

    @property
    def wait_s(self) -> float:
        """What the answer may take longer than without a token."""
        return (WAIT_MS if self.wait_ms is None else self.wait_ms) / 1000 if self.token else 0.0


@dataclass(frozen=True, slots=True)
class Ask(Generic[T]):
    method: str
    path: str
    read: Callable[[Values], T]
    reading: Reading = Reading()
    params: Mapping[str, str] = field(default_factory=dict)
    body: object = None

    def given(self, timeout_s: float) -> dict[str, Any]:
        """As httpx takes it."""
        return {
            "method": self.method,
            "url": self.path,
            "params": {**self.params, **self.reading.params},
            "headers": self.reading.headers,
            "json": self.body,
            "timeout": timeout_s + self.reading.wait_s,
        }

    def answer(self, body: bytes, *, exact: bool) -> T:
        try:
            return self.read(parse(body, exact=exact))
        except (ValueError, KeyError, TypeError) as error:
            detail = f"{type(error).__name__}: {error}"
            raise ApiError(f"the answer to {self.path} is none of Headwater's", detail=detail, status=200) from error


def parse(body: bytes, *, exact: bool) -> Any:
    """JSON with its numbers as they are: `json` and not a faster one, because it keeps integers of any length."""
    return json.loads(body, parse_float=Decimal if exact else float)


def get(view: str, key: Key, columns: Mapping[str, Value], reading: Reading) -> Ask[Row | None]:
    """By the batch: it tells a missing row (null) from a missing view (404), and takes any text as a key."""
    if (key is None) == (not columns):
        raise ConfigurationError(
            f"not one key of {view}", detail="its value, or its columns by name", hint="get(view, 7), get(view, id=7)"
        )
    keys = [_key(columns or key)]
    return Ask("POST", f"{_view(view)}/get", lambda told: _rows_or_none(told)[0], reading, body={"keys": keys})


def get_many(view: str, keys: Iterable[Key], reading: Reading) -> Iterator[Ask[list[Row | None]]]:
    left = iter(keys)
    while some := [_key(key) for key in islice(left, KEYS_MAX)]:
        yield Ask("POST", f"{_view(view)}/get", _rows_or_none, reading, body={"keys": some})


def lookup(view: str, columns: Mapping[str, Value], reading: Reading) -> Ask[list[Row]]:
    if len(columns) != 1:
        raise ConfigurationError(
            f"{view} is looked up by one column", detail=f"given {', '.join(columns) or 'none'}", hint="slug='p-7'"
        )
    params = {name: text(value) or "" for name, value in columns.items()}
    return Ask("GET", _view(view), lambda told: [row for row in _rows_or_none(told) if row], reading, params)


def search(
    view: str,
    query: str,
    reading: Reading,
    *,
    sort: str | None = None,
    size: int | None = None,
    cursor: str | None = None,
    facets: Iterable[str] = (),
    highlight: bool = False,
) -> Ask[Page]:
    wanted = {"q": query, "sort": sort, "size": size, "cursor": cursor, "facets": ",".join(facets)}
    params = {name: str(value) for name, value in wanted.items() if value not in (None, "")}
    params |= {"highlight": "true"} if highlight else {}
    return Ask("GET", f"v1/search/{quote(view, safe='')}", Page.read, reading, params)


def views() -> Ask[list[View]]:
    return Ask("GET", "v1/views", lambda told: [View.read(each) for each in told["views"]])


def story(view: str, key: Key, *, last: int | None, causes: bool) -> Ask[dict[str, Any]]:
    given = _key(key)
    named = given if isinstance(given, str) else ",".join(f"{name}={value}" for name, value in given.items())
    params = {**({"last": str(last)} if last else {}), **({"causes": "true"} if causes else {})}
    return Ask("GET", f"{_view(view)}/{quote(named, safe='')}/story", dict, params=params)


def view_at(view: str, at: str, limit: int) -> Ask[dict[str, Any]]:
    return Ask("GET", f"{_view(view)}/at", dict, params={"at": at, "limit": str(limit)})


def diff(view: str, from_: str, to: str) -> Ask[dict[str, Any]]:
    return Ask("GET", f"{_view(view)}/diff", dict, params={"from": from_, "to": to})


def changes_path(view: str) -> str:
    return f"{_view(view)}/changes"


def text(value: Value) -> str | None:
    """As a person would type it to Postgres."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _key(key: Key) -> str | dict[str, str | None]:
    if isinstance(key, Mapping):
        return {name: text(value) for name, value in key.items()}
    if key is None:
        raise ConfigurationError("None is no key", hint="a column that may be NULL is named: {'city': None}")
    return text(key) or ""


def _view(view: str) -> str:
    return f"v1/views/{quote(view, safe='')}"


def _rows_or_none(told: Values) -> list[Row | None]:
    fresh = Freshness.read(told["freshness"])
    return [None if row is None else Row(row, fresh) for row in told["rows"]]
