"""`headwater erase` of somebody whose rows left the views long ago: their topics tell of it for days only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from alerts.notification import Event, Item, Notification
from alerts.notification_json import stored
from cdc.capture import Capture
from cdc.reader import Raw
from headwater.deployment import Deployment
from headwater.erasing import view_places
from headwater.erasing.person import Person
from headwater.erasing.view_places import Scans, has_row
from headwater.views.key_text import encoded
from headwater.views.view_sinks import topic_of
from tests.headwater.operated import Shop, verbs
from tests.headwater.persons import shape
from tests.waiting import eventually
from views.lineage import Part
from views.plan import Field
from views.sinks.following import ViewTopic, change
from views.sinks.sink import Change, Mark, ViewShape
from views.sinks.warehouse import WarehouseKind
from views.sqltypes import named
from views.store import ViewStore

DDL = """
    create table customers (id integer primary key, email text, balance integer);
    insert into customers values (1, 'bob@example.org', -7), (2, 'eve@example.org', 8);
"""
VIEWS = {
    "balance": """create materialized view balance with (sinks = 'cache, search, warehouse, alerts') as
        select id, balance from customers""",
    "in_debt": """create materialized view in_debt with (sinks = 'warehouse') as
        select id, balance from customers where balance < 0""",
}
SAVE = """
    insert into headwater.subscriptions (owner, view, query, events, channel, unsubscribe_token)
    values ('eve', 'balance', '{"equals": {"field": "balance", "value": 5}}', '{entered,left,changed}', 'feed', 'u')
"""
NOTIFY = """
    insert into headwater.notifications (id, owner, sequence, channel, target, subscription_ids, first_sequence,
        last_sequence, events, body, unsubscribe_token)
    values (%(id)s, 'eve', %(number)s, 'feed', '', '{1}', 1, 1, 1, %(body)s, %(id)s)
"""
HERS, OTHERS = b'{"id":99}', b'{"id":1}'


class Compacted(ViewTopic):
    """As it is after three days: of a row that is gone it says nothing."""

    def records(self, start: int, end: int) -> Iterator[list[Raw]]:
        told = [raw for piece in super().records(start, end) for raw in piece]
        newest = {change(raw).key: raw for raw in told}
        yield [raw for raw in newest.values() if change(raw).after is not None]


def test_what_a_place_knows_is_theirs_by_where_its_key_comes_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No value of theirs is in it, and the topic is empty."""
    fields = (Field("id", named("integer")), Field("balance", named("integer")))
    kind, of = WarehouseKind(str(tmp_path)), ViewShape("s", "balance", fields, ("id",))
    sink = kind.open(of, 1)
    sink.prepare()
    rows = [Change(key, b'{"id":%d,"balance":%d}' % (json.loads(key)["id"], number), number)
            for number, key in enumerate([HERS, OTHERS, HERS])]  # fmt: skip
    sink.apply([*rows, Change(HERS, None, 3)], Mark("t", 4, published_at_us=1))
    person = Person(shape("customers", id="integer"), ((99,),), frozenset({"ada@example.org"}))
    store = ViewStore("balance", fields, ("id",))
    held = {store.keys(pa.table({"id": pa.array([1], pa.int32())}))[0]: b"{}"}
    kept = SimpleNamespace(store=store, read=lambda keys: {key: held[key] for key in keys if key in held})
    assert has_row(kept, OTHERS)  # type: ignore[arg-type]
    assert not has_row(kept, HERS)  # type: ignore[arg-type]
    assert not has_row(kept, b'{"name":"as the key was once"}')  # type: ignore[arg-type]
    empty = SimpleNamespace(records=lambda start, end: [], end=lambda: 4)
    monkeypatch.setattr(view_places, "topic_of", lambda place, view: empty)
    part = Part(person.table, {"id": frozenset({"id"})}, {})
    for_all = lambda key: person.is_row([part], key)  # noqa: E731
    scans = Scans(None, person, _kept={"balance": kept}, _owners={"balance": for_all})  # type: ignore[arg-type, dict-item]
    gone = scans.gone("balance")
    assert sink.remembered(gone, person.holds) == sink.forget(gone, person.holds) == 3
    assert sink.remembered(gone, person.holds) == 0
    assert list(sink.rows()) == [b'{"id":1,"balance":1}']


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        ("integer", 7, "7"),
        ("text", "ada", "ada"),
        ("text[]", ["ada@example.org", 'a "b" \\', "NULL", None], None),
        ("integer[]", [1, 2], "{1,2}"),
        ("jsonb", "ada", '"ada"'),
        ("jsonb", {"k": [1, "ada"]}, '{"k": [1, "ada"]}'),
        ("numeric", 1.5, "1.5"),
    ],
)
def test_a_row_is_found_by_a_key_of_any_type(type_: str, value: object, text: str | None) -> None:
    """Else it would be taken for gone, and everything that is known of it be erased."""
    store = ViewStore("cards", (Field("id", named(type_)),), ("id",))
    texts = [[text or '{ada@example.org,"a \\"b\\" \\\\","NULL",NULL}']]
    held = dict.fromkeys(encoded(store, texts), b"{}")
    kept = SimpleNamespace(store=store, read=lambda keys: {key: held[key] for key in keys if key in held})
    assert has_row(kept, json.dumps({"id": value}).encode())  # type: ignore[arg-type]
    held.clear()
    assert not has_row(kept, json.dumps({"id": value}).encode())  # type: ignore[arg-type]


