"""A feed of changes as the bytes come: server-sent events read, and the place to go on from remembered. Pure.

Lines end at a newline and nowhere else: a row's text may hold U+2028 and the like, which str.splitlines takes for ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import httpx

from cdc.errors import HeadwaterError
from headwater.client import asking
from headwater.client.failures import Unreachable
from headwater.client.retries import Patience, Tries, feed_passes_by
from headwater.client.values import Change

EARLIEST: Final = "earliest"
LINE_BYTES_MAX: Final = 256 << 20
"""Twice the largest row that the cache takes, before and after, and some."""
QUIET_S_MAX: Final = 30.0
"""The server says something every 10 s; who hears nothing for so long has lost it."""


class Feed:
    """One view's changes, over any number of connections: nothing twice, and nothing left out after the first."""

    def __init__(self, view: str, after: str | int | None, patience: Patience, *, exact: bool) -> None:
        self._view, self._exact = view, exact
        self._from = EARLIEST if after == EARLIEST else None
        self._last_id = None if after is None or after == EARLIEST else str(after)
        self._tries = Tries(patience, feed_passes_by)
        self._rest: list[bytes] = []
        self._id, self._data = "", list[bytes]()

    def given(self, timeout_s: float) -> dict[str, Any]:
        """The next connection, as httpx takes it. What the last one left half said is forgotten, its id too."""
        self._rest, self._id, self._data = [], "", []
        resumed = {} if self._last_id is None else {"Last-Event-ID": self._last_id}
        return {
            "method": "GET",
            "url": asking.changes_path(self._view),
            "params": {"from": self._from} if self._from and not resumed else {},
            "headers": {"Accept": "text/event-stream", **resumed},
            "timeout": httpx.Timeout(timeout_s, read=QUIET_S_MAX),
        }

    def pause_s(self, error: HeadwaterError | None = None) -> float:
        """How long to wait before the next connection; without an error the server ended this one. May raise it."""
        ended = Unreachable(f"the feed of {self._view} was closed", hint="headwater status")
        return self._tries.pause_s(error or ended)

    def take(self, chunk: bytes) -> Iterator[Change]:
        """The changes that these bytes complete. A change counts as had once it is handed out."""
        self._tries.worked()
        first, *others = chunk.split(b"\n")
        self._rest.append(first)
        for other in others:
            line, self._rest = b"".join(self._rest), [other]
            yield from self._line(line.removesuffix(b"\r"))
        if sum(map(len, self._rest)) > LINE_BYTES_MAX:
            raise HeadwaterError(f"a change of {self._view} is larger than {LINE_BYTES_MAX:,} bytes")

    def _line(self, line: bytes) -> Iterator[Change]:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"id":
            self._id = value.decode()
        elif name == b"data":
            self._data.append(value)
        elif not line:
            yield from self._event()

    def _event(self) -> Iterator[Change]:
        """An id without data counts too: it says where the feed begins."""
        self._last_id = self._id or self._last_id
        data, self._data = self._data, []
        if data:
            yield Change.read(self._id, asking.parse(b"\n".join(data), exact=self._exact))
