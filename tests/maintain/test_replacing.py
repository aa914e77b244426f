"""Views that take the place of others: whichever group kept them, and whatever happens meanwhile, topics stay exact."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec
import pytest

from cdc.changelog import ChangeLog
from cdc.errors import LogError
from cdc.position import Lsn
from cdc.reader import read_range
from cdc.topics import find_topic, topic_state
from headwater.deployment import Deployment
from headwater.sinks import sink_kinds
from headwater.views.apply import apply_again, decide
from tests.maintain.rig import Rig, limits
from tests.maintain.test_rebuild import asked
from tests.waiting import eventually
from views.maintain import maintainer
from views.maintain.orders import Order, Verb
from views.maintain.publisher import Frontier, frontier_topic, read_frontiers, view_topic
from views.maintain.registry import ViewState, Wanted
from views.maintain.runner import GroupRunner
from views.maintain.wanting import LOG_LOST, Wanting

pytestmark = [pytest.mark.stack, pytest.mark.spark]

DEAR = "create materialized view dear with (sinks = 'cache') as select id, price from items where {}"
ALL = "create materialized view everything as select id, price from items"


@pytest.fixture(scope="module")
def ddl() -> str:
    return """
        create table items (id integer primary key, price integer);
        insert into items select n, n from generate_series(1, 20) n;
    """


@pytest.fixture
def kept(own_rig: Rig, deployment: Deployment) -> Iterator[Rig]:
    """Two views, kept together."""
    own_rig.sinks = {"cache": sink_kinds(deployment)["cache"]}
    own_rig.want(f"{DEAR.format('price >= 0')}; {ALL}")
    with own_rig.kept(limits()):
        own_rig.settled(timeout_s=120)
        yield own_rig


def want_reviewed(rig: Rig, text: str) -> str:
    """As `headwater apply --review` writes it down; the group that waits for somebody to look."""
    before, definition, views = rig.registry.wanted().views["dear"], rig.definitions["dear"], {}
    rig.want(text)
    rig.definitions["dear"] = definition  # readers still use it
    views = dict(rig.registry.wanted().views)
    views["dear"] = msgspec.structs.replace(views["dear"], is_reviewed=False, previous=before)
    rig.registry.want(Wanted(views))

    def is_ready() -> str:
        status = rig.status("dear")
        assert status is not None
        assert status.state is ViewState.READY, status
        return status.group

    return eventually(is_ready)


def frontier(rig: Rig, view: str) -> Frontier:
    return read_frontiers(rig.capture.kafka, rig.capture.source)[view]


def frontiers(rig: Rig, view: str) -> list[Frontier]:
    """All that were published, in order."""
    topic = frontier_topic(rig.capture.source)
    state = topic_state(rig.capture.kafka, topic)
    told = [raw for chunk in read_range(rig.capture.kafka, topic, state.low, state.high) for raw in chunk]
    return [msgspec.json.decode(raw.value, type=Frontier) for raw in told if raw.key == view.encode() and raw.value]


def groups(rig: Rig) -> set[str]:
    return {folder.name for folder in rig.registry.groups.iterdir()}


def moved(rig: Rig, view: str, after: int) -> Frontier:
    def later() -> Frontier:
        found = frontier(rig, view)
        assert found.next_offset > after
        return found

    return eventually(later)


def test_one_that_is_changed_twice_takes_the_place_of_the_last_one(kept: Rig) -> None:
    kept.want(DEAR.format("price < 15"))
    kept.settled()
    kept.want(DEAR.format("price >= 10"))
    kept.settled()
    kept.chained("dear")
    first, last = kept.group("everything").spec.id, kept.group("dear").spec.id
    eventually(lambda: {each.view for each in kept.registry.state().standbys} == {"dear"})
    [left] = kept.registry.state().standbys
    eventually(lambda: groups(kept) == {first, last, left.group})  # the first keeps the other view
    kept.connection.execute("update items set price = price + 1")
    kept.settled()
    kept.sunk_equals("dear", "cache")


def test_one_that_is_applied_again_before_it_is_shown_never_is(kept: Rig) -> None:
    waiting = want_reviewed(kept, DEAR.format("price < 15"))
    kept.want(DEAR.format("price >= 10"))
    kept.settled()
    eventually(lambda: waiting not in groups(kept))
    kept.connection.execute("update items set price = price + 1")
    kept.settled()
    kept.chained("dear")


def test_one_that_changes_nothing_does_not_lead_back(kept: Rig) -> None:
    """Its group was made long before it is shown, and is some records behind: the topic has gone on since."""
    before = frontier(kept, "dear")
    waiting = want_reviewed(kept, DEAR.format("price >= 0"))
    kept.connection.execute("insert into items values (21, 21)")
    between, told = moved(kept, "dear", before.next_offset), kept.chained("dear")
    decide(kept.registry, ["dear"], approve=True)
    eventually(lambda: frontier(kept, "dear").group == waiting)
    passed = frontiers(kept, "dear")
    assert [each.offset for each in passed] == sorted(each.offset for each in passed)
    assert [each.next_offset for each in passed] == sorted(each.next_offset for each in passed)
    assert (passed[-1].next_offset, kept.chained("dear")) == (between.next_offset, told)
    kept.settled()
    kept.sunk_equals("dear", "cache")


def test_what_changes_while_a_view_is_built_from_the_log_is_told_once_and_not_silently(kept: Rig) -> None:
    """The new group has read what the old one has still to tell: the old one stands still meanwhile."""
    maintainer, old = kept.maintainer, frontier(kept, "dear").group
    assert maintainer is not None
    with maintainer._riding._gate:  # no epoch of those that ride
        kept.connection.execute("insert into items select n, n from generate_series(100, 119) n")
        kept.connection.execute("update items set price = price + 1 where id < 10")
        kept.connection.execute("delete from items where id = 20")
        marked = kept.marked()
        eventually(lambda: marked <= last_commit(kept))
        apply_again(kept.registry, ["dear"])

        def is_ahead() -> GroupRunner:
            status = kept.status("dear")
            assert status is not None
            assert status.group != old
            new = maintainer._runners[status.group]
            assert (new.progress.lsn or 0) >= marked.value
            return new

        new = eventually(is_ahead)
        assert new.offset > maintainer._runners[old].offset
        assert not maintainer._showing.go_live(new), "the old one has to tell it first"
        assert frontier(kept, "dear").group == old
    eventually(lambda: frontier(kept, "dear").group == new.group.spec.id)
    kept.connection.execute("insert into items values (200, 200)")
    kept.settled()
    kept.chained("dear")
    loud = Counter(json.loads(key)["id"] for key, told in kept.told("dear") if told is not None and not told.silent)
    changed = [*range(100, 120), *range(1, 10), 20, 200]
    assert {id_: loud[id_] for id_ in changed} == dict.fromkeys(changed, 1)


def last_commit(rig: Rig) -> Lsn:
    """That the log holds."""
    log = ChangeLog(rig.capture.kafka, rig.capture.source)
    return max((each.end.commit_lsn for each in log.transactions(log.bounds()[0]) if each.end), default=Lsn(0))


def test_one_that_is_rejected_is_not_shown_with_what_it_was_built_with(kept: Rig) -> None:
    before = kept.registry.wanted().views
    old = kept.group("dear").spec.id
    kept.want(f"{DEAR.format('price < 15')}; {ALL} where id < 10")
    changed = kept.registry.wanted().views
    kept.registry.want(
        Wanted(
            {
                name: msgspec.structs.replace(view, is_reviewed=False, previous=before[name])
                for name, view in changed.items()
            }
        )
    )

    def are_ready() -> None:
        for view in changed:
            status = kept.status(view)
            assert status is not None
            assert status.state is ViewState.READY

    eventually(are_ready)
    decide(kept.registry, ["dear"], approve=False)
    decide(kept.registry, ["everything"], approve=True)
    kept.define(before["dear"].text)
    kept.connection.execute("update items set price = price + 1")
    kept.settled()
    assert kept.group("dear").spec.id == old
    assert kept.group("everything").spec.id != old
    kept.chained("dear")
    kept.sunk_equals("dear", "cache")


def test_one_that_is_dropped_while_the_next_is_built_leaves_nothing(kept: Rig) -> None:
    waiting = want_reviewed(kept, DEAR.format("price < 15"))
    kept.drop("dear")
    eventually(lambda: "dear" not in read_frontiers(kept.capture.kafka, kept.capture.source))
    eventually(lambda: waiting not in groups(kept))
    kept.connection.execute("update items set price = price + 1")
    kept.settled()
    assert find_topic(kept.capture.kafka, view_topic(kept.capture.source, "dear")) is None


@pytest.mark.parametrize(("fact", "state"), [("no broker answers", ViewState.WAITING), (LOG_LOST, ViewState.PAUSED)])
def test_one_that_cannot_be_begun_leaves_the_last_one_fed(
    kept: Rig, monkeypatch: pytest.MonkeyPatch, fact: str, state: ViewState
) -> None:
    monkeypatch.setattr(maintainer, "RETRY_S", 0.5)
    begin, group = Wanting._begin, frontier(kept, "dear").group

    def refused(_self: Wanting, _views: Mapping[str, object]) -> None:
        raise LogError(fact, hint="wait")

    monkeypatch.setattr(Wanting, "_begin", refused)
    kept.want(DEAR.format("price >= 10"))

    def is_told() -> None:
        status = kept.status("dear")
        assert status is not None
        assert (status.state, status.group) == (state, group)
        assert fact in status.reason

    eventually(is_told)
    kept.connection.execute("insert into items values (30, 30)")
    moved(kept, "dear", frontier(kept, "dear").next_offset - 1)
    monkeypatch.setattr(Wanting, "_begin", begin)
    if state is ViewState.PAUSED:
        kept.want(DEAR.format("price >= 10"))
    kept.settled()
    kept.sunk_equals("dear", "cache")


def test_what_was_paused_is_so_after_a_restart_and_forgotten_with_its_view(
    own_rig: Rig, deployment: Deployment
) -> None:
    rig = own_rig
    rig.sinks = {"cache": sink_kinds(deployment)["cache"]}
    rig.want(DEAR.format("price >= 0"))
    with rig.kept(limits()):
        rig.settled(timeout_s=120)
        rig.sunk_equals("dear", "cache")
        assert asked(rig, Order(Verb.HOLD, "dear", "cache", by="ada")).is_done
        assert asked(rig, Order(Verb.HOLD, "dear", by="ada")).is_done
    noted = rig.registry.state().at_s
    with rig.kept(limits()):
        eventually(lambda: rig.registry.state().at_s > noted)
        status = rig.status("dear")
        assert status is not None
        assert status.state is ViewState.HELD
        rig.drop("dear")
        kind, source = rig.sinks["cache"], rig.capture.source.name
        eventually(lambda: kind.current(source, "dear") is None)
        rig.want(DEAR.format("price >= 10"))
        rig.settled()
        rig.sunk_equals("dear", "cache")
