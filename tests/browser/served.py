"""The demo, small and at rest, captured, with its views kept by the real maintainer and served as `headwater up` does.

Started once for all of tests/browser. Tests change what they like in it, each in rows of its own, and read pages with
`served.url`; nobody may stop it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg

from headwater import demo
from headwater.demo.mail_catcher import MailCatcher
from headwater.demo.webhook_catcher import LOOPBACK
from headwater.deployment import Deployment
from headwater.http.server import PageServer
from headwater.service.alerting import alerting
from headwater.settings import Settings
from headwater.sinks import sink_kinds
from headwater.views.checking import check
from tests.headwater.test_http import free_port
from tests.maintain.conftest import rigged
from tests.maintain.rig import Rig
from tests.waiting import eventually
from views.maintain.registry import Registry
from views.rebuild import Checked
from views.sinks.lane import LaneState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LISTINGS: Final = 300
EXAMPLES: Final = Path(__file__).parents[2] / "examples"
VIEW: Final = "listing_search"
WAREHOUSE_S: Final = 2
BUILD_S: Final = 180.0


class Mailbox:
    """What was sent to anybody, caught on loopback."""

    def __init__(self, catcher: MailCatcher) -> None:
        self._catcher, self.port = catcher, catcher.port

    def to(self, address: str) -> list[EmailMessage]:
        return [caught.mail for caught in list(self._catcher.caught) if address in caught.to]


@contextmanager
def mailbox() -> Iterator[Mailbox]:
    """On a thread of its own: this one has Playwright's loop."""
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    catcher, begun = MailCatcher(), threading.Event()

    async def catch() -> None:
        async with catcher:
            begun.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(catch()), name="mails", daemon=True)
    thread.start()
    assert begun.wait(10)
    try:
        yield Mailbox(catcher)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)


@dataclass(frozen=True)
class Served:
    url: str
    """With a slash at its end."""
    rig: Rig
    """The captured database (`rig.connection`), and the views that are kept over it."""
    place: Deployment
    server: PageServer
    mails: Mailbox

    @property
    def connection(self) -> psycopg.Connection:
        """Every statement is a transaction of its own."""
        return self.rig.connection


@contextmanager
def serving(deployment: Deployment, spark: SparkSession, folder: Path) -> Iterator[Served]:
    filled = rigged(deployment, spark, "select", lambda conn: demo.load(conn, demo.Size(LISTINGS)))
    with filled as rig, mailbox() as mails:
        place = settled_place(deployment, rig, folder, mails)
        rig.registry = Registry(place.settings.views_state)
        rig.sinks = dict(sink_kinds(place))
        rig.check = partial(_checked, rig)
        rig.want((EXAMPLES / "market" / f"{VIEW}.sql").read_text(encoding="utf-8"))
        page = PageServer(place)
        with rig.kept(), page.running(), alerting(place, page.reading.hub, page.url):
            rig.reached(VIEW, timeout_s=BUILD_S)
            eventually(lambda: _is_riding(rig), BUILD_S)
            yield Served(page.url, rig, place, page, mails)


def settled_place(deployment: Deployment, rig: Rig, folder: Path, mails: Mailbox) -> Deployment:
    settings = Settings.model_validate(
        {
            "source": rig.capture.source.name,
            "data_folder": str(folder),
            "http": {"port": free_port()},
            "warehouse": {"interval_s": WAREHOUSE_S, "archive": False},
            "alerts": {"burst_s": 0},
            "mail": {"host": LOOPBACK, "port": mails.port, "security": "none", "sender": "us@headwater.example"},
        }
    )
    return replace(deployment, settings=settings, source=rig.capture.source, postgres=rig.capture.postgres)


def _checked(rig: Rig, view: str, sink: str, number: int, _stop: threading.Event) -> Checked:
    """As a rebuild is checked before it is switched, in this process."""
    capture = rig.capture
    return check(capture.postgres, capture.kafka, capture.source, rig.registry, rig.sinks[sink], view, number)


def _is_riding(rig: Rig) -> bool:
    """Every place of the view is filled; the warehouse is written at an interval of its own."""
    found = {status.sink: status.state for status in rig.registry.state().sinks}
    return set(found) == set(rig.sinks) and all(
        state is LaneState.RIDING for sink, state in found.items() if sink != "warehouse"
    )
