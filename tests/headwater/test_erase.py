"""`headwater erase` on the real thing: what a person left in every place, found, erased, and looked for again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cdc.archive import Archiver
from cdc.capture import Capture
from cdc.events import TableName
from headwater.audit_store import listed
from headwater.deployment import Deployment
from headwater.erasing.person import Person
from headwater.sinks import sink_kinds
from tests.headwater.operated import Shop, verbs
from tests.waiting import eventually

DDL = """
    create table customers (id integer primary key, email text, name text, city text);
    create table orders (id integer primary key, customer_id integer, total numeric(12, 2));
    insert into customers
        select n, 'mail' || n || '@example.org', 'person ' || n, 'Paris' from generate_series(1, 30) n;
    insert into customers values (99, 'ada@example.org', 'Ada Byron', 'Paris');
    insert into orders select n, n, n from generate_series(1, 20) n;
    insert into orders values (77, 99, 12.50), (78, 99, 7);
"""
VIEWS = {
    "customer_card": """create materialized view customer_card with (sinks = 'cache, search, warehouse, alerts') as
        select id, email, name, city from customers""",
    "order_line": """create materialized view order_line with (sinks = 'cache, search, warehouse') as
        select o.id, o.total, c.email as buyer from orders o join customers c on c.id = o.customer_id""",
    "by_city": """create materialized view by_city with (sinks = 'warehouse') as
        select city, count(*) as people from customers group by city""",
}
SAVE = """
    insert into headwater.subscriptions (owner, view, query, events, channel, unsubscribe_token)
    values ('eve', 'customer_card', '{"equals": {"field": "city", "value": "Paris"}}', '{entered,left,changed}',
        'feed', 'u')
