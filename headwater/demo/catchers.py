"""The demo's catchers, as every process of its data folder knows them: `headwater up --demo` writes the file, the API
and the verbs take it in with their addresses (deployment.py). Nothing of it holds once that process is gone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from headwater.demo.catcher import LOOPBACK
from headwater.demo.webhook_catcher import hook_url
from headwater.settings import Settings
from headwater.stack.process import ProcessId
from headwater.stack.state import port_is_free

NAME: Final = "catchers.json"
FILES: Final = (NAME, f"{NAME}.tmp")
SENDER: Final = "headwater@example.org"


class Catchers(msgspec.Struct, frozen=True):
    webhook_port: int = 0
    mail_port: int = 0
    keeper: ProcessId | None = None
    """The process in which they listen; None when they do not."""

    @property
    def webhook_url(self) -> str:
        return hook_url(self.webhook_port)

    def opened(self, settings: Settings) -> Settings:
        """Webhooks may go to the catcher, and mail does, unless there is a server for it."""
        openings = ",".join(part for part in (settings.webhook.openings, f"{LOOPBACK}:{self.webhook_port}") if part)
        update: dict[str, object] = {"webhook": settings.webhook.model_copy(update={"openings": openings})}
        if not settings.mail.host:
            server = {"host": LOOPBACK, "port": self.mail_port, "security": "none", "sender": SENDER}
            update["mail"] = settings.mail.model_copy(update=server)
        return settings.model_copy(update=update)


@contextmanager
def announced(folder: Path, catchers: Catchers) -> Iterator[None]:
    """Known to every process of the folder, as long as it lasts."""
    _write(folder, msgspec.structs.replace(catchers, keeper=ProcessId.of(os.getpid())))
    try:
        yield
    finally:
        _write(folder, catchers)


def listening(folder: Path) -> Catchers | None:
    """None without the demo, also where one was killed."""
    found = _read(folder)
    return found if found.keeper is not None and found.keeper.process() is not None else None


def ports(folder: Path) -> tuple[int, int]:
    """Of webhooks and of mail, as last time: what somebody saved leads there still. 0, any, for one that is taken."""
    last = _read(folder)
    webhook, mail = (port if port and port_is_free(port) else 0 for port in (last.webhook_port, last.mail_port))
    return webhook, mail


def _read(folder: Path) -> Catchers:
    try:
        return msgspec.json.decode((folder / NAME).read_bytes(), type=Catchers)
    except (OSError, msgspec.MsgspecError):
        return Catchers()


def _write(folder: Path, catchers: Catchers) -> None:
    file, working = (folder / name for name in FILES)
    working.write_bytes(msgspec.json.encode(catchers))
    working.replace(file)
