"""`headwater erase` on the real thing: what a person left in every place, found, erased, and looked for again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from cdc import eras
from cdc.archive import Archiver, ArchiveReader
from cdc.canary import CanaryCheck
from cdc.capture import Capture
from cdc.changelog import ChangeLog
from cdc.connect import ConnectClient
from cdc.events import TableName
from cdc.position import Lsn, Position
from cdc.snapshots import SnapshotTracker
from cdc.topics import topic_state
from headwater.audit_store import listed
from headwater.deployment import Deployment
from headwater.erasing import letting_go
from headwater.erasing.erase import _standbys_behind
from headwater.erasing.person import Person
from headwater.sinks import sink_kinds
from headwater.views.verify_history import PlaceResult, VerifyHistory, VerifyRun, Why
from tests.headwater.operated import Shop, verbs
from tests.headwater.persons import shape
from tests.waiting import eventually
from views.lineage import Part
from views.maintain.registry import GroupStatus, Registry, Standby, State, ViewState

DDL = """
    create table customers (id integer primary key, email text, name text, city text);
    create table orders (id integer primary key, customer_id integer, total numeric(12, 2));
    insert into customers
        select n, 'mail' || n || '@example.org', 'person ' || n, 'Paris' from generate_series(1, 30) n;
    insert into customers values (99, 'ada@example.org', 'Ada Byron', 'Paris');
    insert into orders select n, n, n from generate_series(1, 20) n;
    insert into orders values (77, 99, 12.50), (78, 99, 7);
