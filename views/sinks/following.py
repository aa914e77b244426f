"""Bringing a place up to a mark from the view's topic, chunk by chunk: in a thread, or as a task of Spark's.

Every chunk moves the mark, so who is cut off goes on from there. The last change of a key in a chunk is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from cdc.addresses import KafkaAddress
from cdc.position import Position
from cdc.reader import Raw, read_range
from cdc.topics import find_state
from views.sinks.letters import Told, judged
from views.sinks.sink import Change, HistorySink, Mark, Sink, SinkKind, ViewShape

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
    """The keys that dead letters hold, and what applications mean to them."""

    keys: set[bytes]
    told: list[Told] = field(default_factory=list)

    def apply(self, sink: Sink, changes: Sequence[Change], mark: Mark, steps: Sequence[Mark] = ()) -> None:
        refused = sink.apply(changes, mark, steps) if isinstance(sink, HistorySink) else sink.apply(changes, mark)
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
    moved: Callable[[Mark], None] = lambda mark: None,
    held: Collection[bytes] = (),
) -> list[Told]:
    """From the one mark to the other. `moved` is told of each step, and may raise to end it there. `held` are the keys
    that dead letters hold: those that the place takes after all are told, with what it refuses."""
    holding = Holding(set(held))
    if isinstance(sink, HistorySink):
        return _follow_every_version(sink, topic, mark, target, rows_max, moved, holding)
    last: dict[bytes, Change] = {}
    for piece in topic.changes(mark.next_offset, target.next_offset):
        for each in piece:
            last[each.key] = each
        if len(last) >= rows_max:
            mark = msgspec.structs.replace(mark, next_offset=piece[-1].version + 1)
            holding.apply(sink, list(last.values()), mark)
            last = {}
            moved(mark)
    holding.apply(sink, list(last.values()), target)
    moved(target)
    return holding.told


def _follow_every_version(
    sink: HistorySink,
    topic: ViewTopic,
    mark: Mark,
    target: Mark,
    rows_max: int,
    moved: Callable[[Mark], None],
    holding: Holding,
) -> list[Told]:
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
    return holding.told


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

    def __call__(self, partition: Iterable[int]) -> Iterator[Told]:
        for _ in partition:
            pass
        sink = self.kind.open(self.shape, self.generation)
        try:
            yield from follow(sink, self.topic, self.mark, self.target, self.rows_max, held=self.held)
        finally:
            sink.close()
