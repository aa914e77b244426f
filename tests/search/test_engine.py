"""Searching on the real server: pages, sort, facets, highlights, spelling, similar rows, and why."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from elasticsearch import Elasticsearch

from cdc.errors import SinkError, SinkUnavailable
from search.address import ElasticsearchAddress
from search.answers import Bucket, Facet, Sort
from search.engine import SearchEngine
from search.errors import CursorExpired, CursorRefused, QueryRefused
from search.query import Range
from search.sink import ElasticsearchKind, ElasticsearchSink
from tests.search import market
from views.sinks.sink import Change, Mark

pytestmark = pytest.mark.stack

ROWS: list[dict[str, Any]] = [
    {"id": 1, "title": "Sunny garden flat", "city": "Paris", "price": 300.5, "kind": "flat", "flag": True,
     "tags": ["garden", "sea view"], "lat": 48.85, "lon": 2.35,
     "doc": {"rooms": 2, "agent": "Paul", "photos": [{"kind": "plan", "width": 300}, {"kind": "view", "width": 800}]}},
    {"id": 2, "title": "Gardens with a house in them", "city": "Lyon", "price": 500, "kind": "house", "flag": False,
     "tags": ["garden"], "lat": 45.76, "lon": 4.84, "ratio": 0.1,
     "doc": {"rooms": 5, "agent": "Anna", "photos": [{"kind": "plan", "width": 800}]}},
    {"id": 3, "title": "Studio near the river", "city": "Paris", "price": 100, "kind": "studio", "ratio": "NaN",
     "seen": "2026-05-30T10:00:00+00:00", "day": "2026-05-30"},
    {"id": 4, "title": "A happy family house", "city": None, "price": None, "kind": "house", "tags": []},
    {"id": 5, "title": "House of the happy gardener", "city": "Lyon", "price": 500, "kind": "house",
     "seen": "2026-05-01T10:00:00+00:00"},
]  # fmt: skip
KEYS = {number: b'{"id":%d}' % number for number in range(1, 6)}


def encoded(row: dict[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode()


@pytest.fixture(scope="module")
def sink(address: ElasticsearchAddress) -> Iterator[ElasticsearchSink]:
    kind, shape = ElasticsearchKind(address), market.shape(source=f"e{uuid.uuid4().hex[:8]}", text="title, tags")
    made = kind.open(shape, 1)
    made.prepare()
    changes = [Change(KEYS[row["id"]], encoded(row), row["id"]) for row in ROWS]
    made.apply([*changes, Change(b'{"id":9}', None, 9)], Mark("t", 10))
    kind.switch(shape.source, shape.view, 1)
    yield made
    made.drop()
    made.close()


@pytest.fixture(scope="module")
def engine(sink: ElasticsearchSink, client: Elasticsearch) -> SearchEngine:
    return SearchEngine(client, sink.definition, clock=lambda: datetime(2026, 5, 31, tzinfo=UTC))


def ids(hits: Any) -> list[int]:
    return [json.loads(hit.row)["id"] for hit in hits]


def test_everything_in_the_order_of_the_key(engine: SearchEngine) -> None:
    page = engine.search()
    assert ids(page.hits) == [1, 2, 3, 4, 5]
    assert page.total == 5
    assert page.cursor is None
    assert page.hits[0].row == encoded(ROWS[0])
    assert page.hits[0].version == 1


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("garden", {1, 2, 5}),
        ("rivers", {3}),
        ("gard*", {1, 2, 5}),
        ('"sea view"', {1}),
        ("city:lyon price:500..", {2, 5}),
        ("-has:city", {4}),
        ("has:tags", {1, 2}),
        ("doc.rooms:3..", {2}),
        ("doc.photos.kind:plan doc.photos.width:800", {1, 2}),
        ("doc.photos:(kind:plan width:800)", {2}),
        ("doc.photos:(-kind:plan)", {1}),
        ("-doc.photos:(width:300)", {2, 3, 4, 5}),
        ("near:48.85,2.35,5km", {1}),
        ("seen:now-7d..", {3}),
        ("paris", set()),
    ],
)
def test_the_compact_form(engine: SearchEngine, text: str, wanted: set[int]) -> None:
    assert set(ids(engine.search(text).hits)) == wanted
    assert engine.count(text) == len(wanted)


@pytest.mark.parametrize(
    ("sort", "wanted"),
    [
        ([Sort("price")], [3, 1, 2, 5, 4]),
        ([Sort("price", descending=True)], [2, 5, 1, 3, 4]),
        ([Sort("city"), Sort("id", descending=True)], [5, 2, 3, 1, 4]),
        ([Sort("seen", descending=True)], [3, 5, 1, 2, 4]),
        ([Sort("flag")], [2, 1, 3, 4, 5]),
        ([Sort("kind")], [1, 2, 4, 5, 3]),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 20])
def test_pages_in_any_order_meet_every_row_once(
    engine: SearchEngine, sort: list[Sort], wanted: list[int], size: int
) -> None:
    found, cursor = [], None
    while True:
        page = engine.search("", sort=sort, size=size, cursor=cursor)
        assert page.total == 5
        found += ids(page.hits)
        cursor = page.cursor
        if cursor is None:
            break
    assert found == wanted


def test_pages_stay_as_they_were(engine: SearchEngine, sink: ElasticsearchSink) -> None:
    first = engine.search("house", sort=[Sort("id")], size=2)
    sink.apply([Change(b'{"id":0}', encoded({"id": 0, "title": "House"}), 20)], Mark("t", 21))
    sink.apply([Change(KEYS[5], None, 21)], Mark("t", 22))
    second = engine.search("house", sort=[Sort("id")], size=2, cursor=first.cursor)
    assert ids((*first.hits, *second.hits)) == [2, 4, 5]
    sink.apply([Change(b'{"id":0}', None, 22), Change(KEYS[5], encoded(ROWS[4]), 23)], Mark("t", 24))


def test_cursors_are_checked(engine: SearchEngine, client: Elasticsearch) -> None:
    cursor = engine.search("house", size=1).cursor
    assert cursor is not None
    for damaged in ("", cursor[:-8], "AAAA" + cursor[4:], "x" * 30_000, "é"):
        if damaged:
            with pytest.raises(CursorRefused):
                engine.search("house", size=1, cursor=damaged)
    with pytest.raises(CursorRefused, match="not a cursor") as caught:
        engine.search("garden", size=1, cursor=cursor)
    assert "another query" in caught.value.detail
    other = SearchEngine(client, engine.definition, secret=b"another")
    with pytest.raises(CursorRefused):
        other.search("house", size=1, cursor=cursor)


def test_an_expired_cursor_says_so(engine: SearchEngine, client: Elasticsearch) -> None:
    from search import cursor as cursors

    made = engine.search("house", size=1).cursor
    assert made is not None
    point = cursors.read(made, b"headwater", cursors.question(engine.query("house"), (), "listing")).point
    client.close_point_in_time(id=point)
    with pytest.raises(CursorExpired, match="expired"):
        engine.search("house", size=1, cursor=made)


def test_facets(engine: SearchEngine) -> None:
    facets = [
        Facet("kind"), Facet("city"), Facet("flag"), Facet("tags"), Facet("price", size=2), Facet("ratio"),
        Facet("day"), Facet("doc.rooms"), Facet("doc.agent"),
    ]  # fmt: skip
    found = engine.search("", facets=facets, size=1).facets
    assert found["kind"] == (Bucket("house", 3), Bucket("flat", 1), Bucket("studio", 1))
    assert found["city"] == (Bucket("Lyon", 2), Bucket("Paris", 2))
    assert found["flag"] == (Bucket(False, 1), Bucket(True, 1))
    assert found["tags"] == (Bucket("garden", 2), Bucket("sea view", 1))
    assert found["price"] == (Bucket(Decimal(500), 2), Bucket(Decimal(100), 1))
    assert [str(bucket.value) for bucket in found["ratio"]] == ["0.1", "nan"]
    assert [str(bucket.value) for bucket in found["day"]] == ["2026-05-30"]
    assert found["doc.rooms"] == (Bucket(Decimal(2), 1), Bucket(Decimal(5), 1))
    assert found["doc.agent"] == (Bucket("Anna", 1), Bucket("Paul", 1))
    [kinds] = engine.search("doc.photos:(width:800)", facets=[Facet("doc.photos.kind")]).facets.values()
    assert kinds == (Bucket("plan", 2), Bucket("view", 1))


def test_facets_by_range_count_what_the_query_finds(engine: SearchEngine) -> None:
    ranges = (Range("price", None, Decimal(300)), Range("price", Decimal(300), None, low_open=True))
    found = engine.search("kind:(house,studio)", facets=[Facet("price", ranges=ranges)]).facets["price"]
    assert [bucket.count for bucket in found] == [1, 2]


def test_highlights(engine: SearchEngine) -> None:
    page = engine.search('garden "sea views" -river', highlight=True)
    [hit] = page.hits
    assert [(each.field, each.marked()) for each in hit.highlights] == [
        ("title", "Sunny <em>garden</em> flat"),
        ("tags", "<em>garden</em>"),
        ("tags", "<em>sea</em> <em>view</em>"),
    ]
    assert hit.score is not None


def test_did_you_mean(engine: SearchEngine) -> None:
    mended = engine.did_you_mean("gardn hosue kind:house")
    assert mended is not None
    assert mended.text in ("garden house kind:house", "gardens house kind:house")
    assert engine.did_you_mean("garden kind:house") is None
    assert engine.did_you_mean("xyzxyzxyz") is None
    assert engine.did_you_mean("kind:house") is None
    assert engine.did_you_mean("familly").text == "family"  # type: ignore[union-attr]
    mended = engine.did_you_mean("familly doc.photos:(title:familly)")
    assert mended is not None
    assert mended.text == "family doc.photos:(title:familly)"


def test_similar(engine: SearchEngine) -> None:
    found = ids(engine.similar(encoded(ROWS[4]), KEYS[5]))
    assert 5 not in found
    assert found[0] in (4, 2)
    assert engine.similar(b'{"id":1}') == ()


def test_why(engine: SearchEngine) -> None:
    explanation = engine.explain("garden price:..200 near:48.85,2.35,5km", encoded(ROWS[0]))
    assert not explanation.matches
    assert [(each.clause, each.matches) for each in explanation.inside] == [
        ("garden", True),
        ("price:..200", False),
        ("near:48.85,2.35,5km", True),
    ]
    assert "300.5" in "\n".join(explanation.lines())


def test_an_index_from_before_elements_says_so(address: ElasticsearchAddress, client: Elasticsearch) -> None:
    shape = market.shape(source=f"o{uuid.uuid4().hex[:8]}")
    definition = market.define(shape)
    mapping = definition.mapping()
    del mapping["properties"]["e"]
    index = f"{shape.source}-listing-g1"
    client.indices.create(index=index, mappings=mapping, aliases={f"{shape.source}-listing": {}})
    engine = SearchEngine(client, definition)
    for ask in (engine.search, engine.count):
        assert not engine.count("doc.photos.kind:plan")
        with pytest.raises(SinkError, match="before elements could be asked") as caught:
            ask("doc.photos:(kind:plan)")  # type: ignore[operator]
        assert caught.value.hint == "headwater apply --rebuild listing"
    client.indices.delete(index=index)


def test_limits_and_refusals(engine: SearchEngine, client: Elasticsearch) -> None:
    for ask in (
        {"size": 0}, {"size": 1001}, {"sort": [Sort("tags")]}, {"sort": [Sort("nothing")]}, {"sort": [Sort("id")] * 6},
        {"facets": [Facet("doc")]}, {"facets": [Facet("kind", size=0)]}, {"facets": [Facet("kind")] * 21},
        {"facets": [Facet("blob")]},
    ):  # fmt: skip
        with pytest.raises(QueryRefused):
            engine.search("", **ask)  # type: ignore[arg-type]
    nowhere = SearchEngine(client, market.DEFINITION)
    for pages in (True, False):
        with pytest.raises(SinkUnavailable, match="the index is gone"):
            nowhere.search("", pages=pages)
