"""A place that is away for a minute, and what a place forgets in a minute: on the real servers, without the minute.

What a minute of absence does is told by what happens in it: connections end, the lane is refused as often as its
backoff lets it ask in that time, and more comes than its inbox keeps. Each is brought about here, and waited for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, takewhile
from urllib.parse import urlsplit

import pytest
from elasticsearch import ConflictError, Elasticsearch

from headwater.api.freshness import Freshness
from headwater.deployment import Deployment
from headwater.sinks import sink_kinds
from search.generations import IndexNames
from search.sink import ElasticsearchKind, ElasticsearchSink
from tests.sinks.places import MemoryKind, MemoryPlace, Publisher, gone, held, mark, shape, upsert
from tests.sinks.proxy import Proxy
from tests.waiting import eventually
from views.sinks.cache import TOMBSTONE_S, CacheKind, RedisAddress
from views.sinks.cache_keys import CacheKeys
from views.sinks.following import ViewTopic
from views.sinks.lane import Lane, LaneLimits, LaneState, SinkStatus
from views.sinks.sink import SinkKind

pytestmark = pytest.mark.stack

LIMITS = LaneLimits(check_s=0.1, backoff_s=0.02, backoff_s_max=0.1, chunk_rows_max=7, queue_epochs_max=5)
OUTAGE_S = 60.0


def refusals(limits: LaneLimits, outage_s: float) -> int:
    """How often a lane finds its place away in that time."""
    pauses = (min(limits.backoff_s * 2**n, limits.backoff_s_max) for n in range(1_000))
    return 1 + len(list(takewhile(lambda at_s: at_s <= outage_s, accumulate(pauses))))


class Watched:
    """A lane of a view, and what it told."""

    def __init__(self, kind: SinkKind, source: str, published: Publisher) -> None:
        self.kind, self.shape, self.published = kind, shape(source), published
        self.told: list[SinkStatus] = []
        topic = ViewTopic(published.kafka, published.topic)
        self.lane = Lane(kind, self.shape, topic, LIMITS, tell=self.told.append)

    def rides(self) -> None:
        """With everything that was published."""

        def equal() -> None:
            found = self.lane.status
            assert found.mark is not None
            assert (found.state, found.mark.next_offset) == (LaneState.RIDING, self.published.next_offset)

        eventually(equal)

    def rows(self) -> dict[int, str]:
        sink = self.kind.open(self.shape, self.lane.status.generation)
        try:
            return held(sink)
        finally:
            sink.close()

    def downs(self) -> int:
        return sum(status.state is LaneState.DOWN for status in self.told)


@pytest.fixture(params=["cache", "search"])
def server(request: pytest.FixtureRequest, deployment: Deployment) -> SinkKind:
    return sink_kinds(deployment)[request.param]


@pytest.fixture
def way(server: SinkKind) -> Iterator[Proxy]:
    where = urlsplit(server.address.url)  # type: ignore[attr-defined]
    proxy = Proxy(where.hostname or "", where.port or 0)
    yield proxy
    proxy.close()


def through(kind: SinkKind, way: Proxy) -> SinkKind:
    """The same place, by a way that can be cut."""
    assert isinstance(kind, CacheKind | ElasticsearchKind)
    where = urlsplit(kind.address.url)
    url = where._replace(netloc=where.netloc.replace(f":{where.port}", f":{way.port}")).geturl()
    if isinstance(kind, CacheKind):
        return replace(kind, address=RedisAddress(url))
    return replace(kind, address=replace(kind.address, url=url))


def test_a_minute_away(server: SinkKind, way: Proxy, unique: str, published: Publisher) -> None:
    away = Watched(through(server, way), unique, published)
    beside = Watched(MemoryKind(MemoryPlace()), unique, published)
    try:
        first = published.epoch(*(upsert(n, 0, f"a{n}") for n in range(20)))
        for each in (away, beside):
            each.lane.offer(first)
            each.rides()
        before = away.lane.status.mark
        way.cut()
        for n in range(3 * LIMITS.queue_epochs_max):
            epoch = published.epoch(upsert(n, 0, f"b{n}"), gone(n + 3, 0), upsert(100 + n, 0, "new"))
            away.lane.offer(epoch)
            beside.lane.offer(epoch)
            beside.rides()
        eventually(lambda: away.downs() >= refusals(LaneLimits(), OUTAGE_S))
        assert away.lane.status.state is LaneState.DOWN
        assert away.lane.status.mark == before
        assert not beside.downs()
        way.mend()
        away.rides()
        assert away.rows() == beside.rows() == published.rows()
        assert away.lane.status.generation == 1
    finally:
        for each in (away, beside):
            way.mend()
            each.lane.drop()


def emptied(kind: SinkKind, source: str, how: str) -> None:
    """By somebody who knows nothing of us."""
    if isinstance(kind, ElasticsearchKind):
        with kind.address.client() as client:
            client.indices.delete(index=IndexNames(source, "items").index(1))
        return
    assert isinstance(kind, CacheKind)
    keys = CacheKeys(source, "items")
    with kind.address.client() as client:
        found = [key for key in client.scan_iter(match=f"{keys.base}:*", count=1_000) if isinstance(key, bytes)]
        left = keys.pointer if how == "all but the pointer" else ""
        client.delete(*(key for key in found if key.decode() != left))


@pytest.mark.parametrize("meanwhile", ["quiet", "changes come"])
@pytest.mark.parametrize(
    ("server", "how"),
    [("cache", "everything"), ("cache", "all but the pointer"), ("search", "the index")],
    indirect=["server"],
)
def test_emptied_behind_our_back(server: SinkKind, how: str, meanwhile: str, unique: str, published: Publisher) -> None:
    """Its lane, which rides, notices by itself and fills it again. Until then nobody is told that it is all there."""
    emptied_one = Watched(server, unique, published)
    try:
        emptied_one.lane.offer(published.epoch(*(upsert(n, 0, f"a{n}") for n in range(30))))
        emptied_one.lane.offer(published.epoch(*(gone(n, 0) for n in range(0, 30, 4))))
        emptied_one.rides()
        whole, before = Freshness.of(emptied_one.lane.status), len(emptied_one.told)
        assert whole.state == "riding"
        assert whole.lsn != "0/0"
        emptied(server, unique, how)
        if meanwhile == "changes come":
            emptied_one.lane.offer(published.epoch(upsert(1, 0, "b"), gone(2, 0), upsert(99, 0, "new")))

        def is_noticed() -> list[Freshness]:
            told = [Freshness.of(status) for status in emptied_one.told[before:]]
            states = [each.state for each in told]
            assert {"filling", "following"} & set(states), states
            return told

        first = next(each for each in eventually(is_noticed) if each.state in ("filling", "following"))
        assert (first.lsn, first.lag_ms) == ("0/0", None), "it includes nothing"
        assert how == "all but the pointer" or first.state == "filling"
        emptied_one.rides()
        eventually(lambda: emptied_one.rows() == published.rows())
        assert server.current(unique, "items") == emptied_one.lane.status.generation
        last = Freshness.of(emptied_one.lane.status)
        assert (last.state, last.lsn) == ("riding", f"0/{published.next_offset}")
    finally:
        emptied_one.lane.drop()


def test_how_often_a_lane_asks_in_a_minute() -> None:
    """By the limits that a deployment has."""
    assert refusals(LaneLimits(), OUTAGE_S) == 7


@pytest.fixture
def index(deployment: Deployment, unique: str) -> Iterator[ElasticsearchSink]:
    kind = sink_kinds(deployment)["search"]
    assert isinstance(kind, ElasticsearchKind)
    sink = kind.open(shape(unique), 1)
    sink.prepare()
    yield sink
    sink.drop()
    sink.close()


class PlainDelete:
    """A document that was deleted at version 6, as anybody deletes one: Elasticsearch alone remembers the version."""

    def __init__(self, client: Elasticsearch, index: str) -> None:
        self._client, self._index = client, index
        self._versioned = {"index": index, "id": "plain", "version_type": "external"}
        client.index(**self._versioned, version=5, document={"gone": True})  # type: ignore[arg-type]
        client.delete(**self._versioned, version=6)  # type: ignore[arg-type]

    def comes_back(self) -> bool:
        """Whether a stale write is taken, now that the deleted versions that are due have been forgotten."""
        self._client.indices.refresh(index=self._index)
        try:
            self._client.index(**self._versioned, version=5, document={"gone": True})  # type: ignore[arg-type]
        except ConflictError:
            return False
        return True


def forget_at_once(client: Elasticsearch, index: str) -> None:
    """What was deleted, instead of after 60 s."""
    client.indices.put_settings(index=index, settings={"index.gc_deletes": "0s"})


def test_elasticsearch_itself_forgets_deleted_versions(index: ElasticsearchSink, deployment: Deployment) -> None:
    """What the next test rests on: the setting alone decides whether a stale write is taken."""
    with deployment.elasticsearch.client() as client:
        deleted = PlainDelete(client, index.index)
        assert not deleted.comes_back()
        forget_at_once(client, index.index)
        eventually(deleted.comes_back)


def test_a_stale_row_does_not_come_back_to_the_index_after_that(
    index: ElasticsearchSink, deployment: Deployment
) -> None:
    index.apply([upsert(1, 5, "a"), upsert(2, 6, "b")], mark(7))
    index.apply([gone(1, 8)], mark(9))
    with deployment.elasticsearch.client() as client:
        deleted_later = PlainDelete(client, index.index)
        forget_at_once(client, index.index)
        eventually(deleted_later.comes_back)
    index.apply([upsert(1, 5, "stale")], mark(9))
    assert held(index) == {2: "b"}


def test_a_row_that_is_gone_is_remembered_by_the_cache_for_days(deployment: Deployment, unique: str) -> None:
    sink = sink_kinds(deployment)["cache"].open(shape(unique), 1)
    sink.prepare()
    try:
        sink.apply([upsert(1, 5, "a")], mark(6))
        sink.apply([gone(1, 7)], mark(8))
        with deployment.redis.client() as client:
            left_s = client.ttl(CacheKeys(unique, "items").row(1, b'{"id":1}'))
        assert TOMBSTONE_S - 600 < left_s <= TOMBSTONE_S
        sink.apply([upsert(1, 5, "stale")], mark(8))
        assert held(sink) == {}
    finally:
        sink.drop()
        sink.close()
