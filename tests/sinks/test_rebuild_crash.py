"""Killed with SIGKILL in each stage of a rebuild, and of a rollback: who goes on comes to the same end.

Everything is real but the engine. Killed while the engine computes a view anew: tests/maintain/test_crash.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from cdc.addresses import Source
from cdc.errors import SinkUnavailable
from cdc.topics import delete_topic
from headwater.deployment import Deployment
from tests.sinks.places import Publisher, gone, held, kind_at, shape, upsert
from tests.waiting import eventually
from views.generation import GenerationState
from views.maintain.failpoints import VARIABLE
from views.maintain.orders import Order, Orders, Verb
from views.maintain.registry import Registry
from views.rebuild import Rebuild, RebuildState, Stage
from views.sinks.board import board_topic
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
OF_THE_PLACE = ("filling", "rebuild-catch-up", "rebuild-verify", "rebuild-switching", "rebuild-switched")
"""Between two effects on the place itself; the others lie between two of the book, whatever the place is."""


class Bench:
    def __init__(self, published: Publisher, sink: str, at: dict[str, Any], folder: Path) -> None:
        self.published, self.folder = published, folder
        self.source = Source(published.topic.partition(".")[0])
        self.kind = kind_at(sink, at)
        self.registry = Registry(folder)
        self._given = {
            "bootstrap": published.kafka.bootstrap,
            "source": self.source.name,
            "sink": sink,
            "at": at,
            "folder": str(folder),
        }

    def child(self, failpoint: str = "") -> subprocess.Popen[bytes]:
        name, _, times = failpoint.partition(":")
        struck = self.folder / f"struck-{name}"
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
        except BaseException:
            child.kill()
            raise
        child.terminate()
        assert child.wait(DEADLINE_S) == 0, self.said()

    def killed_at(self, place: str, order: Order) -> None:
        """Somebody goes through the order, and is killed there."""
        Orders(self.folder).give(order)
        self.killed_on_the_way(place)

    def killed_on_the_way(self, place: str) -> None:
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
        except SinkUnavailable as error:  # it is being written
            raise AssertionError(str(error)) from error
        finally:
            sink.close()

    def over(self, id_: str) -> Rebuild:
        def ended() -> Rebuild:
            found = self.registry.book().rebuild(id_)
            assert found is not None, self.said()
            assert found.is_over, (found, self.said())
            return found

        return eventually(ended, DEADLINE_S)

    def comes_to_the_end(self, order: Order) -> None:
        with self.kept():
            done = self.over(order.id)
            assert (done.state, done.stage, done.number, done.replaces) == (RebuildState.DONE, Stage.DONE, 2, 1)
            assert done.checked is not None
            assert done.checked.is_equal
            self.is_read(2)
            # The one that readers left is fed on.
            eventually(lambda: self.rows(1) == self.published.rows(), DEADLINE_S)
        states = {each.number: each.state for each in self.registry.book().generations}
        assert states == {1: GenerationState.STANDBY, 2: GenerationState.LIVE}

    def is_read(self, generation: int) -> None:
        def equal() -> None:
            assert self.current() == generation, self.said()
            assert self.rows(generation) == self.published.rows()

        eventually(equal, DEADLINE_S)


@pytest.fixture
def sink() -> str:
    """The cache is the fastest; those that take another are parametrised."""
    return "cache"


@pytest.fixture
def bench(published: Publisher, deployment: Deployment, sink: str, tmp_path: Path) -> Iterator[Bench]:
    at = {
        "cache": asdict(deployment.redis),
        "search": asdict(deployment.elasticsearch),
        "warehouse": {"folder": str(tmp_path / "warehouse"), "interval_s": 0.1},
    }
    bench = Bench(published, sink, at[sink], tmp_path)
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
    bench.comes_to_the_end(order)


@pytest.mark.parametrize("sink", ["search", "warehouse"])
def test_a_rebuild_that_was_killed_in_every_stage_comes_to_the_same_end(bench: Bench, sink: str) -> None:
    """Killed in one, begun again, killed in the next."""
    order = Order(Verb.REBUILD, "items", sink)
    Orders(bench.folder).give(order)
    for number, place in enumerate(OF_THE_PLACE):
        bench.killed_on_the_way(place)
        bench.published.epoch(upsert(500 + number, 0, f"after {place}"), gone(number, 0))
    bench.comes_to_the_end(order)


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


def test_a_damaged_book_is_begun_anew_from_what_the_place_says(bench: Bench) -> None:
    """What readers use is live; what was left is nobody's, and goes. Then all is as before: the next one is built."""
    order, back = Order(Verb.REBUILD, "items", "cache"), Order(Verb.ROLLBACK, "items", "cache")
    Orders(bench.folder).give(order)
    with bench.kept():
        bench.over(order.id)
        Orders(bench.folder).give(back)
        bench.over(f"{back.id}-cache")
    (bench.folder / "book.json").write_bytes(b'{"generations":[{"view":')
    again = Order(Verb.REBUILD, "items", "cache")
    Orders(bench.folder).give(again)
    with bench.kept():
        eventually(lambda: bench.registry.books_aside() != [], DEADLINE_S)
        done = bench.over(again.id)
        assert (done.state, done.number, done.replaces) == (RebuildState.DONE, 3, 1)
        bench.is_read(3)
    assert bench.rows(2) == {}
    states = {each.number: each.state for each in bench.registry.book().generations}
    assert states == {1: GenerationState.STANDBY, 2: GenerationState.RETIRED, 3: GenerationState.LIVE}
