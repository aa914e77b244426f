"""A place that was emptied in the sight of its readers says so until it is whole again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from cdc.errors import HeadwaterError
from headwater.api.freshness import Freshness
from headwater.deployment import Deployment
from headwater.sinks import sink_kinds
from search.generations import IndexNames
from search.marks import MARK_ID
from tests.sinks.places import MemoryKind, MemoryPlace, Publisher, held, shape, upsert
from tests.waiting import eventually
from views.sinks.cache_keys import CacheKeys
from views.sinks.following import ViewTopic
from views.sinks.lane import Lane, LaneLimits, LaneState, SinkStatus
from views.sinks.sink import SinkKind

pytestmark = pytest.mark.stack

LIMITS = LaneLimits(check_s=0.1, backoff_s=0.05, backoff_s_max=0.1, chunk_rows_max=3)
MISSING = "it was emptied and is being filled again: rows are missing"
NOTHING = "it was emptied and is being filled again: there is nothing to be read"


@dataclass
class Bench:
    kind: SinkKind
    published: Publisher
    source: str
    told: list[SinkStatus] = field(default_factory=list)
    lanes: list[Lane] = field(default_factory=list)

    def lane(self) -> Lane:
        topic = ViewTopic(self.published.kafka, self.published.topic)
        self.lanes.append(Lane(self.kind, shape(self.source), topic, LIMITS, tell=self.told.append))
        return self.lanes[-1]

    def settled(self, lane: Lane) -> None:
        def equal() -> None:
            assert lane.status.state is LaneState.RIDING, lane.status
            number = self.kind.current(self.source, "items")
            assert number is not None
            sink = self.kind.open(lane.shape, number)
            try:
                assert held(sink) == self.published.rows()
            finally:
                sink.close()

        eventually(equal)


@pytest.fixture
def opened(published: Publisher, unique: str) -> Iterator[Callable[[SinkKind], Bench]]:
    made: list[Bench] = []

    def bench(kind: SinkKind) -> Bench:
        made.append(Bench(kind, published, unique))
        return made[-1]

    yield bench
    for each in made:
        for lane in each.lanes:
            with suppress(HeadwaterError):
                lane.drop()


def emptied(bench: Bench, empty: Callable[[], object], reason: str) -> None:
    lane = bench.lane()
    lane.offer(bench.published.epoch(*(upsert(n, 0, f"a{n}") for n in range(10))))
    bench.settled(lane)
    assert not any(each.stale for each in bench.told), "nobody had it before it was filled"
    bench.told.clear()
    empty()
    is_told = lambda: [each for each in bench.told if each.stale]  # noqa: E731
    eventually(lambda: bool(is_told()))
    bench.settled(lane)
    assert {each.stale for each in is_told()} == {reason}
    assert {each.mark for each in is_told()} == {None}, "it includes nothing for sure"
    first = is_told()[0]
    assert Freshness.of(first).stale == reason
    assert Freshness.of(first).stale_since is not None
    assert (lane.status.stale, Freshness.of(lane.status).stale) == ("", None)


def test_memory(opened: Callable[[SinkKind], Bench]) -> None:
    place = MemoryPlace()

    def empty() -> None:
        place.rows.clear()
        place.marks.clear()

    emptied(opened(MemoryKind(place)), empty, MISSING)


@pytest.mark.parametrize("is_pointer_left", [False, True])
def test_redis(opened: Callable[[SinkKind], Bench], deployment: Deployment, is_pointer_left: bool) -> None:
    bench = opened(sink_kinds(deployment)["cache"])
    keys = CacheKeys(bench.source, "items")

    def empty() -> None:
        with deployment.redis.client() as client:
            found = list(client.scan_iter(f"{keys.base}:*", 1_000))
            client.delete(*(key for key in found if not (is_pointer_left and key == keys.pointer.encode())))

    emptied(bench, empty, MISSING if is_pointer_left else NOTHING)


@pytest.mark.parametrize("is_index_left", [False, True])
def test_elasticsearch(opened: Callable[[SinkKind], Bench], deployment: Deployment, is_index_left: bool) -> None:
    bench = opened(sink_kinds(deployment)["search"])
    index = IndexNames(bench.source, "items").index(1)

    def empty() -> None:
        with deployment.elasticsearch.client() as client:
            if is_index_left:
                rows = [hit["_id"] for hit in client.search(index=index, size=100)["hits"]["hits"]]
                for id_ in [*(row for row in rows if row != MARK_ID), MARK_ID]:  # by its mark it is noticed
                    client.options(ignore_status=404).delete(index=index, id=id_, refresh=True)
            else:
                client.indices.delete(index=index)

    emptied(bench, empty, NOTHING)  # what is left of an index is not trusted: it is made anew


def test_one_that_was_cut_off_meanwhile_still_says_so(opened: Callable[[SinkKind], Bench]) -> None:
    """Its mark is of no publication: what is there is a part."""
    place = MemoryPlace()
    bench = opened(MemoryKind(place))
    lane = bench.lane()
    lane.offer(bench.published.epoch(*(upsert(n, 0, f"a{n}") for n in range(10))))
    bench.settled(lane)
    lane.stop()
    bench.told.clear()
    [name] = place.marks
    kept = place.marks[name]
    place.marks[name] = type(kept)(kept.topic_id, 4, made_for=kept.made_for)
    again = bench.lane()
    again.offer(bench.published.epoch())
    bench.settled(again)
    assert {each.stale for each in bench.told if each.state is LaneState.FILLING} == {MISSING}
