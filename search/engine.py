"""Searches of one view: pages that stay as they were, sort, facets, highlights, spelling, similar rows, and why.

    query ─▶ check ─▶ resolve(now) ─▶ compile ─▶ Elasticsearch, at a point in time ─▶ Page

Reads go through the view's alias, so a switch of generations is seen by the next search, and never by half of one. A
search fails rather than answer from some of its shards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from elasticsearch import ApiError, BadRequestError, Elasticsearch, NotFoundError, TransportError

from cdc.errors import SinkError
from search import cursor as cursors
from search import facets as counting
from search.address import ElasticsearchAddress
from search.analysis import analyse
from search.answers import DidYouMean, Facet, Hit, Page, Sort
from search.bulk import document_id, unavailable
from search.compile import Dsl, compile, live
from search.cursor import Cursor
from search.errors import CursorExpired, QueryRefused, nearest
from search.evaluate import texts
from search.explain import Explanation, explain
from search.generations import IndexNames
from search.highlights import highlights
from search.index import IndexDefinition, Target, decode_row, define
from search.query import Query, Text, resolve, walk
from search.query_check import check
from search.query_parser import parse
from search.spelling import Speller
from views.sinks.sink import ViewShape

PAGE_ROWS_MAX: Final = 1_000
SORTS_MAX: Final = 5
KEEP_ALIVE: Final = "5m"
"""How long a cursor is good for, after the page that gave it."""
SIMILAR_TERMS_MAX: Final = 30
SIMILAR_STEMS_MAX: Final = 500
_NO_ELEMENTS: Final = "failed to find nested object"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class SearchEngine:
    """Safe to share between threads."""

    def __init__(
        self,
        client: Elasticsearch,
        definition: IndexDefinition,
        secret: bytes = b"headwater",
        clock: Callable[[], datetime] = _utc_now,
    ) -> None:
        self.definition = definition
        self.index = IndexNames(definition.source, definition.view).alias
        self._client, self._secret, self._clock = client, secret, clock

    @classmethod
    def open(cls, address: ElasticsearchAddress, shape: ViewShape, secret: bytes = b"headwater") -> SearchEngine:
        return cls(address.client(), define(shape), secret)

    def close(self) -> None:
        self._client.close()

    def query(self, asked: Query | str) -> Query:
        """Checked; text is in the compact form. Raises QueryRefused."""
        return parse(asked, self.definition) if isinstance(asked, str) else check(asked, self.definition)

    def search(
        self,
        asked: Query | str = "",
        *,
        sort: Sequence[Sort] = (),
        size: int = 20,
        cursor: str | None = None,
        facets: Sequence[Facet] = (),
        highlight: bool = False,
        pages: bool = True,
    ) -> Page:
        """One page. The cursor of its answer asks for the next one, with the same query and sort.

        Without `pages` no point in time is kept and no cursor given: cheaper, for who wants the first page alone.
        """
        query = self.query(asked)
        self._check(sort, size, facets)
        question = cursors.question(query, sort, self.definition.view)
        place = cursors.read(cursor, self._secret, question) if cursor else None
        now = _EPOCH + place.now_us * _MICROSECOND if place else self._clock()
        resolved = resolve(query, now)
        body = self._body(resolved, sort, size, facets)
        point = place.point if place else self._open_point() if pages else None
        answer = self._searched(body, point, place.after if place else None)
        return self._page(answer, resolved, facets, highlight, self._next(answer, size, now, question))

    def _check(self, sort: Sequence[Sort], size: int, facets: Sequence[Facet]) -> None:
        if not 1 <= size <= PAGE_ROWS_MAX:
            raise QueryRefused(f"a page has 1 to {PAGE_ROWS_MAX} rows", hint="ask for the next page with the cursor")
        if len(sort) > SORTS_MAX:
            raise QueryRefused(f"more than {SORTS_MAX} columns to sort by")
        counting.check(facets, self.definition)
        for each in sort:
            column = self.definition.by_name.get(each.field)
            if column is None or not column.is_sortable:
                known = [c.name for c in self.definition.columns if c.is_sortable]
                raise QueryRefused(f"cannot sort by {each.field}", hint=nearest(each.field, known))

    def _body(self, query: Query, sort: Sequence[Sort], size: int, facets: Sequence[Facet]) -> Dsl:
        return {
            "query": live(compile(query, self.definition)),
            "sort": self._order(query, sort),
            "size": size,
            "track_total_hits": True,
            "track_scores": any(isinstance(clause, Text) for clause in walk(query)),
            "version": True,
            "stored_fields": ["row"],
            "aggs": counting.aggregations(facets, self.definition),
        }

    def _order(self, query: Query, sort: Sequence[Sort]) -> list[Dsl]:
        """The key decides between equals, and the order of what was found by no words."""
        by_name = self.definition.by_name
        made: list[Dsl] = [
            {by_name[each.field].field: {"order": "desc" if each.descending else "asc", "missing": "_last"}}
            for each in sort
        ]
        if not sort and any(isinstance(clause, Text) for clause in walk(query)):
            made.append({"_score": "desc"})
        keys = [by_name[name] for name in self.definition.key if by_name[name].is_sortable]
        return made + [{column.field: {"order": "asc", "missing": "_last"}} for column in keys]

    def _open_point(self) -> str:
        try:
            return str(self._client.open_point_in_time(index=self.index, keep_alive=KEEP_ALIVE)["id"])
        except (ApiError, TransportError) as error:
            raise unavailable(error) from error

    def _searched(self, body: Dsl, point: str | None, after: list[Any] | None = None) -> Any:
        where: Dsl = {"index": self.index} if point is None else {"pit": {"id": point, "keep_alive": KEEP_ALIVE}}
        partial: Dsl = {"allow_partial_search_results": False}
        try:
            return self._client.search(**body, **where, **partial, search_after=after)
        except NotFoundError as error:
            if point is None:
                raise self._failed(error) from error
            raise CursorExpired(
                "the cursor has expired",
                detail=f"a page's rows are kept for {KEEP_ALIVE}",
                hint="ask for the first page, without a cursor",
            ) from error
        except (ApiError, TransportError) as error:
            raise self._failed(error) from error

    def _failed(self, error: ApiError | TransportError) -> SinkError:
        if isinstance(error, BadRequestError) and _NO_ELEMENTS in str(error.body):
            return SinkError(
                f"the index of {self.definition.view} was made before elements could be asked",
                hint=f"headwater apply --rebuild {self.definition.view}",
            )
        return unavailable(error)

    def _next(self, answer: Any, size: int, now: datetime, question: str) -> str | None:
        """The cursor of the next page, if there may be one; else the point in time is let go."""
        found, point = answer["hits"]["hits"], answer.get("pit_id")
        if point is None:
            return None
        if len(found) == size:
            now_us = (now - _EPOCH) // _MICROSECOND
            return cursors.write(Cursor(point, found[-1]["sort"], now_us, question), self._secret)
        with suppress(ApiError, TransportError):  # it expires by itself
            self._client.close_point_in_time(id=point)
        return None

    def _page(self, answer: Any, query: Query, facets: Sequence[Facet], highlight: bool, cursor: str | None) -> Page:
        counted = counting.buckets(facets, answer["aggregations"], self.definition) if facets else {}
        hits = tuple(self._hit(hit, query if highlight else None) for hit in answer["hits"]["hits"])
        return Page(hits, answer["hits"]["total"]["value"], cursor, counted, answer["took"])

    def _hit(self, hit: Any, query: Query | None) -> Hit:
        row = hit["fields"]["row"][0].encode()
        shown = () if query is None else highlights(query, decode_row(self.definition, row), self.definition)
        return Hit(row, hit["_version"], hit["_score"], shown)

    def count(self, asked: Query | str = "") -> int:
        query = resolve(self.query(asked), self._clock())
        try:
            return int(self._client.count(index=self.index, query=live(compile(query, self.definition)))["count"])
        except (ApiError, TransportError) as error:
            raise self._failed(error) from error

    def explain(self, asked: Query | str, row: bytes) -> Explanation:
        """Why a row matches, or does not."""
        query = resolve(self.query(asked), self._clock())
        return explain(query, decode_row(self.definition, row), self.definition)

    def similar(self, row: bytes, key: bytes | None = None, size: int = 10) -> tuple[Hit, ...]:
        """Rows with the most telling words of this one; `key` (its JSON) leaves the row itself out."""
        self._check((), size, ())
        values, definition = decode_row(self.definition, row), self.definition
        found = [text for column in definition.text_columns for text in texts(values, Target(column))]
        stems = [stem for text in found for stem in analyse(text, definition.language).stems][:SIMILAR_STEMS_MAX]
        if not stems:
            return ()
        like: Dsl = {
            "fields": [column.stems_field for column in definition.text_columns],
            "like": " ".join(stems),
            "analyzer": "whitespace",
            "min_term_freq": 1,
            "min_doc_freq": 2,
            "max_query_terms": SIMILAR_TERMS_MAX,
            "minimum_should_match": "20%",
        }
        itself = [] if key is None else [{"ids": {"values": [document_id(key)]}}]
        query = live({"bool": {"must": [{"more_like_this": like}], "must_not": itself}})
        body: Dsl = {"query": query, "size": size, "version": True, "stored_fields": ["row"]}
        answer = self._searched(body, None)
        return tuple(self._hit(hit, None) for hit in answer["hits"]["hits"])

    def did_you_mean(self, asked: Query | str) -> DidYouMean | None:
        """For a query that finds little: words that are in no row, replaced by near ones. None when all are there."""
        return Speller(self.definition, lambda body: self._searched(body, None)).mend(self.query(asked))
