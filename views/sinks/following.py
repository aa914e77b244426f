"""Bringing a place up to a mark from the view's topic, chunk by chunk: in a thread, or as a task of Spark's.

Every chunk moves the mark, so who is cut off goes on from there. The last change of a key in a chunk is enough.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from cdc.addresses import KafkaAddress
from cdc.errors import HeadwaterError, SinkUnavailable
from cdc.position import Position
from cdc.reader import Raw, offset_at, read_range
from cdc.topics import find_state
from views.sinks.letters import Told, judged
from views.sinks.sink import Change, HistorySink, Mark, Refused, Sink, SinkKind, ViewShape
from views.sinks.wholeness import COMPACTED_MS

CHUNK_BYTES_MAX: Final = 64_000_000
"""Of rows that are written together: two chunks are held at once, and their documents."""
_NULL: Final = b"null"


class _Told(msgspec.Struct, frozen=True):
    before: msgspec.Raw = msgspec.Raw(_NULL)
    after: msgspec.Raw = msgspec.Raw(_NULL)
    silent: bool = False


class _Came(msgspec.Struct, frozen=True):
    """When a change came."""

    position: str
    lsn: str
    committed_at_us: int | None
    published_at_us: int


@dataclass(frozen=True)
class ViewTopic:
    kafka: KafkaAddress
    name: str

    def records(self, start: int, end: int) -> Iterator[list[Raw]]:
        """As they were published, in pieces of whatever size."""
        return read_range(self.kafka, self.name, start, end)

    def end(self) -> int:
        """One past its last committed record."""
        state = find_state(self.kafka, self.name)
        return state.high if state is not None else 0

    def all_from(self) -> int:
        """Before this offset older versions of a row may be gone."""
        found = offset_at(self.kafka, self.name, time.time_ns() // 1_000_000 - COMPACTED_MS)
        return self.end() if found is None else found

    def changes(self, start: int, end: int) -> Iterator[list[Change]]:
        for chunk in self.records(start, end):
            yield [change(raw) for raw in chunk]


def change(raw: Raw) -> Change:
    """A record of a view's topic. A tombstone says again that the row is gone."""
    told = _Told() if raw.value is None else msgspec.json.decode(raw.value, type=_Told)
    return Change(raw.key or b"", _row(told.after), raw.offset, _row(told.before), told.silent)


def _row(told: msgspec.Raw) -> bytes | None:
    row = bytes(told)
    return None if row == _NULL else row


@dataclass
class Holding:
    """The keys that dead letters hold, and what applications mean to them: what is taken after all, what is refused.
    Who is cut off tells it all the same, because the place's mark is past it."""

    keys: set[bytes]
    told: list[Told] = field(default_factory=list)

    def apply(self, sink: Sink, changes: Sequence[Change], mark: Mark, steps: Sequence[Mark] = ()) -> None:
        refused = sink.apply(changes, mark, steps) if isinstance(sink, HistorySink) else sink.apply(changes, mark)
        self.judge(changes, refused)

    def judge(self, changes: Sequence[Change], refused: Sequence[Refused]) -> None:
        if not refused and not self.keys:
            return
        newest: dict[bytes, int] = {}
        for each in changes:
            newest[each.key] = max(each.version, newest.get(each.key, -1))
        self.told += judged(refused, newest, self.keys)
        self.keys |= {each.change.key for each in refused}


Moved = Callable[[Mark, int], None]
"""Told of each step: the mark that was reached, and how many records were read for it. Offsets do not say that: a topic
that was compacted has far fewer records than offsets."""


def follow(
    sink: Sink,
    topic: ViewTopic,
    mark: Mark,
    target: Mark,
    rows_max: int,
    holding: Holding,
    moved: Moved = lambda mark, records: None,
    *,
    is_read: bool = True,
    records_max: int | None = None,
) -> None:
    """From the one mark to the other, or until about so many records were read. `moved` may raise to end it there.

    While a chunk is written the next one is read and made. Of a place that nobody reads yet only the last need be seen.
    """
    if isinstance(sink, HistorySink):
        _follow_every_version(sink, topic, mark, target, rows_max, holding, moved, records_max)
        return

    def write(chunk: _Chunk, made: Callable[[Mark], list[Refused]]) -> _Chunk:
        holding.judge(chunk.changes, made(chunk.upto))
        return chunk

    with ThreadPoolExecutor(1, thread_name_prefix="write") as writer:
        under_way: Future[_Chunk] | None = None
        for chunk in _chunks(topic, mark, target, rows_max, records_max):
            made = sink.made(chunk.changes, is_seen=is_read or chunk.is_last)
            if under_way is not None:
                moved(*under_way.result().step)
            under_way = writer.submit(write, chunk, made)
        if under_way is not None:
            moved(*under_way.result().step)


class _Chunk(NamedTuple):
    """The last change of each key, and the mark that is reached with them."""

    changes: list[Change]
    upto: Mark
    records: int
    is_last: bool

    @property
    def step(self) -> tuple[Mark, int]:
        return self.upto, self.records


