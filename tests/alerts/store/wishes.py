"""A small view, wishes about it, and matches of its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
import psycopg

from alerts import outbox
from alerts.matched import NAMES, Match, Matched
from alerts.matcher.events import Matches
from alerts.saved_search import Wish
from alerts.wish_reading import read_wish
from search.index import IndexDefinition, define
from views import sqltypes
from views.plan import Field
from views.sinks.sink import Change, ViewShape

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


def record(
    conn: psycopg.Connection, view: str, mark_offset: int, matches: Iterable[Match], **given: Any
) -> outbox.Recorded:
    """As a watch hands them to the outbox: of a change, and whom it concerns."""
    return outbox.record(conn, definition(view), mark_offset, matched(matches), **given)


def matched(matches: Iterable[Match]) -> Iterator[Matched]:
    bits = {name: bit for bit, name in NAMES}
    for (version, _), together in groupby(sorted(matches, key=_change), _change):
        by_search: dict[int, int] = {}
        for each in together:
            by_search[each.subscription_id] = by_search.get(each.subscription_id, 0) | bits[each.event]
        change = Change(each.key, each.after, version, each.before)
        found = Matches(
            np.zeros(len(by_search), np.int32),
            np.array(list(by_search), np.int64),
            np.array(list(by_search.values()), np.uint8),
        )
        yield Matched([change], found, each.position, each.committed_at_us)


def _change(match: Match) -> tuple[int, bytes]:
    return match.version, match.key
