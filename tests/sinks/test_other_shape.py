"""A view whose options or types change keeps its columns' names: its places are filled anew, and then shown."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from cdc.errors import HeadwaterError
from headwater.deployment import Deployment
from headwater.sinks import sink_kinds
from search.engine import SearchEngine
from tests.sinks.places import MemoryKind, MemoryPlace, Publisher, gone, held, shape, upsert
from tests.waiting import eventually
from views.sinks.cache import CacheKind
from views.sinks.cache_keys import CacheKeys
from views.sinks.following import ViewTopic
from views.sinks.lane import Lane, LaneLimits, LaneState
from views.sinks.sink import SinkKind, ViewShape
from views.sinks.warehouse import WarehouseKind

pytestmark = pytest.mark.stack

LIMITS = LaneLimits(check_s=0.1, backoff_s=0.05, backoff_s_max=0.1, chunk_rows_max=3)
CHANGES = [
    pytest.param("memory", {}, {"language": "english"}, id="memory-option"),
    pytest.param("cache", {}, {"lookup": "label"}, id="cache-lookup"),
    pytest.param("cache", {"lookup": "label"}, {"lookup": "price"}, id="cache-another-lookup"),
    pytest.param("cache", {}, {"cache_ttl_s": "500"}, id="cache-ttl"),
    pytest.param("search", {}, {"language": "german"}, id="search-language"),
    pytest.param("search", {}, {"geo": "price, id"}, id="search-geo"),
    pytest.param("warehouse", {}, {"partition_by": "label"}, id="warehouse-partitions"),
]
SAME = [
    pytest.param("cache", {"language": "german", "partition_by": "label"}, id="cache"),
    pytest.param("search", {"lookup": "label", "text": "label", "cache_ttl_s": "5"}, id="search"),
    pytest.param("warehouse", {"lookup": "label", "language": "german"}, id="warehouse"),
]


class Bench:
    def __init__(self, kind: SinkKind, published: Publisher, source: str) -> None:
        self.kind, self.published, self.source = kind, published, source
        self.lanes: list[Lane] = []

    def lane(self, options: dict[str, str], rest: Callable[[float, int], float] = lambda *_: 0.0) -> Lane:
        topic = ViewTopic(self.published.kafka, self.published.topic)
        lane = Lane(self.kind, self.shape(options), topic, LIMITS, rest=rest)
        self.lanes.append(lane)
        return lane

    def shape(self, options: dict[str, str]) -> ViewShape:
        return shape(self.source, **options)

    def current(self) -> int | None:
        return self.kind.current(self.source, "items")

    def rows(self, options: dict[str, str], generation: int) -> dict[int, str]:
        sink = self.kind.open(self.shape(options), generation)
        try:
            return held(sink)
        finally:
            sink.close()

    def settled(self, lane: Lane, generation: int) -> None:
        def equal() -> None:
            assert lane.status.state is LaneState.RIDING, lane.status
            assert self.current() == generation
            assert self.rows(dict(lane.shape.options), generation) == self.published.rows()

        eventually(equal)


@pytest.fixture
def opened(
    published: Publisher, unique: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[[str], Bench]]:
    made: list[Bench] = []

    def bench(name: str) -> Bench:
        if name == "memory":
            kind: SinkKind = MemoryKind(MemoryPlace())
        elif name == "warehouse":
            kind = WarehouseKind(str(tmp_path), interval_s=0.1)
        else:
            deployment: Deployment = request.getfixturevalue("deployment")
            kind = sink_kinds(deployment)[name]
        made.append(Bench(kind, published, unique))
        return made[-1]

    yield bench
    for each in made:
        for lane in each.lanes:
            lane.stop()
        with suppress(HeadwaterError):
            each.lanes[-1].drop()


def _filled(bench: Bench, options: dict[str, str]) -> None:
    lane = bench.lane(options)
    lane.offer(bench.published.epoch(*(upsert(n, 0, f"label {n % 3}") for n in range(10)), gone(3, 0)))
    bench.settled(lane, 1)
    lane.stop()


@pytest.mark.parametrize(("name", "before", "after"), CHANGES)
def test_it_is_filled_anew_and_then_shown(
    opened: Callable[[str], Bench], name: str, before: dict[str, str], after: dict[str, str]
) -> None:
    bench = opened(name)
    _filled(bench, before)
    goes_on = threading.Event()
    is_filling = threading.Event()

    def rest(worked_s: float, records: int) -> float:
        is_filling.set()
        goes_on.wait(30)
        return 0.0

    lane = bench.lane(after, rest)
    lane.offer(bench.published.epoch())
    try:
        eventually(is_filling.is_set)
        assert bench.current() == 1, "readers keep what they have"
        assert bench.rows(before, 1) == bench.published.rows()
    finally:
        goes_on.set()
    bench.settled(lane, 2)
    sink = bench.kind.open(bench.shape(before), 1)
    assert sink.mark() is None, "nobody needs it any more"
    sink.close()
    lane.offer(bench.published.epoch(upsert(99, 0, "later"), gone(1, 0)))
    bench.settled(lane, 2)


@pytest.mark.parametrize(("name", "options"), SAME)
def test_what_means_nothing_to_a_place_leaves_it_as_it_is(
    opened: Callable[[str], Bench], name: str, options: dict[str, str]
) -> None:
    bench = opened(name)
    _filled(bench, {})
    lane = bench.lane(options)
    lane.offer(bench.published.epoch(upsert(1, 0, "new")))
    bench.settled(lane, 1)


def test_a_lookup_that_is_added_finds_rows_that_were_there(
    opened: Callable[[str], Bench], deployment: Deployment
) -> None:
    bench = opened("cache")
    assert isinstance(bench.kind, CacheKind)
    _filled(bench, {})
    lane = bench.lane({"lookup": "label"})
    lane.offer(bench.published.epoch())
    bench.settled(lane, 2)
    with deployment.redis.client() as client:
        found = client.smembers(CacheKeys(bench.source, "items").lookup(2, "label", "label 1"))
    assert found == {b'{"id":1}', b'{"id":4}', b'{"id":7}'}


def test_another_language_finds_rows_by_its_own_stems(opened: Callable[[str], Bench], deployment: Deployment) -> None:
    bench = opened("search")
    lane = bench.lane({})
    lane.offer(bench.published.epoch(upsert(1, 0, "Häuser")))
    bench.settled(lane, 1)
    lane.stop()
    lane = bench.lane({"language": "german"})
    lane.offer(bench.published.epoch())
    bench.settled(lane, 2)
    engine = SearchEngine.open(deployment.elasticsearch, bench.shape({"language": "german"}), b"secret")
    assert engine.count("Haus") == 1


def test_a_lane_that_was_cut_off_goes_on_filling(opened: Callable[[str], Bench]) -> None:
    bench = opened("memory")
    _filled(bench, {})
    is_over = threading.Event()
    first = bench.lane({"lookup": "label"}, lambda *_: is_over.set() or 30.0)  # type: ignore[func-returns-value]
    first.offer(bench.published.epoch())
    eventually(is_over.is_set)
    first.stop()
    assert bench.current() == 1
    again = bench.lane({"lookup": "label"})
    again.offer(bench.published.epoch())
    bench.settled(again, 2)


def test_a_place_that_does_not_say_what_it_was_made_for_is_filled_anew(opened: Callable[[str], Bench]) -> None:
    bench = opened("memory")
    _filled(bench, {})
    place = bench.kind.place  # type: ignore[attr-defined]
    place.marks = {name: msgspec.structs.replace(mark, made_for="") for name, mark in place.marks.items()}
    lane = bench.lane({})
    lane.offer(bench.published.epoch())
    bench.settled(lane, 2)
