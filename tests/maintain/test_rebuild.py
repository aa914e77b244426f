"""Sinks filled anew beside those that are read, on the real thing: equal, switched, gone back to, as changes flow."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import psycopg
import pytest
from elasticsearch import ApiError, Elasticsearch, TransportError

from alerts.sink import AlertKind
from cdc.capture import request_snapshot
from cdc.events import TableName
from cdc.topics import topic_state
from headwater.deployment import Deployment
from headwater.sinks import sink_kinds
from headwater.views.apply import apply_again, go_back, read_anew
from headwater.views.checking import check, check_computed
from search.compile import EVERYTHING, live
from search.generations import IndexNames
from tests.maintain.rig import Rig, limits
from tests.waiting import eventually
from views.generation import GenerationState
from views.maintain import catch_up, jobs, runner, seed
from views.maintain.copies import take_seed
from views.maintain.group import Group
from views.maintain.jobs import LogRange, SeedRows
from views.maintain.orders import Answer, Order, Orders, Verb
from views.maintain.registry import ViewState
from views.maintain.runner import GroupRunner
from views.maintain.seed import Seed
from views.maintain.showing import Showing
from views.maintain.worker import GroupRef, NodeFailed
from views.rebuild import Checked, Origin, Rebuild, RebuildState, Stage
from views.sinks.lane import LaneState
from views.sinks.warehouse import WarehouseKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.stack, pytest.mark.spark]

SINKS = ("cache", "search", "warehouse")
CARDS = """
create materialized view cards with (sinks = 'cache, search, warehouse') as
    select i.id, i.price, s.label from items i join shelves s on s.id = i.shelf
"""
TOTALS = """
create materialized view totals with (sinks = 'cache') as
    select shelf, sum(price) as price, count(*) as items from items group by shelf
"""
OFFERS = """
create materialized view offers with (sinks = 'search, alerts') as select id, price from wares
"""
WARES = 3_000
"""As many at first: those of an even number are cheap."""
OWN = 1_400
"""Of these, as many as one writer changes."""
SAVE = """
    insert into headwater.subscriptions (owner, view, query, events, channel, unsubscribe_token, watched_column)
    values (%s, 'offers', '{"range": {"field": "price", "lte": 10}}', '{entered,left}', 'feed',
        gen_random_uuid()::text, 'price')
"""


@pytest.fixture(scope="module")
def ddl() -> str:
    return """
        create table items (id integer primary key, shelf integer, price numeric(12,2));
        create table shelves (id integer primary key, label text);
        insert into shelves values (1, 'top'), (2, 'middle');
        insert into items select n, 1 + n % 2, n from generate_series(1, 300) n;
        create table wares (id integer primary key, price integer);
    """


@pytest.fixture(scope="module")
def kept(rig: Rig, deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    warehouse = WarehouseKind(str(tmp_path_factory.mktemp("warehouse")), interval_s=0.5)
    capture = rig.capture
    alerts = AlertKind(capture.postgres, capture.kafka)
    rig.sinks = {**sink_kinds(deployment), warehouse.name: warehouse, alerts.name: alerts}

    def checked(view: str, sink: str, number: int, stop: threading.Event) -> Checked:
        return check(capture.postgres, capture.kafka, capture.source, rig.registry, rig.sinks[sink], view, number)

    def compared(view: str, group: str, stop: threading.Event) -> Checked:
        return check_computed(capture.postgres, capture.kafka, capture.source, rig.registry, view, group)

    rig.check, rig.compare = checked, compared
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


def rebuilt(rig: Rig, sink: str, view: str = "cards", **given: object) -> Rebuild:
    order = Order(Verb.REBUILD, view, sink, **given)  # type: ignore[arg-type]
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
    maintainer_check._check = lambda view, sink, number, stop: Checked(False, 300, 1, detail="one row differs")  # type: ignore[attr-defined]
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


@pytest.mark.parametrize("origin", [Origin.LOG, Origin.SNAPSHOT])
def test_a_view_is_computed_anew_from_the_source_s_rows(kept: Rig, origin: Origin, moving: Callable[[], None]) -> None:
    """It is compared before it is shown, and what readers leave is kept fed."""
    before = kept.group("cards").spec.id
    done = over(kept, computed_anew(kept, "cards", "search", origin))
    assert done.state is RebuildState.DONE, done
    assert done.computed is not None
    assert (done.computed.is_equal, done.computed.rows >= 300) == (True, True)
    group = kept.group("cards").spec
    assert (group.id != before, bool(group.skip_before)) == (True, origin is Origin.SNAPSHOT)
    assert [each.group for each in kept.registry.state().standbys if each.view == "cards"] == [before]
    moving()
    kept.sunk_equals("cards", "search")


def computed_anew(
    rig: Rig, view: str, sink: str, origin: Origin, *, switches: bool = True, skips: dict[str, int] | None = None
) -> str:
    """As `headwater rebuild` asks for it: the rebuild's id. `skips`: what it passes over, though nothing brings it."""
    capture, registry = rig.capture, rig.registry
    if origin is Origin.SNAPSHOT:
        with psycopg.connect(capture.postgres.conninfo(), autocommit=True) as connection:
            applied = read_anew(registry, [view], connection, capture.kafka, capture.source, is_compared=True)
    else:
        wanted = registry.wanted()
        views = {**wanted.views, view: msgspec.structs.replace(wanted.views[view], skip_before=skips or {})}
        registry.want(msgspec.structs.replace(wanted, views=views))
        applied = apply_again(registry, [view], is_compared=True)
    order = Order(Verb.REBUILD, view, sink, origin=origin, applied_at_s=applied.at_s, switches=switches)
    assert asked(rig, order).is_done
    return order.id


