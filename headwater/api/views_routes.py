"""`/v1/views`: rows by key, several at once, by another column; each answer with its freshness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, Field

from cdc.errors import ConfigurationError
from headwater.api.freshness import Freshness
from headwater.api.included import WAIT_MS, WAIT_MS_MAX, included
from headwater.api.key_lookup import CACHE, TOKEN, Asked, answered, one_row
from headwater.views.key_text import named_values
from views.sinks.cache import lookups
from views.sinks.cache_reads import LOOKUP_ROWS_MAX

if TYPE_CHECKING:
    from headwater.api.reading import Reading

KEYS_MAX: Final = 1_000

Token = Annotated[
    str | None,
    Header(alias=TOKEN, description="An LSN after a write that the answer has to include."),
]
Wait = Annotated[int, Query(alias="wait_ms", ge=0, le=WAIT_MS_MAX, description="How long to wait for it.")]


class Keys(BaseModel):
    """Keys as objects, by the columns of the view's key; or just the values, where it is one column."""

    keys: list[dict[str, Any] | str | int] = Field(max_length=KEYS_MAX)


def router(reading: Reading) -> APIRouter:
    routes = APIRouter(prefix="/v1/views", tags=["views"])

    @routes.get("")
    async def views(request: Request) -> Response:
        """Every view with its sinks and how fresh each is."""
        await reading.admit(request, "read")
        return answered({"views": [_described(reading, name) for name in reading.shapes.names()]}, {})

    @routes.post("/{view}/get")
    async def several(
        request: Request, view: str, asked: Keys, token: Token = None, wait_ms: Wait = WAIT_MS
    ) -> Response:
        """Many rows by key, in the order of the keys; null where there is none."""
        await reading.admit(request, "read")
        keys = [reading.shapes.key(view, _values(reading, view, key)) for key in asked.keys]
        fresh = await included(reading, view, CACHE, token, wait_ms)
        rows = await reading.cache.rows(reading.source.name, view, keys)
        found = [msgspec.Raw(row) if row is not None else None for row in rows]
        return answered({"view": view, "rows": found, "freshness": fresh}, fresh.headers())

    @routes.get("/{view}")
    async def by_column(request: Request, view: str, token: Token = None, wait_ms: Wait = WAIT_MS) -> Response:
        """The rows with a value in a column that the view declares under `lookup`: ?slug=…"""
        await reading.admit(request, "read")
        given = {name: value for name, value in request.query_params.items() if name != "wait_ms"}
        columns = lookups(reading.shapes.shape(view))
        if len(given) != 1 or next(iter(given)) not in columns:
            raise ConfigurationError(
                f"{view} is looked up by one of: {', '.join(columns) or 'nothing but its key'}",
                detail=f"given {', '.join(given) or 'nothing'}",
                hint=f"CREATE MATERIALIZED VIEW {view} WITH (lookup = 'column') AS …",
            )
        [(column, text)] = given.items()
        fresh = await included(reading, view, CACHE, token, wait_ms)
        rows = await reading.cache.by(reading.source.name, view, column, reading.shapes.value(view, column, text))
        told = {"view": view, "rows": list(map(msgspec.Raw, rows)), "is_cut": len(rows) >= LOOKUP_ROWS_MAX}
        return answered({**told, "freshness": fresh}, fresh.headers())

    @routes.get("/{view}/{key:path}")
    async def one(request: Request, view: str, key: str, token: Token = None, wait_ms: Wait = WAIT_MS) -> Response:
        """One row by its key: the value, values separated by commas in the key's order, or name=value pairs."""
        return await one_row(reading, request, Asked(view, key), token, wait_ms)

    return routes


def _values(reading: Reading, view: str, key: dict[str, Any] | str | int) -> dict[str, str | None]:
    store = reading.shapes.store(view)
    if not isinstance(key, dict):
        return (
            dict(zip(store.key, [_text(key)], strict=True)) if len(store.key) == 1 else named_values(store, [str(key)])
        )
    if key.keys() != set(store.key):
        raise ConfigurationError(
            f"not a key of {view}: {', '.join(key) or 'nothing'}",
            detail=f"the key is ({', '.join(store.key)})",
            hint="name all its columns",
        )
    return {name: None if value is None else _text(value) for name, value in key.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _described(reading: Reading, view: str) -> dict[str, object]:
    state, stale = reading.shapes.state().views[view], reading.shapes.stale(view)
    sinks = {status.sink: Freshness.of(status, stale) for status in reading.board.statuses() if status.view == view}
    return {"view": view, "state": state.state.value, "reason": state.reason, "stale": stale, "sinks": sinks}
