"""A server that catches webhooks, for the demo and the tests: keeps what came, says whether it is genuine, answers 204.

It listens on loopback. It understands as much HTTP as our own webhooks speak, and no more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from alerts.channels.signature import is_genuine
from headwater.demo.catcher import LOOPBACK, Catcher

BODY_BYTES_MAX: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class CaughtWebhook:
    path: str
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes
    genuine: bool
    """Signed with a secret that the catcher knows, and fresh."""

    @property
    def id(self) -> str:
        return self.headers.get("webhook-id", "")


Answer = Callable[[CaughtWebhook, asyncio.StreamWriter], Awaitable[None]]
"""Writes the answer, whatever it is."""


def hook_url(port: int) -> str:
    return f"http://{LOOPBACK}:{port}/hook"


async def accept(_caught: CaughtWebhook, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")


@dataclass(slots=True)
class WebhookCatcher(Catcher[CaughtWebhook]):
    secret: str = field(default="", repr=False)
    answer: Answer = accept
    signers: Callable[[], Iterable[str]] = tuple
    """Secrets that are right, too, asked when something comes."""

    @property
    def url(self) -> str:
        return hook_url(self.port)

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not writer.is_closing():
            await self._serve_one(reader, writer)

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in head[1:] if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        size = int(headers.get("content-length", "0"))
        if not 0 <= size <= BODY_BYTES_MAX:
            raise ValueError(size)
        body = await reader.readexactly(size)
        caught = CaughtWebhook(head[0].split(" ")[1], headers, body, self._is_genuine(headers, body))
        self.keep(caught)
        await self.answer(caught, writer)
        await writer.drain()

    def _is_genuine(self, headers: Mapping[str, str], body: bytes) -> bool:
        id_, timestamp, signatures = (headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
        return any(
            is_genuine(secret, id_, timestamp, signatures, body, time.time())
            for secret in (self.secret, *self.signers())
            if secret
        )
