"""A lane rides while it misses nothing, follows the topic when it did, and survives what happens to its place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pytest

from cdc.addresses import KafkaAddress, Source
from cdc.reader import Raw
from cdc.topics import delete_topic
from headwater.warehouse_sql import kept_views, run_sql
from tests.sinks.places import MemoryKind, MemoryPlace, Publisher, gone, shape, upsert
from tests.waiting import eventually
from views.sinks import wholeness
from views.sinks.following import ViewTopic
from views.sinks.inbox import Delivery, Inbox
from views.sinks.lane import Lane, LaneLimits, LaneState, SinkStatus
from views.sinks.letters import Letters, letters_topic
from views.sinks.sink import Mark
from views.sinks.warehouse import WarehouseKind

pytestmark = pytest.mark.stack

LIMITS = LaneLimits(check_s=0.1, backoff_s=0.05, backoff_s_max=0.1, chunk_rows_max=3)


@dataclass
class Bench:
    place: MemoryPlace
    published: Publisher
    letters: Letters
    told: list[SinkStatus] = field(default_factory=list)
    lanes: list[Lane] = field(default_factory=list)

    def lane(self, **given: object) -> Lane:
        lane = Lane(
            MemoryKind(self.place),
            shape("lab", **given),  # type: ignore[arg-type]
            ViewTopic(self.published.kafka, self.published.topic),
            LIMITS,
            tell=self.told.append,
            letters=self.letters,
        )
        self.lanes.append(lane)
        return lane

    def rows(self) -> dict[int, str]:
        generation = self.place.pointers.get("items", 0)
        found = self.place.rows.get(("items", generation), {})
        rows = [json.loads(row) for _, row in found.values() if row is not None]
        return {row["id"]: row["label"] for row in rows}

    def settled(self, lane: Lane) -> None:
        def equal() -> None:
            assert lane.status.mark is not None
            assert lane.status.mark.next_offset == self.published.next_offset
            assert self.rows() == self.published.rows()
            assert lane.status.state is LaneState.RIDING

        eventually(equal)


@pytest.fixture
def bench(published: Publisher) -> Iterator[Bench]:
    source = Source(published.topic.partition(".")[0])
    bench = Bench(MemoryPlace(), published, Letters(published.kafka, source))
    yield bench
    for lane in bench.lanes:
        lane.stop()
    delete_topic(published.kafka, letters_topic(source))


def test_what_was_published_before_is_there(bench: Bench) -> None:
    bench.published.epoch(*(upsert(n, 0, f"a{n}") for n in range(10)))
    lane = bench.lane()
    lane.offer(bench.published.epoch(gone(3, 0)))
    bench.settled(lane)
    assert lane.status.generation == 1


def test_it_rides_without_reading_the_topic(bench: Bench) -> None:
    lane = bench.lane()
    lane.offer(bench.published.epoch(upsert(1, 0, "a")))
    bench.settled(lane)
    real, bench.published.topic = bench.published.topic, "no.such.topic"
    lane._follower = replace(lane._follower, topic=ViewTopic(bench.published.kafka, "no.such.topic"))
    after = bench.published.next_offset
    change = upsert(1, after, "b")
    bench.published.written.append(change)
    bench.published.next_offset += 1
    lane.offer(Delivery(Mark(bench.published.topic_id, after + 1), after, [change]))
    bench.settled(lane)
    bench.published.topic = real


def test_an_epoch_that_it_missed_is_read_from_the_topic(bench: Bench) -> None:
    lane = bench.lane()
    lane.offer(bench.published.epoch(upsert(1, 0, "a")))
    bench.settled(lane)
    bench.published.epoch(upsert(2, 0, "missed"), gone(1, 0))
    lane.offer(bench.published.epoch(upsert(3, 0, "c")))
    bench.settled(lane)


def test_changes_that_were_not_handed_on_are_read_from_the_topic(bench: Bench) -> None:
    lane = bench.lane()
    lane.offer(bench.published.epoch(upsert(1, 0, "a")))
    lane.offer(bench.published.epoch(*(upsert(n, 0, f"b{n}") for n in range(20)))._replace(changes=None))
    bench.settled(lane)


def test_an_epoch_without_changes_moves_the_mark(bench: Bench) -> None:
    lane = bench.lane()
    lane.offer(bench.published.epoch(upsert(1, 0, "a")))
    bench.settled(lane)
    delivery = bench.published.epoch()
    lane.offer(delivery._replace(mark=Mark(bench.published.topic_id, 1, lsn="7/7")))
    eventually(lambda: lane.status.mark is not None and lane.status.mark.lsn == "7/7")


def test_a_place_that_is_down_is_caught_up_by_itself(bench: Bench) -> None:
    lane = bench.lane()
    lane.offer(bench.published.epoch(upsert(1, 0, "a")))
    bench.settled(lane)
    bench.place.is_down = True
    for n in range(60):
        lane.offer(bench.published.epoch(upsert(n, 0, f"n{n}"), gone(n - 1, 0)))
    eventually(lambda: lane.status.state is LaneState.DOWN)
    assert "down" in lane.status.reason
    bench.place.is_down = False
    bench.settled(lane)


@pytest.mark.parametrize("how", ["everything", "rows and mark", "back to an older mark"])
def test_a_place_that_was_emptied_is_filled_again(bench: Bench, how: str) -> None:
    lane = bench.lane()
    lane.offer(bench.published.epoch(upsert(1, 0, "a"), upsert(2, 0, "b")))
    lane.offer(bench.published.epoch(upsert(3, 0, "c")))
    bench.settled(lane)
    if how == "back to an older mark":
        bench.place.marks["items", 1] = msgspec.structs.replace(bench.place.marks["items", 1], next_offset=2)
        del bench.place.rows["items", 1][b'{"id":3}']
    else:
        bench.place.rows.clear()
        bench.place.marks.clear()
    if how == "everything":
        bench.place.pointers.clear()
    bench.settled(lane)


def test_only_the_poisoned_key_is_held(bench: Bench) -> None:
    bench.place.poison = frozenset({b'{"id":2}'})
    lane = bench.lane()
    lane.offer(bench.published.epoch(*(upsert(n, 0, "a") for n in range(5))))
    eventually(lambda: sorted(bench.rows()) == [0, 1, 3, 4])
    [letter] = eventually(lambda: bench.letters.open() or False)
    assert (letter.view, letter.sink, letter.generation, letter.key, letter.error, letter.version) == (
        "items", "memory", 1, '{"id":2}', "poison", 2,
    )  # fmt: skip
    eventually(lambda: (lane.status.refused, lane.status.incomplete) == (1, 1))
    lane.offer(bench.published.epoch(upsert(1, 0, "b")))
    eventually(lambda: bench.rows()[1] == "b")
    assert bench.letters.open() == [letter]


def test_a_newer_row_that_is_taken_closes_the_letter(bench: Bench) -> None:
    bench.place.poison = frozenset({b'{"id":2}', b'{"id":3}'})
    lane = bench.lane()
    lane.offer(bench.published.epoch(*(upsert(n, 0, "a") for n in range(5))))
    eventually(lambda: lane.status.incomplete == 2)
    lane.offer(bench.published.epoch(upsert(2, 0, "b")))
    eventually(lambda: [letter.version for letter in bench.letters.open()] == [3, 5])
    assert lane.status.incomplete == 2, "the same key again is the same letter"
    bench.place.poison = frozenset({b'{"id":3}'})
    lane.offer(bench.published.epoch(upsert(2, 0, "c"), upsert(9, 0, "d")))
    eventually(lambda: [letter.key for letter in bench.letters.open()] == ['{"id":3}'])
    eventually(lambda: lane.status.incomplete == 1)


def test_letters_outlive_the_lane_and_are_closed_while_it_follows(bench: Bench) -> None:
    bench.place.poison = frozenset({b'{"id":2}'})
    lane = bench.lane()
    lane.offer(bench.published.epoch(*(upsert(n, 0, "a") for n in range(5))))
    eventually(lambda: len(bench.letters.open()) == 1)
    lane.stop()
    bench.place.poison = frozenset()
    bench.published.epoch(*(upsert(n, 0, "b") for n in range(2, 6)))  # nobody listens
    lane = bench.lane()
    lane.offer(bench.published.epoch(upsert(0, 0, "c")))
    bench.settled(lane)
    eventually(lambda: bench.letters.open() == [])
    assert lane.status.incomplete == 0


def test_what_a_person_closed_is_not_counted(bench: Bench) -> None:
    bench.place.poison = frozenset({b'{"id":2}'})
    lane = bench.lane()
    lane.offer(bench.published.epoch(upsert(2, 0, "a")))
    eventually(lambda: lane.status.incomplete == 1)
    bench.letters.close([letter.id for letter in bench.letters.open()])

    def not_counted() -> bool:
        lane.offer(bench.published.epoch(upsert(1, 0, "a")))
        return lane.status.incomplete == 0

    eventually(not_counted)


def test_a_place_that_is_filled_again_is_judged_again(bench: Bench) -> None:
    bench.place.poison = frozenset({b'{"id":2}', b'{"id":3}'})
    lane = bench.lane()
    lane.offer(bench.published.epoch(*(upsert(n, 0, "a") for n in range(5))))
    eventually(lambda: len(bench.letters.open()) == 2)
    bench.place.poison = frozenset({b'{"id":3}'})
    bench.place.rows.clear()
    bench.place.marks.clear()
    eventually(lambda: [letter.key for letter in bench.letters.open()] == ['{"id":3}'])
    eventually(lambda: lane.status.incomplete == 1)


def test_another_shape_is_another_generation(bench: Bench) -> None:
    lane = bench.lane()
    lane.offer(bench.published.epoch(upsert(1, 0, "old"), upsert(2, 0, "old")))
    bench.settled(lane)
    bench.published.since = bench.published.next_offset
    lane.offer(bench.published.epoch(upsert(1, 0, "new"), gone(2, 0)))
    bench.settled(lane)
    assert bench.place.pointers == {"items": 2}
    assert ("items", 1) not in bench.place.rows


def test_a_lane_goes_on_where_the_last_one_was(bench: Bench) -> None:
    lane = bench.lane()
    lane.offer(bench.published.epoch(upsert(1, 0, "a")))
    bench.settled(lane)
    lane.stop()
    bench.published.epoch(upsert(2, 0, "meanwhile"))
    again = bench.lane()
    again.offer(bench.published.epoch(upsert(3, 0, "c")))
    bench.settled(again)


def test_a_dropped_view_leaves_nothing(bench: Bench) -> None:
    lane = bench.lane()
    lane.offer(bench.published.epoch(upsert(1, 0, "a")))
    bench.settled(lane)
    lane.drop()
    assert (bench.place.rows, bench.place.marks, bench.place.pointers) == ({}, {}, {})


def test_what_is_shown_again_is_not_removed() -> None:
    """As when its place did not say for a moment that it is read."""
    place = MemoryPlace(rows={("items", 1): {}, ("items", 2): {}}, pointers={"items": 1})
    lane = Lane(MemoryKind(place), shape("lab"), ViewTopic(KafkaAddress("nowhere:1"), "t"), LIMITS)
    try:
        lane._show(1)
        assert (place.pointers, sorted(place.rows)) == ({"items": 1}, [("items", 1), ("items", 2)])
        lane._show(2)
        assert (place.pointers, sorted(place.rows)) == ({"items": 2}, [("items", 2)])
    finally:
        lane.stop()


def test_what_came_while_somebody_was_busy_is_taken_together() -> None:
    """As far as each goes on where the one before it ends, and its changes are there."""

    def put(*deliveries: Delivery) -> Inbox:
        inbox = Inbox(rows_max=100, deliveries_max=100, together=True)
        for each in deliveries:
            inbox.put(each)
        return inbox

    one, two = Delivery(Mark("t", 1), 0, [upsert(1, 0)]), Delivery(Mark("t", 3), 1, [upsert(2, 1), upsert(3, 2)])
    quiet = Delivery(Mark("t", 3, offset=9), 3, None)
    both = Delivery(Mark("t", 3, offset=9), 0, [upsert(1, 0), upsert(2, 1), upsert(3, 2)])
    assert put(one, two, quiet).take(0) == both
    missed, unread, anew = Delivery(Mark("t", 9), 8, []), Delivery(Mark("t", 9), 3, None), Delivery(Mark("u", 4), 3, [])
    for other in (missed, unread, anew):
        inbox = put(one, two, other)
        assert inbox.take(0) == Delivery(two.mark, 0, both.changes)
        assert inbox.take(0) == other
    assert put(unread, missed).take(0) == unread
    apart = Inbox(rows_max=100, deliveries_max=100)
    apart.put(one)
    apart.put(two)
    assert apart.take(0) == one, "who has to know the epochs apart is given them so"


def test_a_full_inbox_keeps_only_the_newest_mark() -> None:
    inbox = Inbox(rows_max=3, deliveries_max=10)
    for n in range(4):
        mark = Mark("t", n + 1)
        inbox.put(Delivery(mark, n, [upsert(1, n)]))
    assert inbox.take(0) == Delivery(Mark("t", 4), 4, None)
    assert inbox.take(0) is None


@dataclass(frozen=True)
class CompactedTopic(ViewTopic):
    """Of each key the newest record only."""

    def records(self, start: int, end: int) -> Iterator[list[Raw]]:
        every = [raw for piece in super().records(start, end) for raw in piece]
        newest = {raw.key: raw.offset for raw in every}
        yield [raw for raw in every if newest[raw.key] == raw.offset]


@dataclass(frozen=True)
class ForgetfulTopic(ViewTopic):
    """Days later: nothing is left of rows that are gone."""

    def records(self, start: int, end: int) -> Iterator[list[Raw]]:
        newest = {raw.key: raw.value or b"" for piece in super().records(0, end) for raw in piece}
        gone = {key for key, value in newest.items() if b'"after":null' in value}
        yield [raw for piece in super().records(start, end) for raw in piece if raw.key not in gone]


def test_a_place_that_stood_still_for_days_is_filled_beside_what_is_read(bench: Bench) -> None:
    """A deletion that it missed is told by nobody any more."""
    lane = bench.lane()
    lane.offer(bench.published.epoch(*(upsert(n, 0, f"a{n}") for n in range(4))))
    bench.settled(lane)
    lane.stop()
    bench.published.epoch(gone(1, 0), gone(2, 0))
    topic = ForgetfulTopic(bench.published.kafka, bench.published.topic)
    later = Lane(MemoryKind(bench.place), shape("lab"), topic, LIMITS, tell=bench.told.append, letters=bench.letters)
    bench.lanes.append(later)
    later.offer(bench.published.epoch(upsert(4, 0, "c"))._replace(changes=None))
    bench.settled(later)
    assert bench.place.pointers["items"] == 2


def test_a_history_that_is_filled_anew_keeps_what_the_topic_lost(
    published: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = WarehouseKind(str(tmp_path), interval_s=0.01)
    topic, compacted = (made(published.kafka, published.topic) for made in (ViewTopic, CompactedTopic))
    live = Lane(kind, shape("lab"), topic, LIMITS)
    delivery = published.epoch(*(upsert(n % 5, 0, f"a{n}") for n in range(20)))
    live.offer(delivery)
    eventually(lambda: _riding(live))
    monkeypatch.setattr(wholeness, "WHOLE_MS", -1)  # as if all of it were old
    side = Lane(kind, shape("lab"), compacted, LIMITS, number=2)
    side.offer(delivery._replace(changes=None))
    eventually(lambda: _riding(side))
    for lane in (live, side):
        lane.stop()

    def known(generation: int) -> tuple[list[dict[str, object]], int | None]:
        kind.switch("lab", "items", generation)
        [kept] = kept_views(tmp_path, "lab")
        told = "select id, label, _version, valid_from, valid_to from items_history order by _version"
        return run_sql(tmp_path, "lab", told).to_pylist(), kept.whole_from()

    assert known(2) == known(1)
    assert known(2)[1] == 0


def _riding(lane: Lane) -> None:
    assert lane.status.state is LaneState.RIDING, lane.status