def test_a_key_that_nobody_can_look_up_has_a_row() -> None:
    """The column was text, and the topic may tell that it is gone."""
    store = ViewStore("cards", (Field("id", named("integer")),), ("id",))
    kept = SimpleNamespace(store=store, read=lambda keys: {})
    assert has_row(kept, b'{"id":"ada"}')  # type: ignore[arg-type]


@pytest.fixture
def shop(capture: Capture, deployment: Deployment, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(capture, deployment, tmp_path, DDL, VIEWS, ["customers"])
    shop.conn.execute(SAVE)
    with shop.keeping():
        shop.whole()
        yield shop
    shop.leave()


@pytest.mark.stack
def test_a_person_who_left_long_ago_leaves_every_place(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = verbs(shop, monkeypatch, capsys)
    for statement in ("insert into customers values (99, 'ada@example.org', -5)",
                      "update customers set balance = 5 where id = 99", "update customers set balance = 5 where id = 2",
                      "delete from customers where id = 99"):  # fmt: skip
        shop.conn.execute(statement)
        shop.whole()
    notify(shop, 1)
    notify(shop, 99)

    def compacted(place: Any, view: str) -> ViewTopic:
        found = topic_of(place, view)
        return Compacted(found.kafka, found.name)

    monkeypatch.setattr(view_places, "topic_of", compacted)
    eventually(lambda: outbox(shop) == {"2", "99"})
    assert {99} < ids_in_histories(shop, "balance")
    assert {99} < ids_in_histories(shop, "in_debt")

    code, receipt = run("erase", "--table", "customers", "--key", "id=99", "--yes")
    assert (code, receipt["is_clean"]) == (0, True), receipt
    erased = {line["place"]: line["erased"] for line in receipt["lines"]}
    assert (erased["warehouse of balance"], erased["warehouse of in_debt"]) == (4, 3), "versions, and two for the end"
    assert (erased["cache of balance"], erased["search of balance"]) == (1, 1), "tombstones"
    assert (erased["headwater.outbox"] >= 1, erased["headwater.notifications"]) == (True, 1)

    # By other means; and others keep what is theirs.
    assert ids_in_histories(shop, "balance") == {1, 2}
    assert ids_in_histories(shop, "in_debt") == {1}
    assert outbox(shop) == {"2"}
    assert shop.conn.execute("select id from headwater.notifications").fetchall() == [("n1",)]
    with shop.deployment.redis.client() as client:
        assert not list(client.scan_iter(match=f'hw:*{shop.capture.source.name}.*row:{{"id":99}}*', count=1000))
    code, again = run("erase", "--table", "customers", "--key", "id=99", "--yes")
    assert (code, sum(line["erased"] for line in again["lines"])) == (0, 0)


def notify(shop: Shop, id_: int) -> None:
    item = Item("balance", {"id": id_}, Event.ENTERED, {"id": id_, "balance": 5})
    told = stored(Notification(f"n{id_}", "eve", id_, datetime.now(UTC), (item,)))
    shop.conn.execute(NOTIFY, {"id": f"n{id_}", "number": id_, "body": told.decode()})


def outbox(shop: Shop) -> set[str]:
    keys = shop.conn.execute("select distinct key from headwater.outbox").fetchall()
    return {str(json.loads(key)["id"]) for (key,) in keys}


def ids_in_histories(shop: Shop, view: str) -> set[int]:
    folder = shop.deployment.settings.warehouse_folder / shop.capture.source.name / view
    files = [file for file in folder.rglob("history/*.parquet") if "_delta_log" not in file.parts]
    return {id_ for file in files for id_ in pq.read_table(file, columns=["id"])["id"].to_pylist()}
