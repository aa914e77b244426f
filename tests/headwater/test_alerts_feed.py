"""The feed over HTTP: who listens, from where, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx
import pytest
from fastapi import FastAPI, Request

from alerts.channels.feed import OWNER_LISTENERS_MAX, FeedHub
from headwater.api import alerts_feed_routes, problems
from headwater.api.problems import Unauthorized
from tests.alerts.samples import until
from tests.alerts.test_feed import Inbox, ids


async def _owner(request: Request) -> str:
    name = request.headers.get("x-owner")
    if name is None:
        raise Unauthorized("a key is needed")
    return name


async def _admits(request: Request) -> bool:
    return request.headers.get("x-owner") not in revoked


revoked = set[str]()


def client_of(hub: FeedHub) -> httpx.AsyncClient:
    app = FastAPI()
    problems.register(app)
    app.include_router(alerts_feed_routes.router(hub, _owner, _admits))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


def heard(inbox: Inbox, headers: Mapping[str, str], query: str = "") -> httpx.Response:
    """The whole feed, ended by closing the hub once the listener waits."""

    async def listen() -> httpx.Response:
        hub = FeedHub(inbox.read, look_s=3_600.0)
        async with client_of(hub) as client:
            coming = asyncio.create_task(client.get(f"/v1/alerts/feed{query}", headers=headers))
            await until(lambda: coming.done() or inbox.empty_looks == 1)
            hub.close_from_thread()
            return await coming

    return asyncio.run(listen())


@pytest.mark.parametrize(
    ("headers", "query", "expected"),
    [({}, "", [1, 3, 4]), ({"Last-Event-ID": "1"}, "", [3, 4]), ({"Last-Event-ID": "3"}, "?after=1", [4])],
)
def test_from_where(headers: dict[str, str], query: str, expected: list[int]) -> None:
    inbox = Inbox()
    for owner in ("ada", "eve", "ada", "ada"):
        inbox.add(owner)
    answer = heard(inbox, {"x-owner": "ada", **headers}, query)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert ids([event + b"\n\n" for event in answer.content.split(b"\n\n")]) == expected


@pytest.mark.parametrize("id_", ["x", "-1", "1.5", "9" * 30])
def test_an_odd_id(id_: str) -> None:
    answer = heard(Inbox(), {"x-owner": "ada", "Last-Event-ID": id_})
    assert (answer.status_code, answer.json()["error"]) == (400, "not the id of an event")


def test_who_is_not_known() -> None:
    assert heard(Inbox(), {}).status_code == 401


def test_a_key_that_is_revoked_hears_nothing_more() -> None:
    async def run() -> bytes:
        inbox = Inbox()
        hub = FeedHub(inbox.read, look_s=3_600.0)
        async with client_of(hub) as client:
            coming = asyncio.create_task(client.get("/v1/alerts/feed", headers={"x-owner": "eve"}))
            await until(lambda: inbox.empty_looks == 1)
            revoked.add("eve")
            inbox.add("eve")
            hub.wake("eve")
            return (await coming).content

    assert b"notification" not in asyncio.run(run())


def test_too_many() -> None:
    async def run() -> int:
        hub = FeedHub(Inbox().read, look_s=3_600.0)
        listening = [hub.events("ada", 0) for _ in range(OWNER_LISTENERS_MAX)]
        for each in listening:
            await anext(each)
        async with client_of(hub) as client:
            return (await client.get("/v1/alerts/feed", headers={"x-owner": "ada"})).status_code

    assert asyncio.run(run()) == 429
