"""What `headwater rebuild` asks for, without servers: every view that can be, in one reading of the log."""

from __future__ import annotations

import io
import json
import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import psycopg
import pytest

from cdc.errors import ConfigurationError, LogError, ViewError
from cdc.position import Position
from headwater import cli, rebuild_plans, rebuilds
from headwater.deployment import Deployment
from headwater.settings import Settings
from headwater.stack.state import StackState
from headwater.views import apply
from headwater.views.apply import Applied, decide
from headwater.views.place import Place
from tests.headwater.typed import Typed
from views.generation import Generation, GenerationState
from views.maintain.book import Book
from views.maintain.orders import Answer, Order
from views.maintain.registry import Registry, Standby, State, ViewState, ViewStatus, Wanted, WantedView
from views.maintain.wanting import LOG_LOST
from views.rebuild import Checked, Origin, Rebuild, RebuildState, Sizes, Stage, explain

TEXT = "create materialized view {} {} as select id from items"
SINKS = {"cached": "cache, search", "found": "search", "told": "alerts", "nowhere": ""}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    made = Place(Deployment.of(Settings(), StackState()), Registry(tmp_path / "state"), tmp_path)
    views = {
        name: WantedView(TEXT.format(name, f"with (sinks = '{sinks}')" if sinks else ""), [], 1.0, name)
        for name, sinks in SINKS.items()
    }
    made.registry.want(Wanted(views))
    monkeypatch.setattr(Place, "here", classmethod(lambda cls: made))
    monkeypatch.setattr(rebuilds, "require_kept", lambda place: None)
    monkeypatch.setattr("cdc.eras.current", lambda kafka, source: SimpleNamespace(era=7, first_offset=0))
    monkeypatch.setattr(rebuild_plans, "start_of", lambda *given: 0)
    return made


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[Order]:
    given: list[Order] = []

    def ask(place: Place, order: Order) -> Answer:
        given.append(order)
        return Answer(order.id, True, "")

    monkeypatch.setattr(rebuilds, "ask", ask)
    return given


def test_every_view_is_every_view_that_can_be(place: Place) -> None:
    chosen = rebuild_plans.all_views(place)
    assert chosen.sinks == {"cached": ("cache", "search"), "found": ("search",)}
    assert chosen.left_out.keys() == {"told", "nowhere"}
    assert rebuild_plans.all_views(place, ["cache"]).sinks == {"cached": ("cache",)}
    assert rebuild_plans.all_views(place, ["cache"]).left_out["found"] == "it has no cache that holds rows"
    with pytest.raises(ConfigurationError, match="nothing to rebuild"):
        rebuild_plans.all_views(place, ["cellar"])
    with pytest.raises(ConfigurationError, match="found has no sink cache"):
        rebuild_plans.sinks_of(place, "found", ["cache"])


def test_what_is_under_way_or_waits_for_a_decision_is_left_out(place: Place) -> None:
    known = place.registry.wanted().views
    waits = WantedView(known["found"].text, [], 2.0, "b", is_reviewed=False, previous=known["found"])
    place.registry.want(Wanted({**known, "found": waits}))
    assert "found" in rebuild_plans.all_views(place).sinks, "its sinks can be filled anew from its topic"
    assert rebuild_plans.all_views(place, origin=Origin.LOG).left_out["found"].endswith("waits for a decision")
    place.registry.note_book(Book(rebuilds=(Rebuild("r1", "cached", "cache", 2, Origin.TOPIC, 1.0),)))
    assert "r1" in rebuild_plans.all_views(place).left_out["cached"]


def test_views_of_one_request_are_computed_together(place: Place, orders: list[Order]) -> None:
    begun = rebuilds.rebuild(place, rebuild_plans.all_views(place).sinks, Origin.LOG)
    wanted = place.registry.wanted().views
    assert len({wanted[name].batch for name in ("cached", "found")}) == 1
    assert {each.applied_at_s for each in orders} == {wanted["cached"].applied_at_s}
    assert [(each.view, each.sink) for each in orders] == [
        ("cached", "cache"),
        ("cached", "search"),
        ("found", "search"),
    ]
    assert begun == rebuilds.Begun(tuple(each.id for each in orders))
    assert wanted["told"].applied_at_s == 1.0


