"""Where a reader of pages is: the point in time, the last row's sort values, and the question they belong to.

A cursor is opaque text with a keyed digest: one that was altered, or that belongs to another question, is refused. The
moment that relative dates mean travels along, so that every page asks the same.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from search.answers import Sort
from search.errors import CursorRefused
from search.query import Query
from search.query_json import to_json

CURSOR_CHARACTERS_MAX: Final = 20_000
_DIGEST_BYTES: Final = 16


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    point: str
    """Elasticsearch's name of the point in time."""
    after: list[Any]
    now_us: int
    question: str


def question(query: Query, sort: Sequence[Sort], view: str) -> str:
    """Tells questions apart: the query as it was asked, and the order."""
    asked = [view, to_json(query), [[each.field, each.descending] for each in sort]]
    return blake2b(msgspec.json.encode(asked), digest_size=_DIGEST_BYTES).hexdigest()


def write(cursor: Cursor, secret: bytes) -> str:
    body = msgspec.json.encode(cursor)
    return base64.urlsafe_b64encode(_digest(body, secret) + body).decode()


def read(text: str, secret: bytes, asked: str) -> Cursor:
    """Raises CursorRefused."""
    if len(text) > CURSOR_CHARACTERS_MAX:
        raise _refused("it is too long")
    try:
        raw = base64.urlsafe_b64decode(text.encode())
    except ValueError:
        raise _refused("it was damaged") from None
    digest, body = raw[:_DIGEST_BYTES], raw[_DIGEST_BYTES:]
    if not hmac.compare_digest(digest, _digest(body, secret)):
        raise _refused("it was damaged")
    cursor = msgspec.json.decode(body, type=Cursor)
    if cursor.question != asked:
        raise _refused("it belongs to another query or order")
    return cursor


def _digest(body: bytes, secret: bytes) -> bytes:
    return blake2b(body, digest_size=_DIGEST_BYTES, key=secret[:64]).digest()


def _refused(detail: str) -> CursorRefused:
    return CursorRefused("not a cursor of this search", detail=detail, hint="ask for the first page, without a cursor")
