"""Tables that change under running views: those that use nothing of it go on, the others are paused with what changed
as their reason, nothing wrong is published, and a view that is applied again is exact."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.maintain.rig import Rig, limits

pytestmark = [pytest.mark.stack, pytest.mark.spark]

TABLES = """
    create table animals (id integer primary key, name text, legs integer, colour text);
    create table bees (id integer primary key, hive text, weight integer, spare text);
    create table cats (id integer primary key, owner integer, age integer);
    insert into animals values (1, 'ant', 6, 'red'), (2, 'bear', 4, 'brown');
    insert into bees values (1, 'north', 3, 'x'), (2, 'south', 4, 'y');
    insert into cats values (1, 1, 5), (2, 2, 9);
"""
VIEWS = """
create materialized view names as select id, name from animals;
create materialized view legs as select legs, count(*) as n from animals group by legs;
create materialized view hives as select hive, sum(weight) as weight from bees group by hive;
create materialized view owners as
    select c.id, a.name, c.age from cats c join animals a on a.id = c.owner;
create materialized view ages as select count(*) as n, sum(age) as total from cats;
"""


@pytest.fixture(scope="module")
def ddl() -> str:
    return TABLES


@pytest.fixture(scope="module")
def kept(rig: Rig) -> Iterator[Rig]:
    rig.want(VIEWS)
    with rig.kept(limits(shards=2)):
        rig.settled(timeout_s=120)
        yield rig


@contextmanager
def ticking(kept: Rig) -> Iterator[None]:
    """The canary, all the time."""
    over = threading.Event()

    def tick() -> None:
        with psycopg.connect(kept.capture.postgres.conninfo(), autocommit=True) as conn:
            while not over.wait(0.005):
                conn.execute("select headwater.tick_canary()")

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_column_that_no_view_uses_comes_and_goes(kept: Rig) -> None:
    kept.connection.execute("alter table bees add column extra integer default 7")
    kept.connection.execute("insert into bees values (3, 'north', 5, 'z', 8)")
    kept.settled()
    kept.connection.execute("alter table bees drop column spare")
    kept.connection.execute("update bees set weight = weight + 1")
    kept.settled()


def test_a_used_column_is_dropped(kept: Rig) -> None:
    before = kept.compacted("legs")
    with kept.connection.transaction():
        kept.connection.execute("insert into animals values (3, 'crab', 10, 'red')")
        kept.connection.execute("alter table animals drop column legs")
        kept.connection.execute("insert into animals values (4, 'dove', 'white')")
    assert "-legs integer" in kept.paused("legs")
    kept.settled("names", "hives", "owners", "ages")
    assert kept.compacted("legs") == before
    kept.connection.execute("insert into animals values (5, 'emu', 'grey')")
    kept.settled("names", "hives", "owners", "ages")


def test_a_paused_view_is_applied_again(kept: Rig) -> None:
    """The canary changes while it is read, and does not end the snapshot by itself."""
    with ticking(kept):
        kept.want(
            "create materialized view legs as select colour, count(*) as n from animals group by colour",
            snapshots=["animals"],
        )
        kept.settled(timeout_s=90)
    kept.connection.execute("update animals set colour = 'blue' where id > 3")
    kept.settled()


def test_a_used_column_is_retyped(kept: Rig) -> None:
    """Its table is the last one that the others need: all of its views go, theirs stay."""
    kept.connection.execute("alter table bees alter column weight type numeric(10, 1)")
    kept.connection.execute("update bees set weight = 1.5 where id = 1")
    assert "-weight integer +weight numeric(10,1)" in kept.paused("hives")
    kept.connection.execute("insert into cats values (3, 3, 1)")
    kept.settled("names", "legs", "owners", "ages")


def test_a_used_column_is_renamed(kept: Rig) -> None:
    kept.connection.execute("alter table animals rename column name to called")
    kept.connection.execute("insert into animals values (6, 'fox', 'red')")
    assert "-name text" in kept.paused("names")
    assert "-name text" in kept.paused("owners")
    kept.connection.execute("insert into cats values (4, 3, 2)")
    kept.settled("legs", "ages")


def test_a_table_is_dropped(kept: Rig) -> None:
    kept.connection.execute("drop table animals")
    assert "dropped" in kept.paused("legs")
    kept.connection.execute("insert into cats values (5, 3, 3)")
    kept.settled("ages")
    for view in ("names", "legs", "owners", "hives"):
        kept.chained(view)


def test_the_retyped_column_is_applied_again(kept: Rig) -> None:
    kept.want(
        "create materialized view hives as select hive, sum(weight) as weight from bees group by hive",
        snapshots=["bees"],
    )
    kept.settled("hives", "ages", timeout_s=90)
    kept.connection.execute("update bees set weight = weight * 2")
    kept.settled("hives", "ages")