"""


def test_whose_a_record_is() -> None:
    person = Person(TableName("public", "c"), ("id",), ((5,),), frozenset({"anna", "ada@x.org", "Königstraße 12"}))
    assert person.holds(b'{"name":"anna"}')
    assert not person.holds(b'{"name":"Johanna"}'), "a short value is looked for as a whole text"
    assert person.holds(b'{"text":"write to ada@x.org soon"}')
    assert person.holds('{"at":"Königstraße 12, Bonn"}'.encode())
    assert not person.holds(b'{"id":5}')
    assert not person.holds(None)
    assert person.is_key(b'{"id":5}')
    assert not person.is_key(b'{"id":55}')
    assert not person.is_key(b'{"order":5}')
    assert not person.is_key(b"5")
    assert not person.is_key(None)
    assert person.digests("a") != person.digests("b")
    assert person.digests("a") == person.digests("a")


@pytest.fixture
def shop(capture: Capture, deployment: Deployment, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(capture, deployment, tmp_path, DDL, VIEWS, ["customers", "orders"])
    shop.conn.execute(SAVE)
    with shop.keeping():
        shop.whole()
        yield shop
    shop.leave()


@pytest.mark.stack
def test_a_person_leaves(shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run = verbs(shop, monkeypatch, capsys)
    shop.conn.execute("update customers set name = 'Ada Lovelace' where id = 99")
    shop.conn.execute("update customers set name = 'Bob' where id = 3")
    shop.whole()
    archiver = Archiver(shop.capture.kafka, shop.capture.source, shop.deployment.settings.warehouse_folder)
    archiver.step()
    copy = shop.registry.copies / "group" / "17"
    copy.mkdir(parents=True)
    words = ["erase", "--table", "customers", "--where", "email = 'ada@example.org'"]

    # The plan says where she is; nothing has changed.
    code, plan = run(*words)
    assert code == 0
    found = {line["place"]: line["found"] for line in plan["lines"]}
    assert (plan["keys"], plan["rows_in_source"], plan["shared"], plan["at"]) == ([[99]], 1, ["city"], None)
    assert found["change log (archive)"] >= 2
    assert found["topic of customer_card"] == 2
    assert (found["topic of order_line"], found["topic of by_city"]) == (2, 0)
    assert (found["warehouse of customer_card"], found["cache of customer_card"]) == (2, 1), "two versions, one row"
    assert found["headwater.outbox"] >= 1
    assert eventually(lambda: traces(shop)) >= {"change log", "warehouse", "cache", "search", "outbox"}

    # While the source has the rows nothing is erased.
    code, told = run(*words, "--yes")
    assert code == 1
    assert "still holds 1 rows" in told["error"]["fact"]

    code, receipt = run(*words, "--yes", "--delete-source")
    assert code == 0, receipt
    assert receipt["is_clean"]
    lines = {line["place"]: line for line in receipt["lines"]}
    assert (lines["source"]["erased"], lines["copies of the state"]["erased"]) == (1, 1)
    for place in ("change log (archive)", "cache of customer_card", "search of customer_card", "headwater.outbox"):
        assert (lines[place]["erased"] >= 1, lines[place]["left"]) == (True, 0), place
    for view in ("customer_card", "order_line"):
        assert lines[f"warehouse of {view}"]["erased"] >= 2, "versions and their end"
        assert lines[f"topic of {view}"]["pending"] >= 2
    assert lines["change log (Kafka)"]["pending"] >= 3
    assert datetime.fromisoformat(receipt["gone_by"]) > datetime.now(UTC) + timedelta(days=6)
    assert traces(shop) == set()

    # Everybody else is as before, and everything goes on.
    shop.conn.execute("insert into customers values (100, 'new@example.org', 'Newcomer', 'Paris')")
    shop.whole()
    rows = {row["id"]: row["name"] for row in held(shop, "warehouse", "customer_card")}
    assert (len(rows), rows[3], rows[100]) == (31, "Bob", "Newcomer")
    assert held(shop, "search", "customer_card") == held(shop, "warehouse", "customer_card")
    assert len(held(shop, "cache", "order_line")) == 20
    assert archiver.step().end.offset > 0, "the archive is still ours"

    look_at_retention(shop, run("retention")[1]["kept"])

    # Asked again, by key because the row is gone, it finds what waits and nothing else.
    code, again = run("erase", "--table", "customers", "--key", "id=99", "--yes")
    assert (code, again["is_clean"]) == (0, True)
    assert sum(line["erased"] for line in again["lines"]) == 0
    [*_, first] = listed(shop.deployment, verb="erase")
    kept = json.dumps([first.arguments, first.result])
    assert (first.outcome, first.reason) == ("failed", "the source still holds 1 rows")
    assert "example.org" not in kept, "a digest in its place, whose letters may spell anything shorter"
    assert "sha256:" in kept


def look_at_retention(shop: Shop, kept: list[dict[str, Any]]) -> None:
    told = {each["name"]: each for each in kept}
    changes, archive = told[shop.capture.source.changes_topic], told["change log archive"]
    assert changes["policy"] == "everything for 7 days"
    assert changes["note"].startswith("archived")
    assert datetime.fromisoformat(changes["leaves_at"]) - datetime.fromisoformat(changes["oldest_at"]) == timedelta(7)
    assert archive["records"] > 50
    assert archive["vacuumed_at"] is not None
    assert told["warehouse customer_card history (generation 1)"]["records"] > 30
    assert "at most 2 days" in told[f"{shop.capture.source.name}.view.by_city"]["policy"]


def held(shop: Shop, sink: str, view: str) -> list[dict[str, Any]]:
    """What readers of a place find."""
    opened = sink_kinds(shop.deployment)[sink].open(shop.group.shape(view, shop.capture.source), 1)
    try:
        rows = [json.loads(row) for row in opened.rows()]
    finally:
        opened.close()
    return sorted(rows, key=lambda row: int(row["id"]))


def traces(shop: Shop) -> set[str]:
    """Where her address, her names or her key are found, by other means than the product's."""
    found: set[str] = set()
    folder = shop.deployment.settings.warehouse_folder
    for file in folder.rglob("*.parquet"):
        if "_delta_log" in file.parts:
            continue
        text = str(pq.read_table(file).to_pylist())
        if "ada@example.org" in text or "Ada Byron" in text or "Ada Lovelace" in text:
            found.add("change log" if "@changes" in str(file) else "warehouse")
    with shop.deployment.redis.client() as client:
        keys = list(client.scan_iter(match=f"hw:*{shop.capture.source.name}.*", count=1000))
        texts = [str(key) + str(client.get(key)) for key in keys if client.type(key) == b"string"]
        found |= {"cache" for text in texts if "ada@" in text or 'row:{"id":99}' in text}
    with shop.deployment.elasticsearch.client() as client:
        index = f"{shop.capture.source.name}-customer_card-g1"
        client.indices.refresh(index=index)
        hits = client.search(index=index, query={"ids": {"values": ['{"id":99}']}})["hits"]["hits"]
        found |= {"search"} if hits else set()
    outbox = shop.conn.execute("select count(*) from headwater.outbox where after::text || before::text like '%ada@%'")
    found |= {"outbox"} if outbox.fetchone() != (0,) else set()
    return found
