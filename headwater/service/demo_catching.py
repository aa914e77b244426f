"""The demo's catchers: the webhooks and mails of the demo's saved searches arrive on this machine, without a second
terminal. On a thread of its own; nothing without the demo.

    engine ─▶ webhook, mail ─▶ catchers on loopback, ports of their own ─▶ lines: the terminal, GET /demo/caught
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from cdc.addresses import PostgresAddress
from cdc.errors import HeadwaterError
from cdc.postgres import connect, explained
from headwater.demo.catchers import Catchers, announced, ports
from headwater.demo.caught_file import CaughtFile
from headwater.demo.caught_lines import mail_line, webhook_line
from headwater.demo.mail_catcher import MailCatcher
from headwater.demo.searches import VISITOR
from headwater.demo.webhook_catcher import WebhookCatcher
from headwater.deployment import Deployment
from headwater.settings import Settings

LINES_MAX: Final = 100
LINES_SHOWN: Final = 3
START_S_MAX: Final = 10.0
_SECRETS: Final = "select unnest(secrets) from headwater.endpoints where channel = 'webhook' and target = %s"


@dataclass
class Catching:
    deployment: Deployment
    """With the way to the catchers open, and no other."""
    hooks: WebhookCatcher | None = None
    targets: Mapping[str, str] = field(default_factory=dict)
    """By channel: where the demo's visitor is told."""
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_MAX))
    """What arrived, the newest last."""
    count: int = 0

    @property
    def text(self) -> str:
        if self.hooks is None:
            return ""
        own = f"caught here: webhooks to {self.hooks.url}, mail to anybody"
        return "\n".join([f"{own}: {self.count:,} (all: /demo/caught)", *list(self.lines)[-LINES_SHOWN:]])

    def note(self, line: str) -> None:
        """What came from outside stays on its line."""
        self.count += 1
        self.lines.append(" ".join(line.splitlines()))
        CaughtFile(self.deployment.settings.data_folder).write(self.lines)


@contextmanager
def demo_catching(deployment: Deployment, wanted: bool) -> Iterator[Catching]:
    catching = Catching(deployment)
    if not wanted:
        yield catching
        return
    hooks = WebhookCatcher(
        on_caught=lambda caught: catching.note(webhook_line(caught)),
        signers=lambda: _signers(deployment.postgres, hooks.url),
    )
    mails = MailCatcher(on_caught=lambda caught: catching.note(mail_line(caught)))
    file = CaughtFile(deployment.settings.data_folder)
    file.remove()  # of an earlier run
    with _listening(hooks, mails, *ports(deployment.settings.data_folder)):
        catchers = Catchers(hooks.port, mails.port)
        catching.deployment, catching.hooks = replace(deployment, settings=catchers.opened(deployment.settings)), hooks
        catching.targets = {"webhook": hooks.url, **_mailed(deployment.settings)}
        with announced(deployment.settings.data_folder, catchers):
            yield catching


def _mailed(settings: Settings) -> dict[str, str]:
    """Nobody, where a real server sends the mail."""
    return {} if settings.mail.host else {"email": VISITOR}


def _signers(postgres: PostgresAddress, url: str) -> list[str]:
    """Of all who are told there: the demo's visitor, and whoever saves a search of their own."""
    try:
        with connect(postgres) as conn, explained(conn):
            return [str(secret) for [secret] in conn.execute(_SECRETS, [url]).fetchall()]
    except HeadwaterError:  # then nothing is said to be genuine
        return []


@contextmanager
def _listening(hooks: WebhookCatcher, mails: MailCatcher, webhook_port: int, mail_port: int) -> Iterator[None]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="demo-catchers", daemon=True)
    thread.start()

    async def start() -> None:
        await hooks.start(webhook_port)
        await mails.start(mail_port)

    async def close() -> None:
        await hooks.close()
        await mails.close()

    try:
        asyncio.run_coroutine_threadsafe(start(), loop).result(START_S_MAX)
        yield
        asyncio.run_coroutine_threadsafe(close(), loop).result(START_S_MAX)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(START_S_MAX)
        loop.close()