def without_items(rig: Rig) -> dict[str, int]:
    """What to pass over so that no item is there but those that come: their table is not read anew, the other is."""
    end = topic_state(rig.capture.kafka, rig.capture.source.changes_topic).high
    request_snapshot(rig.connection, [TableName("public", "shelves")])
    return {"public.items": end, "public.shelves": end}


def is_kept_by(rig: Rig, view: str, group: str) -> None:
    """Live, from that group, as if nothing had been asked."""

    def is_so() -> None:
        status = rig.status(view)
        assert status is not None
        assert (status.state, status.group, status.serving) == (ViewState.LIVE, group, group)

    eventually(is_so, 30)


def test_one_that_lacks_rows_is_given_up_and_nobody_has_seen_it(kept: Rig) -> None:
    kept.settled("cards")
    group, told = kept.group("cards").spec.id, len(list(kept.told("cards")))
    failed = over(kept, computed_anew(kept, "cards", "cache", Origin.LOG, skips=without_items(kept)))
    assert (failed.state, failed.stage) == (RebuildState.FAILED, Stage.COMPUTE)
    assert "not what Postgres has" in failed.reason
    assert failed.reason.endswith("headwater verify cards --history --json")
    is_kept_by(kept, "cards", group)
    assert len(list(kept.told("cards"))) == told
    kept.connection.execute("insert into items values (972, 1, 5)")
    kept.settled("cards")
    kept.sunk_equals("cards", "cache")


