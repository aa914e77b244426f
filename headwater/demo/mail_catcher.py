"""An SMTP server that catches mail, for the demo and the tests: keeps what came, delivers nothing.

It listens on loopback and understands as much SMTP as a sender needs. Answers can be replaced, to be refused by it.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default as parsing
from typing import Final

from headwater.demo.catcher import Catcher

MAIL_BYTES_MAX: Final = 10_000_000
_OK: Final = "250 OK"


@dataclass(frozen=True, slots=True)
class CaughtMail:
    sender: str
    to: tuple[str, ...]
    content: bytes
    encrypted: bool
    user: str

    @property
    def mail(self) -> EmailMessage:
        return message_from_bytes(self.content, policy=parsing)


@dataclass(slots=True)
class MailCatcher(Catcher[CaughtMail]):
    answers: Mapping[str, str] = field(default_factory=dict)
    """What to say instead of 250, by verb: RCPT, MAIL, DATA, END (after the content), AUTH; `hang` never answers."""
    context: ssl.SSLContext | None = None
    """With it STARTTLS is offered, or TLS from the start when `implicit_tls`."""
    implicit_tls: bool = False
    login: tuple[str, str] | None = None

    @property
    def tls(self) -> ssl.SSLContext | None:
        return self.context if self.implicit_tls else None

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _Conversation(self, reader, writer, self.implicit_tls).run()


@dataclass(slots=True)
class _Conversation:
    catcher: MailCatcher
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    encrypted: bool
    user: str = ""
    sender: str = ""
    to: tuple[str, ...] = ()

    async def run(self) -> None:
        await self._say("220 catcher")
        while True:
            verb, _, rest = (await self.reader.readuntil(b"\n")).decode("latin-1").strip().partition(" ")
            if verb.upper() == "QUIT" and verb.upper() not in self.catcher.answers:
                await self._say("221 bye")
                return
            await self._answer(verb.upper(), rest)

    async def _answer(self, verb: str, rest: str) -> None:
        if verb in ("EHLO", "HELO"):
            await self._say(self._greeting(verb))
        elif verb == "STARTTLS" and self.catcher.context:
            await self._say("220 go on")
            await self.writer.start_tls(self.catcher.context)
            self.encrypted = True
        elif verb == "AUTH":
            await self._say(self._logged_in(rest))
        elif verb == "DATA" and verb not in self.catcher.answers:
            await self._take()
        else:
            await self._step(verb, rest)

    async def _step(self, verb: str, rest: str) -> None:
        answer = self.catcher.answers.get(verb, _OK)
        if answer.startswith("2") and verb == "MAIL":
            self.sender, self.to = _path(rest), ()
        if answer.startswith("2") and verb == "RCPT":
            self.to += (_path(rest),)
        await self._say(answer)

    async def _take(self) -> None:
        await self._say("354 go on")
        content = bytearray()
        while (line := await self.reader.readuntil(b"\n")) != b".\r\n":
            content += line.removeprefix(b".")
            if len(content) > MAIL_BYTES_MAX:
                raise ConnectionError("too much")
        answer = self.catcher.answers.get("END", _OK)
        if answer.startswith("2"):
            caught = CaughtMail(self.sender, self.to, bytes(content), self.encrypted, self.user)
            self.catcher.keep(caught)
        await self._say(answer)

    def _greeting(self, verb: str) -> str:
        if verb == "HELO":
            return "250 catcher"
        offers = ["catcher"]
        offers += ["STARTTLS"] if self.catcher.context and not self.encrypted else []
        offers += ["AUTH PLAIN"] if self.catcher.login else []
        return "\r\n".join(f"250-{offer}" for offer in offers) + "\r\n250 8BITMIME"

    def _logged_in(self, rest: str) -> str:
        _, user, password = base64.b64decode(rest.partition(" ")[2]).decode().split("\0")
        if (user, password) != self.catcher.login:
            return "535 no"
        self.user = user
        return "235 welcome"

    async def _say(self, answer: str) -> None:
        if answer == "hang":
            await asyncio.Event().wait()
        self.writer.write(f"{answer}\r\n".encode())
        await self.writer.drain()


def _path(rest: str) -> str:
    return rest.partition("<")[2].partition(">")[0]
