"""What every sink keeps to, on its real place. The twin in memory runs along: it says what is meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cdc.errors import HeadwaterError, SinkUnavailable
from headwater.deployment import Deployment
from headwater.sinks import sink_kinds
from tests.sinks.places import MemoryKind, MemoryPlace, gone, held, mark, shape, upsert
from views.sinks.sink import Change, GoneKeys, Sink, SinkKind, nameless
from views.sinks.warehouse import WarehouseKind

pytestmark = pytest.mark.stack

Open = Callable[..., Sink]


def key(id_: int) -> bytes:
    return gone(id_, 0).key


@pytest.fixture(params=["memory", "cache", "search", "warehouse"])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> SinkKind:
    if request.param == "memory":
        return MemoryKind(MemoryPlace())
    if request.param == "warehouse":
        return WarehouseKind(str(tmp_path))
    deployment: Deployment = request.getfixturevalue("deployment")
    return sink_kinds(deployment)[request.param]


@pytest.fixture
def opened(kind: SinkKind, unique: str) -> Iterator[Open]:
    """A sink of a fresh view, ready; each call opens one of another view, or the same one again."""
    made: list[Sink] = []

    def begin(view: str = "items", generation: int = 1) -> Sink:
        sink = kind.open(shape(unique, view), generation)
        sink.prepare()
        made.append(sink)
        return sink

    yield begin
    for sink in made:
        with suppress(HeadwaterError):
            sink.drop()
        sink.close()


def test_a_new_place_is_empty(opened: Open) -> None:
    sink = opened()
    assert sink.mark() is None
    assert held(sink) == {}


def test_what_was_applied_is_there_with_its_mark(opened: Open) -> None:
    sink = opened()
    assert sink.apply([upsert(1, 10, "a"), upsert(2, 11, "b")], mark(12, offset=7)) == []
    assert held(sink) == {1: "a", 2: "b"}
    assert sink.mark() == mark(12, offset=7)


def test_the_row_is_what_was_given(opened: Open) -> None:
    sink = opened()
    label = 'größer "x" \\ \u2028 €'
    change = upsert(1, 1, label, "12345678.90")
    sink.apply([change], mark(2))
    assert held(sink) == {1: label}
    [row] = sink.rows()
    assert b"12345678.90" in row


def test_rows_are_read_by_key(opened: Open) -> None:
    sink = opened()
    first = upsert(1, 10, "a", "7.25")
    sink.apply([first, upsert(2, 11, "b"), gone(3, 12), upsert(4, 13, "d")], mark(14))
    found = sink.read([key(1), key(3), key(4), key(99)])
    assert found == {key(1): first.after, key(4): upsert(4, 13, "d").after}
    assert sink.read([]) == {}


def test_newer_wins_and_older_does_nothing(opened: Open) -> None:
    sink = opened()
    sink.apply([upsert(1, 10, "new")], mark(11))
    sink.apply([upsert(1, 5, "old")], mark(11))
    assert held(sink) == {1: "new"}
    sink.apply([upsert(1, 10, "the same version again")], mark(11))
    assert held(sink) == {1: "new"}


def test_a_row_that_is_gone_does_not_come_back(opened: Open) -> None:
    sink = opened()
    sink.apply([upsert(1, 10, "a")], mark(11))
    sink.apply([gone(1, 12)], mark(13))
    assert held(sink) == {}
    sink.apply([upsert(1, 11, "stale")], mark(13))
    assert held(sink) == {}
    sink.apply([upsert(1, 20, "again")], mark(21))
    assert held(sink) == {1: "again"}


def test_a_row_that_never_was_may_go(opened: Open) -> None:
    sink = opened()
    sink.apply([gone(1, 12)], mark(13))
    sink.apply([upsert(1, 11, "stale")], mark(13))
    assert held(sink) == {}


def test_another_process_goes_on_where_this_one_was(opened: Open) -> None:
    opened().apply([upsert(1, 1, "a")], mark(2))
    again = opened()
    assert again.mark() == mark(2)
    again.apply([upsert(1, 2, "b")], mark(3))
    assert held(again) == {1: "b"}


def test_generations_do_not_touch_each_other(opened: Open) -> None:
    one, two = opened(), opened(generation=2)
    one.apply([upsert(1, 1, "old")], mark(2))
    two.apply([upsert(1, 1, "new")], mark(2))
    one.drop()
    assert held(two) == {1: "new"}
    assert opened().mark() is None


def test_a_view_that_nobody_knows_any_more_is_removed_by_its_name(kind: SinkKind, unique: str, opened: Open) -> None:
    opened().apply([upsert(1, 1)], mark(2))
    kind.switch(unique, "items", 1)
    with closing(kind.open(nameless(unique, "items"), 1)) as sink:
        sink.drop()
    kind.switch(unique, "items", None)
    assert (opened().mark(), kind.current(unique, "items")) == (None, None)


def test_views_do_not_touch_each_other(opened: Open) -> None:
    one, two = opened("items"), opened("items_more")
    one.apply([upsert(1, 1, "one")], mark(2))
    two.apply([upsert(1, 1, "two"), upsert(2, 2, "two")], mark(3))
    one.drop()
    assert held(two) == {1: "two", 2: "two"}


def test_a_place_that_was_emptied_has_no_mark(opened: Open) -> None:
    sink = opened()
    sink.apply([upsert(1, 1, "a")], mark(2))
    opened().drop()
    assert sink.mark() is None


def test_a_place_that_was_emptied_does_not_claim_what_it_lost(opened: Open) -> None:
    sink = opened()
    sink.apply([upsert(1, 1, "a")], mark(2))
    opened().drop()
    with suppress(SinkUnavailable):
        sink.apply([upsert(2, 2, "b")], mark(3))
    assert opened().mark() is None


def test_readers_are_switched(kind: SinkKind, unique: str, opened: Open) -> None:
    opened(), opened(generation=2)
    assert kind.current(unique, "items") is None
    kind.switch(unique, "items", 1)
    assert kind.current(unique, "items") == 1
    kind.switch(unique, "items", 2)
    assert kind.current(unique, "items") == 2
    kind.switch(unique, "items", None)
    assert kind.current(unique, "items") is None


def test_many_rows(opened: Open) -> None:
    sink = opened()
    sink.apply([upsert(n, n, str(n)) for n in range(3_000)], mark(3_000))
    sink.apply([gone(n, 3_000 + n) for n in range(0, 3_000, 2)], mark(6_000))
    assert held(sink) == {n: str(n) for n in range(1, 3_000, 2)}


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Change], list[tuple[int, int]]]:
    """A view's topic, and how it is applied: ranges that begin anywhere before what was reached."""
    kinds = draw(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=20))
    topic = [upsert(id_, n, f"v{n}") if stays else gone(id_, n) for n, (id_, stays) in enumerate(kinds)]
    ranges: list[tuple[int, int]] = []
    reached = 0
    while reached < len(topic):
        start = draw(st.integers(0, reached))
        end = draw(st.integers(start + 1, len(topic)))
        ranges.append((start, end))
        reached = max(reached, end)
    again = st.tuples(st.integers(0, len(topic)), st.integers(0, len(topic)))
    ranges += [(min(pair), max(pair)) for pair in draw(st.lists(again, max_size=3))]
    return topic, ranges


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories())
def test_any_replay_ends_the_same(opened: Open, history: tuple[Sequence[Change], Sequence[tuple[int, int]]]) -> None:
    topic, ranges = history
    sink, reached = opened(), 0
    sink.drop()
    sink.prepare()
    for start, end in ranges:
        reached = max(reached, end)
        sink.apply(topic[start:end], mark(reached))
    last = {change.key: change for change in topic}
    expected = {change.version for change in last.values() if change.after is not None}
    assert {int(label[1:]) for label in held(sink).values()} == expected


