"""What is special about the index as a sink; what every sink must do is in the contract suite."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from elastic_transport import ApiResponseMeta, HttpHeaders, NodeConfig
from elasticsearch import ApiError, Elasticsearch

from cdc.errors import SinkError, SinkUnavailable
from search.address import ElasticsearchAddress
from search.generations import Generations, IndexNames
from search.index import define
from search.marks import MARK_ID
from search.sink import (
    ATTEMPTS_MAX,
    PURGE_INTERVAL_S,
    TOMBSTONE_HORIZON_S,
    ElasticsearchKind,
    ElasticsearchSink,
    IndexSettings,
)
from tests.search import market
from views.sinks.sink import Change, Mark, ViewShape

pytestmark = pytest.mark.stack

MARK = Mark("topic", 10, lsn="0/1")


def row(number: int, city: str = "Paris", **more: str) -> bytes:
    members = "".join(f',"{name}":{value}' for name, value in more.items())
    return f'{{"id":{number},"city":"{city}","price":1.50{members}}}'.encode()


def change(number: int, version: int, city: str | None = "Paris", **more: str) -> Change:
    return Change(b'{"id":%d}' % number, None if city is None else row(number, city, **more), version)


@pytest.fixture
def shape() -> ViewShape:
    return market.shape(source=f"t{uuid.uuid4().hex[:8]}")


@pytest.fixture
def kind(address: ElasticsearchAddress) -> ElasticsearchKind:
    return ElasticsearchKind(address)


@pytest.fixture
def sink(kind: ElasticsearchKind, shape: ViewShape) -> Iterator[ElasticsearchSink]:
    made = kind.open(shape, 1)
    made.prepare()
    yield made
    made.drop()
    made.close()


def test_rows_come_back_byte_for_byte_and_the_newest_wins(sink: ElasticsearchSink) -> None:
    assert sink.mark() is None
    assert sink.apply([change(1, 5), change(2, 6), change(1, 7, "Lyon")], MARK) == []
    assert sorted(sink.rows()) == [row(1, "Lyon"), row(2)]
    assert sink.mark() == MARK
    sink.apply([change(2, 8, "Metz"), change(2, 6), change(1, 5), change(1, 7, "Nice")], MARK)
    assert sorted(sink.rows()) == [row(1, "Lyon"), row(2, "Metz")]


def test_a_row_that_is_gone_does_not_come_back_with_an_older_version(sink: ElasticsearchSink) -> None:
    sink.apply([change(1, 5)], MARK)
    sink.apply([change(1, 6, None)], MARK)
    sink.apply([change(1, 5)], MARK)
    assert list(sink.rows()) == []
    sink.apply([change(1, 7, "Nice")], MARK)
    assert list(sink.rows()) == [row(1, "Nice")]


def test_it_does_not_rest_on_what_elasticsearch_remembers_of_deletes(
    sink: ElasticsearchSink, client: Elasticsearch
) -> None:
    """It forgets a deleted version after a minute; here at once, which is the same as waiting for it."""
    client.indices.put_settings(index=sink.index, settings={"index.gc_deletes": "0s"})
    sink.apply([change(1, 5)], MARK)
    sink.apply([change(1, 6, None)], MARK)
    client.indices.flush(index=sink.index, force=True)
    client.indices.forcemerge(index=sink.index, only_expunge_deletes=True)
    sink.apply([change(1, 5)], MARK)
    assert list(sink.rows()) == []


def test_tombstones_are_forgotten_after_the_horizon_and_not_before(sink: ElasticsearchSink) -> None:
    sink.apply([change(1, 5, None), change(2, 6, None), change(3, 7)], MARK)
    assert sink.purge() == 0
    assert sink.purge(horizon_s=-1000) == 2
    assert sink.purge(horizon_s=-1000) == 0
    assert list(sink.rows()) == [row(3)]
    assert sink.mark() == MARK


def test_tending_purges_once_an_hour(sink: ElasticsearchSink, monkeypatch: pytest.MonkeyPatch) -> None:
    now, purged = [1_000_000.0], list[float]()
    monkeypatch.setattr(sink, "_clock", lambda: now[0])
    sink.apply([change(1, 5, None), change(2, 6)], MARK)
    purge = sink.purge
    monkeypatch.setattr(sink, "purge", lambda: purged.append(purge()))
    for step_s in (0.0, 10.0, PURGE_INTERVAL_S - 10.0, 1.0, TOMBSTONE_HORIZON_S, 5.0):
        now[0] += step_s
        sink.tend()
    assert purged == [0, 0, 1]
    assert list(sink.rows()) == [row(2)]


def test_what_the_mapping_does_not_take_is_refused_and_the_rest_is_written(sink: ElasticsearchSink) -> None:
    long_path = change(1, 5, doc=f'{{"{"x" * 40_000}":1}}')
    not_json = Change(b'{"id":2}', b"{", 6)
    too_precise = Change(b'{"id":3}', b'{"id":3,"price":1.234}', 7)
    refused = sink.apply([long_path, not_json, too_precise, change(4, 8)], MARK)
    assert {each.change for each in refused} == {long_path, not_json, too_precise}
    assert all(each.error and len(each.error) < 1_000 for each in refused)
    assert list(sink.rows()) == [row(4)]
    assert sink.mark() == MARK


def test_a_row_of_too_many_elements_is_refused_and_the_rest_is_written(
    sink: ElasticsearchSink, client: Elasticsearch
) -> None:
    def elements(number: int) -> str:
        return f"[{','.join(['{}'] * number)}]"

    many, more = change(1, 5, doc=elements(10_000)), change(2, 6, doc=elements(10_001))
    [refused] = sink.apply([many, more, change(3, 7)], MARK)
    assert (refused.change, "more than 10000 objects" in refused.error) == (more, True)
    client.indices.put_settings(index=sink.index, settings={"index.mapping.nested_objects.limit": 5})
    above, below = change(4, 8, doc=elements(6)), change(5, 9, doc=elements(5))
    [refused] = sink.apply([above, below], MARK)
    assert (refused.change, "allowed limit of [5]" in refused.error) == (above, True)
    assert sorted(sink.rows()) == sorted(each.after for each in (many, change(3, 7), below) if each.after)


def test_long_keys(sink: ElasticsearchSink) -> None:
    key = b'{"id":"%s"}' % (b"k" * 600)
    sink.apply([Change(key, row(1), 1), Change(key[:-3] + b'x"}', row(2), 2)], MARK)
    sink.apply([Change(key, None, 3)], MARK)
    assert list(sink.rows()) == [row(2)]


def test_more_than_one_request(sink: ElasticsearchSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("search.sink.BYTES_MAX", 1_000)
    changes = [change(number, number) for number in range(50)]
    assert sink.apply(changes, MARK) == []
    assert sorted(sink.rows()) == sorted(row(number) for number in range(50))


def test_what_is_made_beforehand_is_seen_with_the_last_of_it(
    sink: ElasticsearchSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("search.sink.BYTES_MAX", 1_000)
    made = [sink.made([change(n, n) for n in range(at, at + 20)], is_seen=False) for at in (0, 20)]
    for number, write in enumerate(made):
        assert write(Mark("topic", 20 * number + 20)) == []
    assert sink.mark() == Mark("topic", 40)
    assert list(sink.rows()) == [], "a refresh that nobody asked for"
    assert sink.made([])(Mark("topic", 41)) == []
    assert len(list(sink.rows())) == 40


def test_one_request_of_many_that_fails(
    sink: ElasticsearchSink, client: Elasticsearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("search.sink.BYTES_MAX", 1_000)
    client.indices.put_settings(index=sink.index, settings={"index.blocks.write": True})
    with pytest.raises(SinkUnavailable, match="takes no writes"):
        sink.apply([change(number, number) for number in range(50)], MARK)
    assert sink.mark() is None


@pytest.mark.parametrize("block", ["write", "read_only_allow_delete"])
def test_a_blocked_index_asks_for_patience(sink: ElasticsearchSink, client: Elasticsearch, block: str) -> None:
    client.indices.put_settings(index=sink.index, settings={f"index.blocks.{block}": True})
    with pytest.raises(SinkUnavailable, match="takes no writes") as caught:
        sink.apply([change(1, 1)], MARK)
    assert caught.value.retry_after_s > 1
    client.indices.put_settings(index=sink.index, settings={f"index.blocks.{block}": None})
    sink.apply([change(1, 1)], MARK)
    assert list(sink.rows()) == [row(1)]


def test_nobody_there(shape: ViewShape) -> None:
    sink = ElasticsearchKind(ElasticsearchAddress("http://127.0.0.1:9")).open(shape, 1)
    asks: list[Callable[[], object]] = [
        sink.prepare, sink.mark, lambda: sink.apply([change(1, 1)], MARK), lambda: list(sink.rows()), sink.drop,
        lambda: ElasticsearchKind(ElasticsearchAddress("http://127.0.0.1:9")).current("s", "v"),
    ]  # fmt: skip
    for ask in asks:
        with pytest.raises(SinkUnavailable, match="cannot be reached"):
            ask()


def test_an_emptied_index_has_no_mark(sink: ElasticsearchSink, client: Elasticsearch) -> None:
    sink.apply([change(1, 1)], MARK)
    client.delete(index=sink.index, id=MARK_ID)
    with pytest.raises(SinkUnavailable, match="emptied behind our back"):
        sink.apply([change(2, 2)], MARK)
    assert sink.mark() is None
    sink.apply([change(2, 2)], MARK)
    assert sink.mark() == MARK


@pytest.fixture
def hasty(sink: ElasticsearchSink, client: Elasticsearch) -> Iterator[None]:
    """A server that makes any index of ours that is written to and not there, as many do."""
    setting = "action.auto_create_index"
    client.cluster.put_settings(persistent={setting: f"{sink.index}*"})
    yield
    client.cluster.put_settings(persistent={setting: None})


@pytest.mark.usefixtures("hasty")
def test_a_deleted_index_is_not_made_anew_by_a_write(sink: ElasticsearchSink, client: Elasticsearch) -> None:
    sink.apply([change(1, 1)], MARK)
    client.indices.delete(index=sink.index)
    with pytest.raises(SinkUnavailable, match="the index is gone"):
        sink.apply([change(2, 2)], MARK)
    with pytest.raises(SinkUnavailable, match="the index is gone"):
        sink.apply([], MARK)
    assert sink.mark() is None
    assert list(sink.rows()) == []
    assert not client.indices.exists(index=f"{sink.index}*", allow_no_indices=False)


def test_two_writers_of_one_generation(kind: ElasticsearchKind, shape: ViewShape, sink: ElasticsearchSink) -> None:
    other = kind.open(shape, 1)
    other.prepare()
    for number in range(3):
        sink.apply([change(1, 2 * number)], Mark("topic", 2 * number))
        other.apply([change(2, 2 * number + 1)], Mark("topic", 2 * number + 1))
    assert sink.mark() == other.mark() == Mark("topic", 5)
    other.close()


def test_an_index_of_another_shape_is_refused(
    kind: ElasticsearchKind, shape: ViewShape, sink: ElasticsearchSink
) -> None:
    sink.prepare()
    other = kind.open(ViewShape(shape.source, shape.view, shape.fields[:3], shape.key), 1)
    with pytest.raises(SinkError, match="another shape"):
        other.prepare()
    other.close()


def test_readers_are_switched_in_one_step(kind: ElasticsearchKind, shape: ViewShape, client: Elasticsearch) -> None:
    sinks = [kind.open(shape, generation) for generation in (1, 2)]
    for sink in sinks:
        sink.prepare()
    generations = Generations(client, IndexNames(shape.source, shape.view))
    kind.switch(shape.source, shape.view, 1)
    kind.switch(shape.source, shape.view, 1)
    kind.switch(shape.source, shape.view, 2)
    assert kind.current(shape.source, shape.view) == 2
    assert list(client.indices.get_alias(name=generations.names.alias)) == [sinks[1].index]
    assert generations.existing() == [1, 2]
    with pytest.raises(SinkUnavailable, match="the index is gone"):
        kind.switch(shape.source, shape.view, 3)
    assert generations.current() == 2
    for sink in sinks:
        sink.drop()
        sink.close()
    assert kind.current(shape.source, shape.view) is None
    kind.switch(shape.source, shape.view, None)


def test_the_kind_travels(kind: ElasticsearchKind) -> None:
    assert pickle.loads(pickle.dumps(kind)) == kind
    assert "password" not in repr(kind)
    assert kind.name == "search"


def test_names() -> None:
    names = IndexNames("Shop 1", "listing")
    assert names.alias == "shop_1-listing"
    assert names.generation(names.index(12)) == 12
    assert names.generation(names.write_alias(12)) is None


class BusyClient:
    """Answers 429 for some items, a given number of times."""

    def __init__(self, times: int) -> None:
        self.times, self.sent = times, list[int]()

    def bulk(self, *, operations: bytes, **_more: Any) -> dict[str, Any]:
        ids = [line for line in operations.splitlines() if b'"_id"' in line]
        self.sent.append(len(ids))
        self.times -= 1
        busy = self.times >= 0
        bad = {"status": 429, "error": {"type": "es_rejected_execution_exception", "reason": "busy"}}
        items = [{"index": bad if busy and number % 2 else {"status": 409}} for number in range(len(ids))]
        return {"errors": True, "items": items}

    def get(self, **_more: Any) -> dict[str, Any]:
        return {"_seq_no": 1, "_primary_term": 1, "fields": {"row": ['{"topic_id":"t","next_offset":1}']}}

    def index(self, **_more: Any) -> dict[str, Any]:
        return {"_seq_no": 2, "_primary_term": 1}


def busy_sink(client: BusyClient, slept: list[float]) -> ElasticsearchSink:
    definition = define(market.shape())
    return ElasticsearchSink(client, definition, 1, IndexSettings(), sleep=slept.append)  # type: ignore[arg-type]


def test_only_what_failed_is_sent_again() -> None:
    client, slept = BusyClient(2), list[float]()
    assert busy_sink(client, slept).apply([change(n, n) for n in range(8)], MARK) == []
    assert client.sent == [8, 4, 2]
    assert slept == [0.1, 0.2]


def test_a_request_that_is_too_much_for_now_is_sent_again() -> None:
    """Elasticsearch answers 429 to all of it when its memory is full."""
    client, slept, refusals = BusyClient(0), list[float](), 2
    bulk = client.bulk

    def full(*, operations: bytes, **more: Any) -> dict[str, Any]:
        nonlocal refusals
        refusals -= 1
        if refusals < 0:
            return bulk(operations=operations, **more)
        meta = ApiResponseMeta(429, "1.1", HttpHeaders(), 0.0, NodeConfig("http", "localhost", 9200))
        raise ApiError("circuit_breaking_exception", meta, {"error": {"reason": "data too large"}})

    client.bulk = full  # type: ignore[method-assign]
    assert busy_sink(client, slept).apply([change(n, n) for n in range(8)], MARK) == []
    assert (client.sent, slept) == ([8], [0.1, 0.2])
    refusals = ATTEMPTS_MAX
    with pytest.raises(SinkUnavailable, match="did not take 8 of 8 rows") as caught:
        busy_sink(client, slept).apply([change(n, n) for n in range(8)], MARK)
    assert "data too large" in caught.value.detail


def test_a_server_that_stays_busy_asks_for_patience() -> None:
    client = BusyClient(100)
    with pytest.raises(SinkUnavailable, match="did not take"):
        busy_sink(client, []).apply([change(n, n) for n in range(64)], MARK)
    assert len(client.sent) == ATTEMPTS_MAX


def test_generations_need_no_client_of_their_own(client: Elasticsearch) -> None:
    assert Generations(client, IndexNames("nobody", "nothing")).existing() == []
