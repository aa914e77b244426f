"""Killed with SIGKILL in each stage of a rebuild, and of a rollback: who goes on comes to the same end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cdc.addresses import Source
from cdc.topics import delete_topic
from headwater.deployment import Deployment
from tests.sinks.places import Publisher, gone, held, shape, upsert
from tests.waiting import eventually
from views.generation import GenerationState
from views.maintain.failpoints import VARIABLE
from views.maintain.orders import Order, Orders, Verb
from views.maintain.registry import Registry
from views.rebuild import Rebuild, RebuildState, Stage
from views.sinks.board import board_topic
from views.sinks.cache import CacheKind
from views.sinks.letters import letters_topic

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

DEADLINE_S = 90.0
PLACES = (
    "rebuild-begun",
    "filling",
    "rebuild-catch-up",
    "rebuild-verify",
    "rebuild-switch",
    "rebuild-switching",
    "rebuild-switched",
    "rebuild-done",
)


class Bench:
    def __init__(self, published: Publisher, deployment: Deployment, folder: Path) -> None:
        self.published, self.folder = published, folder
        self.source = Source(published.topic.partition(".")[0])
        self.kind = CacheKind(deployment.redis)
        self.registry = Registry(folder)
        self._given = {
            "bootstrap": deployment.kafka.bootstrap,
            "source": self.source.name,
            "redis": deployment.redis.url,
            "folder": str(folder),
        }

    def child(self, failpoint: str = "") -> subprocess.Popen[bytes]:
        name, _, times = failpoint.partition(":")
        struck = self.folder / "struck"
        given = {VARIABLE: f"{name}:{times or 1}:{struck}"} if failpoint else {}
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.sinks.rebuild_child", json.dumps(self._given)],
                env={**os.environ, **given},
                stdout=log,
                stderr=log,
            )

    @contextmanager
    def kept(self) -> Iterator[None]:
        child = self.child()
        try:
            yield
        finally:
            child.terminate()
            assert child.wait(DEADLINE_S) == 0, self.said()

    def killed_at(self, place: str, order: Order) -> None:
        """Somebody goes through the order, and is killed there."""
        Orders(self.folder).give(order)
        child = self.child(place)
        try:
            assert child.wait(DEADLINE_S) == -9, self.said()
        finally:
            child.kill()

    def said(self) -> str:
        return (self.folder / "log").read_text()[-3000:]

    def current(self) -> int | None:
        return self.kind.current(self.source.name, "items")

    def rows(self, generation: int) -> dict[int, str]:
        sink = self.kind.open(shape(self.source.name), generation)
        try:
            return held(sink)
        finally:
            sink.close()

    def over(self, id_: str) -> Rebuild:
        def ended() -> Rebuild:
            found = self.registry.book().rebuild(id_)
            assert found is not None, self.said()
            assert found.is_over, (found, self.said())
            return found

        return eventually(ended, DEADLINE_S)

    def is_read(self, generation: int) -> None:
        def equal() -> None:
            assert self.current() == generation, self.said()
            assert self.rows(generation) == self.published.rows()

        eventually(equal, DEADLINE_S)


@pytest.fixture
def bench(published: Publisher, deployment: Deployment, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(published, deployment, tmp_path)
    published.epoch(*(upsert(n, 0, f"a{n}") for n in range(100)))
    published.epoch(*(gone(n, 0) for n in range(0, 100, 7)))
    with bench.kept():
        bench.is_read(1)
    yield bench
    for number in (1, 2, 3):
        bench.kind.open(shape(bench.source.name), number).drop()
    bench.kind.switch(bench.source.name, "items", None)
    for topic in (board_topic(bench.source), letters_topic(bench.source)):
        delete_topic(deployment.kafka, topic)


@pytest.mark.parametrize("place", PLACES)
def test_a_rebuild_that_was_killed_comes_to_the_same_end(bench: Bench, place: str) -> None:
    order = Order(Verb.REBUILD, "items", "cache")
    bench.killed_at(place, order)
    bench.published.epoch(upsert(500, 0, "meanwhile"), gone(1, 0))
    with bench.kept():
        done = bench.over(order.id)
        assert (done.state, done.stage, done.number, done.replaces) == (RebuildState.DONE, Stage.DONE, 2, 1)
        bench.is_read(2)
        # The one that readers left is fed on.
        eventually(lambda: bench.rows(1) == bench.published.rows(), DEADLINE_S)
    states = {each.number: each.state for each in bench.registry.book().generations}
    assert states == {1: GenerationState.STANDBY, 2: GenerationState.LIVE}


@pytest.mark.parametrize("place", ["rebuild-switching", "rebuild-switched", "rebuild-done"])
def test_a_rollback_that_was_killed_goes_back_once(bench: Bench, place: str) -> None:
    order = Order(Verb.REBUILD, "items", "cache")
    Orders(bench.folder).give(order)
    with bench.kept():
        bench.over(order.id)
    back = Order(Verb.ROLLBACK, "items", "cache")
    bench.killed_at(place, back)
    with bench.kept():
        bench.over(f"{back.id}-cache")
        bench.is_read(1)
        eventually(lambda: bench.registry.book().answer(back.id) is not None, DEADLINE_S)
        bench.is_read(1)
    states = {each.number: each.state for each in bench.registry.book().generations}
    assert states == {1: GenerationState.LIVE, 2: GenerationState.STANDBY}
