"""The Python client: its pure parts alone, and the whole against the real API over views in a real cache."""

from __future__ import annotations

import asyncio
import json
import pickle
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import aclosing, closing, suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import httpx
import psycopg
import pytest
import sqlalchemy as sa
from psycopg.rows import dict_row
from sqlalchemy import orm

import headwater.client
from cdc.errors import ConfigurationError, HeadwaterError
from headwater.api.access import KeyStore
from headwater.client import (
    ApiError,
    AsyncClient,
    BadRequest,
    Change,
    Client,
    NotFound,
    NotYet,
    Patience,
    TimedOut,
    TooMany,
    Unauthorized,
    Unavailable,
    Unreachable,
    asking,
    token_of,
)
from headwater.client.asking import Reading
from headwater.client.failures import refusal
from headwater.client.feed import Feed
from headwater.client.retries import FEED_PATIENCE, Tries, feed_passes_by
from tests.headwater.test_api import Shop, shop  # noqa: F401
from tests.waiting import eventually

FRESH = {"position": "7:9", "lsn": "0/1A", "committed_at": "2026-01-31T12:00:00+00:00", "lag_ms": 3.5} | {
    "state": "riding",
    "generation": 1,
}
IMPATIENT = Patience(tries_max=3, pause_s_first=0.001, pause_s_max=0.01)


# The package


def test_everything_that_is_exported_is_there_and_nothing_else() -> None:
    expected = """ApiError AsyncClient BadRequest Change Client ConfigurationError Forbidden Freshness HeadwaterError
        Hit NotFound NotYet Page Patience Row TimedOut TooMany Unauthorized Unavailable Unreachable View token_of"""
    assert headwater.client.__all__ == expected.split()
    assert all(hasattr(headwater.client, name) for name in headwater.client.__all__)


