"""`show` and `verify` on views that are kept from the real log: equal while everything moves, and different when one
row of the store is."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import lmdb
import psycopg
import pytest

from cdc import eras
from cdc.capture import Capture
from cdc.catalog_reader import describe
from cdc.errors import ConfigurationError, ViewError
from cdc.events import TableName
from cdc.position import Lsn
from headwater import cli
from headwater.deployment import Deployment
from headwater.views.compare import Comparison, chosen
from headwater.views.kept import Frontiers, KeptView, open_view
from headwater.views.key_text import encoded
from headwater.views.place import Place
from headwater.views.sampling import Sampler
from headwater.views.verify import Kind, NotComputed, Verifier
from headwater.views.verify_history import Why
from headwater.views.verify_view import Asking, history_of, verify_view
from tests.headwater.views_keeper import keeping
from tests.waiting import eventually
from views.maintain.group import GroupSpec
from views.maintain.registry import Registry, Wanted, WantedView

pytestmark = pytest.mark.stack

DDL = """
    create table agents (id integer primary key, name text);
    create table listings (
        id integer primary key, agent_id integer, city text, price numeric(12, 2), score double precision,
        listed_at timestamptz default '2026-01-31 12:00:00.5+00', tags text[] default '{a,"b c"}');
    insert into agents select n, 'agent ' || n from generate_series(1, 20) n;
    insert into listings (id, agent_id, city, price, score)
        select n, 1 + n % 20, (array['Bonn', 'Oslo', null])[1 + n % 3], n + 0.5, n / 7.0
        from generate_series(1, 3000) n;
"""
VIEWS = {
    "card": """create materialized view card as
        select l.id, l.price, l.score, l.listed_at, l.tags, json_build_object('name', a.name, 'id', a.id) as agent
        from listings l join agents a on a.id = l.agent_id where l.price % 1 = 0.5""",
    "by_city": """create materialized view by_city as
        select city, count(*) as n, sum(price) as total, avg(price) as mean, sum(score) as score
        from listings group by city""",
    "total": "create materialized view total as select count(*) as n, sum(price) as total from listings",
    "none": "create materialized view none as select id from listings where price < 0",
}
TABLES = [TableName("public", "agents"), TableName("public", "listings")]


class Stand:
    """Captured tables, their views in a group, and the verbs over them."""

    def __init__(self, capture: Capture, deployment: Deployment, folder: Path) -> None:
        self.capture, self.registry = capture, Registry(folder)
        self.conn = psycopg.connect(capture.postgres.conninfo(), autocommit=True)
        self.conn.execute(DDL)
        capture.ensure()
        tables = describe(self.conn, TABLES)
        self.registry.want(Wanted({name: WantedView(text, tables, 1.0, "b") for name, text in VIEWS.items()}))
        era = eras.current(capture.kafka, capture.source)
        spec = GroupSpec.new(era.era, era.topic_id, era.first_offset, 2, VIEWS, tables)
        self.folder = spec.save(self.registry.groups)
        self.place = Place(replace(deployment, source=capture.source, postgres=capture.postgres), self.registry, folder)
        self.frontiers = Frontiers(capture.kafka, capture.source)

    def keeping(self) -> object:
        return keeping(self.capture.kafka, self.capture.source, self.registry, self.folder)

    def verifier(self, timeout_s: float = 60.0) -> Verifier:
        return Verifier(self.capture.postgres, self.capture.kafka, self.capture.source, self.registry, timeout_s)

    def kept(self, view: str) -> KeptView:
        return open_view(self.registry, self.frontiers.look(), view)

    def whole(self) -> None:
        """Until the views hold what is committed now."""
        (lsn,) = self.conn.execute("select pg_current_wal_insert_lsn()::text").fetchone()
        for view in VIEWS:
            assert self.frontiers.wait(view, lambda f: Lsn.parse(f.lsn) >= Lsn.parse(lsn), 60)

    @contextmanager
    def moving(self, *, old_rows: bool = True) -> Iterator[None]:
        """Writers that never rest, and have begun; they may leave the rows alone that were there before."""
        stop = threading.Event()
        threads = [threading.Thread(target=self._move, args=(stop, number, old_rows)) for number in range(2)]
        for thread in threads:
            thread.start()
        try:
            eventually(lambda: self.conn.execute("select 1 from listings where city = 'Rome' limit 1").fetchone())
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def _move(self, stop: threading.Event, number: int, old_rows: bool) -> None:
        with psycopg.connect(self.capture.postgres.conninfo(), autocommit=True) as conn:
            step = number
            while not stop.wait(0.005):
                step += 2
                row = 1 + step * 37 % 3000
                if old_rows:
                    conn.execute("update listings set price = price + 1, score = score * 1.1 where id = %s", [row])
                conn.execute("delete from listings where id = %s", [10_000 + step - 20])
                conn.execute(
                    "insert into listings (id, agent_id, city, price) values (%s, 1, 'Rome', 0.5)", [10_000 + step]
                )
                if old_rows and step % 10 == number:
                    conn.execute("update agents set name = name || '.' where id = %s", [1 + step % 20])


@pytest.fixture
def stand(capture: Capture, deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    stand = Stand(capture, deployment, tmp_path / "views")
    monkeypatch.setattr(Place, "here", classmethod(lambda cls: stand.place))
    yield stand
    stand.conn.close()


def tamper(kept: KeptView, key: list[str | None], change: Callable[[bytes | None], bytes | None]) -> None:
    """Changes a row of the store behind everybody's back."""
    (entry,) = encoded(kept.store, [key])
    for folder in kept.folders if change(None) is None else kept.folders[:1]:
        environment = lmdb.open(str(folder), max_dbs=32)
        with environment.begin(write=True) as transaction:
            table = environment.open_db(b"rows", txn=transaction, create=False)
            old = transaction.get(b"k" + entry, db=table)
            new = change(old)
            if old is not None and new is None:
                transaction.delete(b"k" + entry, db=table)
            elif new is not None:
                transaction.put(b"k" + entry, new, db=table)
        environment.close()


