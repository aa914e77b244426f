"""A database that is away is an answer that says when to come again. Nothing listens at the port."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import httpx
import psycopg
import pytest
from fastapi import FastAPI

from cdc.addresses import PostgresAddress
from cdc.errors import SourceError, SourceUnavailable
from cdc.postgres import explained
from headwater.api import alerts_routes, problems, unsubscribe_routes
from headwater.saved_searches import SavedSearches
from tests.headwater.test_alerts_api import MadeUp
from tests.headwater.test_http import free_port


@pytest.fixture
def client() -> httpx.AsyncClient:
    nowhere = PostgresAddress("127.0.0.1", free_port(), "shop", "shop", "")

    async def owner(_request: object) -> str:
        return "ada"

    reading: Any = SimpleNamespace(
        searches=SavedSearches(nowhere, MadeUp()), admit_owner=owner, admit_anybody=lambda _request: None
    )
    app = FastAPI()
    problems.register(app)
    app.include_router(unsubscribe_routes.router(reading))
    app.include_router(alerts_routes.router(reading))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("PATCH", "/1"), ("GET", "/inbox"), ("GET", "/unsubscribe/token"), ("POST", "/unsubscribe/token")],
)
def test_a_database_that_is_away_is_worth_another_try(client: httpx.AsyncClient, method: str, path: str) -> None:
    given = {"paused": True} if method == "PATCH" else None
    answer = asyncio.run(client.request(method, f"/v1/alerts{path}", json=given))
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert answer.json()["error"] == "cannot reach the source database"


def test_only_a_lost_connection_is() -> None:
    conn = cast(psycopg.Connection, SimpleNamespace(info=SimpleNamespace(user="shop", dbname="shop")))
    with pytest.raises(SourceUnavailable, match="lost"), explained(conn):
        raise psycopg.OperationalError("server closed the connection unexpectedly")
    with pytest.raises(SourceError) as refused, explained(conn):
        raise psycopg.errors.InsufficientPrivilege("no")
    assert problems.status_of(refused.value) == 500
