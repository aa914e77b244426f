"""What `headwater demo catch` does: both catchers on loopback, and a line for everything that arrives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import datetime

from headwater.demo.mail_catcher import CaughtMail, MailCatcher
from headwater.demo.webhook_catcher import CaughtWebhook, WebhookCatcher


async def catch(secret: str, webhook_port: int, mail_port: int, tell: Callable[[str], None]) -> None:
    """Until it is cancelled."""
    hooks = WebhookCatcher(secret, on_caught=lambda caught: tell(webhook_line(caught)))
    mails = MailCatcher(on_caught=lambda caught: tell(mail_line(caught)))
    async with await hooks.start(webhook_port), await mails.start(mail_port):
        await asyncio.Event().wait()


def webhook_line(caught: CaughtWebhook) -> str:
    try:
        items = json.loads(caught.body)["data"]["items"]
        told = ", ".join(f"{item['view']} {item['event']}" for item in items)
    except (ValueError, KeyError, TypeError):
        told = f"{len(caught.body)} bytes"
    return f"{_now()} webhook {caught.id} {'genuine' if caught.genuine else 'NOT genuine'}: {told}"


def mail_line(caught: CaughtMail) -> str:
    return f"{_now()} mail to {', '.join(caught.to)}: {caught.mail['Subject']}"


def _now() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")