def test_nothing_is_computed_for_what_will_be_refused(place: Place, orders: list[Order]) -> None:
    place.registry.note_book(Book(rebuilds=(Rebuild("r1", "cached", "search", 2, Origin.TOPIC, 1.0),)))
    before = place.registry.wanted()
    with pytest.raises(ViewError, match="is being rebuilt already"):
        rebuilds.rebuild(place, {"cached": ["cache", "search"]}, Origin.LOG)
    assert (place.registry.wanted(), orders) == (before, [])


def refusing(place: Place, monkeypatch: pytest.MonkeyPatch, *refused: str, silent: bool = False) -> list[Order]:
    """Somebody who keeps the views, and refuses those sinks; or has stopped to answer."""
    given: list[Order] = []

    def ask(place: Place, order: Order) -> Answer:
        given.append(order)
        is_done = order.sink not in refused
        answer = Answer(order.id, is_done, f"{order.sink}: no room")
        known = place.registry.book()
        if is_done or not silent:
            place.registry.note_book(Book(answers=(*known.answers, answer)))
        if not is_done:
            raise ViewError(answer.fact, hint="make room")
        return answer

    monkeypatch.setattr(rebuilds, "ask", ask)
    return given


SEVERAL = {"cached": ["cache", "search"], "found": ["search"]}


