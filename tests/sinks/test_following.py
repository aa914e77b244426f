"""A stretch of a view's topic, chunk by chunk: one is made while another is written; who is cut off loses nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from cdc.addresses import KafkaAddress
from cdc.errors import SinkUnavailable
from tests.sinks.places import MemoryKind, MemoryPlace, MemorySink, mark, shape, upsert
from views.sinks import following
from views.sinks.following import CutOff, FollowTask, Holding, ViewTopic, follow
from views.sinks.sink import Change, Mark, Refused, Sink, ViewShape

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

    def moved(upto: Mark) -> None:
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

    def moved(upto: Mark) -> None:
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
    assert list(task(iter([0]))) == []
    assert kept.mark() == mark(8)
