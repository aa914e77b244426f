"""A notification in words: what texts, pages and mail say of it. Pure; nothing here is escaped yet.

Columns are whatever a view has, so a row is named by the column that people would name it by, or by its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from alerts.notification import Event, Item, Notification, Row

ITEMS_SHOWN_MAX: Final = 50
COLUMNS_SHOWN_MAX: Final = 8
VALUE_CHARACTERS_MAX: Final = 200
SUBJECT_CHARACTERS_MAX: Final = 120
_TITLES: Final = ("title", "name", "label", "headline", "subject")
_EVENTS: Final = {
    Event.ENTERED: "new",
    Event.LEFT: "no longer there",
    Event.CHANGED: "changed",
    Event.DROPPED: "dropped",
    Event.ROSE: "rose",
}
_encoder: Final = msgspec.json.Encoder(enc_hook=str, decimal_format="number")


@dataclass(frozen=True, slots=True)
class Told:
    """One item as a person reads it."""

    title: str
    event: str
    facts: tuple[tuple[str, str], ...]
    """Column and value; for one that changed, both values."""
    because: tuple[str, ...]


def subject(notification: Notification) -> str:
    """One line, whatever the labels hold."""
    count, labels = notification.items_count, notification.labels
    first = told(notification.items[0]) if notification.items else None
    counted = "1 match" if count == 1 else f"{count} matches"
    what = f"{first.title}: {first.event}" if first and count == 1 else counted
    whole = f"{labels[0]}: {what}" if len(labels) == 1 else what
    return shortened(" ".join(whole.split()), SUBJECT_CHARACTERS_MAX)


def more(notification: Notification) -> int:
    """Items that are counted instead of shown."""
    return notification.items_count - min(len(notification.items), ITEMS_SHOWN_MAX)


def told(item: Item) -> Told:
    row = item.after or item.before or {}
    because = tuple(f"{each.label}: {each.reason}" if each.reason else each.label for each in item.searches)
    return Told(_title(item, row), _EVENTS[item.event], tuple(_facts(item, row)), because)


def _title(item: Item, row: Row) -> str:
    named = next((row[column] for column in _TITLES if isinstance(row.get(column), str) and row[column]), None)
    return value_text(named) if named is not None else f"{item.view} {key_text(item.key)}"


def key_text(key: Row) -> str:
    return ", ".join(value_text(value) for value in key.values())


def _facts(item: Item, row: Row) -> Iterator[tuple[str, str]]:
    """What changed first, then the other columns, up to a limit."""
    changed = [column for column in row if item.before and item.after and _differs(column, item.before, item.after)]
    others = [column for column in row if column not in changed and column not in _TITLES]
    for column in (changed + others)[:COLUMNS_SHOWN_MAX]:
        value = value_text(row[column])
        if column in changed and item.before:
            value = f"{value_text(item.before.get(column))} → {value}"
        yield column, value


def _differs(column: str, before: Mapping[str, object], after: Mapping[str, object]) -> bool:
    return before.get(column) != after.get(column)


def value_text(value: object) -> str:
    if value is None:
        return "–"
    text = value if isinstance(value, str) else _encoder.encode(value).decode()
    return shortened(" ".join(text.split()), VALUE_CHARACTERS_MAX)


def shortened(text: str, characters_max: int) -> str:
    return text if len(text) <= characters_max else f"{text[: characters_max - 1]}…"
