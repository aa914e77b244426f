"""Reading over HTTP, on views that are kept from the real log in a real cache: exact, fresh, and sure of a write."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psycopg
import pytest

from cdc import eras
from cdc.addresses import Source
from cdc.catalog_reader import describe
from cdc.events import TableName
from cdc.gaps import Gap, GapCode, Gaps
from cdc.position import Lsn
from cdc.publication import drop_capture_role
from headwater.api.access import Access, KeyStore
from headwater.api.key_lookup import asked_for
from headwater.api.limits import RateLimit
from headwater.api.problems import Forbidden, TooMany, Unauthorized
from headwater.api.view_feed import FEEDS_MAX
from headwater.deployment import Deployment
from headwater.http.server import REQUESTS_MAX, PageServer
from headwater.migrate import migrate
from headwater.settings import Settings
from headwater.sinks import sink_kinds
from tests.conftest import fresh_database
from tests.headwater.test_http import free_port
from tests.headwater.views_keeper import keeping
from tests.waiting import eventually
from views.maintain.group import Group, GroupSpec
from views.maintain.registry import Registry, ViewState, Wanted, WantedView
from views.sinks.board import Board
from views.sinks.lane import LaneState

pytestmark = pytest.mark.stack

DDL = """
    create table products (id integer primary key, slug text, maker integer, price numeric(12, 2), at timestamptz);
    create table makers (id integer primary key, name text);
    insert into makers values (1, 'Ada'), (2, 'Bob');
    insert into products select n, 'p-' || n, 1 + n % 2, n + 0.50, '2026-01-31 12:00+00' from generate_series(1, 50) n;