def test_one_that_cannot_be_computed_leaves_the_view_as_it_is(kept: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    group, run = kept.group("cards").spec.id, runner.run_epoch
    known = set(kept.registry.groups.iterdir())

    def fails(spark: SparkSession, records: LogRange | SeedRows, ref: GroupRef) -> object:
        if ref.folder in known:
            return run(spark, records, ref)
        failed = NodeFailed("division by zero")
        failed.nodes = (0,)
        raise failed

    with monkeypatch.context() as patched:
        patched.setattr(runner, "run_epoch", fails)
        failed = over(kept, computed_anew(kept, "cards", "cache", Origin.LOG))
    assert failed.state is RebuildState.FAILED
    assert "division by zero" in failed.reason
    is_kept_by(kept, "cards", group)
    kept.connection.execute("insert into items values (973, 1, 5)")
    kept.sunk_equals("cards", "cache")
    assert over(kept, computed_anew(kept, "cards", "cache", Origin.LOG)).state is RebuildState.DONE


def test_what_was_computed_waits_for_a_person_and_is_gone_back_from(kept: Rig) -> None:
    """What is read lacks rows, and what is computed does not: nobody has them before the switch, everybody after it,
    and nobody again when they go back. To compute it anew is never to take back what was left."""
    wanted = kept.registry.wanted()
    lacking = msgspec.structs.replace(wanted.views["cards"], skip_before=without_items(kept))
    kept.registry.want(msgspec.structs.replace(wanted, views={**wanted.views, "cards": lacking}))
    apply_again(kept.registry, ["cards"])
    kept.connection.execute("insert into items values (974, 1, 5)")
    kept.reached("cards")

    def has(rows: int) -> None:
        assert len(kept.sunk("cards", "cache")) == rows

    eventually(lambda: has(1), 60)
    left = kept.group("cards").spec.id
    id_ = computed_anew(kept, "cards", "cache", Origin.LOG, switches=False)
    ready = over(kept, id_)
    assert (ready.state, ready.stage) == (RebuildState.READY, Stage.COMPUTE)
    has(1)
    assert asked(kept, Order(Verb.SWITCH, "cards")).is_done
    done = eventually(lambda: is_done(kept, id_), 120)
    assert done.computed is not None
    kept.sunk_equals("cards", "cache")
    [standby] = [each for each in kept.registry.state().standbys if each.view == "cards"]
    assert standby.group == left
    go_back(kept.registry, standby)
    eventually(lambda: has(1), 60)
    is_kept_by(kept, "cards", left)
    anew = over(kept, computed_anew(kept, "cards", "cache", Origin.LOG))
    assert (anew.state, anew.computed is not None) == (RebuildState.DONE, True)

    def is_another() -> None:
        assert kept.group("cards").spec.id not in (left, standby.group)

    eventually(is_another)
    kept.sunk_equals("cards", "cache")


def is_done(rig: Rig, id_: str) -> Rebuild:
    found = rig.registry.book().rebuild(id_)
    assert found is not None
    assert found.state is RebuildState.DONE, found
    return found


def test_rows_that_never_rest_are_compared(kept: Rig, moving: Callable[[], None]) -> None:
    """Both groups have them at moments of their own."""
    kept.want(TOTALS)

    def is_fed() -> None:
        assert [each.state for each in kept.registry.state().sinks if each.view == "totals"] == [LaneState.RIDING]

    eventually(is_fed, 60)
    done = over(kept, computed_anew(kept, "totals", "cache", Origin.LOG))
    assert done.state is RebuildState.DONE, done
    moving()
    kept.sunk_equals("totals", "cache")
    kept.drop("totals")


def computing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str, str]:
    """A rebuild whose view is computed anew, and would be shown but for a word: its id, the old group and the new."""
    monkeypatch.setattr(Showing, "may_show", lambda self, runner: False)
    old = rig.group("cards").spec.id
    at_s = apply_again(rig.registry, ["cards"]).at_s
    order = Order(Verb.REBUILD, "cards", "cache", origin=Origin.LOG, applied_at_s=at_s)
    assert asked(rig, order).is_done

    def has_read() -> str:
        found, status = rig.registry.book().rebuild(order.id), rig.status("cards")
        assert found is not None
        assert status is not None
        assert (found.stage, status.state) == (Stage.COMPUTE, ViewState.BUILDING)
        assert found.total >= found.done > 300, found
        return status.group

    return order.id, old, eventually(has_read, 60)