"""
TABLE = TableName("public", "customers")
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
    person = Person(shape("c", id="integer"), ((5,),), frozenset({"anna", "ada@x.org", "Königstraße 12"}))
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


STANDBYS = {"there": "0/20", "beyond": "1/0", "behind": "0/1F", "new": ""}
CARD, ORDER = (
    Part(TABLE, {"id": frozenset({"id"})}, {}),
    Part(TableName("public", "orders"), {"id": frozenset({"id"})}, {}),
)
BUYER = Part(TABLE, {"id": frozenset({"buyer"})}, {})


def test_whose_a_row_of_a_view_is() -> None:
    """Other tables have a 5, too; the plan says where a key comes from."""
    person = Person(shape("customers", id="integer"), ((5,),), frozenset({"ada@x.org"}))
    assert person.is_row([CARD], b'{"id":5}')
    assert not person.is_row([CARD], b'{"id":6}')
    assert not person.is_row([ORDER, BUYER], b'{"id":5}'), "an order, and a column that is not in its key"
    assert person.is_row([ORDER, BUYER], b'{"id":7,"buyer":5}')
    assert person.is_row([ORDER], b'{"email":"ada@x.org"}'), "a view that is grouped by a value of theirs"


def test_a_definition_that_stands_by_is_waited_for() -> None:
    """It holds the rows until it has read that they are gone, and would bring them back to readers."""
    groups = {name: GroupStatus(1, 1, is_live=False, is_following=True, lsn=lsn) for name, lsn in STANDBYS.items()}
    standbys = [Standby(f"v{group}", group, 0.0, 0.0, is_ready=True) for group in [*STANDBYS, "unknown"]]
    found = _standbys_behind(State(groups=groups, standbys=standbys), Lsn.parse("0/20"))
    assert found == [f"the definition of v{group} that stands by" for group in ("behind", "new", "unknown")]


def test_what_others_have_wrong_stays_noted(tmp_path: Path) -> None:
    history = VerifyHistory(tmp_path)
    for view in ("card", "orders"):
        place = PlaceResult("search", 2, different=2, keys=('different {"id":5}',))
        run = VerifyRun(view, Why.SAMPLE, "me", 1, 0.1, (place,))
        history.add(run, {"search": [("different", '{"id":5}'), ("different", '{"id":6}')]})

    def is_theirs(view: str, key: str) -> bool:
        return (view, key) == ("card", '{"id":5}')

    assert history.count_noted(is_theirs) == history.erase_noted(is_theirs) == 2
    assert history.count_noted(is_theirs) == 0
    assert {view: set(places["search"]) for view, places in history.wrong().items()} == {
        "card": {'{"id":6}'}, "orders": {'{"id":5}', '{"id":6}'},
    }  # fmt: skip
    assert [run.view for run in history.runs()] == ["orders"]


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


@pytest.mark.stack
def test_the_change_log_lets_go_at_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, kafka, source = verbs(shop, monkeypatch, capsys), shop.capture.kafka, shop.capture.source
    settings = shop.deployment.settings
    log = ChangeLog(kafka, source)
    archived = replace(log, archive=ArchiveReader(source, settings.warehouse_folder))
    first = eras.current(kafka, source).first_offset
    before = topic_state(kafka, source.changes_topic)

    _refused(shop, run, monkeypatch, first)
    assert topic_state(kafka, source.changes_topic).low == before.low, "nothing was cut off"

    proven = CanaryCheck(log, archived=archived).look()
    code, receipt = run("erase", "--table", "customers", "--key", "id=99", "--yes", "--now")
    assert code == 0, receipt
    assert receipt["is_clean"]
    [line] = [line for line in receipt["lines"] if line["place"] == "change log (Kafka)"]
    assert (line["erased"] >= 2, line["pending"], line["gone_by"], line["left"]) == (True, 0, None, 0)
    state = topic_state(kafka, source.changes_topic)
    assert before.low < state.low < state.high
    assert b"ada@" not in b"".join((record.value or b"") for record in log.read(log.bounds()[0]))
    assert list(log.transactions(log.bounds()[0])), "it begins with a whole one"

    # Nobody takes it for a loss: not who goes on, not who begins anew, with an archive or without.
    for check in (CanaryCheck(log, proven, archived), CanaryCheck(log, None, archived), CanaryCheck(log)):
        assert not check.look().gap
    assert not CanaryCheck(log, None, archived).look().skipped
    assert SnapshotTracker(log).look().complete
    records = [record.position.offset for record in archived.read(Position(log.bounds()[0].era, first))]
    assert records == sorted(set(records))
    assert records[0] < state.low <= records[-1]
    archiver = Archiver(kafka, source, settings.warehouse_folder)
    assert archiver.step().end.offset >= state.low

    # Everything goes on, also after the connector was cut off.
    with ConnectClient(shop.capture.connect) as client:
        client.stop(source.connector)
        client.wait_stopped(source.connector, 60)
    shop.capture.ensure()
    shop.conn.execute("insert into customers values (100, 'new@example.org', 'Newcomer', 'Paris')")
    shop.whole()
    assert 100 in {row["id"] for row in held(shop, "warehouse", "customer_card")}
    assert not CanaryCheck(log, proven, archived).look().gap
    code, again = run("erase", "--table", "customers", "--key", "id=99", "--yes", "--now")
    assert (code, sum(each["found"] for each in again["lines"] if "change log" in each["place"])) == (0, 0)


def _refused(
    shop: Shop, run: Callable[..., tuple[int, Any]], monkeypatch: pytest.MonkeyPatch, first_offset: int
) -> None:
    words = ["erase", "--table", "customers", "--where", "id = 99", "--yes", "--delete-source", "--now"]
    settings, real = shop.deployment.settings, Registry.state
    with monkeypatch.context() as changed:
        off = settings.model_copy(update={"warehouse": settings.warehouse.model_copy(update={"archive": False})})
        changed.setattr(shop, "place", replace(shop.place, deployment=replace(shop.deployment, settings=off)))
        code, told = run(*words)
        assert (code, told["error"]["fact"]) == (2, "the change log is not archived")
    with monkeypatch.context() as changed:
        changed.setattr(Registry, "state", lambda registry: _with_view(real(registry), "by_city", ViewState.HELD))
        code, told = run(*words)
        assert (code, told["error"]["detail"].partition(":")[0]) == (1, "view by_city is held")
    assert shop.conn.execute("select 1 from customers where id = 99").fetchone(), "before anything is touched"
    # At the end, when somebody has not read so far.
    with monkeypatch.context() as changed:
        changed.setattr(letting_go, "READ_S_MAX", 1.0)
        changed.setattr(Registry, "state", lambda registry: _with_group_at(real(registry), first_offset))
        code, told = run(*words)
        assert (code, told["error"]["fact"]) == (1, "somebody still needs the change log's records")
        assert f"at offset {first_offset}" in told["error"]["detail"]
        again = "headwater erase --table public.customers --key id=99 --now --yes"
        assert told["error"]["hint"].endswith(again), "the rows are gone: no condition finds them any more"


def _with_view(state: State, view: str, as_: ViewState) -> State:
    views = {**state.views, view: msgspec.structs.replace(state.views[view], state=as_)}
    return msgspec.structs.replace(state, views=views)


def _with_group_at(state: State, offset: int) -> State:
    groups = {name: msgspec.structs.replace(group, offset=offset) for name, group in state.groups.items()}
    return msgspec.structs.replace(state, groups=groups)


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