"""
VIEWS = {
    "card": """create materialized view card with (
            sinks = 'cache, search, warehouse, alerts', lookup = 'slug, maker') as
        select p.id, p.slug, p.price, p.maker, m.name from products p join makers m on m.id = p.maker""",
    "by_maker": """create materialized view by_maker with (key = 'maker, at', sinks = 'cache') as
        select maker, at, count(*) as n, sum(price) as total from products group by maker, at""",
    "nowhere": "create materialized view nowhere as select id from makers",
}
TABLES = [TableName("public", "products"), TableName("public", "makers")]


class Shop:
    """A captured database, its views in the cache, and the API over them."""

    def __init__(self, conn: psycopg.Connection, client: httpx.Client, page: PageServer) -> None:
        self.conn, self.client, self.page = conn, client, page

    def get(self, path: str, status: int = 200, **given: Any) -> Any:
        answer = self.client.get(path, **given)
        assert answer.status_code == status, answer.text
        return answer.json()

    def token(self) -> str:
        [[lsn]] = self.conn.execute("select pg_current_wal_insert_lsn()::text").fetchall()
        return str(lsn)

    def sure(self, path: str, **given: Any) -> Any:
        """An answer that includes everything committed so far."""
        sign = "&" if "?" in path else "?"
        return self.get(f"{path}{sign}wait_ms=30000", headers={"X-Headwater-Token": self.token()}, **given)


@pytest.fixture(scope="module")
def shop(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with opened_shop(deployment, tmp_path_factory.mktemp("api")) as made:
        yield made


@contextmanager
def opened_shop(deployment: Deployment, folder: Path, **settings: object) -> Iterator[Shop]:
    name = f"t{time.time_ns():x}"[:20]
    with ExitStack() as closing:
        for address in fresh_database(deployment.postgres, name):
            migrate(address)
            conn = closing.enter_context(psycopg.connect(address.conninfo(), autocommit=True))
            conn.execute(DDL)
            mine = replace(
                deployment,
                settings=Settings.model_validate(
                    {"source": name, "data_folder": str(folder), "http": {"port": free_port()}, **settings}
                ),
                source=Source(name),
                postgres=address,
                capture_postgres=replace(address, user=f"{name}_capture", password="a capture password"),
            )
            capture = mine.capture()
            capture.ensure()
            registry = Registry(mine.settings.views_state)
            tables = describe(conn, TABLES)
            registry.want(Wanted({view: WantedView(text, tables, 1.0, "b") for view, text in VIEWS.items()}))
            era = eras.current(capture.kafka, capture.source)
            spec = GroupSpec.new(era.era, era.topic_id, era.first_offset, 1, VIEWS, tables)
            group = spec.save(registry.groups)
            page = PageServer(mine)
            try:
                with (
                    keeping(capture.kafka, capture.source, registry, group, sink_kinds(mine)),
                    page.running(),
                    httpx.Client(base_url=page.url, timeout=60) as client,
                ):
                    made = Shop(conn, client, page)
                    for view, sink in (("card", "cache"), ("by_maker", "cache"), ("card", "search")):
                        asyncio.run(page.reading.board.includes(view, sink, Lsn.parse(made.token()), 60))
                    yield made
            finally:
                capture.remove()
                drop_capture_role(conn, capture.capture.user)
                closing.close()


def test_a_changed_view_that_waits_for_a_review_is_read_as_it_was(shop: Shop) -> None:
    """Another key, other columns, other sinks: none of it is what readers have."""
    registry = Registry(shop.page.deployment.settings.views_state)
    known = registry.wanted()
    text = "create materialized view card with (key = 'slug') as select slug, price + 1 as dearer from products"
    [folder] = registry.groups.iterdir()
    era = Group.load(folder).spec
    spec = GroupSpec.new(era.era, era.topic_id, era.start, 1, {"card": text}, era.tables)
    built = spec.save(registry.groups)
    before = known.views["card"]
    waiting = WantedView(text, before.tables, 2.0, spec.id, is_reviewed=False, previous=before)
    registry.want(Wanted({**known.views, "card": waiting}))
    try:
        eventually(lambda: shop.page.reading.shapes.state().views["card"].state is ViewState.READY)
        assert shop.get("v1/views/card/7")["row"]["slug"] == "p-7"
        assert shop.get("v1/views/card?slug=p-7")["rows"][0]["id"] == 7
        assert shop.sure("v1/search/card?q=id:7")["hits"][0]["row"]["name"] == "Bob"
        assert shop.get("v1/views/card/p-7", 400)
    finally:
        registry.want(known)
        shutil.rmtree(built)


# By key


def test_a_row_by_its_key(shop: Shop) -> None:
    answer = shop.client.get("v1/views/card/7")
    assert answer.json()["row"] == {"id": 7, "slug": "p-7", "price": 7.5, "maker": 2, "name": "Bob"}
    assert '"price":7.50' in answer.text, "numbers keep their digits"
    assert answer.json()["freshness"]["state"] == "riding"
    assert Lsn.parse(answer.headers["X-Headwater-Lsn"]) > Lsn(0)
    assert float(answer.headers["X-Headwater-Lag-Ms"]) >= 0


@pytest.mark.parametrize(
    "path",
    ["card/7", "card/id=7", "card/999", "card/x", "card/1,2", "nowhere/1", "none/1", "by_maker/1"],
)
def test_the_short_way_to_a_row_says_what_the_route_says(shop: Shop, path: str) -> None:
    """A query, whatever it says, makes it the route's. The canary moves the marks meanwhile."""
    short, route = (shop.client.get(f"v1/views/{path}{query}") for query in ("", "?wait_ms=5000"))
    assert short.status_code == route.status_code
    fresh, told = ("position", "lsn", "committed_at", "lag_ms"), (short.json(), route.json())
    for each in told:
        each["freshness"] = {name: value for name, value in each.get("freshness", {}).items() if name not in fresh}
        each["detail"] = "" if "as of commit" in each.get("detail", "") else each.get("detail", "")
    assert told[0] == told[1]
    assert short.headers.keys() == route.headers.keys()


