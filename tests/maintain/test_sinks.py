"""Views in their sinks, on the real thing: equal to the SQL in Postgres through whatever happens to view and place."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from headwater.deployment import Deployment
from headwater.sinks import sink_kinds
from tests.maintain.rig import Rig, limits
from tests.sinks.proxy import Proxy
from tests.waiting import eventually
from views.sinks.cache import CacheKind, RedisAddress
from views.sinks.lane import LaneState
from views.sinks.warehouse import WarehouseKind

pytestmark = [pytest.mark.stack, pytest.mark.spark]

SINKS = ("cache", "search", "warehouse")
CARDS = """
create materialized view cards with (sinks = '{sinks}') as
    select i.id, i.price, s.label from items i join shelves s on s.id = i.shelf
"""


@pytest.fixture(scope="module")
def ddl() -> str:
    return """
        create table items (id integer primary key, shelf integer, price numeric(12,2));
        create table shelves (id integer primary key, label text);
        insert into shelves values (1, 'top'), (2, 'middle');
        insert into items select n, 1 + n % 2, n from generate_series(1, 20) n;
    """


@pytest.fixture(scope="module")
def redis_way(deployment: Deployment) -> Iterator[Proxy]:
    """The maintainer's way to Redis."""
    where = urlsplit(deployment.redis.url)
    proxy = Proxy(where.hostname or "", where.port or 0)
    yield proxy
    proxy.close()


@pytest.fixture(scope="module")
def kept(rig: Rig, deployment: Deployment, redis_way: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    warehouse = WarehouseKind(str(tmp_path_factory.mktemp("warehouse")), interval_s=0.5)
    where = urlsplit(deployment.redis.url)
    proxied = where._replace(netloc=where.netloc.replace(f":{where.port}", f":{redis_way.port}"))
    cache = CacheKind(RedisAddress(proxied.geturl()))
    rig.sinks = {**sink_kinds(deployment), warehouse.name: warehouse, cache.name: cache}
    rig.want(CARDS.format(sinks=", ".join(SINKS)))
    with rig.kept(limits()):
        rig.settled(timeout_s=120)
        yield rig


def test_they_follow_every_change(kept: Rig) -> None:
    for sink in SINKS:
        kept.sunk_equals("cards", sink)
    kept.connection.execute("update shelves set label = 'bottom' where id = 2")
    kept.connection.execute("delete from items where id % 5 = 0")
    kept.connection.execute("insert into items values (50, 1, 7.25), (51, 9, 1)")
    for sink in SINKS:
        kept.sunk_equals("cards", sink)


@pytest.mark.parametrize("sink", SINKS)
def test_an_emptied_place_is_filled_again(kept: Rig, sink: str) -> None:
    kind = kept.sinks[sink]
    kept.sunk_equals("cards", sink)
    sink_ = kind.open(kept.group("cards").shape("cards", kept.capture.source), 1)
    sink_.drop()
    sink_.close()
    kept.sunk_equals("cards", sink)


def test_one_that_is_down_delays_nobody_and_catches_up(kept: Rig, redis_way: Proxy) -> None:
    kept.sunk_equals("cards", "cache")
    redis_way.cut()
    for n in range(200, 210):
        kept.connection.execute("insert into items values (%s, 1, 1)", [n])
        kept.sunk_equals("cards", "search")  # each of these epochs is there without waiting for the cache

    def told() -> None:
        states = {status.sink: status for status in kept.registry.state().sinks}
        assert states["cache"].state is LaneState.DOWN
        assert states["search"].state is LaneState.RIDING

    eventually(told)
    redis_way.mend()
    kept.sunk_equals("cards", "cache")


def test_many_rows_are_followed_in_a_task(kept: Rig) -> None:
    kept.connection.execute("insert into items select n, 1 + n % 2, n from generate_series(1000, 31000) n")
    for sink in SINKS:
        kept.sunk_equals("cards", sink, timeout_s=180)
    kept.connection.execute("delete from items where id >= 1000")
    for sink in SINKS:
        kept.sunk_equals("cards", sink, timeout_s=180)


def test_other_columns_are_another_generation(kept: Rig) -> None:
    before = {sink: kept.sinks[sink].current(kept.capture.source.name, "cards") for sink in SINKS}
    kept.want(CARDS.format(sinks=", ".join(SINKS)).replace("i.price", "i.price * 2 as twice"))
    for sink in SINKS:
        kept.sunk_equals("cards", sink)
        assert kept.sinks[sink].current(kept.capture.source.name, "cards") == (before[sink] or 0) + 1
    kept.connection.execute("update items set price = price + 1")
    for sink in SINKS:
        kept.sunk_equals("cards", sink)


def test_other_types_of_the_same_columns_are_another_generation(kept: Rig) -> None:
    """Also of rows that are written alike in both, such as those without a price."""
    kept.connection.execute("insert into items values (700, 1, null), (701, 2, 3)")
    before = {sink: kept.sinks[sink].current(kept.capture.source.name, "cards") for sink in SINKS}
    cards = CARDS.format(sinks=", ".join(SINKS))
    for number, price in enumerate(("i.price::double precision as price", "i.price::text as price"), 1):
        kept.want(cards.replace("i.price", price))
        for sink in SINKS:
            kept.sunk_equals("cards", sink)
            assert kept.sinks[sink].current(kept.capture.source.name, "cards") == (before[sink] or 0) + number
    kept.connection.execute("update items set price = price + 1")
    for sink in SINKS:
        kept.sunk_equals("cards", sink)


def test_another_option_is_another_generation_of_the_places_that_it_means_something_to(kept: Rig) -> None:
    cards = CARDS.replace("'{sinks}'", "'cache, search, warehouse', language = '{language}'")
    cards = cards.replace("i.price", "i.price::text as price")  # as the test before it left it: no other columns
    current = lambda sink: kept.sinks[sink].current(kept.capture.source.name, "cards")  # noqa: E731
    kept.want(cards.format(language="english"))
    for sink in SINKS:
        kept.sunk_equals("cards", sink)
    before = {sink: current(sink) for sink in SINKS}
    kept.want(cards.format(language="german"))
    eventually(lambda: current("search") == (before["search"] or 0) + 1, 60)
    for sink in SINKS:
        kept.sunk_equals("cards", sink)
    assert {sink: current(sink) for sink in SINKS if sink != "search"} == {
        sink: before[sink] for sink in SINKS if sink != "search"
    }


def test_the_board_says_how_far_they_are(kept: Rig) -> None:
    kept.sunk_equals("cards", "cache")

    def riding() -> None:
        states = {status.sink: status for status in kept.registry.state().sinks if status.view == "cards"}
        assert {name: status.state for name, status in states.items()} == dict.fromkeys(SINKS, LaneState.RIDING)

    eventually(riding)


def test_a_dropped_view_leaves_nothing(kept: Rig) -> None:
    source = kept.capture.source
    shape = kept.group("cards").shape("cards", source)
    generation = kept.sinks["cache"].current(source.name, "cards")
    assert generation is not None
    kept.drop("cards")
    for kind in (kept.sinks[name] for name in SINKS):
        eventually(lambda kind=kind: kind.current(source.name, "cards") is None)  # type: ignore[misc]
        sink = kind.open(shape, generation)
        assert sink.mark() is None
        sink.close()
