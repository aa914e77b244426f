"""E-mail by SMTP: the message is made here, the conversation runs on a thread of the channel's own."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from alerts.channels.channel import Outcome, Refused, Target, TargetRefused
from alerts.channels.mail_message import Sender, checked_address, message
from alerts.channels.mail_server import MailServer, send
from alerts.notification import Notification

NAME: Final = "email"
CONVERSATIONS_MAX: Final = 8
"""Threads, and so connections to the mail server, at once."""


@dataclass(slots=True)
class Mail:
    server: MailServer
    sender: Sender
    conversations_max: int = CONVERSATIONS_MAX
    _threads: ThreadPoolExecutor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._threads = ThreadPoolExecutor(self.conversations_max, thread_name_prefix="mail")

    @property
    def name(self) -> str:
        return NAME

    def check(self, target: Target) -> None:
        checked_address(target.address)

    async def deliver(self, notification: Notification, target: Target) -> Outcome:
        """A conversation that was cancelled goes on to its end on its thread: the mail may arrive, and again later
        under the same Message-ID."""
        try:
            to = checked_address(target.address)
        except TargetRefused as error:
            return Refused(error.fact)
        mail = message(notification, to, self.sender)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, send, self.server, mail, self.sender.address, to)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
