"""Everything that a query finds, page by page at one point in time: what `verify` and `purge` read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from elasticsearch import ApiError, Elasticsearch, NotFoundError, TransportError

from search.bulk import unavailable

PAGE_ROWS: Final = 2_000
KEEP_ALIVE: Final = "2m"


def scan(
    client: Elasticsearch, index: str, query: dict[str, Any], *, stored: Sequence[str] = (), version: bool = False
) -> Iterator[dict[str, Any]]:
    """Hits in no order. Nothing when there is no such index. Raises SinkError."""
    try:
        point = client.open_point_in_time(index=index, keep_alive=KEEP_ALIVE)["id"]
    except NotFoundError:
        return
    except (ApiError, TransportError) as error:
        raise unavailable(error) from error
    try:
        yield from _pages(client, point, query, list(stored), version)
    except (ApiError, TransportError) as error:
        raise unavailable(error) from error
    finally:
        with suppress(ApiError, TransportError):  # it expires by itself
            client.close_point_in_time(id=point)


def _pages(
    client: Elasticsearch, point: str, query: dict[str, Any], stored: list[str], version: bool
) -> Iterator[dict[str, Any]]:
    after: list[Any] | None = None
    while True:
        answer = client.search(
            pit={"id": point, "keep_alive": KEEP_ALIVE},
            query={"constant_score": {"filter": query}},
            sort=[{"_shard_doc": "asc"}],
            size=PAGE_ROWS,
            search_after=after,
            stored_fields=stored or None,
            version=version,
            track_total_hits=False,
            source=False,
        )
        hits = answer["hits"]["hits"]
        yield from hits
        if len(hits) < PAGE_ROWS:
            return
        after = hits[-1]["sort"]
