"""The second oracle: who is told `entered` of a new row is whose search the real Elasticsearch finds the row with."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest
from elasticsearch import Elasticsearch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alerts.matcher.matcher import Matcher
from alerts.subscription import Entry, Event, Watched
from search.index import decode_row
from search.query import Query, resolve, walk
from search.query_check import check
from tests.alerts import asked
from tests.search import market
from tests.search.conftest import address, client  # noqa: F401  # fixtures
from tests.search.test_agreement import NOW, hits_of, index, is_on_border, points, write  # noqa: F401  # one a fixture

pytestmark = pytest.mark.stack

EXAMPLES = 25


def told(rows: Sequence[bytes], queries: Sequence[Query]) -> list[set[int]]:
    """Of each query, the rows that its owner is told of when they are inserted."""
    matcher = Matcher(market.DEFINITION)
    for number, query in enumerate(queries):
        matcher.put(Entry(number, query, Watched(entered=True, left=True, changed=True)))
    matches = matcher.match([(None, decode_row(market.DEFINITION, row)) for row in rows], NOW)
    assert set(matches.event.tolist()) <= {int(Event.ENTERED)}
    made: list[set[int]] = [set() for _ in queries]
    for row, number in zip(matches.delta.tolist(), matches.subscription.tolist(), strict=True):
        made[number].add(row)
    return made


def agree(client: Elasticsearch, index: str, rows: list[bytes], wanted: Sequence[Query]) -> int:  # noqa: F811
    """How many both of them found."""
    example = uuid.uuid4().hex
    decoded = [decode_row(market.DEFINITION, row) for row in rows]
    places = [point for row in decoded for point in points(row)]
    checked = [check(query, market.DEFINITION) for query in wanted]
    # On a border the index's grid decides: nobody can tell.
    queries = [
        q for q in checked if not any(is_on_border(clause, p) for clause in walk(resolve(q, NOW)) for p in places)
    ]
    write(client, index, rows, example)
    ids = [f"{example}-{number}" for number in range(len(rows))]
    hits = hits_of(client, index, [resolve(query, NOW) for query in queries], ids)
    for query, mine, theirs in zip(queries, told(rows, queries), hits, strict=True):
        assert {ids[number] for number in mine} == theirs, query
    return sum(map(len, hits))


def test_every_kind_of_clause(client: Elasticsearch, index: str) -> None:  # noqa: F811
    rows = [*market.SPECIAL_ROWS, *(market.row(seed) for seed in range(15))]
    assert agree(client, index, rows, list(market.every_clause())) > 1_000


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(market.rows, min_size=5, max_size=15), drawn=st.lists(asked.queries, min_size=8, max_size=25))
def test_entered_on_inserts_is_what_the_search_finds(
    client: Elasticsearch,  # noqa: F811
    index: str,  # noqa: F811
    rows: list[bytes],
    drawn: list[Query],
) -> None:
    agree(client, index, rows, drawn)
