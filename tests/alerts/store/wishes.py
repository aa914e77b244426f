"""A small view, wishes about it, and matches of its rows."""

from __future__ import annotations

import json
from typing import Any

from alerts.outbox import Match
from alerts.saved_search import Wish
from alerts.wish_reading import read_wish
from search.index import IndexDefinition, define
from views import sqltypes
from views.plan import Field
from views.sinks.sink import ViewShape

FIELDS = (
    Field("id", sqltypes.BIGINT, nullable=False),
    Field("title", sqltypes.TEXT),
    Field("city", sqltypes.TEXT),
    Field("price", sqltypes.named("numeric(12,2)")),
    Field("bedrooms", sqltypes.INTEGER),
    Field("tags", sqltypes.array_of(sqltypes.TEXT)),
)
VIEW = "listing"


def definition(view: str = VIEW) -> IndexDefinition:
    return define(ViewShape("market", view, FIELDS, ("id",)))


def wish(**given: Any) -> Wish:
    view = given.pop("view", VIEW)
    return read_wish({"query": "city:paris", **given}, definition(view))


def row(id_: int, price: float | None = 100, **others: Any) -> bytes:
    return json.dumps({"id": id_, "title": "Flat", "city": "paris", "price": price, **others}).encode()


def match(
    subscription: int,
    id_: int = 1,
    event: str = "entered",
    version: int = 0,
    before: bytes | None = None,
    after: bytes | None = b"",
    at_us: int | None = 1_800_000_000_000_000,
) -> Match:
    key = json.dumps({"id": id_}, separators=(",", ":")).encode()
    after = row(id_) if after == b"" else after
    return Match(subscription, key, event, version, f"7:{version}", before, after, at_us)
