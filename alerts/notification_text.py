"""A notification as plain text, for mail and terminals."""

from __future__ import annotations

from collections.abc import Iterator

from alerts.notification import Item, Notification
from alerts.notification_words import ITEMS_SHOWN_MAX, more, told


def as_text(notification: Notification) -> str:
    return "\n".join(_lines(notification)) + "\n"


def _lines(notification: Notification) -> Iterator[str]:
    for item in notification.items[:ITEMS_SHOWN_MAX]:
        yield from _item(item)
        yield ""
    if count := more(notification):
        yield f"… and {count} more"
        yield ""
    if notification.unsubscribe_url:
        yield "-- "
        yield f"Stop these messages: {notification.unsubscribe_url}"


def _item(item: Item) -> Iterator[str]:
    words = told(item)
    yield f"{words.title} ({words.event})"
    for column, value in words.facts:
        yield f"  {column}: {value}"
    for reason in words.because:
        yield f"  because of {reason}"
