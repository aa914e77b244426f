"""Killed with SIGKILL between every two effects of telling people: each event lies in the outbox once, each row is told
once, each message is delivered at least once under its one id. A replay and a rebuild are silent."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from alerts.failpoints import MATCHING, PLACES
from cdc.failpoints import VARIABLE
from headwater.demo.webhook_catcher import WebhookCatcher
from headwater.deployment import Deployment
from tests.alerts.crash.items import DDL, Items
from tests.maintain.conftest import rigged
from tests.waiting import eventually

pytestmark = pytest.mark.stack

DEADLINE_S = 90.0
PACE_S = 0.05
OUTBOX = "select subscription_id, key, event, position from headwater.outbox"


@pytest.fixture(scope="module")
def catcher() -> Iterator[WebhookCatcher]:
    """On a loop of its own."""
    loop, catcher = asyncio.new_event_loop(), WebhookCatcher()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(catcher.start(), loop).result(10)
    yield catcher
    asyncio.run_coroutine_threadsafe(catcher.close(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


@dataclass
class Desk:
    items: Items
    catcher: WebhookCatcher
    log: Path

    @contextmanager
    def child(self, failpoint: str = "") -> Iterator[subprocess.Popen[bytes]]:
        """Killed at the end, whatever it does."""
        capture = self.items.capture
        given = {
            "postgres": asdict(capture.postgres),
            "bootstrap": capture.kafka.bootstrap,
            "source": capture.source.name,
        }
        environment = {**os.environ, **({VARIABLE: failpoint} if failpoint else {})}
        command = [sys.executable, "-m", "tests.alerts.crash.child", json.dumps(given)]
        with self.log.open("ab") as output:
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        try:
            yield process
        finally:
            process.kill()
            process.wait(30)

    def all(self, statement: str) -> list[tuple[Any, ...]]:
        return self.items.conn.execute(statement).fetchall()  # type: ignore[call-overload, no-any-return]

    def kill_at(self, place: str, times: int, mark: Path) -> None:
        """While people go on."""
        with self.child(f"{place}:{times}:{mark}") as process:
            deadline = time.monotonic() + DEADLINE_S
            while not mark.exists():
                assert time.monotonic() < deadline, f"{place} did not strike: {self.log.read_text()[-3000:]}"
                self.items.churn()
                self.items.publish()
                time.sleep(PACE_S)  # not a wait: how fast people write
            assert process.wait(30) == -9

    def reached(self) -> None:
        """Waits until all that is published is matched, told and delivered; then compares with the log."""
        self.items.publish_all()

        def is_settled() -> None:
            assert self.place() == (self.items.published_to.offset, True)
            assert self.all("select count(*) from headwater.outbox where told_at is null") == [(0,)]
            assert self.all("select count(*) from headwater.deliveries where state <> 'delivered'") == [(0,)]

        try:
            eventually(is_settled, DEADLINE_S)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.log.read_text()[-3000:]}") from error
        self.require_right()

    def place(self) -> tuple[int, bool]:
        """How far the view is matched; and whether by the only generation that there is."""
        found = self.all("select (mark->>'offset')::bigint, is_shown from headwater.alert_places")
        return found[0] if len(found) == 1 else (0, False)

    def require_right(self) -> None:
        found, expected = Counter(self.all(OUTBOX)), self.items.expected()
        wrong, missed = sorted((found - expected).elements()), sorted((expected - found).elements())
        assert (wrong, missed) == ([], [])
        self._require_numbers("outbox", "last_sequence")
        self._require_numbers("notifications", "last_notification")
        # Each row is in one message, and the messages are made of nothing else.
        told = self.all(
            "select n.id, n.events, count(o.id) from headwater.notifications n"
            " left join headwater.outbox o on o.notification_id = n.id group by n.id"
        )
        assert all(events == rows for _, events, rows in told), told
        assert sum(rows for *_, rows in told) == found.total()
        assert self.all("select count(*), count(distinct notification_id) from headwater.deliveries") == [
            (len(told),) * 2
        ]
        caught = {hook.id: json.loads(hook.body)["data"]["id"] for hook in self.catcher.caught}
        assert caught == {id_: id_ for id_, *_ in told}

    def _require_numbers(self, table: str, last: str) -> None:
        """Without a gap, to the last one given out."""
        gaps = self.all(
            f"select o.owner from headwater.owners o left join headwater.{table} t on t.owner = o.owner"
            f" group by o.owner having count(t.sequence) <> o.{last} or coalesce(max(t.sequence), 0) <> o.{last}"
            f" or count(distinct t.sequence) <> o.{last}"
        )
        assert gaps == []


@pytest.fixture(scope="module")
def desk(deployment: Deployment, catcher: WebhookCatcher, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Shown once, so that what comes from now on is news."""
    with rigged(deployment, None, DDL) as rig:
        desk = Desk(Items(rig.capture, rig.connection, catcher.url), catcher, tmp_path_factory.mktemp("alerts") / "log")
        for owner in ("ada", "bob"):
            desk.items.save(owner)
        for _ in range(5):
            desk.items.churn()
        desk.items.publish_all()
        with desk.child():
            eventually(lambda: desk.place()[1], DEADLINE_S)
        assert desk.all(OUTBOX) == []
        desk.items.forget_so_far()
        yield desk


@pytest.mark.timeout(900)
def test_killed_at_every_place(desk: Desk, tmp_path: Path) -> None:
    for number, place in enumerate(PLACES):
        desk.items.save(f"owner {number}")
        desk.kill_at(place, 1 if number % 2 else 3, tmp_path / place)
    with desk.child():
        desk.reached()
    times = Counter(hook.id for hook in desk.catcher.caught)
    assert max(times.values()) > 1, "who was killed between sending and writing it down is followed by who sends again"
    assert sum(desk.items.expected().values()) > 100


@pytest.mark.timeout(300)
def test_a_replay_is_silent(desk: Desk, tmp_path: Path) -> None:
    """From an earlier mark, and killed on the way; after old news was forgotten, too."""
    [[mark]] = desk.all("select mark from headwater.alert_places")
    back = json.dumps({**mark, "next_offset": mark["since"], "offset": desk.items.silent_to.offset})
    desk.items.conn.execute("update headwater.alert_places set mark = %s", [back])
    with desk.child(f"recorded:2:{tmp_path / 'struck'}") as process:
        assert process.wait(DEADLINE_S) == -9
    with desk.child():
        desk.reached()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("place", MATCHING[1::2])
def test_a_rebuild_is_silent(desk: Desk, tmp_path: Path, place: str) -> None:
    """Killed while the whole view is told again; what is committed afterwards is news."""
    before = desk.all("select count(*) from headwater.outbox")
    desk.items.rebuild()
    with desk.child(f"{place}:1:{tmp_path / 'struck'}") as process:
        assert process.wait(DEADLINE_S) == -9
    with desk.child():
        desk.reached()
        assert desk.all("select count(*) from headwater.outbox") == before
        desk.items.churn()
        desk.reached()