def test_both_clients_have_the_same_methods() -> None:
    def methods(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert methods(Client) == methods(AsyncClient)


def test_importing_it_brings_nothing_heavy() -> None:
    heavy = ("pyspark", "duckdb", "pyarrow", "fastapi", "confluent_kafka", "sqlalchemy", "psycopg", "sqlglot", "redis")
    code = f"import sys, headwater.client; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


# What is sent


def test_values_as_people_type_them() -> None:
    some = uuid.uuid4()
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    given: dict[str, asking.Value] = {
        "a": True,
        "b": Decimal("1.50"),
        "c": at,
        "d": date(2026, 1, 31),
        "e": some,
        "f": b"\xff",
        "g": None,
    }
    [ask] = asking.get_many("v", [given], Reading())
    assert ask.body == {
        "keys": [
            {"a": "true", "b": "1.50", "c": at.isoformat(), "d": "2026-01-31", "e": str(some), "f": "\\xff", "g": None}
        ]
    }


def test_a_view_s_name_stays_one_step_of_the_path() -> None:
    assert asking.get("a/b?c", 1, {}, Reading()).path == "v1/views/a%2Fb%3Fc/get"


def test_many_keys_are_asked_for_in_several_requests() -> None:
    sizes = [len(ask.body["keys"]) for ask in asking.get_many("v", range(2500), Reading())]  # type: ignore[index]
    assert sizes == [1000, 1000, 500]


@pytest.mark.parametrize(
    "call",
    [
        lambda: asking.get("v", None, {}, Reading()),
        lambda: asking.get("v", 1, {"id": 1}, Reading()),
        lambda: list(asking.get_many("v", [None], Reading())),
        lambda: asking.lookup("v", {}, Reading()),
        lambda: asking.lookup("v", {"a": 1, "b": 2}, Reading()),
    ],
)
def test_what_cannot_be_asked_is_not_sent(call: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError):
        call()


def test_a_request_may_take_as_long_as_the_server_waits_for_the_token() -> None:
    def timeout_s(token: str | None, wait_ms: int | None) -> object:
        return asking.lookup("v", {"slug": "a"}, Reading(token, wait_ms)).given(10)["timeout"]

    assert (timeout_s(None, None), timeout_s(None, 30_000)) == (10, 10)
    assert (timeout_s("0/1", None), timeout_s("0/1", 30_000)) == (15, 40)


# What comes back


def served(*answers: httpx.Response | Exception, **options: Any) -> tuple[Client, list[httpx.Request]]:
    """A client whose server gives these answers in turn."""
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        given = answers[len(asked) - 1]
        if isinstance(given, Exception):
            raise given
        return given

    return Client(patience=IMPATIENT, transport=httpx.MockTransport(answer), **options), asked


def rows(text: str = '[{"id":1,"price":7.50,"n":123456789012345678901234567890}]') -> httpx.Response:
    return httpx.Response(200, text=f'{{"view":"v","rows":{text},"freshness":{json.dumps(FRESH)}}}')


def test_numbers_keep_their_digits() -> None:
    client, _ = served(rows())
    row = client.get("v", 1)
    assert row is not None
    assert (str(row["price"]), row["n"]) == ("7.50", 123456789012345678901234567890)
    assert row.freshness.lag_ms == 3.5
    assert type(row.freshness.lag_ms) is float
    assert row.freshness.committed_at == datetime(2026, 1, 31, 12, tzinfo=UTC)
    client, _ = served(rows(), exact_numbers=False)
    row = client.get("v", 1)
    assert row is not None
    assert type(row["price"]) is float


def test_a_page_of_a_search() -> None:
    marked = [{"field": "title", "text": "sunny", "spans": [[0, 5]]}]
    hits = [{"row": {"id": 1}, "score": 1.5, "highlights": marked}, {"row": {"id": 2}, "score": None}]
    facets = {"city": [{"value": "Lyon", "count": 3}]}
    told = {"view": "v", "hits": hits, "total": 9, "next": "abc", "facets": facets, "did_you_mean": None}
    client, asked = served(httpx.Response(200, json={**told, "freshness": FRESH}))
    page = client.search("v", 'city:lyon "south facing"', sort="-price", size=2, facets=["city", "kind"], token="0/1")
    assert dict(asked[0].url.params) == {
        "q": 'city:lyon "south facing"',
        "sort": "-price",
        "size": "2",
        "facets": "city,kind",
    }
    assert asked[0].url.path == "/v1/search/v"
    assert asked[0].headers["X-Headwater-Token"] == "0/1"
    assert [(hit["id"], hit.score) for hit in page.hits] == [(1, 1.5), (2, None)]
    assert (page.total, page.next, page.facets) == (9, "abc", {"city": {"Lyon": 3}})
    assert page.hits[0].highlights == tuple(marked)


def test_an_answer_that_is_not_ours() -> None:
    for body in ("<html>log in first</html>", "[]", '{"rows":[]}'):
        client, _ = served(httpx.Response(200, text=body))
        with pytest.raises(ApiError, match="none of Headwater's"):
            client.get("v", 1)


# What goes wrong


def test_errors_carry_fact_detail_and_hint_through_pickling() -> None:
    body = json.dumps({"error": "too many requests", "detail": "at most 5 a second", "hint": "wait"}).encode()
    error = refusal(429, {"Retry-After": "3"}, body)
    for same in (error, pickle.loads(pickle.dumps(error))):
        assert isinstance(same, TooMany)
        assert (same.fact, same.detail, same.hint) == ("too many requests", "at most 5 a second", "wait")
        assert (same.status, same.retry_after_s) == (429, 3.0)
        assert isinstance(same, HeadwaterError)


def test_a_gateway_that_gave_up_says_nothing_about_a_write() -> None:
    assert not isinstance(refusal(504, {}, b"<h1>gateway timeout</h1>"), NotYet)
    assert "gateway timeout" in refusal(504, {}, b"<h1>gateway timeout</h1>").detail
    assert isinstance(refusal(504, {}, b'{"error":"not yet","detail":"","hint":""}'), NotYet)


def test_a_busy_server_is_asked_again_when_it_says() -> None:
    busy, down = httpx.Response(429, headers={"Retry-After": "0"}), httpx.Response(503)
    client, asked = served(busy, down, rows())
    assert client.get("v", 1) is not None
    assert len(asked) == 3


def test_patience_ends() -> None:
    client, asked = served(*[httpx.Response(503)] * 5)
    with pytest.raises(Unavailable):
        client.get("v", 1)
    assert len(asked) == IMPATIENT.tries_max
    client, asked = served(httpx.Response(429, headers={"Retry-After": "3600"}))
    with pytest.raises(TooMany):
        client.get("v", 1)
    client, asked = served(*[httpx.ConnectError("refused")] * 5)
    with pytest.raises(Unreachable, match="cannot be reached"):
        client.get("v", 1)
    assert len(asked) == IMPATIENT.tries_max


@pytest.mark.parametrize("failure", [httpx.Response(400), httpx.Response(500), httpx.ReadTimeout("")])
def test_what_does_not_pass_by_itself_is_not_tried_again(failure: httpx.Response | Exception) -> None:
    client, asked = served(failure, rows())
    with pytest.raises((ApiError, TimedOut)):
        client.get("v", 1)
    assert len(asked) == 1


def test_a_feed_outlives_what_a_read_does_not() -> None:
    tries = Tries(Patience(tries_max=3, pause_s_first=1, pause_s_max=3), feed_passes_by)
    assert 0.5 <= tries.pause_s(TimedOut("late")) <= 1
    assert 1 <= tries.pause_s(ApiError("broken", status=502)) <= 2
    tries.worked()
    tries.pause_s(Unreachable("gone"))
    tries.pause_s(Unreachable("gone"))
    with pytest.raises(Unreachable):
        tries.pause_s(Unreachable("gone"))
    with pytest.raises(BadRequest):
        Tries(FEED_PATIENCE, feed_passes_by).pause_s(BadRequest("no event", status=400))


# The feed's bytes


def event(number: int, text: str = "") -> bytes:
    told = {"key": {"id": number}, "before": None, "after": {"id": number, "text": text}, "position": "7:9"} | {
        "lsn": "0/1A",
        "committed_at_us": 1_769_860_800_000_000,
        "published_at_us": 0,
    }
    return f"id: {number}\nevent: change\ndata: {json.dumps(told, ensure_ascii=False)}\n\n".encode()


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
def test_events_come_out_whole_however_the_bytes_come(size: int) -> None:
    odd = "line\u2028separator, next\u0085line, \x1c"
    body = b"retry: 1000\n\n" + event(1, odd) + b": nothing new\n\n" + event(2).replace(b"\n", b"\r\n")
    feed = Feed("v", None, FEED_PATIENCE, exact=True)
    found = [c for start in range(0, len(body), size) for c in feed.take(body[start : start + size])]
    assert [(change.id, change.key) for change in found] == [("1", {"id": 1}), ("2", {"id": 2})]
    assert found[0].after == {"id": 1, "text": odd}
    assert found[0].committed_at == datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_an_event_that_was_cut_off_is_asked_for_again() -> None:
    feed = Feed("v", None, FEED_PATIENCE, exact=True)
    list(feed.take(event(1) + event(2)[:-1]))
    assert feed.given(1)["headers"]["Last-Event-ID"] == "1"
    list(feed.take(b"retry: 1000\n\n"))
    assert feed.given(1)["headers"]["Last-Event-ID"] == "1", "an id counts with its event, not before"


def test_where_a_feed_begins() -> None:
    def begin(after: str | int | None) -> tuple[object, object]:
        given = Feed("v", after, FEED_PATIENCE, exact=True).given(1)
        return given["params"], given["headers"].get("Last-Event-ID")

    assert begin(None) == ({}, None)
    assert begin("earliest") == ({"from": "earliest"}, None)
    assert begin(7) == ({}, "7")
    feed = Feed("v", "earliest", FEED_PATIENCE, exact=True)
    list(feed.take(b"id: 4\n\n"))
    assert feed.given(1)["headers"]["Last-Event-ID"] == "4", "told without an event"
    assert feed.given(1)["params"] == {}


# The real thing


class Cutter:
    """A proxy that can cut every connection through it."""

    def __init__(self, port: int) -> None:
        self._port, self._open = port, list[socket.socket]()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self.accepted = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def cut(self) -> None:
        while self._open:
            with suppress(OSError), self._open.pop() as end:
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.close()
        self.cut()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                self._open += [near, far]
                self.accepted += 1
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._copy, args=ends, daemon=True).start()

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while chunk := source.recv(1 << 16):
                target.sendall(chunk)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@pytest.fixture
