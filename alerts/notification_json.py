"""A notification as JSON: the payload that webhooks, feeds and topics carry, and the form in which a store keeps one.

The payload has the shape that the Standard Webhooks specification recommends: type, timestamp, data. The link that
unsubscribes is not in it: payloads are logged by many hands.
"""

from __future__ import annotations

from datetime import UTC
from decimal import Decimal
from typing import Final

import msgspec

from alerts.notification import Item, Notification
from cdc.errors import DecodeError, HeadwaterError

TYPE: Final = "search.matched"
_encoder: Final = msgspec.json.Encoder(decimal_format="number")
_decoder: Final = msgspec.json.Decoder(Notification, float_hook=Decimal)


def payload(notification: Notification) -> bytes:
    """The same bytes for the same notification, whenever it is called: every attempt carries the same."""
    at = notification.created_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    data = {
        "id": notification.id,
        "owner": notification.owner,
        "sequence": notification.sequence,
        "items": [_item(item) for item in notification.items],
        "items_left_out": notification.items_left_out,
    }
    return _encoder.encode({"type": TYPE, "timestamp": at, "data": data})


def _item(item: Item) -> dict[str, object]:
    return {
        "view": item.view,
        "key": item.key,
        "event": item.event.value,
        "after": item.after,
        "before": item.before,
        "searches": [{"id": search.id, "label": search.label, "reason": search.reason} for search in item.searches],
    }


def stored(notification: Notification) -> bytes:
    """All of it, for a store; `restored` reads it."""
    return _encoder.encode(notification)


def restored(data: bytes) -> Notification:
    """Numbers keep their digits. Raises DecodeError for what is no notification."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, ArithmeticError, HeadwaterError) as error:
        raise DecodeError("a stored message cannot be read", detail=f"{type(error).__name__}: {error}") from error
