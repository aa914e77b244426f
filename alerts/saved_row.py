"""A row of headwater.subscriptions, out of the table or the log, ▶ what the matcher takes."""

from __future__ import annotations

from typing import Any

import msgspec

from alerts.subscription import Entry, Watched
from cdc.events import Row
from search.errors import QueryRefused
from search.index import IndexDefinition
from search.query_json import from_json


class _Saved(msgspec.Struct, frozen=True):
    query: str
    events: tuple[str, ...]
    columns: tuple[str, ...] = ()
    watched_column: str | None = None


def fitting(number: int, row: Row, definition: IndexDefinition) -> Entry | None:
    """None for a search that the view, as it is now, cannot answer: it is broken (troubles.py), and says so."""
    try:
        return entry_of(number, row, definition)
    except QueryRefused:
        return None


def entry_of(number: int, row: Row, definition: IndexDefinition) -> Entry:
    """Raises QueryRefused if the view cannot answer it (any more)."""
    saved = msgspec.convert(dict(row), _Saved)
    written: Any = msgspec.json.decode(saved.query)
    moves = (saved.watched_column,) if saved.watched_column else ()
    return Entry(
        number,
        from_json(written, definition),
        Watched(
            "entered" in saved.events,
            "left" in saved.events,
            "changed" in saved.events,
            tuple(sorted(set(saved.columns))) if "changed" in saved.events else (),
            moves if "dropped" in saved.events else (),
            moves if "rose" in saved.events else (),
        ),
    )