def client(shop: Shop) -> Iterator[Client]:  # noqa: F811
    with Client(shop.page.url) as client:
        yield client


@pytest.fixture
def cutter(shop: Shop) -> Iterator[Cutter]:  # noqa: F811
    with closing(Cutter(shop.page.deployment.settings.http.port)) as cutter:
        yield cutter


@pytest.mark.stack
class TestReads:
    def test_a_row(self, client: Client) -> None:
        row = client.get("card", 7)
        assert row is not None
        assert row.values == {"id": 7, "slug": "p-7", "price": Decimal("7.50"), "maker": 2, "name": "Bob"}
        assert str(row["price"]) == "7.50"
        assert row.freshness.state == "riding"
        assert client.get("card", 999) is None
        assert client.get("card", id=8) == client.get("card", {"id": 8})

    def test_a_key_of_two_columns(self, client: Client) -> None:
        row = client.get("by_maker", maker=1, at=datetime(2026, 1, 31, 12, tzinfo=UTC))
        assert row is not None
        assert row["n"] == 25

    def test_many(self, client: Client) -> None:
        keys: list[asking.Key] = [3, 999, {"id": 1}] * 400
        found = client.get_many("card", keys)
        assert [row and row["slug"] for row in found] == ["p-3", None, "p-1"] * 400
        assert client.get_many("card", []) == []

    def test_lookups(self, client: Client) -> None:
        assert [row["id"] for row in client.lookup("card", slug="p-9")] == [9]
        assert client.lookup("card", slug="none & nothing=1") == []
        assert len(client.lookup("card", maker=1)) == 25

    def test_a_search_page_by_page(self, client: Client) -> None:
        first = client.search("card", "maker:1 price:40..", sort="-price", size=3, facets=["name"])
        assert [hit["id"] for hit in first.hits] == [50, 48, 46]
        assert (first.total, first.facets, first.did_you_mean) == (6, {"name": {"Ada": 6}}, None)
        second = client.search("card", "maker:1 price:40..", sort="-price", size=3, cursor=first.next)
        assert [str(hit["price"]) for hit in second.hits] == ["44.50", "42.50", "40.50"]
        [hit] = client.search("card", "id:9 bob", highlight=True).hits
        assert {mark["text"] for mark in hit.highlights} == {"Bob"}
        with pytest.raises(NotFound, match="not in the search"):
            client.search("by_maker", "a")

    def test_views(self, client: Client) -> None:
        known = {view.name: view for view in client.views()}
        assert known["card"].sinks["cache"].state == "riding"
        assert known["nowhere"].sinks == {}

    def test_what_is_wrong(self, client: Client) -> None:
        with pytest.raises(NotFound, match="no view cart") as missing:
            client.get("cart", 1)
        assert "card" in missing.value.hint
        with pytest.raises(NotFound, match="not in the cache"):
            client.get("nowhere", 1)
        with pytest.raises(BadRequest, match="type integer"):
            client.get("card", "seven")
        with pytest.raises(BadRequest, match="looked up by"):
            client.lookup("card", price=1)
        with pytest.raises(BadRequest) as wrong:
            client.get("card", 1, wait_ms=-1)
        assert "wait_ms" in str(wrong.value)

    def test_a_key_that_is_not_known(self, shop: Shop) -> None:  # noqa: F811
        _, text = KeyStore(shop.page.deployment.postgres).create(["read"], "client")
        with Client(shop.page.url, api_key=text) as known, Client(shop.page.url, api_key=f"{text}x") as unknown:
            assert known.get("card", 7) is not None
            with pytest.raises(Unauthorized):
                unknown.get("card", 7)
            assert text not in repr(vars(known))

    def test_the_same_with_asyncio(self, shop: Shop) -> None:  # noqa: F811
        async def read() -> None:
            async with AsyncClient(shop.page.url) as client:
                row, none = await client.get("card", 7), await client.get("card", 999)
                assert row is not None
                assert (str(row["price"]), none) == ("7.50", None)
                found = await client.get_many("card", [3, 999])
                assert [row and row["id"] for row in found] == [3, None]
                assert [row["id"] for row in await client.lookup("card", slug="p-9")] == [9]
                assert "card" in {view.name for view in await client.views()}
                with pytest.raises(NotFound):
                    await client.get("cart", 1)

        asyncio.run(read())