def test_one_that_is_refused_keeps_none_of_the_others(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    given = refusing(place, monkeypatch, "cache")
    begun = rebuilds.rebuild(place, SEVERAL)
    assert begun.ids == tuple(each.id for each in given if each.sink == "search")
    assert begun.refused == (rebuilds.NotBegun("cached", "cache", "cache: no room"),)
    refusing(place, monkeypatch, "cache", "search")
    with pytest.raises(ViewError, match="no rebuild was begun") as told:
        rebuilds.rebuild(place, SEVERAL)
    assert "search of found: search: no room" in told.value.detail
    with pytest.raises(ViewError, match="cache: no room"):
        rebuilds.rebuild(place, {"cached": ["cache"]})


def test_who_does_not_answer_is_not_asked_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    given = refusing(place, monkeypatch, "search", silent=True)
    begun = rebuilds.rebuild(place, SEVERAL)
    assert (len(given), len(begun.ids)) == (2, 1)
    assert [(each.view, each.why) for each in begun.refused] == [
        ("cached", "search: no room"),
        ("found", "it was not asked for"),
    ]


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_what_was_begun_and_what_was_not_is_told(
    place: Place, flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rebuild_plans, "plan", lambda *given, **named: ())
    action = SimpleNamespace(result={})
    monkeypatch.setattr("headwater.audit.audited", lambda *given, **named: nullcontext(action))
    refusing(place, monkeypatch, "search")
    assert cli.run(["rebuild", "cached", "--yes", "--no-wait", *flags]) == 1
    told = capsys.readouterr()
    if flags:
        said = json.loads(told.out)
        assert said["refused"] == [{"view": "cached", "sink": "search", "why": "search: no room"}]
        assert len(said["rebuilds"]) == 1
    else:
        assert "search of cached is not rebuilt: search: no room" in told.err
        assert "under way: " in told.out
    assert action.result["refused"] == "search of cached: search: no room"


@pytest.mark.parametrize("origin", [Origin.LOG, Origin.MIRRORS])
def test_a_log_without_its_beginning_is_refused_before_anything_is_computed(
    place: Place, orders: list[Order], monkeypatch: pytest.MonkeyPatch, origin: Origin
) -> None:
    def lost(*given: object) -> int:
        assert given[-1] == {"public.items": 12}, "what a snapshot brought in this era"
        raise LogError(LOG_LOST, detail="era 7 began at 0, without a gap it begins at 20", hint="headwater recover")

    monkeypatch.setattr(rebuild_plans, "start_of", lost)
    known = place.registry.wanted().views["cached"]
    brought = msgspec.structs.replace(known, skip_before={"public.items": 12}, era=7)
    other = msgspec.structs.replace(known, skip_before={"public.shelves": 3}, era=6)
    place.registry.want(Wanted({"cached": brought, "found": other}))
    before = place.registry.wanted()
    with pytest.raises(ViewError, match="cannot be computed from the log") as refused:
        rebuild_plans.plan(place, "cached", ["cache"], origin)
    assert refused.value.hint == "headwater rebuild cached --from snapshot"
    with pytest.raises(ViewError, match="cached, found cannot be computed from the log"):
        rebuilds.rebuild(place, {"cached": ["cache"], "found": ["search"]}, origin)
    assert (place.registry.wanted(), orders) == (before, [])


def test_what_is_computed_anew_is_compared_before_it_is_shown(place: Place, orders: list[Order]) -> None:
    rebuilds.rebuild(place, {"cached": ["cache"]}, Origin.MIRRORS)
    wanted = place.registry.wanted().views["cached"]
    assert (wanted.is_compared, wanted.from_mirrors) == (True, True)
    assert not place.registry.wanted().views["found"].is_compared


@pytest.mark.parametrize("switches", [True, False])
def test_the_plan_says_what_is_compared_before_readers_have_it(switches: bool) -> None:
    sizes = Sizes(10, 10, 10, 1_000, 1.0, 1.0, is_measured=False)
    steps = explain("cached", "cache", Origin.LOG, sizes, switches=switches, keep_s=3600)
    texts = [step.text for step in steps]
    order = [
        "compute cached anew, unseen",
        "compare every row of it with its SQL",
        "publish what differs",
        "write 10 rows",
    ]
    if not switches:
        order.insert(2, "wait for `headwater switch cached`")
    assert [text[: len(start)] for text, start in zip(texts, order, strict=False)] == order
    assert texts[-2] == "switch readers over in one step"


def test_gone_back_to_is_what_was_computed_and_not_where_it_was_written(place: Place) -> None:
    """The generation that a computing rebuild left has its rows, too."""
    asked_at_s, left_at_s, switched_at_s = 10.0, 12.0, 14.0
    standby = Generation("cached", "cache", 1, GenerationState.STANDBY, switched_at_s)
    for origin, is_definition in ((Origin.LOG, True), (Origin.TOPIC, False)):
        done = Rebuild("r1", "cached", "cache", 2, origin, asked_at_s, replaces=1, state=RebuildState.DONE)
        known = Book(generations=(standby,), rebuilds=(done,))
        assert (left_at_s > rebuilds._left_at_s(known, "cached")) is is_definition


def test_a_definition_comes_back_that_was_looked_at_and_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A form that is sent twice, or by two people."""
    asked: list[str] = []

    def go_back(registry: Registry, standby: Standby) -> Applied:
        asked.append(standby.group)
        return Applied((standby.view,), (), "b", 2.0)

    monkeypatch.setattr(rebuilds, "go_back", go_back)
    monkeypatch.setattr(rebuilds, "wait", lambda *given: iter(()))
    place.registry.note(State(standbys=[Standby("cached", "g1", 5.0, 9.0, is_ready=True)]))
    assert "have the definition again" in rebuilds.restore(place, "cached", "g1")
    known = place.registry.wanted().views
    back = msgspec.structs.replace(known["cached"], goes_back_to="g1")
    place.registry.want(Wanted({**known, "cached": back}))
    assert "already" in rebuilds.restore(place, "cached", "g1"), "asked for, and not shown yet"
    place.registry.note(State(standbys=[Standby("cached", "g2", 6.0, 9.0, is_ready=True)]))
    assert "already" in rebuilds.restore(place, "cached", "g1"), "and shown"
    with pytest.raises(ViewError, match="view cached changed since you looked"):
        rebuilds.restore(place, "cached", "g0")
    failed = {"cached": ViewStatus(ViewState.LIVE, applied_at_s=1.0, failed="the log is gone")}
    place.registry.note(State(views=failed, standbys=[Standby("cached", "g1", 5.0, 9.0, is_ready=True)]))
    rebuilds.restore(place, "cached", "g1")
    assert asked == ["g1", "g1"], "what failed is tried again"
    place.registry.note(State(standbys=[Standby("cached", "g2", 6.0, 9.0, is_ready=True)]))
    rebuilds.restore(place, "cached")
    assert asked == ["g1", "g1", "g2"], "who names none means the last"


def test_what_is_decided_was_looked_at(place: Place) -> None:
    known = place.registry.wanted().views
    waits = WantedView(known["found"].text, [], 2.25, "b", is_reviewed=False, previous=known["found"])
    place.registry.want(Wanted({**known, "found": waits}))
    for approve in (True, False):
        with pytest.raises(ViewError, match="view found changed since you looked") as refused:
            decide(place.registry, ["found"], approve=approve, seen={"found": 1.0})
        assert refused.value.hint == "load the page again"
    assert not place.registry.wanted().views["found"].is_reviewed
    decide(place.registry, ["found"], approve=False, seen={"found": 2.25})
    assert place.registry.wanted().views["found"] == known["found"]


def test_the_plan_of_all_says_what_is_left_out(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rebuild_plans, "plan", lambda *given, **named: ())
    assert cli.run(["rebuild", "--all", "--sink", "search", "--plan"]) == 0
    assert "told is left out: it has no search that holds rows" in capsys.readouterr().err
    assert cli.run(["rebuild", "nowhere", "--plan"]) == 2


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_nothing_begins_that_nobody_was_asked_about(
    place: Place,
    orders: list[Order],
    flags: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(rebuild_plans, "plan", lambda *given, **named: ())
    monkeypatch.setattr("headwater.audit.audited", lambda *given, **named: nullcontext(SimpleNamespace(result={})))
    asked = ["rebuild", "cached", "--no-wait", *flags]
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert cli.run(asked) == 2, "that is no terminal"
    told = capsys.readouterr()
    assert "--yes" in (told.out if flags else told.err)
    for answer, code in (("n\n", 130), ("y\n", 0)):
        monkeypatch.setattr("sys.stdin", Typed(answer))
        assert orders == []
        assert cli.run(asked) == (2 if flags else code), "who wants JSON is a program, also on a terminal"
    orders.clear()
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert cli.run([*asked, "--yes"]) == 0
    assert [each.sink for each in orders] == ["cache", "search"]


def test_the_archive_is_read_too(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    log = SimpleNamespace(bounds=lambda: (Position(7, 100), Position(7, 5_000)))
    monkeypatch.setattr(rebuild_plans, "log_of", lambda deployment: log)
    for first, records in ((0, 4_900), (1_000, 4_000)):
        monkeypatch.setattr("cdc.eras.current", lambda kafka, source, first=first: SimpleNamespace(first_offset=first))
        assert rebuild_plans._log_records(place.deployment) == (records, 5_000)


def test_who_is_kept_together_is_known(place: Place) -> None:
    views = {
        "cached": ViewStatus(ViewState.LIVE, "g"),
        "found": ViewStatus(ViewState.BUILDING, "h", serving="g"),
        "told": ViewStatus(ViewState.LIVE, "h", serving="h"),
        "nowhere": ViewStatus(ViewState.WAITING),
    }
    place.registry.note(State(views=views))
    assert [rebuilds.kept_with(place, name) for name in views] == [("found",), ("cached",), (), ()]
    assert rebuilds.kept_with(place, "unknown") == ()


def _done(id_: str, **given: object) -> Rebuild:
    began = {Stage.FILL: 100.0, Stage.CATCH_UP: 5_000.0, Stage.VERIFY: 5_001.0, Stage.SWITCH: 5_051.0}
    made = Rebuild(id_, "cached", "search", 2, Origin.TOPIC, 1.0, state=RebuildState.DONE, began=began)
    return msgspec.structs.replace(made, **given)


def test_what_was_measured_is_work_and_not_pauses() -> None:
    whole = _done("r1", filled=1_000_000, filled_s=50.0, checked=Checked(True, 1_000_000))
    small = _done("r2", filled=30, filled_s=1.0, checked=Checked(True, 30))
    assert rebuild_plans._measured(Book(rebuilds=(whole, small)), "search") == 20_000, "it was paused for an hour"
    assert rebuild_plans._verified(Book(rebuilds=(whole, small)), "search") == 20_000
    assert rebuild_plans._measured(Book(rebuilds=(small,)), "search") is None
    assert rebuild_plans._verified(Book(rebuilds=(small,)), "search") is None
    assert rebuild_plans._measured(Book(rebuilds=(whole,)), "cache") is None
    assert rebuild_plans._small(Book(rebuilds=(small, whole)), "search") == small, "as long takes the smallest"
    assert rebuild_plans._small(Book(rebuilds=(whole,)), "search") is None


def test_the_plan_of_a_few_rows_says_what_every_rebuild_takes() -> None:
    """However few there are, a process begins and readers come first: it is not over in milliseconds."""
    sizes = Sizes(30, 40, 0, 0, 20_000.0, 5_000.0, True, 18_000.0, 0, 1.0, 50.0)
    steps = {step.stage: step for step in explain("cached", "search", Origin.TOPIC, sizes, switches=True, keep_s=3_600)}
    assert (steps[Stage.FILL].takes_s, steps[Stage.VERIFY].takes_s) == (1.0, 50.0)


def test_the_plan_says_how_long_verifying_takes() -> None:
    sizes = Sizes(1_000_000, 1_200_000, 0, 0, 20_000.0, 5_000.0, True, 18_000.0)
    steps = {step.stage: step for step in explain("cached", "search", Origin.TOPIC, sizes, switches=True, keep_s=3_600)}
    assert steps[Stage.FILL].takes_s == 60
    assert "1,200,000 records" in steps[Stage.FILL].text
    assert steps[Stage.VERIFY].takes_s == pytest.approx(55.6, abs=0.1)


def test_what_others_apply_while_tables_are_asked_for_stays_applied(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To ask for a snapshot takes a while; who read what was wanted before that knows of none of it."""
    registry, tables = place.registry, [{"schema_name": "public", "table_name": "items"}]
    registry.want(Wanted({"cached": WantedView("select", tables, 1.0, "cached")}))

    def applied_meanwhile(*_given: object) -> None:
        registry.want(Wanted({**registry.wanted().views, "new": WantedView("select", tables, 2.0, "new")}))

    monkeypatch.setattr(apply, "topic_state", lambda kafka, topic: SimpleNamespace(high=40))
    monkeypatch.setattr(apply, "request_snapshot", applied_meanwhile)
    connection, deployment = cast(psycopg.Connection, None), place.deployment
    read = apply.read_anew(registry, ["cached"], connection, deployment.kafka, deployment.source)
    views = registry.wanted().views
    assert (sorted(views), views["cached"].skip_before, views["new"].skip_before) == (
        ["cached", "new"],
        {"public.items": 40},
        {},
    )
    assert views["cached"].applied_at_s == read.at_s
    other = [{"schema_name": "public", "table_name": "others"}]
    monkeypatch.setattr(
        apply,
        "request_snapshot",
        lambda *_given: registry.want(Wanted({"cached": WantedView("select", other, 3.0, "cached")})),
    )
    with pytest.raises(ViewError, match="changed meanwhile"):  # of that table nobody asked for a snapshot
        apply.read_anew(registry, ["cached"], connection, deployment.kafka, deployment.source)
    assert registry.wanted().views["cached"].applied_at_s == 3.0


def test_two_who_change_what_is_wanted_take_turns(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else who writes last undoes what the other has applied."""
    registry, in_between = place.registry, threading.Event()
    read = registry.wanted
    second = threading.Thread(target=apply.apply_again, args=(registry, ["found"]))

    def slowly() -> Wanted:
        found = read()
        if threading.current_thread() is not second:
            second.start()
            second.join(0.2)
            in_between.set()
        return found

    monkeypatch.setattr(registry, "wanted", slowly)
    first = apply.apply_again(registry, ["cached"])
    second.join(30)
    assert in_between.is_set()
    views = read().views
    assert views["cached"].applied_at_s == first.at_s
    assert views["found"].applied_at_s > 1.0
