"""Sinks filled anew beside those that are read, on the real thing: equal, switched, gone back to, as changes flow."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from headwater.deployment import Deployment
from headwater.sinks import sink_kinds
from headwater.views.apply import apply_again
from headwater.views.checking import check
from tests.maintain.rig import Rig, limits
from tests.waiting import eventually
from views.generation import GenerationState
from views.maintain import catch_up, jobs, seed
from views.maintain.copies import take_seed
from views.maintain.group import Group
from views.maintain.orders import Answer, Order, Orders, Verb
from views.maintain.runner import GroupRunner
from views.maintain.seed import Seed
from views.rebuild import Checked, Origin, Rebuild, RebuildState, Stage
from views.sinks.warehouse import WarehouseKind

pytestmark = [pytest.mark.stack, pytest.mark.spark]

SINKS = ("cache", "search", "warehouse")
CARDS = """
create materialized view cards with (sinks = 'cache, search, warehouse') as
    select i.id, i.price, s.label from items i join shelves s on s.id = i.shelf
"""


@pytest.fixture(scope="module")
def ddl() -> str:
    return """
        create table items (id integer primary key, shelf integer, price numeric(12,2));
        create table shelves (id integer primary key, label text);
        insert into shelves values (1, 'top'), (2, 'middle');
        insert into items select n, 1 + n % 2, n from generate_series(1, 300) n;
    """


@pytest.fixture(scope="module")
def kept(rig: Rig, deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    warehouse = WarehouseKind(str(tmp_path_factory.mktemp("warehouse")), interval_s=0.5)
    rig.sinks = {**sink_kinds(deployment), warehouse.name: warehouse}
    capture = rig.capture

    def checked(view: str, sink: str, number: int) -> Checked:
        return check(capture.postgres, capture.kafka, capture.source, rig.registry, rig.sinks[sink], view, number)

    rig.check = checked
    rig.want(CARDS)
    with rig.kept(limits()):
        rig.settled(timeout_s=120)
        for sink in SINKS:
            rig.sunk_equals("cards", sink)
        yield rig


def asked(rig: Rig, order: Order) -> Answer:
    Orders(rig.registry.folder).give(order)

    def answered() -> Answer:
        answer = rig.registry.book().answer(order.id)
        assert answer is not None
        return answer

    return eventually(answered, 60)


def rebuilt(rig: Rig, sink: str, **given: object) -> Rebuild:
    order = Order(Verb.REBUILD, "cards", sink, **given)  # type: ignore[arg-type]
    answer = asked(rig, order)
    assert answer.is_done, answer
    return over(rig, order.id)


def over(rig: Rig, id_: str) -> Rebuild:
    def ended() -> Rebuild:
        found = rig.registry.book().rebuild(id_)
        assert found is not None
        assert found.is_over or found.state is RebuildState.READY, found
        return found

    return eventually(ended, 120)


def current(rig: Rig, sink: str) -> int | None:
    return rig.sinks[sink].current(rig.capture.source.name, "cards")


def state(rig: Rig, sink: str, number: int) -> GenerationState | None:
    found = rig.registry.book().generation("cards", sink, number)
    return found.state if found else None


@pytest.fixture
def moving(kept: Rig) -> Iterator[Callable[[], None]]:
    """Changes flow meanwhile, until it is called."""
    stop = threading.Event()

    def move() -> None:
        turn = 0
        with psycopg.connect(kept.capture.postgres.conninfo(), autocommit=True) as connection:
            while not stop.wait(0.02):
                turn += 1
                connection.execute("update items set price = price + 1 where id = %s", [1 + turn % 250])

    def still() -> None:
        stop.set()
        thread.join()

    thread = threading.Thread(target=move, daemon=True)
    thread.start()
    yield still
    still()


@pytest.mark.parametrize("sink", SINKS)
def test_a_sink_is_rebuilt_switched_and_gone_back_to(kept: Rig, sink: str, moving: Callable[[], None]) -> None:
    before = current(kept, sink)
    assert before is not None
    done = rebuilt(kept, sink)
    assert (done.state, done.stage, done.replaces) == (RebuildState.DONE, Stage.DONE, before)
    assert done.checked is not None
    assert done.checked.is_equal
    assert current(kept, sink) == done.number
    assert state(kept, sink, before) is GenerationState.STANDBY
    moving()
    kept.connection.execute("insert into items values (900 + %s, 1, 5)", [SINKS.index(sink)])
    kept.sunk_equals("cards", sink)
    back = asked(kept, Order(Verb.ROLLBACK, "cards", sink))
    assert back.is_done, back
    assert current(kept, sink) == before
    kept.sunk_equals("cards", sink)  # it was kept fed
    forth = asked(kept, Order(Verb.ROLLBACK, "cards", sink))
    assert forth.is_done, forth
    assert current(kept, sink) == done.number
    kept.sunk_equals("cards", sink)


def test_an_answer_never_goes_back_in_time(kept: Rig, moving: Callable[[], None]) -> None:
    """What readers were told that the sink includes, it includes after each switch."""
    marks: list[int] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            found = [each.mark for each in kept.registry.state().sinks if each.sink == "cache"]
            marks.extend(mark.next_offset for mark in found if mark is not None)
            time.sleep(0.05)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    rebuilt(kept, "cache")
    for _ in range(4):
        assert asked(kept, Order(Verb.ROLLBACK, "cards", "cache")).is_done
    stop.set()
    watcher.join()
    assert marks == sorted(marks)
    assert len(set(marks)) > 1


def test_it_waits_for_a_person_who_wants_to_look_first(kept: Rig) -> None:
    before = current(kept, "cache")
    ready = rebuilt(kept, "cache", switches=False)
    assert (ready.state, ready.stage) == (RebuildState.READY, Stage.SWITCH)
    assert current(kept, "cache") == before
    assert asked(kept, Order(Verb.SWITCH, "cards")).is_done
    assert current(kept, "cache") == ready.number
    kept.sunk_equals("cards", "cache")


def test_one_that_is_not_equal_is_never_shown(kept: Rig) -> None:
    before, honest = current(kept, "cache"), kept.check
    maintainer_check = kept_rebuilder(kept)
    maintainer_check._check = lambda view, sink, number: Checked(False, 300, 1, detail="one row differs")  # type: ignore[attr-defined]
    try:
        failed = rebuilt(kept, "cache")
    finally:
        maintainer_check._check = honest  # type: ignore[attr-defined]
    assert failed.state is RebuildState.FAILED
    assert "one row differs" in failed.reason
    assert current(kept, "cache") == before
    assert state(kept, "cache", failed.number) is GenerationState.FAILED
    kept.sunk_equals("cards", "cache")


def kept_rebuilder(rig: Rig) -> object:
    assert rig.maintainer is not None
    return rig.maintainer._rebuilder


def test_one_that_was_cancelled_leaves_nothing(kept: Rig) -> None:
    before = current(kept, "cache")
    order = Order(Verb.REBUILD, "cards", "cache", switches=False)
    assert asked(kept, order).is_done
    assert asked(kept, Order(Verb.PAUSE, rebuild=order.id)).is_done
    again = asked(kept, Order(Verb.REBUILD, "cards", "cache"))
    assert not again.is_done
    assert "already" in again.fact
    assert asked(kept, Order(Verb.RESUME, rebuild=order.id)).is_done
    assert asked(kept, Order(Verb.CANCEL, rebuild=order.id)).is_done
    found = kept.registry.book().rebuild(order.id)
    assert found is not None
    assert found.state is RebuildState.CANCELLED
    assert current(kept, "cache") == before
    kind = kept.sinks["cache"]
    sink = kind.open(kept.group("cards").shape("cards", kept.capture.source), found.number)
    assert sink.mark() is None
    assert list(sink.rows()) == []


def test_a_standby_can_be_removed_before_its_time(kept: Rig) -> None:
    done = rebuilt(kept, "cache")
    assert done.replaces is not None
    assert asked(kept, Order(Verb.RETIRE, "cards", "cache", number=done.replaces)).is_done
    assert state(kept, "cache", done.replaces) is GenerationState.RETIRED
    refused = asked(kept, Order(Verb.RETIRE, "cards", "cache", number=done.number))
    assert not refused.is_done


def test_a_view_is_computed_anew_from_the_log(kept: Rig, moving: Callable[[], None]) -> None:
    wanted = kept.registry.wanted()
    kept.want(CARDS)
    at_s = kept.registry.wanted().views["cards"].applied_at_s
    assert at_s != wanted.views["cards"].applied_at_s
    done = rebuilt(kept, "search", origin=Origin.LOG, applied_at_s=at_s)
    assert done.state is RebuildState.DONE, done
    moving()
    kept.sunk_equals("cards", "search")


def test_a_view_is_computed_anew_from_its_mirrors(
    kept: Rig, moving: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One task, and level by level: with what the group that keeps it knows, and the log from there on."""
    seeds: list[Seed | None] = []

    def taken(runner: GroupRunner, group: Group) -> Seed | None:
        seeds.append(take_seed(runner, group))
        return seeds[-1]

    monkeypatch.setattr(catch_up, "take_seed", taken)
    for single_records_max in (100_000, 0):
        monkeypatch.setattr(jobs, "SINGLE_RECORDS_MAX", single_records_max)
        before = kept.group("cards")
        at_s = apply_again(kept.registry, ["cards"], from_mirrors=True).at_s
        done = rebuilt(kept, "search", origin=Origin.MIRRORS, applied_at_s=at_s)
        assert done.state is RebuildState.DONE, done
        after = kept.group("cards")
        assert (after.spec.seed_from, after.spec.id != before.spec.id) == (before.spec.id, True)
        assert seed.found(after) is None, "what was copied for it is gone"
    [count] = kept.connection.execute("select (select count(*) from items) + (select count(*) from shelves)").fetchone()
    assert [one.rows for one in seeds if one is not None] == [count, count]
    moving()
    kept.sunk_equals("cards", "search")
    kept.sunk_equals("cards", "warehouse")