def test_what_is_not_a_key_goes_to_its_route(shop: Shop) -> None:
    words = frozenset({"changes", "get"})

    def asked(path: str, method: str = "GET", query: bytes = b"", kind: str = "http") -> object:
        return asked_for({"type": kind, "method": method, "path": path, "query_string": query}, words)

    assert asked("/v1/views/card/7") == ("card", "7")
    assert asked("/v1/views/card/a/b") == ("card", "a/b"), "a key may have a slash in it"
    for path in ("/v1/views/card/changes", "/v1/views/card/", "/v1/views/card", "/v1/views//7", "/v1/search/card/7"):
        assert asked(path) is None
    assert asked("/v1/views/card/7", "DELETE") is asked("/v1/views/card/7", query=b"wait_ms=1") is None
    assert asked("/v1/views/card/7", kind="websocket") is None
    with shop.client.stream("GET", "v1/views/card/changes") as feed:
        assert feed.headers["content-type"].startswith("text/event-stream")


def test_a_key_of_two_columns(shop: Shop) -> None:
    expected = {"maker": 1, "at": "2026-01-31T12:00:00+00:00", "n": 25, "total": 662.5}
    for key in ("1,2026-01-31 12:00:00+00", "maker=1,at=2026-01-31T12:00:00Z"):
        assert shop.get(f"v1/views/by_maker/{key}")["row"] == expected


def test_many_at_once(shop: Shop) -> None:
    answer = shop.client.post("v1/views/card/get", json={"keys": [3, "99", {"id": 1}]}).json()
    assert [row and row["slug"] for row in answer["rows"]] == ["p-3", None, "p-1"]


def test_by_another_column(shop: Shop) -> None:
    assert [row["id"] for row in shop.get("v1/views/card?slug=p-9")["rows"]] == [9]
    assert len(shop.get("v1/views/card?maker=1")["rows"]) == 25
    assert shop.get("v1/views/card?slug=none")["rows"] == []


@pytest.mark.parametrize(
    ("path", "status", "word"),
    [
        ("v1/views/card/999", 404, "no row of card"),
        ("v1/views/cart/1", 404, "card"),
        ("v1/views/card/seven", 400, "type integer"),
        ("v1/views/by_maker/1", 400, "not a key"),
        ("v1/views/nowhere/1", 404, "not in the cache"),
        ("v1/views/card?price=1", 400, "looked up by"),
    ],
)
def test_what_is_wrong_is_told(shop: Shop, path: str, status: int, word: str) -> None:
    answer = shop.get(path, status)
    assert word in json.dumps(answer)
    assert set(answer) == {"error", "detail", "hint"}


# Sure of a write


def test_an_answer_includes_the_write_before_it(shop: Shop) -> None:
    for n in range(5):
        shop.conn.execute("update products set price = %s where id = 5", [100 + n])
        assert shop.sure("v1/views/card/5")["row"]["price"] == 100 + n


def test_lookups_follow_their_rows(shop: Shop) -> None:
    shop.conn.execute("update products set slug = 'renamed' where id = 6")
    assert [row["id"] for row in shop.sure("v1/views/card?slug=renamed")["rows"]] == [6]
    assert shop.get("v1/views/card?slug=p-6")["rows"] == []
    shop.conn.execute("delete from products where id = 6")
    shop.sure("v1/views/card/5")
    assert shop.get("v1/views/card?slug=renamed")["rows"] == []
    shop.get("v1/views/card/6", 404)


def test_a_write_that_is_not_there_in_time(shop: Shop) -> None:
    answer = shop.client.get("v1/views/card/5", headers={"X-Headwater-Token": "FF/0"}, params={"wait_ms": 50})
    assert answer.status_code == 504
    assert "does not include FF/0 yet" in answer.json()["error"]


def test_a_token_that_is_none(shop: Shop) -> None:
    assert shop.client.get("v1/views/card/5", headers={"X-Headwater-Token": "soon"}).status_code == 400


# By what it says


def test_a_search_with_filters_sort_facets_and_pages(shop: Shop) -> None:
    first = shop.get("v1/search/card?q=maker:1 price:20..&sort=-price&size=10&facets=name")
    assert first["query"]["text"] == "maker:1 price:20.."
    ids = [hit["row"]["id"] for hit in first["hits"]]
    assert ids == sorted(ids, reverse=True)
    assert first["facets"] == {"name": [{"value": "Ada", "count": first["total"]}]}
    second = shop.get(f"v1/search/card?q=maker:1 price:20..&sort=-price&size=10&cursor={first['next']}")
    assert max(hit["row"]["id"] for hit in second["hits"]) < min(ids)
    assert shop.get("v1/search/card/count?q=maker:1 price:20..")["count"] == first["total"]


