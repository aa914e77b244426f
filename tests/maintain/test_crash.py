"""Killed at every place between two effects of an epoch, and at random: the views are exact afterwards, every change is
told once, and each begins where the last one ended."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import msgspec
import psycopg
import pytest

from headwater.deployment import Deployment
from headwater.views.apply import apply_again
from tests.maintain.rig import Child, Rig
from tests.sinks.places import kind_at
from tests.waiting import eventually
from views.generation import GenerationState
from views.maintain import seed
from views.maintain.failpoints import PLACES
from views.maintain.orders import Order, Orders, Verb
from views.maintain.registry import Wanted
from views.rebuild import Origin, Rebuild, RebuildState, Stage

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


def test_killed_while_going_live(lone_rig: Rig, tmp_path: Path) -> None:
    """For the first time, and in the place of another: then the rows that go must be told."""
    rig, log = lone_rig, tmp_path / "log"
    changed = "create materialized view cards as select id, balance, owner from accounts where id > 5"
    for text, chosen in ((VIEWS, ()), (changed, ("cards",))):
        rig.want(text, only=chosen)
        for place in ("published-some", "published-commit"):
            mark = tmp_path / f"{place}-{len(chosen)}"
            child = rig.child(log, failpoint=f"{place}:1:{mark}")
            try:
                struck(child, mark)
            finally:
                child.kill()
        child = rig.child(log)
        try:
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


def test_killed_while_a_definition_is_left_and_taken_back(lone_rig: Rig, tmp_path: Path) -> None:
    """Whether what was left is kept fed or lost by that: readers have what is wanted in the end."""
    rig, log = lone_rig, tmp_path / "log"
    one = "create materialized view cards as select id, balance from accounts where id > 3"
    other = one.replace("> 3", "> 5")
    rig.want(one)
    child = rig.child(log, failpoint=f"left:1:{tmp_path / 'left'}")
    try:
        settle(rig)
        with written(rig):
            rig.want(other)
            struck(child, tmp_path / "left")
            child.kill()
            child = rig.child(log, failpoint=f"taken-back:1:{tmp_path / 'taken-back'}")
            rig.reached("cards", timeout_s=DEADLINE_S)
            rig.want(one)
            rig.reached("cards", timeout_s=DEADLINE_S)
            eventually(lambda: [each.is_ready for each in rig.registry.state().standbys] == [True], DEADLINE_S)
            rig.want(other)
            struck(child, tmp_path / "taken-back")
        child.kill()
        child = rig.child(log)
        rig.settled(timeout_s=DEADLINE_S)
        child.stop()
    finally:
        child.kill()


def test_killed_while_a_rebuild_computes_its_view_anew(lone_rig: Rig, deployment: Deployment, tmp_path: Path) -> None:
    """From the log into the index, then from the mirrors into the cache. Each is cut off while changes come, goes on,
    and is shown once it is equal; what was left is a standby that is fed."""
    rig, log = lone_rig, tmp_path / "log"
    sinks = {"search": asdict(deployment.elasticsearch), "cache": asdict(deployment.redis)}
    rig.sinks = {name: kind_at(name, at) for name, at in sinks.items()}
    rig.want(VIEWS.replace("cards as", "cards with (sinks = 'search, cache') as", 1), only=["cards"])
    child = rig.child(log, failpoint=f"computed-beside:1:{tmp_path / 'log-struck'}", sinks=sinks)
    try:
        settle(rig)
        for sink in sinks:
            rig.sunk_equals("cards", sink, DEADLINE_S)
        first = killed_while_it_computes(rig, child, "search", Origin.LOG, tmp_path / "log-struck")
        child = rig.child(log, failpoint=f"seeded:1:{tmp_path / 'mirrors-struck'}", sinks=sinks)
        rebuilt(rig, first)
        second = killed_while_it_computes(rig, child, "cache", Origin.MIRRORS, tmp_path / "mirrors-struck")
        child = rig.child(log, sinks=sinks)
        rebuilt(rig, second)
        settle(rig)
        child.stop()
    finally:
        child.kill()


def killed_while_it_computes(rig: Rig, child: Child, sink: str, origin: Origin, mark: Path) -> Order:
    """Changes come until it is dead."""
    order = Order(Verb.REBUILD, "cards", sink, origin=origin, applied_at_s=time.time())
    Orders(rig.registry.folder).give(order)
    eventually(lambda: rig.registry.book().rebuild(order.id) is not None, DEADLINE_S)
    with written(rig):
        cards = msgspec.structs.replace(
            rig.registry.wanted().views["cards"],
            applied_at_s=order.applied_at_s,
            batch=order.id,
            from_mirrors=origin is Origin.MIRRORS,
            is_compared=True,
        )
        rig.registry.want(Wanted({"cards": cards}))
        struck(child, mark)
        child.kill()
    cut_off = rig.registry.book().rebuild(order.id)
    assert cut_off is not None
    assert (cut_off.stage, cut_off.state) == (Stage.COMPUTE, RebuildState.RUNNING)
    return order


def rebuilt(rig: Rig, order: Order) -> None:
    """To the end that it would have come to: equal, and read; the one before is kept fed."""

    def ended() -> Rebuild:
        found = rig.registry.book().rebuild(order.id)
        assert found is not None
        assert found.is_over, found
        return found

    done = eventually(ended, DEADLINE_S)
    assert (done.state, done.stage, done.number, done.replaces) == (RebuildState.DONE, Stage.DONE, 2, 1), done
    assert done.checked is not None
    assert done.checked.is_equal
    states = {each.number: each.state for each in rig.registry.book().of("cards", order.sink)}
    assert states == {1: GenerationState.STANDBY, 2: GenerationState.LIVE}
    assert rig.sinks[order.sink].current(rig.capture.source.name, "cards") == 2
    rig.sunk_equals("cards", order.sink, DEADLINE_S)


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
