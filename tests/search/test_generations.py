"""What Elasticsearch's answers mean for which generation is read. Without it."""

from __future__ import annotations

from typing import Any

import pytest
from elastic_transport import ApiResponseMeta, HttpHeaders, NodeConfig
from elasticsearch import NotFoundError

from cdc.errors import SinkUnavailable
from search.generations import Generations, IndexNames

NAMES = IndexNames("shop", "items")


class Client:
    """Whose indices are asked for an alias."""

    def __init__(self, error: object) -> None:
        self.error, self.actions, self.asked = error, list[Any](), dict[str, Any]()

    @property
    def indices(self) -> Client:
        return self

    def get_alias(self, **asked: Any) -> dict[str, Any]:
        self.asked = asked
        meta = ApiResponseMeta(404, "1.1", HttpHeaders(), 0.0, NodeConfig("http", "localhost", 9200))
        kind = self.error["type"] if isinstance(self.error, dict) else str(self.error)
        raise NotFoundError(kind, meta, {"error": self.error, "status": 404})

    def update_aliases(self, *, actions: list[Any]) -> None:
        self.actions += actions


def test_no_alias_is_none() -> None:
    client = Client("alias [shop-items] missing")
    generations = Generations(client, NAMES)  # type: ignore[arg-type]
    assert generations.current() is None
    generations.switch(1)
    assert client.actions == [{"add": {"index": "shop-items-g1", "alias": "shop-items"}}]


def test_an_index_of_somebody_else_that_goes_meanwhile_is_no_answer() -> None:
    """Taken for no alias, the next switch would leave the one that is read behind it: every row was there twice."""
    client = Client({"type": "index_not_found_exception", "reason": "no such index [other]", "index": "other"})
    generations = Generations(client, NAMES)  # type: ignore[arg-type]
    with pytest.raises(SinkUnavailable):
        generations.current()
    with pytest.raises(SinkUnavailable):
        generations.switch(2)
    assert client.actions == []
    assert client.asked["ignore_unavailable"], "and it is not to miss any"