def test_a_search_includes_the_write_before_it(shop: Shop) -> None:
    shop.conn.execute("update makers set name = 'Zelda Zander' where id = 1")
    found = shop.sure("v1/search/card?q=zander&size=1&highlight=true")
    assert [(found["total"],)] == shop.conn.execute("select count(*) from products where maker = 1").fetchall()
    assert found["hits"][0]["highlights"][0]["text"] == "Zelda Zander"
    meant = shop.get("v1/search/card?q=zandar")
    assert (meant["total"], meant["did_you_mean"]) == (0, "zander")


def test_the_same_in_json(shop: Shop) -> None:
    told = shop.get("v1/search/card?q=price:..10 -maker:2")
    answer = shop.client.post("v1/search/card", json={"query": told["query"]["json"]}).json()
    assert [hit["row"] for hit in answer["hits"]] == [hit["row"] for hit in told["hits"]]
    assert shop.client.post("v1/search/card", json={"quarry": {}}).status_code == 400


def test_why_a_row_matches(shop: Shop) -> None:
    told = shop.get("v1/search/card/explain/9?q=price:..5 maker:2")["explanation"]
    assert not told["matches"]
    assert {each["clause"]: each["matches"] for each in told["inside"]} == {"price:..5": False, "maker:2": True}


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("v1/search/card?q=prise:1", "price"),
        ("v1/search/card?q=price:(", "character 8"),
        ("v1/search/card?sort=prise", "price"),
        ("v1/search/card?cursor=nonsense", "cursor"),
        ("v1/search/by_maker", "not in the search"),
    ],
)
def test_what_is_wrong_in_a_search_is_told(shop: Shop, path: str, word: str) -> None:
    answer = shop.client.get(path)
    assert answer.status_code in (400, 404)
    assert word in answer.text


# What changes


def test_the_feed_can_be_resumed(shop: Shop) -> None:
    started, seen = threading.Event(), list[tuple[str, Any]]()
    shop.sure("v1/views/card/5")

    def listen(path: str, until: int, **given: Any) -> None:
        with shop.client.stream("GET", path, **given) as answer:
            started.set()
            id_ = ""
            for line in answer.iter_lines():
                if line.startswith("id: "):
                    id_ = line.removeprefix("id: ")
                elif line.startswith("data: "):
                    seen.append((id_, json.loads(line.removeprefix("data: "))))
                    if len(seen) >= until:
                        return

    thread = threading.Thread(target=listen, args=("v1/views/card/changes", 1))
    thread.start()
    assert started.wait(30)
    shop.conn.execute("update products set price = 1 where id = 10")
    thread.join(60)
    [(last, told)] = seen
    assert (told["key"], told["before"]["price"], told["after"]["price"]) == ({"id": 10}, 10.5, 1)
    shop.conn.execute("update products set price = 2 where id = 10")
    shop.sure("v1/views/card/10")  # an epoch tells its net effect only
    shop.conn.execute("delete from products where id = 10")
    listen("v1/views/card/changes", 3, headers={"Last-Event-ID": last})
    assert [(told["before"]["price"], told["after"] and told["after"]["price"]) for _, told in seen[1:]] == [
        (1, 2),
        (2, None),
    ]


def test_a_feed_from_nowhere(shop: Shop) -> None:
    assert "no event 99999" in shop.get("v1/views/card/changes?from=99999", 400)["error"]