def test_what_is_written_again_moves_no_mark(opened: Open) -> None:
    sink = opened()
    sink.apply([upsert(1, 10, "a"), upsert(2, 11, "b")], mark(12, offset=7))
    beside = opened()
    assert beside.again([upsert(3, 5, "held"), upsert(2, 3, "stale")]) == []
    assert held(sink) == {1: "a", 2: "b", 3: "held"}
    assert sink.mark() == mark(12, offset=7)
    sink.apply([upsert(3, 12, "newer")], mark(13))
    assert beside.again([upsert(3, 5, "held")]) == []
    assert held(sink) == {1: "a", 2: "b", 3: "newer"}
    assert sink.mark() == mark(13)


def test_what_it_remembers_of_rows_that_are_gone_is_forgotten(kind: SinkKind, opened: Open) -> None:
    sink = opened()
    sink.apply([upsert(1, 1, "ada"), upsert(2, 2, "ada"), upsert(3, 3, "bob")], mark(4))
    sink.apply([gone(1, 4), upsert(2, 5, "eve"), upsert(3, 6, "rob")], mark(7))
    theirs: Callable[[bytes], bool] = lambda row: b'"ada"' in row  # noqa: E731
    gone_keys = GoneKeys(frozenset(), lambda key: key == b'{"id":1}')
    known = {"memory": 0, "cache": 1, "search": 1, "warehouse": 3}[kind.name]  # two versions, and the end of one
    assert sink.remembered(gone_keys, theirs) == known
    assert sink.forget(gone_keys, theirs) == known
    assert (sink.remembered(gone_keys, theirs), sink.forget(gone_keys, theirs)) == (0, 0)
    assert held(sink) == {2: "eve", 3: "rob"}
    assert sink.mark() == mark(7), "it is still ours"
    sink.apply([upsert(1, 8, "again")], mark(9))
    assert held(sink) == {1: "again", 2: "eve", 3: "rob"}
