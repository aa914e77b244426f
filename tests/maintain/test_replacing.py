"""Views that take the place of others: whichever group kept them, and whatever happens meanwhile, topics stay exact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
import pytest

from cdc.errors import LogError
from cdc.reader import read_range
from cdc.topics import find_topic, topic_state
from headwater.deployment import Deployment
from headwater.sinks import sink_kinds
from headwater.views.apply import decide
from tests.maintain.rig import Rig, limits
from tests.maintain.test_rebuild import asked
from tests.waiting import eventually
from views.maintain import maintainer
from views.maintain.maintainer import LOG_LOST, Maintainer
from views.maintain.orders import Order, Verb
from views.maintain.publisher import Frontier, frontier_topic, read_frontiers, view_topic
from views.maintain.registry import ViewState, Wanted

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
    eventually(lambda: len(groups(kept)) == 2)  # the one between them is gone, the first keeps the other view
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
    begin, group = Maintainer._begin, frontier(kept, "dear").group

    def refused(_self: Maintainer, _views: Mapping[str, object]) -> None:
        raise LogError(fact, hint="wait")

    monkeypatch.setattr(Maintainer, "_begin", refused)
    kept.want(DEAR.format("price >= 10"))

    def is_told() -> None:
        status = kept.status("dear")
        assert status is not None
        assert (status.state, status.group) == (state, group)
        assert fact in status.reason

    eventually(is_told)
    kept.connection.execute("insert into items values (30, 30)")
    moved(kept, "dear", frontier(kept, "dear").next_offset - 1)
    monkeypatch.setattr(Maintainer, "_begin", begin)
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