def test_a_paused_sink_stands_still_and_goes_on(kept: Rig) -> None:
    assert asked(kept, Order(Verb.HOLD, "cards", "search", by="ada")).is_done
    still = sorted(kept.sunk("cards", "search"))
    kept.connection.execute("insert into items values (950, 1, 5)")
    kept.sunk_equals("cards", "cache")  # others go on

    def is_told() -> None:
        [status] = [each for each in kept.registry.state().sinks if each.sink == "search"]
        assert (status.state, status.reason) == ("paused", "paused by ada")

    eventually(is_told)
    assert sorted(kept.sunk("cards", "search")) == still
    assert asked(kept, Order(Verb.RELEASE, "cards", "search")).is_done
    kept.sunk_equals("cards", "search")
    assert not asked(kept, Order(Verb.RELEASE, "cards", "search")).is_done


def test_a_paused_view_stands_still_and_goes_on(kept: Rig) -> None:
    assert asked(kept, Order(Verb.HOLD, "cards", by="ada")).is_done
    still = sorted(kept.stored("cards"))
    kept.connection.execute("insert into items values (951, 1, 5)")

    def is_told() -> None:
        status = kept.status("cards")
        assert status is not None
        assert (status.state, status.reason) == ("held", "paused by ada")

    eventually(is_told)
    assert sorted(kept.stored("cards")) == still
    assert asked(kept, Order(Verb.RELEASE, "cards")).is_done
    kept.settled()
    kept.sunk_equals("cards", "cache")


def test_what_makes_no_sense_is_refused(kept: Rig) -> None:
    for order in (
        Order(Verb.REBUILD, "cards", "alerts"),
        Order(Verb.REBUILD, "nothing", "cache"),
        Order(Verb.SWITCH, "cards", "search"),
        Order(Verb.CANCEL, rebuild="nothing"),
        Order(Verb.HOLD, "cards", "alerts"),
        Order(Verb.HOLD, "nothing"),
    ):
        answer = asked(kept, order)
        assert not answer.is_done, order
        assert answer.hint.startswith("headwater "), answer