def test_who_waits_keeps_nobody_waiting(shop: Shop) -> None:
    """All feeds that there may be, and more reads of a write that does not come than there are threads: others are
    answered."""
    _, text = KeyStore(shop.page.deployment.postgres).create(["read"])
    _, other = KeyStore(shop.page.deployment.postgres).create(["read"])

    async def ask() -> None:
        none = httpx.Limits(max_connections=None)
        async with (
            httpx.AsyncClient(base_url=shop.page.url, timeout=60, limits=none) as client,
            AsyncExitStack() as all_,
        ):
            for _ in range(FEEDS_MAX):
                answer = await all_.enter_async_context(client.stream("GET", "v1/views/card/changes"))
                assert answer.status_code == 200
            assert (await client.get("v1/views/card/changes")).status_code == 429
            late = {"X-Headwater-Token": "FFFF/0"}
            waiting = [
                asyncio.ensure_future(client.get("v1/views/card/7?wait_ms=30000", headers=late))
                for _ in range(REQUESTS_MAX + 10)
            ]
            await asyncio.to_thread(eventually, lambda: shop.page.reading.feeds.listening == FEEDS_MAX)
            for path, key in (("v1/search/card?q=p-7", text), ("v1/views/card/7", other)):
                answer = await client.get(path, headers={"Authorization": f"Bearer {key}"}, timeout=5)
                assert answer.status_code == 200, answer.text
            assert not any(each.done() for each in waiting)
            for each in waiting:
                each.cancel()

    asyncio.run(ask())
    eventually(lambda: shop.page.reading.feeds.listening == 0)


