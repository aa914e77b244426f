"""The property that search rests on: for any rows and queries, the evaluator and the real Elasticsearch agree."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from elasticsearch import Elasticsearch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from search import compile as compiler
from search import evaluate
from search.documents import DocumentBuilder
from search.elements import place_of
from search.geo import Point, distance_m, edges
from search.index import Row, decode_row
from search.json_paths import elements as json_elements
from search.query import Near, Polygon, Query, resolve, walk
from search.query_check import check
from tests.search import market

pytestmark = pytest.mark.stack

NOW = datetime(2026, 5, 31, tzinfo=UTC)
BUILDER = DocumentBuilder(market.DEFINITION)
BORDER_M, BORDER_DEGREES = 0.2, 1e-6
SEARCHES = 100


@pytest.fixture(scope="module")
def index(client: Elasticsearch) -> Iterator[str]:
    name = f"agreement-{uuid.uuid4().hex[:8]}"
    client.indices.create(
        index=name,
        mappings=market.DEFINITION.mapping(),
        settings={"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "-1"},
    )
    yield name
    client.indices.delete(index=name)


def is_on_border(query: Query, place: Point | None) -> bool:
    """So close to a border that the index's grid of 1 cm decides."""
    if place is None:
        return False
    if isinstance(query, Near):
        return abs(distance_m(Point(query.lat, query.lon), place) - query.radius_m) < BORDER_M
    if isinstance(query, Polygon):
        return any(_off(place, *edge) < BORDER_DEGREES for edge in edges(query.corners))
    return False


def points(row: Row) -> list[Point | None]:
    """Of the row, and of the elements in its document."""
    geo = market.DEFINITION.geo
    return [geo.point(row) if geo else None, *(place_of(element) for _, element in json_elements(row.get("doc")))]


def _off(place: Point, one: Point, other: Point) -> float:
    lat, lon = other.lat - one.lat, other.lon - one.lon
    along = ((place.lat - one.lat) * lat + (place.lon - one.lon) * lon) / (lat**2 + lon**2)
    near = Point(one.lat + max(0.0, min(1.0, along)) * lat, one.lon + max(0.0, min(1.0, along)) * lon)
    return float(abs(complex(place.lat - near.lat, place.lon - near.lon)))


def write(client: Elasticsearch, index: str, rows: Sequence[bytes], example: str) -> None:
    operations: list[Any] = []
    for number, row in enumerate(rows):
        operations += [{"index": {"_id": f"{example}-{number}"}}, BUILDER.document(row)]
    answer = client.bulk(index=index, operations=operations, refresh=True)
    assert not answer["errors"], answer


def hits_of(client: Elasticsearch, index: str, queries: Sequence[Query], ids: list[str]) -> list[set[str]]:
    searches: list[Any] = []
    for query in queries:
        compiled = compiler.live(compiler.compile(query, market.DEFINITION))
        asked = {"bool": {"must": [compiled], "filter": [{"ids": {"values": ids}}]}}
        searches += [{}, {"query": asked, "size": len(ids), "_source": False}]
    answers = client.msearch(index=index, searches=searches)["responses"]
    for query, answer in zip(queries, answers, strict=True):
        assert "error" not in answer, (query, str(answer)[:2000])
    return [{hit["_id"] for hit in answer["hits"]["hits"]} for answer in answers]


def _agree(client: Elasticsearch, index: str, rows: list[bytes], asked: Sequence[Query]) -> int:
    """How many matches both of them found."""
    example = uuid.uuid4().hex
    decoded = {f"{example}-{n}": decode_row(market.DEFINITION, row) for n, row in enumerate(rows)}
    places = [place for row in decoded.values() for place in points(row)]
    queries = [resolve(check(query, market.DEFINITION), NOW) for query in asked]
    queries = [q for q in queries if not any(is_on_border(clause, p) for clause in walk(q) for p in places)]
    write(client, index, rows, example)
    matches = 0
    for start in range(0, len(queries), SEARCHES):
        some = queries[start : start + SEARCHES]
        for query, found in zip(some, hits_of(client, index, some, list(decoded)), strict=True):
            predicate = evaluate.compile(query, market.DEFINITION)
            wanted = {id_ for id_, row in decoded.items() if predicate(row)}
            assert found == wanted, f"{query}\n{[decoded[id_] for id_ in found ^ wanted][:2]}"
            matches += len(found)
    return matches


def test_every_kind_of_clause_on_many_rows(client: Elasticsearch, index: str) -> None:
    rows = [*market.SPECIAL_ROWS, *(market.row(seed) for seed in range(150))]
    assert _agree(client, index, rows, list(market.every_clause())) > 10_000


@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(market.rows, min_size=8, max_size=20), drawn=st.lists(market.queries, min_size=8, max_size=20))
def test_the_index_finds_exactly_what_the_evaluator_matches(
    client: Elasticsearch, index: str, rows: list[bytes], drawn: list[Query]
) -> None:
    _agree(client, index, rows, drawn)