def test_one_that_is_cancelled_while_it_is_computed_leaves_the_view_as_it_is(
    kept: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as held:
        id_, old, new = computing(kept, held)
        answer = asked(kept, Order(Verb.CANCEL, rebuild=id_))
        assert (answer.is_done, "the view stays as it is" in answer.fact) == (True, True), answer
    eventually(lambda: not (kept.registry.groups / new).exists())
    kept.connection.execute("insert into items values (970, 1, 5)")
    kept.settled("cards")
    status = kept.status("cards")
    assert status is not None
    assert (status.state, status.group, status.serving) == (ViewState.LIVE, old, old)
    kept.sunk_equals("cards", "cache")


def test_one_that_is_paused_while_it_is_computed_goes_on_when_told(kept: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept.maintainer is not None
    with monkeypatch.context() as held:
        id_, old, new = computing(kept, held)
        assert asked(kept, Order(Verb.PAUSE, rebuild=id_)).is_done
        eventually(lambda: new not in kept.maintainer._catch_up.threads)  # nobody reads for it, or shows it
    kept.connection.execute("insert into items values (971, 1, 5)")
    kept.sunk_equals_now("cards", "cache")
    status = kept.status("cards")
    assert status is not None
    assert (status.state, status.serving) == (ViewState.BUILDING, old)
    assert asked(kept, Order(Verb.RESUME, rebuild=id_)).is_done
    assert over(kept, id_).state is RebuildState.DONE
    assert kept.group("cards").spec.id == new
    kept.sunk_equals("cards", "cache")


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
        at_s = apply_again(kept.registry, ["cards"], from_mirrors=True, is_compared=True).at_s
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
        [status] = [each for each in kept.registry.state().sinks if (each.view, each.sink) == ("cards", "search")]
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


# People are told of what happens while a place is rebuilt, once, and readers notice nothing


@dataclass
class Writer:
    """Commits up to 200 changes a second, each the only one of its row: something becomes cheap, or was."""

    rig: Rig
    first: int
    """Of the rows that are there, those from here on are its own."""
    turn: int = 0
    expected: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(row, event) of what was committed."""

    def run(self, stop: threading.Event) -> None:
        with psycopg.connect(self.rig.capture.postgres.conninfo(), autocommit=True) as connection:
            while not stop.wait(0.01):
                self.turn += 1
                changes = self._next()
                with connection.transaction():
                    for row, price, _ in changes:
                        connection.execute(
                            "insert into wares values (%s, %s) on conflict (id) do update set price = excluded.price",
                            [row, price],
                        )
                self.expected.update((str(row), event) for row, _, event in changes)

    def _next(self) -> list[tuple[int, int, str]]:
        """A new one; and one that becomes cheap, or was."""
        new, known = 10 * (WARES + self.first) + self.turn, self.first + self.turn
        others = [(known, 50, "left") if known % 2 == 0 else (known, 5, "entered")] if self.turn <= OWN else []
        return [(new, 5, "entered"), *others]


@dataclass
class Reader:
    """Counts by the alias, again and again: there is always an answer, and none has less than one before it."""

    client: Elasticsearch
    alias: str
    found: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def run(self, stop: threading.Event) -> None:
        everything, most = live(EVERYTHING), WARES
        while not stop.wait(0.02):
            try:
                answer = self.client.count(index=self.alias, query=everything)
            except (ApiError, TransportError) as error:
                self.wrong.append(str(error))
                continue
            if answer["count"] < most or answer["_shards"]["failed"]:
                self.wrong.append(f"after {most}: {answer}")
            most = max(most, answer["count"])
            self.found.append(answer["count"])


@pytest.fixture(scope="module")
def offered(kept: Rig) -> Rig:
    """What is there when a search is saved is no news."""
    kept.connection.execute(
        "insert into wares select n, case n %% 2 when 0 then 5 else 50 end from generate_series(1, %s) n", [WARES]
    )
    kept.want(OFFERS)
    kept.settled("offers")

    def riding() -> None:
        states = {each.sink: each.state for each in kept.registry.state().sinks if each.view == "offers"}
        assert states == {"search": LaneState.RIDING, "alerts": LaneState.RIDING}

    eventually(riding)
    return kept


@contextmanager
def written_and_read(rig: Rig, deployment: Deployment, owner: str, first: int) -> Iterator[tuple[Writer, Reader]]:
    rig.connection.execute(SAVE, [owner])
    stop = threading.Event()
    with deployment.elasticsearch.client() as client:
        writer = Writer(rig, first)
        reader = Reader(client, IndexNames(rig.capture.source.name, "offers").alias)
        threads = [threading.Thread(target=each.run, args=(stop,), daemon=True) for each in (writer, reader)]
        for thread in threads:
            thread.start()
        try:
            yield writer, reader
        finally:
            stop.set()
            for thread in threads:
                thread.join(30)


def outbox(rig: Rig, owner: str) -> Counter[tuple[str, str]]:
    """(row, event) of what this owner is to be told, once everything that is committed now was looked at."""
    lsn = str(rig.marked())

    def included() -> None:
        found = rig.connection.execute(
            "select mark->>'lsn' from headwater.alert_places"
            " where view = 'offers' and is_shown and (mark->>'lsn')::pg_lsn >= %s::pg_lsn",
            [lsn],
        ).fetchall()
        assert found, f"alerts are not at {lsn}"

    eventually(included)
    found = rig.connection.execute("select key, event from headwater.outbox where owner = %s", [owner]).fetchall()
    return Counter((str(json.loads(key)["id"]), event) for key, event in found)


@pytest.mark.parametrize("origin", [Origin.TOPIC, Origin.LOG])
def test_no_alert_is_lost_or_repeated_and_no_read_fails_while_it_is_rebuilt(
    offered: Rig, deployment: Deployment, origin: Origin
) -> None:
    rig, owner = offered, f"ada of the {origin}"
    first = [Origin.TOPIC, Origin.LOG].index(origin) * WARES // 2
    with written_and_read(rig, deployment, owner, first) as (writer, reader):
        eventually(lambda: writer.turn > 50)
        at_s = apply_again(rig.registry, ["offers"], is_compared=True).at_s if origin is Origin.LOG else 0.0
        done = rebuilt(rig, "search", "offers", origin=origin, applied_at_s=at_s)
        assert done.state is RebuildState.DONE, done
        assert done.checked is not None
        assert done.checked.is_equal
        back = asked(rig, Order(Verb.ROLLBACK, "offers", "search"))
        assert back.is_done, back
        before = writer.turn
        eventually(lambda: writer.turn > before + 50)
    rig.settled("offers")
    rig.sunk_equals("offers", "search")
    told = outbox(rig, owner)
    lost, repeated = writer.expected - told, told - writer.expected
    assert (reader.wrong, lost, repeated) == ([], Counter(), Counter())
    assert len(set(reader.found)) > 5, "it was read while it grew"