@pytest.mark.stack
class TestWrites:
    """A read with the token of a write sees it, whichever way the write was made."""

    def test_psycopg(self, shop: Shop, client: Client) -> None:  # noqa: F811
        with psycopg.connect(shop.page.deployment.postgres.conninfo(), row_factory=dict_row) as conn:
            conn.execute("update products set price = 201 where id = 11")
            with pytest.raises(ConfigurationError, match="not committed yet"):
                token_of(conn)
            conn.commit()
            token = token_of(conn)
            assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE, "none is left open"
        row = client.get("card", 11, token=token, wait_ms=30_000)
        assert row is not None
        assert row["price"] == 201

    def test_async_psycopg(self, shop: Shop) -> None:  # noqa: F811
        async def write_and_read() -> None:
            address = shop.page.deployment.postgres.conninfo()
            async with await psycopg.AsyncConnection.connect(address) as conn, AsyncClient(shop.page.url) as client:
                await conn.execute("update products set slug = 'moved' where id = 12")
                await conn.commit()
                token = await token_of(conn)
                assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
                [row] = await client.lookup("card", slug="moved", token=token, wait_ms=30_000)
                assert row["id"] == 12

        asyncio.run(write_and_read())

    def test_sqlalchemy(self, shop: Shop, client: Client) -> None:  # noqa: F811
        address = shop.page.deployment.postgres.conninfo()
        engine = sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(address))
        with engine.connect() as conn:
            conn.execute(sa.text("update products set price = 202 where id = 13"))
            with pytest.raises(ConfigurationError, match="not committed yet"):
                token_of(conn)
            conn.commit()
            token = token_of(conn)
            assert not conn.in_transaction()
        [row] = client.get_many("card", [13], token=token, wait_ms=30_000)
        assert row is not None
        assert row["price"] == 202
        with orm.Session(engine) as session:
            session.execute(sa.text("delete from products where id = 13"))
            with pytest.raises(ConfigurationError, match="not committed yet"):
                token_of(session)
            session.commit()
            token = token_of(session)
            assert not session.in_transaction()
        assert client.get("card", 13, token=token, wait_ms=30_000) is None
        engine.dispose()

    def test_one_that_is_not_there_in_time(self, client: Client) -> None:
        with pytest.raises(NotYet, match="does not include FF/0 yet"):
            client.get("card", 5, token="FF/0", wait_ms=50)


