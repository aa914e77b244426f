"""Bringing a place up to a mark from the view's topic, chunk by chunk: in a thread, or as a task of Spark's.

Every chunk moves the mark, so who is cut off goes on from there. The last change of a key in a chunk is enough.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from cdc.addresses import KafkaAddress
from cdc.errors import HeadwaterError, SinkUnavailable
from cdc.position import Position
from cdc.reader import Raw, read_range
from cdc.topics import find_state
from views.sinks.letters import Told, judged
from views.sinks.sink import Change, HistorySink, Mark, Refused, Sink, SinkKind, ViewShape

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


def follow(
    sink: Sink,
    topic: ViewTopic,
    mark: Mark,
    target: Mark,
    rows_max: int,
    holding: Holding,
    moved: Callable[[Mark], None] = lambda mark: None,
    *,
    is_read: bool = True,
) -> None:
    """From the one mark to the other. `moved` is told of each step, and may raise to end it there.

    While a chunk is written the next one is read and made. Of a place that nobody reads yet only the last need be seen.
    """
    if isinstance(sink, HistorySink):
        _follow_every_version(sink, topic, mark, target, rows_max, holding, moved)
        return

    def write(changes: list[Change], made: Callable[[Mark], list[Refused]], upto: Mark) -> Mark:
        holding.judge(changes, made(upto))
        return upto

    with ThreadPoolExecutor(1, thread_name_prefix="write") as writer:
        under_way: Future[Mark] | None = None
        for changes, upto in _chunks(topic, mark, target, rows_max):
            made = sink.made(changes, is_seen=is_read or upto is target)
            if under_way is not None:
                moved(under_way.result())
            under_way = writer.submit(write, changes, made, upto)
        if under_way is not None:
            moved(under_way.result())


def _chunks(topic: ViewTopic, mark: Mark, target: Mark, rows_max: int) -> Iterator[tuple[list[Change], Mark]]:
    """The last change of each key, and the mark that is reached with them. There is one for the target."""
    last: dict[bytes, Change] = {}
    size = 0
    for piece in topic.changes(mark.next_offset, target.next_offset):
        for each in piece:
            last[each.key] = each
            size += len(each.after or b"")
        if len(last) >= rows_max or size >= CHUNK_BYTES_MAX:
            yield list(last.values()), msgspec.structs.replace(mark, next_offset=piece[-1].version + 1)
            last, size = {}, 0
    yield list(last.values()), target


def _follow_every_version(
    sink: HistorySink,
    topic: ViewTopic,
    mark: Mark,
    target: Mark,
    rows_max: int,
    holding: Holding,
    moved: Callable[[Mark], None],
) -> None:
    held: list[Change] = []
    steps: list[Mark] = []
    for piece in topic.records(mark.next_offset, target.next_offset):
        for raw in piece:
            held.append(change(raw))
            step(steps, raw, target)
        if len(held) >= rows_max:
            mark = msgspec.structs.replace(mark, next_offset=held[-1].version + 1)
            holding.apply(sink, held, mark, steps)
            held, steps = [], []
            moved(mark)
    holding.apply(sink, held, target, steps)
    moved(target)


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

    def __call__(self, partition: Iterable[int]) -> Iterator[Told | CutOff]:
        for _ in partition:
            pass
        holding, cut_off = Holding(set(self.held)), None
        gc.disable()  # rows and documents have no cycles, and the collector would look at all of them again and again
        try:
            sink = self.kind.open(self.shape, self.generation)
            try:
                self._require_kept(sink)
                follow(sink, self.topic, self.mark, self.target, self.rows_max, holding, is_read=self.is_read)
            finally:
                sink.close()
        except HeadwaterError as error:
            cut_off = CutOff(error)
        finally:
            gc.enable()
        yield from holding.told
        if cut_off is not None:
            yield cut_off

    def _require_kept(self, sink: Sink) -> None:
        """A place that was emptied since the task before must not claim what it lost."""
        found = sink.mark()
        if self.mark.next_offset > self.mark.since and (found is None or found.next_offset < self.mark.next_offset):
            raise SinkUnavailable(
                f"the {self.kind.name} of {self.shape.view} was emptied while it was filled",
                detail=f"it should include everything before {self.mark.next_offset}",
                hint="it is filled again by itself: headwater views",
            )
