"""A stretch of a view's topic, chunk by chunk: one is made while another is written; who is cut off loses nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from alerts.sink import AlertKind
from cdc.addresses import KafkaAddress
from cdc.errors import SinkUnavailable
from cdc.reader import Raw
from tests.sinks.places import MemoryKind, MemoryPlace, MemorySink, mark, shape, upsert
from tests.waiting import eventually
from views.sinks import following
from views.sinks.following import CutOff, FollowTask, Holding, Reached, ViewTopic, follow
from views.sinks.inbox import Delivery
from views.sinks.lane import Lane, LaneLimits, LaneState
from views.sinks.sink import Change, HistorySink, Mark, Refused, Sink, ViewShape

PIECE = 3
WAIT_S = 10.0


@dataclass(frozen=True)
class _Topic(ViewTopic):
    """In memory, in pieces of three."""

    told: tuple[Change, ...] = ()

    def changes(self, start: int, end: int) -> Iterator[list[Change]]:
        wanted = [change for change in self.told if start <= change.version < end]
        for at in range(0, len(wanted), PIECE):
            yield wanted[at : at + PIECE]


def _topic(*changes: Change) -> _Topic:
    return _Topic(KafkaAddress("nowhere:1"), "lab.view.items", changes)


def _rows(count: int, label: str = "x") -> _Topic:
    return _topic(*(upsert(number, number, label) for number in range(count)))


@dataclass(frozen=True)
class _Failing(MemoryKind):
    """Down from the given application on."""

    applications: int = 1

    def open(self, shape: ViewShape, generation: int) -> MemorySink:
        applications, place = self.applications, self.place

        class _Sink(MemorySink):
            def apply(self, changes: Sequence[Change], mark: Mark) -> list[Refused]:
                place.is_down = place.applied >= applications
                return super().apply(changes, mark)

        return _Sink(place, (shape.view, generation))


@dataclass
class _Watched(MemorySink):
    """Says what it does, in order, and writes when it is let."""

    place: MemoryPlace
    did: list[str] = field(default_factory=list)
    may_write: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def __post_init__(self) -> None:
        super().__init__(self.place, ("items", 1))

    def made(self, changes: Sequence[Change], *, is_seen: bool = True) -> Callable[[Mark], list[Refused]]:
        self.did.append(f"made {changes[0].version}")
        if changes[0].version:  # the one before it is being written meanwhile
            self.may_write.release()
        return super().made(changes)

    def apply(self, changes: Sequence[Change], mark: Mark) -> list[Refused]:
        assert self.may_write.acquire(timeout=WAIT_S), "nothing was made while this was to be written"
        self.did.append(f"wrote {changes[0].version}")
        return super().apply(changes, mark)


def test_a_chunk_is_made_while_the_one_before_it_is_written() -> None:
    sink = _Watched(MemoryPlace())
    marks: list[int] = []

    def moved(upto: Mark, records: int) -> None:
        marks.append(upto.next_offset)
        sink.did.append(f"moved {upto.next_offset}")
        if upto.next_offset == PIECE:
            sink.may_write.release()  # the last one: nothing is made after it

    follow(sink, _rows(2 * PIECE - 1), mark(0), mark(2 * PIECE - 1), PIECE, Holding(set()), moved)
    assert sink.did == ["made 0", "made 3", "wrote 0", "moved 3", "wrote 3", "moved 5"]
    assert len(sink.place.rows["items", 1]) == 2 * PIECE - 1


@pytest.mark.parametrize("in_a_task", [False, True])
def test_what_was_refused_is_told_when_a_later_chunk_fails(in_a_task: bool) -> None:
    place = MemoryPlace(poison=frozenset({b'{"id":1}'}))
    kind, topic = _Failing(place), _rows(3 * PIECE)
    told: list[Any]
    if in_a_task:
        *told, last = FollowTask(kind, shape("lab"), 1, topic, mark(0), mark(9), PIECE)(iter([0]))
        assert isinstance(last, CutOff)
        assert isinstance(last.error, SinkUnavailable)
    else:
        holding = Holding(set())
        with pytest.raises(SinkUnavailable):
            follow(kind.open(shape("lab"), 1), topic, mark(0), mark(9), PIECE, holding)
        told = list(holding.told)
    assert [each.change.key for each in told] == [b'{"id":1}']
    assert place.marks["items", 1].next_offset == PIECE, "the place is past what it refused"


def test_large_rows_make_smaller_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "CHUNK_BYTES_MAX", 1_000)
    place = MemoryPlace()
    sink: Sink = MemorySink(place, ("items", 1))
    follow(sink, _rows(4 * PIECE, "x" * 400), mark(0), mark(12), 1_000, Holding(set()))
    assert place.applied == 5, "four of a piece each, and the target's mark"
    assert place.marks["items", 1].next_offset == 12


def test_who_is_told_of_a_step_may_end_it() -> None:
    place = MemoryPlace()

    def moved(upto: Mark, records: int) -> None:
        raise SinkUnavailable("enough")

    with pytest.raises(SinkUnavailable, match="enough"):
        follow(MemorySink(place, ("items", 1)), _rows(9), mark(0), mark(9), PIECE, Holding(set()), moved)
    assert place.applied == 1


def test_of_a_place_that_nobody_reads_yet_only_the_last_chunk_is_to_be_seen() -> None:
    seen: list[bool] = []

    class _Sink(MemorySink):
        def made(self, changes: Sequence[Change], *, is_seen: bool = True) -> Callable[[Mark], list[Refused]]:
            seen.append(is_seen)
            return super().made(changes, is_seen=is_seen)

    for is_read in (False, True):
        follow(_Sink(MemoryPlace(), ("items", 1)), _rows(9), mark(0), mark(9), PIECE, Holding(set()), is_read=is_read)
    assert seen == [False, False, False, True, True, True, True, True]


def test_a_place_that_was_emptied_between_two_tasks_does_not_claim_what_it_lost() -> None:
    kind = MemoryKind(MemoryPlace())
    task = FollowTask(kind, shape("lab"), 1, _rows(8), mark(4), mark(8), rows_max=2)
    [ended] = task(iter([0]))
    assert isinstance(ended, CutOff)
    assert "emptied" in ended.error.fact
    kept = kind.open(shape("lab"), 1)
    assert kept.mark() is None
    kept.apply([upsert(n, n, "x") for n in range(4)], mark(4))
    assert list(task(iter([0]))) == [Reached(mark(8), 4)]
    assert kept.mark() == mark(8)


FAR = 1_000_000
"""Offsets from one record to the next, where the topic was compacted."""


def _compacted(count: int) -> _Topic:
    return _topic(*(upsert(number, number * FAR, "x") for number in range(count)))


def test_a_task_ends_after_so_many_records_however_far_that_is() -> None:
    place = MemoryPlace()
    kind, topic, end = MemoryKind(place), _compacted(5 * PIECE), 5 * PIECE * FAR
    task = FollowTask(kind, shape("lab"), 1, topic, mark(0), mark(end), 100, is_read=False, records_max=2 * PIECE - 1)
    assert list(task(iter([0]))) == [Reached(mark((2 * PIECE - 1) * FAR + 1), 2 * PIECE)]
    assert place.marks["items", 1].next_offset == (2 * PIECE - 1) * FAR + 1
    rest = replace(task, mark=place.marks["items", 1], records_max=1_000)
    assert list(rest(iter([0]))) == [Reached(mark(end), 3 * PIECE)]
    assert len(place.rows["items", 1]) == 5 * PIECE


class _Spark:
    """Runs tasks here and now."""

    def __init__(self) -> None:
        self.tasks = 0
        self.sparkContext = self

    def parallelize(self, *_given: object) -> _Spark:
        return self

    def mapPartitions(self, task: FollowTask) -> _Spark:
        self.tasks, self._task = self.tasks + 1, task
        return self

    def collect(self) -> list[object]:
        return list(self._task(iter([0])))


def test_a_lane_counts_records_and_not_offsets() -> None:
    """Of 30 days at 200 changes a second a compacted topic has a thousandth: pieces of offsets would be mere costs."""
    place, spark, rested = MemoryPlace(), _Spark(), list[int]()
    kind, topic, end = MemoryKind(place), _compacted(10 * PIECE), 10 * PIECE * FAR
    kind.switch("lab", "items", 1)

    def rest(worked_s: float, records: int) -> float:
        rested.append(records)
        return 0.0

    lane = Lane(
        kind,
        shape("lab"),
        topic,
        LaneLimits(check_s=0.05),
        spark=cast(Any, spark),
        number=2,
        rest=rest,
        piece=lambda: 4 * PIECE,
    )
    try:
        lane.offer(Delivery(mark(end), end, None))
        eventually(lambda: lane.status.state is LaneState.RIDING)
    finally:
        lane.stop()
    assert (spark.tasks, rested) == (3, [4 * PIECE, 4 * PIECE, 2 * PIECE, 0])
    assert (lane.read, lane.mark and lane.mark.next_offset) == (10 * PIECE, end)
    assert len(place.rows["items", 2]) == 10 * PIECE


def test_how_much_is_left_is_said_in_records() -> None:
    lane = Lane(MemoryKind(MemoryPlace()), shape("lab"), _rows(0), LaneLimits(check_s=0.05))
    lane.stop()
    assert lane.left(5) == 0, "it does not know where it is to go"
    lane._mark, lane._target, lane._all_from = mark(0), mark(500 * FAR), 499 * FAR
    assert lane.left(50) == FAR + 50
    lane._mark = mark(499 * FAR + 10)
    assert lane.left(50) == FAR - 10, "never more than there are offsets"


def test_who_does_not_ride_is_behind() -> None:
    place = MemoryPlace()
    kind = MemoryKind(place)
    lane = Lane(kind, shape("lab"), _rows(3), LaneLimits(check_s=0.05, backoff_s=0.01, backoff_s_max=0.01))
    try:
        lane.offer(Delivery(mark(3), 3, None))
        eventually(lambda: lane.status.state is LaneState.RIDING)
        assert lane.behind_ms == 0.0
        place.is_down = True
        eventually(lambda: lane.status.state is LaneState.DOWN)
        eventually(lambda: lane.behind_ms > 100)
        place.is_down = False
        eventually(lambda: lane.status.state is LaneState.RIDING)
        assert lane.behind_ms == 0.0
    finally:
        lane.stop()


class _History(HistorySink):
    """Notes what it is given at a time."""

    def __init__(self) -> None:
        self.given: list[tuple[list[int], int, list[int]]] = []

    def apply(self, changes: Sequence[Change], mark: Mark, steps: Sequence[Mark] = ()) -> list[Refused]:
        versions, ends = [each.version for each in changes], [each.next_offset for each in steps]
        self.given.append((versions, mark.next_offset, ends))
        return []

    def prepare(self) -> None: ...
    def mark(self) -> Mark | None: ...
    def tend(self) -> None: ...
    def drop(self) -> None: ...
    def close(self) -> None: ...

    def rows(self) -> Iterator[bytes]:
        return iter(())

    def read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        return {}


@dataclass(frozen=True)
class _OnePiece(ViewTopic):
    """Two changes an epoch, all in one piece."""

    count: int = 0

    def records(self, start: int, end: int) -> Iterator[list[Raw]]:
        told = b'{"after":{},"position":"7:%d","lsn":"0/0","committed_at_us":null,"published_at_us":1}'
        yield [Raw(at, 0, b"{}", told % (at // 2)) for at in range(start, min(end, self.count))]


def test_who_sees_every_version_is_given_no_more_at_a_time_than_it_takes() -> None:
    """However many are read together: alerts lock the owners of all that are concerned."""
    sink, topic = _History(), _OnePiece(KafkaAddress("nowhere:1"), "lab.view.items", 7)
    follow(sink, topic, mark(0), mark(7), 3, Holding(set()))
    assert sink.given == [([0, 1, 2], 3, [2, 3]), ([3, 4, 5], 6, [4, 6]), ([6], 7, [7])]
    assert AlertKind.rows_per_apply_max is not None
    assert AlertKind.rows_per_apply_max <= 100
