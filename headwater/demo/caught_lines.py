"""What was caught, as a line for people."""

from __future__ import annotations

import json
from datetime import datetime

from headwater.demo.mail_catcher import CaughtMail
from headwater.demo.webhook_catcher import CaughtWebhook


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
