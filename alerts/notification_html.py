"""A notification as a page for mail readers: plain tables, no scripts, no pictures, nothing loaded from anywhere.

Everything that comes from rows, labels and links is escaped: rows are written by strangers.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from alerts.notification import Item, Notification
from alerts.notification_words import ITEMS_SHOWN_MAX, more, subject, told


def as_html(notification: Notification) -> str:
    body = "\n".join(_parts(notification))
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f"<title>{escape(subject(notification))}</title></head>\n"
        f'<body style="font-family: sans-serif">\n{body}\n</body>\n</html>\n'
    )


def _parts(notification: Notification) -> Iterator[str]:
    for item in notification.items[:ITEMS_SHOWN_MAX]:
        yield from _item(item)
    if count := more(notification):
        yield f"<p>… and {count} more</p>"
    if notification.unsubscribe_url.startswith(("https://", "http://")):
        yield f'<p><a href="{escape(notification.unsubscribe_url)}">Stop these messages</a></p>'


def _item(item: Item) -> Iterator[str]:
    words = told(item)
    yield f"<h3>{escape(words.title)} <small>({escape(words.event)})</small></h3>"
    rows = "".join(f"<tr><td>{escape(column)}</td><td>{escape(value)}</td></tr>" for column, value in words.facts)
    if rows:
        yield f'<table cellpadding="4">{rows}</table>'
    for reason in words.because:
        yield f"<p><small>because of {escape(reason)}</small></p>"
