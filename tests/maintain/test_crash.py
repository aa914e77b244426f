"""Killed at every place between two effects of an epoch, and at random: the views are exact afterwards, every change is
told once, and each begins where the last one ended."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from headwater.views.apply import apply_again
from tests.maintain.rig import Child, Rig
from tests.waiting import eventually
from views.maintain import seed
from views.maintain.failpoints import PLACES

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(1500)]

DEADLINE_S = 180.0
"""A child brings a JVM with it: on a busy machine that alone takes a minute."""
TABLES = """
    create table accounts (id integer primary key, owner text, balance integer);
    create table owners (name text primary key, city text);
    insert into owners values ('ada', 'Oslo'), ('bob', 'Bonn');
    insert into accounts select n, case n % 2 when 0 then 'ada' else 'bob' end, 100 from generate_series(1, 10) n;
"""
VIEWS = """
create materialized view cards as
    select a.id, a.balance, o.city from accounts a join owners o on o.name = a.owner;
create materialized view cities as
    select o.city, sum(a.balance) as total, count(*) as n from accounts a join owners o on o.name = a.owner
    group by o.city;
create materialized view whole as select count(*) as n, sum(balance) as total from accounts;
"""


@pytest.fixture(scope="module")
def ddl() -> str:
    return TABLES


@contextmanager
def written(rig: Rig, pause_s: float = 0.1) -> Iterator[None]:
    """Transactions go on for as long as the block lasts."""
    stop = threading.Event()

    def write() -> None:
        draw = random.Random(7)
        with psycopg.connect(rig.capture.postgres.conninfo(), autocommit=True) as connection:
            while not stop.wait(pause_s):
                one, other = draw.sample(range(1, 14), 2)
                with connection.transaction():
                    connection.execute("update accounts set balance = balance - 1 where id = %s", [one])
                    connection.execute("update accounts set balance = balance + 1 where id = %s", [other])
                    if draw.random() < 0.3:
                        connection.execute("delete from accounts where id = %s", [one])
                        connection.execute(
                            "insert into accounts values (%s, 'ada', 50) on conflict do nothing", [other]
                        )
                    if draw.random() < 0.2:
                        connection.execute("update owners set city = %s where name = 'bob'", [f"c{draw.random()}"])

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join(30)


def struck(child: Child, mark: Path) -> None:
    """Waits until the failpoint has struck. A worker that dies takes its epoch with it, not the driver."""

    def is_struck() -> None:
        assert mark.exists(), f"nothing struck; the child {child.process.poll()}: {child.log.read_text()[-2000:]}"

    eventually(is_struck, DEADLINE_S)


def settle(rig: Rig) -> None:
    rig.settled(timeout_s=DEADLINE_S)
    for view in rig.definitions:
        rig.chained(view)


def test_killed_at_every_place(lone_rig: Rig, tmp_path: Path) -> None:
    """Every other one at the first chance, the others at the second: while the views are built, shown and live."""
    rig, log = lone_rig, tmp_path / "log"
    rig.want(VIEWS)
    with written(rig):
        for number, place in enumerate(PLACES):
            mark = tmp_path / f"struck-{number}"
            times = 1 if number % 2 == 0 else 2
            child = rig.child(
                log, failpoint=f"{place}:{times}:{mark}", single_records_max=0 if number % 3 == 2 else None
            )
            try:
                struck(child, mark)
            finally:
                child.kill()
    child = rig.child(log)
    try:
        settle(rig)
        child.stop()
    finally:
        child.kill()


@pytest.mark.parametrize("place", ["published-some", "published-commit"])
def test_killed_while_going_live(lone_rig: Rig, tmp_path: Path, place: str) -> None:
    rig, log, mark = lone_rig, tmp_path / "log", tmp_path / "struck"
    rig.want(VIEWS)
    child = rig.child(log, failpoint=f"{place}:1:{mark}")
    try:
        struck(child, mark)
    finally:
        child.kill()
    child = rig.child(log)
    try:
        settle(rig)
        # Killed again while a view is built that replaces one: its rows that go must be told.
        mark.unlink()
        child.kill()
        rig.want(
            "create materialized view cards as select id, balance, owner from accounts where id > 5", only=["cards"]
        )
        child = rig.child(log, failpoint=f"{place}:1:{mark}")
        struck(child, mark)
        child.kill()
        child = rig.child(log)
        settle(rig)
    finally:
        child.kill()


def test_killed_while_it_begins_with_mirrors(lone_rig: Rig, tmp_path: Path) -> None:
    """The mirrors were copied, and the first epoch was made of them: it is begun again, or goes on."""
    rig, log = lone_rig, tmp_path / "log"
    rig.want(VIEWS)
    child = rig.child(log)
    try:
        settle(rig)
        before = rig.group("cards").spec.id
        child.kill()
        apply_again(rig.registry, [*rig.definitions], from_mirrors=True)
        for place in ("seed-taken", "seeded"):
            mark = tmp_path / place
            child = rig.child(log, failpoint=f"{place}:1:{mark}")
            struck(child, mark)
            child.kill()
        child = rig.child(log)
        rig.connection.execute("update accounts set balance = balance + 1")
        eventually(lambda: rig.group("cards").spec.seed_from == before, DEADLINE_S)
        settle(rig)
        assert seed.found(rig.group("cards")) is None
    finally:
        child.kill()


def test_the_driver_is_killed_at_random_under_load(lone_rig: Rig, tmp_path: Path) -> None:
    """Its JVM and workers may still be at work when the next one begins."""
    rig, log, draw = lone_rig, tmp_path / "log", random.Random()
    rig.want(VIEWS)
    children: list[Child] = []
    with written(rig, pause_s=0.02):
        for _ in range(3):
            child = rig.child(log)
            children.append(child)
            eventually(lambda child=child: is_at_work(rig, child), DEADLINE_S)  # type: ignore[misc]
            time.sleep(draw.uniform(0, 1.0))  # not a wait: the moment is what is drawn
            child.kill_driver()
    child = rig.child(log)
    try:
        settle(rig)
        child.stop()
    finally:
        for each in (*children, child):
            each.kill()


def is_at_work(rig: Rig, child: Child) -> bool:
    state = rig.registry.state()
    return state.pid == child.process.pid and state.epochs.changes > 0