def test_views_are_equal_while_everything_moves(stand: Stand) -> None:
    with stand.keeping():
        stand.whole()
        with stand.moving():
            for view in ("card", "by_city"):
                found = stand.verifier().verify(view, lock=True)
                assert found.is_equal, found
                assert found.rows_postgres > 3
            # Rows that nearly every transaction changes: no snapshot holds them still, but some moment does.
            assert stand.verifier().verify("by_city").is_equal
            # One of which even the key changes: never called different, and settled with a lock.
            assert not any(stand.verifier().verify("total").counts.values())
            assert stand.verifier().verify("total", lock=True).is_equal


def test_rows_that_never_rest_and_are_wrong(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often they are looked at, no moment shows what the view never had."""
    written = Comparison._sql
    monkeypatch.setattr(Comparison, "_sql", lambda *given: written(*given).replace("sum(price)", "sum(price) + 0.25"))
    monkeypatch.setattr("headwater.views.verify.ROUNDS_MAX", 3)
    with stand.keeping():
        stand.whole()
        with stand.moving():
            found = stand.verifier().verify("by_city")
    assert found.unsettled + sum(found.counts.values()) == len(("Bonn", "Oslo", None, "Rome"))


def test_rows_that_were_tampered_with_are_found(stand: Stand, capsys: pytest.CaptureFixture[str]) -> None:
    with stand.keeping():
        stand.whole()
        assert cli.run(["verify", "--all"]) == 0
        assert capsys.readouterr().out.count(": equal") == 4
    card, by_city = stand.kept("card"), stand.kept("by_city")
    tamper(card, ["7"], lambda row: row and row.replace(b'"price":7.50', b'"price":7.51'))
    tamper(card, ["8"], lambda row: None)
    tamper(by_city, ["Atlantis"], lambda row: b'{"city":"Atlantis","n":1,"total":1.00,"mean":1.0,"score":1}')
    tamper(by_city, [None], lambda row: None)
    with stand.keeping():
        assert cli.run(["verify", "card", "by_city", "--json"]) == 1
        found = json.loads(capsys.readouterr().out)
        one, two = found["views"]
        assert (one["missing"], one["extra"], one["different"], one["unsettled"]) == (1, 0, 1, 0)
        assert {each["key"] for each in one["examples"]} == {'{"id":7}', '{"id":8}'}
        assert (two["missing"], two["extra"], two["different"]) == (1, 1, 0)
        assert {each["key"] for each in two["examples"]} == {'{"city":"Atlantis"}', '{"city":null}'}
        _some_keys(stand)
        # On a busy database, too, and without a lock.
        with stand.moving(old_rows=False):
            counts = stand.verifier().verify("card").counts
        assert counts == {Kind.MISSING: 1, Kind.EXTRA: 0, Kind.DIFFERENT: 1}
        assert cli.run(["verify", "card"]) == 1
        out = capsys.readouterr().out
        assert "card: DIFFERENT" in out
        assert '"price":7.51' in out


def test_some_keys_of_a_view_without_rows(stand: Stand) -> None:
    with stand.keeping():
        stand.whole()
        found = stand.verifier().verify("none", keys=[])
        assert (found.is_equal, found.rows_postgres, found.rows_view) == (True, 0, 0)
        run = Sampler(stand.place, 100).sample("none")
        assert (run.is_equal, [each.note for each in run.places]) == (True, [""])
        assert cli.run(["verify", "none", "--why", "schedule", "--by", "headwater up", "--json"]) == 0
        [run] = history_of(stand.place).runs("none", 1)
        assert (run.why, run.by) == (Why.SCHEDULE, "headwater up")


def test_postgres_that_cannot_compute_a_view(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is put down, and told as an error of ours; a sample goes on with the sinks."""
    with stand.keeping():
        stand.whole()
        monkeypatch.setattr(Comparison, "_sql", lambda *_: "select 1 / (n - 1), %s from generate_series(1, 2) n")
        monkeypatch.setattr(Comparison, "cost", lambda *_: 1.0)
        with pytest.raises(NotComputed, match="Postgres cannot compute card"):
            stand.verifier().verify("card", keys=[b'{"id":7}'])
        monkeypatch.setattr(Comparison, "_sql", lambda *_: "select 1 / (n - 1) from generate_series(1, 2) n")
        with pytest.raises(NotComputed, match="division by zero"):
            verify_view(stand.place, "card", Asking(Why.SCHEDULE, "t"))
        [run] = history_of(stand.place).runs("card", 1)
        assert [(each.place, each.note) for each in run.places] == [
            ("view", "Postgres cannot compute card: division by zero")
        ]
        monkeypatch.setattr(Comparison, "_sql", lambda *_: "select 1 / (n - 1), %s from generate_series(1, 2) n")
        run = Sampler(stand.place, 10).sample("card")
        assert [each.note for each in run.places] == ["Postgres cannot compute card"]


def _some_keys(stand: Stand) -> None:
    """What is wrong among them is found, and nothing else is looked at."""
    few = stand.verifier().verify("card", keys=[b'{"id":7}', b'{"id":9}', b'{"id":123456}'])
    assert few.wrong == (("different", '{"id":7}'),)
    assert (few.rows_postgres, few.rows_view) == (2, 2)
    cities = stand.verifier().verify("by_city", keys=[b'{"city":null}', b'{"city":"Bonn"}', b'{"city":"Atlantis"}'])
    assert set(cities.wrong) == {("missing", '{"city":null}'), ("extra", '{"city":"Atlantis"}')}
    with psycopg.connect(stand.capture.postgres.conninfo()) as conn:
        comparison = Comparison(stand.kept("card"), conn)
        one, all_ = (chosen(stand.kept("card").store, [b'{"id":%d}' % n for n in range(count)]) for count in (1, 900))
        assert comparison.cost(one) < comparison.cost(all_) / 3, "by the index"


def test_a_view_that_nobody_keeps_is_not_verified(stand: Stand) -> None:
    with stand.keeping():
        stand.whole()
    stand.conn.execute("update listings set price = 1 where id = 1")
    with pytest.raises(ViewError, match="does not get on"):
        stand.verifier(timeout_s=1).verify("card")
    with pytest.raises(ConfigurationError, match="no view crad"):
        stand.verifier().verify("crad")


def test_show_gives_a_row_and_waits_for_a_write(stand: Stand, capsys: pytest.CaptureFixture[str]) -> None:
    with stand.keeping():
        stand.whole()
        stand.conn.execute("update listings set price = 70.50 where id = 7")
        (lsn,) = stand.conn.execute("select pg_current_wal_insert_lsn()::text").fetchone()
        assert cli.run(["show", "card", "id=7", "--at-least", lsn, "--timeout", "60", "--json"]) == 0
        out = capsys.readouterr().out
        assert '"price": 70.50' in out, "its digits are kept"
        told = json.loads(out)
        assert told["row"]["agent"] == {"name": "agent 8", "id": 8}
        assert Lsn.parse(told["lsn"]) >= Lsn.parse(lsn)
        assert cli.run(["show", "card", "7"]) == 0
        assert "up to commit" in capsys.readouterr().out
        assert cli.run(["show", "by_city", "city=null"]) == 0
        assert cli.run(["show", "card", "id=99999"]) == 1
        assert "no row of card" in capsys.readouterr().out
        assert cli.run(["show", "card", "id=x"]) == 2
        assert cli.run(["show", "card", "nr=7", "8"]) == 2
        assert "headwater show card id=…" in capsys.readouterr().err
        assert cli.run(["show", "card", "7", "--at-least", "FFFF/0", "--timeout", "0.2"]) == 1
        assert "does not include FFFF/0" in capsys.readouterr().err
        _views_and_explain(capsys)


def _views_and_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["views", "--json"]) == 0
    told = {each["view"]: each for each in json.loads(capsys.readouterr().out)["views"]}
    assert told["card"]["rows"] == 3000
    assert told["card"]["state"] == "live"
    assert told["card"]["behind_s"] < 60
    assert told["card"]["bytes"] > 100_000
    assert cli.run(["views"]) == 0
    assert "card     live   3,000" in capsys.readouterr().out
    assert cli.run(["explain", "card", "--json"]) == 0
    arrangements = json.loads(capsys.readouterr().out)["arrangements"]
    rows = {each["name"]: each["rows"] for each in arrangements}
    assert rows["public.listings"] == 3000
    assert rows["card"] == 3000


def test_plan_takes_the_tables_from_postgres(stand: Stand, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in VIEWS.items():
        (tmp_path / f"{name}.sql").write_text(text)
    assert cli.run(["plan", str(tmp_path)]) == 0
    assert "4 unchanged" in capsys.readouterr().out
    stand.conn.execute("create table later (id integer primary key)")
    (tmp_path / "later.sql").write_text("create materialized view late as select id from later")
    (tmp_path / "never.sql").write_text("create materialized view never as select id from nothing")
    assert cli.run(["apply", str(tmp_path), "--json"]) == 1
    told = {each["view"]: each for each in json.loads(capsys.readouterr().out)["views"]}
    assert told["late"]["reason"] == "not-captured"
    assert told["never"]["reason"] == "unknown-table"
    assert stand.registry.wanted().views.keys() == VIEWS.keys()


def test_a_view_that_was_not_begun_says_so(stand: Stand) -> None:
    with pytest.raises(ViewError, match="view card is waiting, and nobody keeps it"):
        stand.verifier().verify("card")
