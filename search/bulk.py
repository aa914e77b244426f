"""One bulk request: its bytes, and what became of each of its items.

A version is a change's offset in the view's topic. Elasticsearch compares it with what it holds for the id and answers
409 when that is as new or newer: then the index has it already, and the item is done. Items that failed for now (too
many requests, a block, a missing shard) are told apart from those that will never be taken (the mapping).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec
from elasticsearch import ApiError, Elasticsearch, TransportError

from cdc.errors import SinkError, SinkUnavailable
from views.sinks.sink import Change

BYTES_MAX: Final = 2_000_000
"""Of one request; a larger document goes alone. Smaller ones cost more: the thread that sends gives way to the one that
makes the next at each step of a request."""
ID_BYTES_MAX: Final = 512
"""Elasticsearch's own limit."""
RETRY_AFTER_S: Final = 1.0
BLOCKED_RETRY_AFTER_S: Final = 5.0
"""While the disk is full, somebody has to make room first."""

_DIGEST: Final = "sha256:"
_PATHS: Final = "errors,items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by.reason"
_REASON_CHARACTERS_MAX: Final = 300
_TOO_LARGE: Final = 413
_BUSY: Final = 429
_FOR_NOW: Final = frozenset({408, 429, 500, 502, 503, 504})
_BLOCK: Final = "cluster_block_exception"
_NO_INDEX: Final = "index_not_found_exception"


class Item(NamedTuple):
    change: Change
    body: bytes
    """Its lines of the request."""


class Fate(Enum):
    DONE = auto()
    REFUSED = auto()
    FOR_NOW = auto()
    BLOCKED = auto()
    INDEX_GONE = auto()


@dataclass(frozen=True, slots=True)
class Outcome:
    fate: Fate
    reason: str = ""


def document_id(key: bytes) -> str:
    """The key's JSON; one that is too long for an id stands in by its digest."""
    return key.decode() if len(key) <= ID_BYTES_MAX else f"{_DIGEST}{sha256(key).hexdigest()}"


def key_of(id_: str) -> bytes | None:
    """None where a digest stands in."""
    return None if id_.startswith(_DIGEST) else id_.encode()


def index_lines(key: bytes, version: int, document: bytes) -> bytes:
    id_ = msgspec.json.encode(document_id(key))
    return b'{"index":{"_id":%b,"version":%d,"version_type":"external"}}\n%b\n' % (id_, version, document)


def delete_lines(id_: str, version: int) -> bytes:
    """Forgets a tombstone, unless something newer has taken its place."""
    return b'{"delete":{"_id":%b,"version":%d,"version_type":"external_gte"}}\n' % (msgspec.json.encode(id_), version)


def send(client: Elasticsearch, index: str, items: Sequence[Item], *, refresh: bool) -> list[Outcome]:
    """What became of each item, in their order. Raises SinkUnavailable when nothing is known of any of them."""
    body = b"".join([item.body for item in items])
    try:
        answer = client.bulk(index=index, operations=body, refresh=refresh, require_alias=True, filter_path=_PATHS)  # type: ignore[arg-type]
    except ApiError as error:
        if error.status_code == _TOO_LARGE and len(items) == 1:
            return [Outcome(Fate.REFUSED, f"the document has {len(body)} bytes, more than Elasticsearch takes")]
        if error.status_code == _BUSY:  # its memory is full: the garbage of other requests is soon gone
            return [Outcome(Fate.FOR_NOW, str(error.body)[:_REASON_CHARACTERS_MAX])] * len(items)
        raise unavailable(error) from error
    except TransportError as error:
        raise unavailable(error) from error
    if not answer["errors"]:
        return [Outcome(Fate.DONE)] * len(items)
    return [outcome(next(iter(item.values()))) for item in answer["items"]]


def outcome(item: dict[str, Any]) -> Outcome:
    """Of one item of the answer."""
    status, error = item["status"], item.get("error", {})
    if status < 300 or status == 409:
        return Outcome(Fate.DONE)
    reason = _reason(error)
    if error.get("type") == _NO_INDEX:
        return Outcome(Fate.INDEX_GONE, reason)
    if error.get("type") == _BLOCK:
        return Outcome(Fate.BLOCKED, reason)
    return Outcome(Fate.FOR_NOW if status in _FOR_NOW else Fate.REFUSED, reason)


def _reason(error: dict[str, Any]) -> str:
    """Short: Elasticsearch quotes the whole value."""
    inner = error.get("caused_by", {}).get("reason", "")
    parts = (str(part)[:_REASON_CHARACTERS_MAX] for part in (error.get("type"), error.get("reason"), inner) if part)
    return ": ".join(parts)


def unavailable(error: ApiError | TransportError) -> SinkError:
    """What a request's failure means to the sink."""
    if isinstance(error, TransportError):
        return waiting("Elasticsearch cannot be reached", str(error.message), RETRY_AFTER_S)
    kind = error.error if isinstance(error.error, str) else ""
    detail = str(error.body)[:_REASON_CHARACTERS_MAX]
    if kind == _NO_INDEX or error.status_code == 404:
        return waiting("the index is gone", detail, RETRY_AFTER_S)
    if kind == _BLOCK:
        return waiting("Elasticsearch takes no writes", detail, BLOCKED_RETRY_AFTER_S)
    if error.status_code in _FOR_NOW:
        return waiting("Elasticsearch is too busy", detail, RETRY_AFTER_S)
    return SinkError(f"Elasticsearch refused ({error.status_code})", detail=detail, hint="headwater doctor")


def waiting(fact: str, detail: str, retry_after_s: float) -> SinkUnavailable:
    made = SinkUnavailable(fact, detail=detail[:_REASON_CHARACTERS_MAX], hint="headwater status")
    made.retry_after_s = retry_after_s
    return made
