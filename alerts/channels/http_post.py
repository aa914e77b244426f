"""One POST over one connection, as h11 speaks HTTP/1.1: no redirects, proxies, cookies or decompression to be had.

The answer's status is given as soon as it is there. The rest is read within limits, so that the connection can be used
again, and thrown away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import h11

READ_BYTES: Final = 65_536
HEAD_BYTES_MAX: Final = 32_768


class AnswerBroken(Exception):
    """What came is no HTTP, or ended before it was one."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: tuple[tuple[str, str], ...]

    def header(self, name: str) -> str | None:
        return next((value for each, value in self.headers if each == name), None)


@dataclass(slots=True)
class Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    idle_since_s: float = 0.0
    _http: h11.Connection = field(
        default_factory=lambda: h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX), repr=False
    )

    @property
    def is_usable(self) -> bool:
        """False when the other side has closed it."""
        return self._http.our_state is h11.IDLE and not self.reader.at_eof() and not self.writer.is_closing()

    async def post(self, path: str, headers: Sequence[tuple[str, str]], body: bytes) -> Answer:
        """Raises AnswerBroken or OSError; never ends by itself when nobody answers."""
        sized = [*headers, ("content-length", str(len(body)))]
        request = h11.Request(method="POST", target=path, headers=sized)
        parts = (self._http.send(request), self._http.send(h11.Data(body)), self._http.send(h11.EndOfMessage()))
        self.writer.write(b"".join(part or b"" for part in parts))
        await self.writer.drain()
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                pairs = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers)
                return Answer(event.status_code, pairs)

    async def drain(self, bytes_max: int) -> bool:
        """Reads the rest of the answer; False when the connection cannot be used again."""
        while True:
            event = await self._event()
            if isinstance(event, h11.Data):
                bytes_max -= len(event.data)
                if bytes_max < 0:
                    return False
            elif isinstance(event, h11.EndOfMessage):
                return self._is_next()

    def _is_next(self) -> bool:
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        if self._http.trailing_data[0]:
            return False  # it answers before it is asked
        self._http.start_next_cycle()
        return True

    async def _event(self) -> h11.Event:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self.reader.read(READ_BYTES))
        except h11.RemoteProtocolError as error:
            raise AnswerBroken(str(error)) from error
        if not isinstance(event, h11.Event) or isinstance(event, h11.ConnectionClosed):
            raise AnswerBroken("the connection was closed")
        return event

    def close(self) -> None:
        """At once, whatever the other side does."""
        self.writer.transport.abort()
