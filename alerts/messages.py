"""A draft ▶ the message's body: its rows as items, each with the searches that it matched and why. Pure.

A row of a view is one item of a message, however often it changed and however many searches it matched: before is as
it was before the first of the changes that are told, after as it was after the last of them: how it is by now is not
known here. The body is a notification as JSON. What does not fit is counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from alerts.grouping import Draft, Pending
from alerts.saved_search import SavedSearch

_TELLING: Final = ("entered", "dropped", "rose", "changed", "left")
"""Of several events of an item the first of these names it; one that has left at last has left."""
ITEMS_BYTES_MAX: Final = 750_000
"""Of one message: what a webhook or a topic takes, with room for what is around them, and numbers written otherwise."""


def body(
    id_: str,
    owner: str,
    sequence: int,
    draft: Draft,
    searches: Mapping[int, SavedSearch],
    created_at: datetime,
    unsubscribe_url: str,
    items_max: int,
    items_more: int = 0,
    imaged: Callable[[Sequence[list[Pending]]], Iterable[list[Pending]]] = lambda items: items,
) -> bytes:
    """`items_more` are told with it and not in the draft. `imaged` gives the items, each the rows of one, with what
    they were before and after; it is asked for no more of them than it takes."""
    items = _items(draft.rows)
    shown = _fitting((_item(rows, searches) for rows in imaged(items)), items_max)
    told = {
        "id": id_,
        "owner": owner,
        "sequence": sequence,
        "created_at": created_at,
        "items": shown,
        "items_left_out": len(items) - len(shown) + items_more,
        "unsubscribe_url": unsubscribe_url,
    }
    return msgspec.json.encode(told)


def _items(rows: Sequence[Pending]) -> list[list[Pending]]:
    """Each in the order of its versions, the items in the order in which they first came."""
    found: dict[tuple[str, str], list[Pending]] = defaultdict(list)
    for row in rows:
        found[row.item].append(row)
    return [sorted(item, key=lambda row: (row.version, row.sequence)) for item in found.values()]


def _fitting(items: Iterable[dict[str, Any]], items_max: int) -> list[msgspec.Raw]:
    """The first that fit; one that is too large by itself hides none behind it."""
    found, room_bytes = list[msgspec.Raw](), ITEMS_BYTES_MAX
    for item in items:
        made = msgspec.json.encode(item)
        if len(made) <= room_bytes:
            found.append(msgspec.Raw(made))
            room_bytes -= len(made)
        if len(found) == items_max:
            break
    return found


def _item(rows: Sequence[Pending], searches: Mapping[int, SavedSearch]) -> dict[str, Any]:
    return {
        "view": rows[0].view,
        "key": msgspec.Raw(rows[0].key.encode()),
        "event": event_of(rows),
        "before": _raw(rows[0].before),
        "after": _raw(rows[-1].after),
        "searches": [_search(searches[id_], rows) for id_ in dict.fromkeys(row.subscription_id for row in rows)],
    }


def event_of(rows: Sequence[Pending]) -> str:
    last = {row.event for row in rows if row.version == rows[-1].version}
    if last == {"left"}:
        return "left"
    events = {row.event for row in rows}
    return next(event for event in _TELLING if event in events)


def _search(search: SavedSearch, rows: Sequence[Pending]) -> dict[str, str]:
    reasons = dict.fromkeys(row.reason for row in rows if row.subscription_id == search.id and row.reason)
    return {"id": str(search.id), "label": search.wish.label, "reason": "; ".join(reasons)}


def _raw(row: str | None) -> msgspec.Raw | None:
    return None if row is None else msgspec.Raw(row.encode())
