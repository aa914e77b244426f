"""The product's story, told once on the real stack: from a commit in Postgres to what a user sees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest

from cdc.capture import Capture
from cdc.changelog import ChangeLog
from cdc.events import ChangeEvent, Op, TableName
from headwater.deployment import Deployment
from headwater.http.server import PageServer
from headwater.service.alerting import alerting
from headwater.settings import Settings
from headwater.sinks import sink_kinds
from tests.headwater.test_http import free_port
from tests.maintain.rig import Rig
from tests.waiting import eventually
from views.maintain import contents
from views.maintain.registry import Registry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LISTINGS = TableName("public", "listings")

pytestmark = [pytest.mark.stack, pytest.mark.spark]


VIEWS = """
create materialized view listing_card with (sinks = 'cache, search, alerts') as
    select l.id, l.city, l.price, (select coalesce(json_agg(p.url order by p.id), '[]') from photos p
                                   where p.listing_id = l.id) as photos
    from listings l;
create materialized view city_stats as
    select city, count(*) as listings, min(price) as cheapest from listings group by city;
"""


def test_a_commit_reaches_everybody(
    capture: Capture, deployment: Deployment, spark: SparkSession, tmp_path: Path
) -> None:
    # A property market, with one listing that was there before Headwater came.
    with psycopg.connect(capture.postgres.conninfo(), autocommit=True) as market:
        market.execute("create table listings (id bigint primary key, city text, price numeric(12, 2))")
        market.execute("create table photos (id bigint primary key, listing_id bigint, url text)")
        market.execute("insert into listings values (1, 'Paris', 500000)")

        # Headwater is switched on: the listing that was there is in the log.
        capture.ensure()
        log = ChangeLog(capture.kafka, capture.source)
        eventually(lambda: assert_listed(log, [(Op.READ, 1)]))

        # An agent lists a flat with two photos, in one transaction, and then lowers its price.
        with market.transaction():
            market.execute("insert into listings values (2, 'Lyon', 310000.50)")
            market.execute("insert into photos values (1, 2, 'front.jpg'), (2, 2, 'garden.jpg')")
        market.execute("update listings set price = 299000 where id = 2")

    # The log tells it in order, and the three rows of the first transaction are one.
    eventually(lambda: assert_listed(log, [(Op.READ, 1), (Op.INSERT, 2), (Op.UPDATE, 2)]))
    first, second = [t for t in log.transactions(log.bounds()[0]) if touches(t.events, "listings")][-2:]
    assert [e.table.name for e in first.events] == ["listings", "photos", "photos"]
    (update,) = second.events
    assert update.before is None or update.before["price"] == "310000.50"
    assert update.after == {"id": 2, "city": "Lyon", "price": "299000.00"}
    assert first.end.commit_lsn < second.end.commit_lsn

    # And Spark sees the same, in micro-batches of whole transactions.
    batches = spark_batches(spark, capture, tmp_path)
    offsets = [row["offset"] for batch in batches for row in batch]
    assert offsets == sorted(set(offsets))
    (with_insert,) = [batch for batch in batches if any(r["offset"] == first.events[0].position.offset for r in batch)]
    assert {e.position.offset for e in first.events} <= {row["offset"] for row in with_insert}

    # A team declares two views. They hold what the tables hold, and follow them, a transaction at a time.
    with psycopg.connect(capture.postgres.conninfo(), autocommit=True) as market:
        market.execute("set timezone = 'UTC'")
        rig = Rig(capture, Registry(tmp_path / "views"), market, spark)
        rig.sinks = dict(sink_kinds(replace(deployment, postgres=capture.postgres)))
        rig.want(VIEWS)
        with rig.kept(), served(deployment, capture, tmp_path) as reader:
            rig.settled()
            with market.transaction():
                market.execute("delete from listings where id = 1")
                market.execute("insert into listings values (3, 'Lyon', 250000)")
                market.execute("insert into photos values (3, 3, 'roof.jpg')")
            rig.settled()
            lyon = contents.row(rig.group("city_stats"), "city_stats", {"city": "Lyon"})
            assert lyon == b'{"city":"Lyon","listings":2,"cheapest":250000.00}'

            # Whoever reads the topic saw the sale and the new listing together, each once.
            told = [(key, change) for key, change in rig.told("listing_card") if change is not None]
            positions = {bytes(key): change.position for key, change in told}
            assert positions[b'{"id":1}'] == positions[b'{"id":3}']
            assert rig.chained("listing_card") == len(told)

            # An application reads the card by its key, and a person finds it by what it says: neither can be too early,
            # because each names the write that it has to see.
            market.execute("update listings set price = 245000, city = 'Lyon Presqu''ile' where id = 3")
            [[after]] = market.execute("select pg_current_wal_insert_lsn()::text").fetchall()
            sure = {"X-Headwater-Token": after}
            card = reader.get("v1/views/listing_card/3?wait_ms=30000", headers=sure).json()
            assert card["row"] == {"id": 3, "city": "Lyon Presqu'ile", "price": 245000, "photos": ["roof.jpg"]}
            found = reader.get("v1/search/listing_card?q=presqu ile price:..250000&wait_ms=30000", headers=sure).json()
            assert [hit["row"]["id"] for hit in found["hits"]] == [3]

            # And every place holds exactly what the SQL gives in Postgres.
            for sink in ("cache", "search"):
                rig.sunk_equals("listing_card", sink)

            # Somebody saves a search, and is told.
            a_price_that_comes_into_budget_is_told_once(market, reader)


def a_price_that_comes_into_budget_is_told_once(market: psycopg.Connection, reader: httpx.Client) -> None:
    wish = {"view": "listing_card", "query": "city:lyon price:..240000", "label": "Lyon, a bargain"}
    assert reader.post("v1/alerts", json=wish).status_code == httpx.codes.CREATED
    market.execute("update listings set price = 230000 where id = 2")
    market.execute("update listings set price = 225000 where id = 2")
    news = eventually(lambda: told_once(reader))
    assert (news["key"], news["event"], news["label"]) == ({"id": 2}, "entered", "Lyon, a bargain")
    assert heard(reader)["data"]["items"][0]["after"]["city"] == "Lyon"


@contextmanager
def served(deployment: Deployment, capture: Capture, folder: Path) -> Iterator[httpx.Client]:
    """The HTTP API over these views."""
    settings = Settings.model_validate(
        {"source": capture.source.name, "data_folder": str(folder), "http": {"port": free_port()}}
    )
    place = replace(deployment, settings=settings, source=capture.source, postgres=capture.postgres)
    page = PageServer(place)
    with page.running(), alerting(place, page.reading.hub, page.url), httpx.Client(base_url=page.url) as client:
        client.timeout = httpx.Timeout(60)
        yield client


def told_once(reader: httpx.Client) -> dict[str, Any]:
    news = reader.get("v1/alerts/inbox").json()["news"]
    assert len(news) == 1
    found: dict[str, Any] = news[0]
    return found


def heard(reader: httpx.Client) -> dict[str, Any]:
    """The first notification of the owner's web feed."""
    with reader.stream("GET", "v1/alerts/feed") as answer:
        line = next(line for line in answer.iter_lines() if line.startswith("data: "))
    found: dict[str, Any] = json.loads(line.removeprefix("data: "))
    return found


def assert_listed(log: ChangeLog, expected: list[tuple[Op, int]]) -> None:
    events = [e for e in log.entries(log.bounds()[0]) if isinstance(e, ChangeEvent) and e.table == LISTINGS]
    assert [(e.op, (e.after or {})["id"]) for e in events] == expected


def touches(events: tuple[ChangeEvent, ...], table: str) -> bool:
    return any(e.table.name == table for e in events)


def spark_batches(spark: SparkSession, capture: Capture, folder: Path) -> list[list[object]]:
    from cdc.spark_source import options, register

    register(spark)
    batches: list[list[object]] = []

    def keep(batch: DataFrame, _number: int) -> None:
        batches.append(sorted(batch.collect(), key=lambda row: row["offset"]))

    stream = spark.readStream.format("headwater").options(**options(capture.kafka, capture.source)).load()
    query = (
        stream.writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return batches