def test_a_feed_ends_with_its_key(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.api.access.KNOWN_S", 0.0)
    monkeypatch.setattr("headwater.api.view_feed.QUIET_S", 0.1)
    store = KeyStore(shop.page.deployment.postgres)
    key, text = store.create(["read"])
    with shop.client.stream("GET", "v1/views/card/changes", headers={"Authorization": f"Bearer {text}"}) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("retry")
        store.revoke(key.id)
        assert list(lines) is not None, "it ends by itself"


def test_the_views_and_their_freshness(shop: Shop) -> None:
    found = {each["view"]: each for each in shop.get("v1/views")["views"]}
    assert found["card"]["sinks"]["cache"]["state"] == "riding"
    assert found["nowhere"]["sinks"] == {}


# Who may


def test_an_answer_of_a_view_that_misses_changes_says_so(shop: Shop) -> None:
    """Reads go on, from what there is."""
    deployment = shop.page.deployment
    registry, era = Registry(deployment.settings.views_state), eras.current(deployment.kafka, deployment.source)
    assert "X-Headwater-Stale" not in shop.client.get("v1/views/card/7").headers
    registry.note_gaps(Gaps((Gap(era.era, GapCode.SLOT_LOST, "wal_removed", 1_800_000_000.0),)))
    try:

        def said() -> None:
            for path in ("v1/views/card/7", "v1/search/card?q=p-7"):
                answer = shop.client.get(path)
                assert "slot lost: wal_removed" in answer.headers.get("X-Headwater-Stale", "")
                assert answer.json()["freshness"]["stale_since"] == "2027-01-15T08:00:00+00:00"
            [card] = [view for view in shop.get("v1/views")["views"] if view["view"] == "card"]
            assert card["stale"]["is_gap"]

        eventually(said)
    finally:
        registry.note_gaps(Gaps())
    eventually(lambda: shop.get("v1/views/card/7")["freshness"]["stale"] is None)


def test_one_place_of_a_view_is_stale_by_itself(shop: Shop) -> None:
    """As the maintainer tells it on the board, of a place that is paused or being filled again."""
    reading = shop.page.reading
    known = reading.board.status("card", "search")
    assert known is not None
    paused = msgspec.structs.replace(
        known, state=LaneState.PAUSED, stale="it is paused by ada", stale_since_s=1_800_000_000.0
    )
    board = Board(reading.deployment.kafka, reading.source)

    def said() -> None:
        board.tell(paused)
        board.close()
        answer = shop.client.get("v1/search/card")
        assert answer.headers.get("X-Headwater-Stale") == "it is paused by ada"
        assert answer.json()["freshness"]["stale_since"] == "2027-01-15T08:00:00+00:00"

    eventually(said)
    assert shop.get("v1/views/card/7")["freshness"]["stale"] is None, "its other places are well"
    shop.conn.execute("update products set price = price where id = 1")
    eventually(lambda: shop.get("v1/search/card")["freshness"]["stale"] is None)


def test_keys(shop: Shop) -> None:
    store = KeyStore(shop.page.deployment.postgres)
    key, text = store.create(["read"], "an app")
    access = Access(store, is_required=True)
    assert access.caller(f"Bearer {text}", "read") == key.id
    with pytest.raises(Forbidden, match="may not"):
        access.caller(f"Bearer {text}", "admin")
    for wrong in (None, "Bearer hw_x_y", f"Basic {text}", f"Bearer {text}x"):
        with pytest.raises(Unauthorized):
            access.caller(wrong, "read")
    store.revoke(key.id)
    with pytest.raises(Unauthorized):
        Access(store, is_required=True).caller(f"Bearer {text}", "read")
    _, old = store.create(["admin"], expires_at=datetime.now(UTC) - timedelta(seconds=1))
    with pytest.raises(Unauthorized):
        Access(store, is_required=True).caller(f"Bearer {old}", "read")
    rows = shop.conn.execute("select hash, id from headwater.api_key").fetchall()
    assert all(text.encode() not in bytes(hash_) for hash_, _ in rows)
    assert [known.label for known in store.list()][-2:] == ["an app", ""], "in the order in which they were made"


def test_a_caller_may_not_ask_too_often() -> None:
    now = 0.0
    limit = RateLimit(per_s=2, burst=3, clock=lambda: now)
    for _ in range(3):
        limit.take("a")
    with pytest.raises(TooMany) as raised:
        limit.take("a")
    assert raised.value.retry_after_s == pytest.approx(0.5)
    limit.take("b")
    now = 0.5
    limit.take("a")
    with pytest.raises(TooMany):
        limit.take("a")


# Saved searches


def test_a_saved_search_tells_of_what_comes_after_it(shop: Shop) -> None:
    shop.conn.execute("insert into products values (70, 'p-70', 2, 7000, now())")
    shop.sure("v1/views/card/70")
    wish = {"view": "card", "query": "price:5000..", "events": ["entered", "dropped"], "watched_column": "price"}
    made = shop.client.post("v1/alerts", json=wish)
    assert made.status_code == 201, made.text
    shop.conn.execute("insert into products values (71, 'p-71', 1, 9000, now())")
    shop.sure("v1/views/card/71")
    shop.conn.execute("update products set price = 6500 where id = 70")
    news = eventually(lambda: _news(shop, 2))
    assert [(each["key"], each["event"], each["reason"]) for each in news] == [
        ({"id": 71}, "entered", "is new"),
        ({"id": 70}, "dropped", "price dropped from 7000.00 to 6500.00"),
    ]
    told = shop.get(f"v1/alerts/{made.json()['id']}/explain/71")
    assert (told["matches"], told["row"]["slug"], told["news"]) == (True, "p-71", [news[0]])
    assert not shop.get(f"v1/alerts/{made.json()['id']}/explain/5")["matches"]


def _news(shop: Shop, wanted: int) -> list[Any]:
    found: list[Any] = shop.get("v1/alerts/inbox")["news"]
    assert len(found) >= wanted
    return found


def test_a_preview_counts_what_search_and_history_have(shop: Shop) -> None:
    shop.sure("v1/search/card?q=price:10..20")
    [[matching]] = shop.conn.execute("select count(*) from products where price between 10 and 20").fetchall()
    found = shop.client.post("v1/alerts/preview", json={"view": "card", "query": "price:10..20"}).json()
    assert found["matching"] == matching
    assert found["events"] is None or found["events"].keys() == {"entered"}
    assert shop.client.post("v1/alerts", json={"view": "by_maker", "query": ""}).status_code == 404


def test_documents_say_what_there_is(shop: Shop) -> None:
    paths = shop.get("openapi.json")["paths"]
    assert {"/v1/views", "/v1/views/{view}/{key}", "/v1/views/{view}/get", "/v1/views/{view}/changes"} <= paths.keys()
    assert {"/v1/alerts", "/v1/alerts/{id_}", "/v1/alerts/inbox", "/v1/alerts/unsubscribe/{token}"} <= paths.keys()