def _chunks(topic: ViewTopic, mark: Mark, target: Mark, rows_max: int, records_max: int | None) -> Iterator[_Chunk]:
    """There is one for the target, if that is reached."""
    last: dict[bytes, Change] = {}
    size = records = total = 0
    for piece in topic.changes(mark.next_offset, target.next_offset):
        for each in piece:
            last[each.key] = each
            size += len(each.after or b"")
        records, total = records + len(piece), total + len(piece)
        is_enough = records_max is not None and total >= records_max
        if is_enough or len(last) >= rows_max or size >= CHUNK_BYTES_MAX:
            upto = msgspec.structs.replace(mark, next_offset=piece[-1].version + 1)
            yield _Chunk(list(last.values()), upto, records, is_enough)
            last, size, records = {}, 0, 0
        if is_enough:
            return
    yield _Chunk(list(last.values()), target, records, True)


def _follow_every_version(
    sink: HistorySink,
    topic: ViewTopic,
    mark: Mark,
    target: Mark,
    rows_max: int,
    holding: Holding,
    moved: Moved,
    records_max: int | None,
) -> None:
    held: list[Change] = []
    steps: list[Mark] = []
    total = 0
    for piece in topic.records(mark.next_offset, target.next_offset):
        for raw in piece:
            held.append(change(raw))
            step(steps, raw, target)
            if len(held) >= rows_max:  # a piece may be many times as long
                mark = msgspec.structs.replace(mark, next_offset=held[-1].version + 1)
                holding.apply(sink, held, mark, steps)
                moved(mark, len(held))
                held, steps = [], []
        total += len(piece)
        if records_max is not None and total >= records_max:
            if held:
                mark = msgspec.structs.replace(mark, next_offset=held[-1].version + 1)
                holding.apply(sink, held, mark, steps)
                moved(mark, len(held))
            return
    holding.apply(sink, held, target, steps)
    moved(target, len(held))


def step(steps: list[Mark], raw: Raw, target: Mark) -> None:
    """Marks the end of what came together so far. A tombstone comes with the change before it."""
    if raw.value is None:
        if steps:
            steps[-1] = msgspec.structs.replace(steps[-1], next_offset=raw.offset + 1)
        return
    came = msgspec.json.decode(raw.value, type=_Came)
    at = Position.parse(came.position)
    made = Mark(
        target.topic_id,
        raw.offset + 1,
        target.since,
        at.era,
        at.offset,
        came.lsn,
        came.committed_at_us,
        came.published_at_us,
    )
    if steps and (steps[-1].era, steps[-1].offset) == (made.era, made.offset):
        steps[-1] = made
    else:
        steps.append(made)


class CutOff(NamedTuple):
    """Why a task ended before its target: a value, so that what was told before it is not lost with it."""

    error: HeadwaterError


class Reached(NamedTuple):
    """How far a task came, and how many records it read on the way."""

    mark: Mark
    records: int


@dataclass(frozen=True)
class FollowTask:
    """The same in a task: a process of its own, which holds up nobody."""

    kind: SinkKind
    shape: ViewShape
    generation: int
    topic: ViewTopic
    mark: Mark
    target: Mark
    rows_max: int
    held: frozenset[bytes] = frozenset()
    is_read: bool = True
    records_max: int | None = None

    def __call__(self, partition: Iterable[int]) -> Iterator[Told | Reached | CutOff]:
        for _ in partition:
            pass
        holding, ended = Holding(set(self.held)), list[Reached | CutOff]()
        reached = Reached(self.mark, 0)

        def moved(mark: Mark, records: int) -> None:
            nonlocal reached
            reached = Reached(mark, reached.records + records)

        gc.disable()  # rows and documents have no cycles, and the collector would look at all of them again and again
        try:
            sink = self.kind.open(self.shape, self.generation)
            try:
                self._require_kept(sink)
                self._follow(sink, holding, moved)
            finally:
                sink.close()
        except HeadwaterError as error:
            ended.append(CutOff(error))
        finally:
            gc.enable()
        yield from holding.told
        yield from ended or [reached]

    def _follow(self, sink: Sink, holding: Holding, moved: Moved) -> None:
        follow(
            sink,
            self.topic,
            self.mark,
            self.target,
            self.rows_max,
            holding,
            moved,
            is_read=self.is_read,
            records_max=self.records_max,
        )

    def _require_kept(self, sink: Sink) -> None:
        """A place that was emptied since the task before must not claim what it lost."""
        found = sink.mark()
        if self.mark.next_offset > self.mark.since and (found is None or found.next_offset < self.mark.next_offset):
            raise SinkUnavailable(
                f"the {self.kind.name} of {self.shape.view} was emptied while it was filled",
                detail=f"it should include everything before {self.mark.next_offset}",
                hint="it is filled again by itself: headwater views",
            )
