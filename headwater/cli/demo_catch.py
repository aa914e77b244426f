"""What `headwater demo catch` does: both catchers on loopback, and a line for everything that arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headwater.demo.caught_lines import mail_line, webhook_line
from headwater.demo.mail_catcher import MailCatcher
from headwater.demo.webhook_catcher import WebhookCatcher


async def catch(secret: str, webhook_port: int, mail_port: int, tell: Callable[[str], None]) -> None:
    """Until it is cancelled."""
    hooks = WebhookCatcher(secret, on_caught=lambda caught: tell(webhook_line(caught)))
    mails = MailCatcher(on_caught=lambda caught: tell(mail_line(caught)))
    async with await hooks.start(webhook_port), await mails.start(mail_port):
        await asyncio.Event().wait()