@pytest.mark.stack
class TestChanges:
    def test_a_feed_goes_on_where_it_was_cut(self, shop: Shop, client: Client, cutter: Cutter) -> None:  # noqa: F811
        def priced(price: int) -> None:
            shop.conn.execute("update products set price = %s where id = 20", [price])
            client.get("card", 20, token=token_of(shop.conn), wait_ms=30_000)  # an epoch tells its net effect only

        priced(1)
        with Client(cutter.url) as cut, closing(cut.changes("card", after=_last(client))) as feed:
            priced(2)
            assert _price(next(feed)) == 2
            cutter.cut()
            priced(3)
            priced(4)
            assert [_price(next(feed)), _price(next(feed))] == [3, 4]
            assert cutter.accepted == 2

    def test_a_feed_from_now_with_asyncio(self, shop: Shop, client: Client, cutter: Cutter) -> None:  # noqa: F811
        eventually(lambda: shop.page.reading.feeds.listening == 0)

        async def listen() -> list[Change]:
            async with AsyncClient(cutter.url) as cut, aclosing(cut.changes("card")) as feed:
                coming = asyncio.ensure_future(anext(feed))
                await asyncio.to_thread(eventually, lambda: shop.page.reading.feeds.listening == 1)
                await asyncio.to_thread(shop.conn.execute, "update products set price = 5 where id = 21")
                first = await coming
                cutter.cut()
                await asyncio.to_thread(shop.conn.execute, "delete from products where id = 21")
                return [first, await anext(feed)]

        changed, gone = asyncio.run(listen())
        assert (_price(changed), changed.before and str(changed.before["price"])) == (5, "21.50")
        assert (gone.key, gone.after) == ({"id": 21}, None)
        assert int(gone.id) > int(changed.id)
        eventually(lambda: shop.page.reading.feeds.listening == 0)

    def test_from_the_beginning(self, client: Client) -> None:
        with closing(client.changes("by_maker", after="earliest")) as feed:
            assert next(feed).before is None

    def test_refused(self, client: Client) -> None:
        with pytest.raises(BadRequest, match="no event 99999"):
            next(client.changes("card", after=99999))
        with pytest.raises(NotFound, match="no view cart"):
            next(client.changes("cart"))

    def test_a_server_that_stays_away(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with Client(url) as client, pytest.raises(Unreachable):
            next(client.changes("card", patience=IMPATIENT))


def _last(client: Client) -> str:
    """The id of the newest change."""
    with pytest.raises(BadRequest) as told:
        next(client.changes("card", after=10**9))
    return told.value.detail.rpartition(" ")[2]


def _price(change: Change) -> int:
    assert change.after is not None
    return int(change.after["price"])
