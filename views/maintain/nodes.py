"""The nodes of a group: mirrors, stages and stores behind one contract, each knowing where its output goes.

A node takes the letters that arrived for one of its shards in an epoch, runs them through its arrangement in one
transaction, and its output is sent on: through the filters and projections of each way, split by the shards of the
node at its end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdc.catalog import CATALOG_TABLE, Table
from cdc.envelope import parse
from cdc.errors import DecodeError
from cdc.events import ChangeEvent, DeadLetter, Op, Record, TableName
from cdc.position import Position
from cdc.repeats import without_repeats
from views.arrangement import Arrangement, Output, Writing
from views.keys import shards_of
from views.maintain.schema_changes import SchemaChanged, differences
from views.mirror import Mirror
from views.plan import Node as PlanNode
from views.stages import Chain, Stage
from views.stages.stage import gathered
from views.store import ViewStore
from views.zset import WEIGHT, conform, delta_schema

if TYPE_CHECKING:
    from views.maintain.mail import Letters

SLICE_ROWS_MAX: Final = 200_000
"""A stage takes a larger delta in slices: what it holds in memory is bounded by them."""
SLICE_EVENTS_MAX: Final = 50_000
RECORDS: Final = pa.schema([("offset", pa.int64()), ("written_at_ms", pa.int64()), ("value", pa.binary())])


@dataclass(frozen=True)
class Way:
    """From a node's output to the nodes that want it so."""

    chain: Chain
    node: PlanNode
    ends: list[tuple[int, int]] = field(default_factory=list)
    """Nodes, and which of their inputs it is."""

    def follow(self, delta: pa.Table) -> pa.Table:
        return conform(self.chain.apply(delta), delta_schema(self.node.fields))


class Node(ABC):
    kind: str
    name: str
    level: int
    tables: Sequence[str]
    identity: str

    def __init__(self) -> None:
        self.ways: list[Way] = []

    def send(self, chain: Chain, node: PlanNode, dest: int, place: int) -> None:
        for way in self.ways:
            if way.chain == chain and way.node == node:
                way.ends.append((dest, place))
                return
        self.ways.append(Way(chain, node, [(dest, place)]))

    @abstractmethod
    def run(self, epoch: int, letters: Letters, arrangement: Arrangement) -> Output: ...

    @abstractmethod
    def shards(self, place: int, delta: pa.Table, shards: int) -> list[int]: ...

    def speaks(self, shard: int, shards: int, arrangement: Callable[[], Arrangement], epoch: int) -> bool:
        """Whether it has something to say in this epoch though nothing arrived."""
        return False


class MirrorNode(Node):
    """A table's. It lives whole on one shard: no table changes faster than one process can follow the log."""

    kind, level = "mirrors", 0

    def __init__(self, mirror: Mirror, era: int, used: frozenset[str], skip_before: int, dealt: int) -> None:
        super().__init__()
        self.dealt = dealt
        """Its place among all tables of the group, also those that only paused views use: it says the shard."""
        self.mirror, self._era, self._used, self._skip_before = mirror, era, used, skip_before
        self.table: TableName = mirror.table.name
        self.name, self.tables, self.identity = str(self.table), mirror.tables, mirror.identity

    def run(self, epoch: int, letters: Letters, arrangement: Arrangement) -> Output:
        return arrangement.step(epoch, lambda writing: gathered(self._work(writing, letters)))

    def begin(self, epoch: int, other: MirrorNode, stored: Arrangement, arrangement: Arrangement) -> Output:
        """The first epoch, from what another mirror of the table holds."""

        def taken(writing: Writing) -> Iterator[pa.Table]:
            with stored.reading() as held:
                yield from self.mirror.take(writing, other.mirror, held)

        return arrangement.step(epoch, lambda writing: gathered(taken(writing)))

    def _work(self, writing: Writing, letters: Letters) -> Iterator[pa.Table]:
        changes = without_repeats(self._events(letters))
        events = (event for event in changes if event.position.offset >= self._skip_before)
        for piece in _sliced_events(events):
            yield from self.mirror.work(writing, piece)

    def shards(self, place: int, delta: pa.Table, shards: int) -> list[int]:
        raise NotImplementedError("a table's events are not split")

    def _events(self, letters: Letters) -> Iterator[ChangeEvent]:
        for table in letters.ordered(0, "offset"):
            columns = (table[name].to_pylist() for name in RECORDS.names)
            for offset, written_at_ms, value in zip(*columns, strict=True):
                entry = parse(Record(Position(self._era, offset), written_at_ms, None, value))
                if isinstance(entry, DeadLetter):
                    raise unreadable(entry)
                assert isinstance(entry, ChangeEvent)
                if entry.table == CATALOG_TABLE:
                    self._check(entry)
                else:
                    yield entry

    def _check(self, event: ChangeEvent) -> None:
        """Raises SchemaChanged where the table is no longer what the views were planned against."""
        known, row = self.mirror.table, event.after or event.before or {}
        if row.get("relation") != known.relation or event.position.offset < self._skip_before:
            return
        shape = None if event.op is Op.DELETE else Table.parse(event.after or {})
        found = differences(known, shape, self._used)
        if found:
            raise SchemaChanged.of(str(self.table), found, event.position, event.after)


class StageNode(Node):
    kind = "stages"

    def __init__(self, name: str, level: int, stage: Stage) -> None:
        super().__init__()
        self.name, self.level, self.stage = name, level, stage
        self.tables, self.identity = stage.tables, name

    def run(self, epoch: int, letters: Letters, arrangement: Arrangement) -> Output:
        if letters.rows <= SLICE_ROWS_MAX:
            deltas = [pa.concat_tables([self._empty(n), *letters.tables(n)]) for n in range(len(self.stage.inputs))]
            return self.stage.run(epoch, deltas, arrangement)
        return arrangement.step(epoch, lambda writing: gathered(self._sliced(writing, letters)))

    def _sliced(self, writing: Writing, letters: Letters) -> Iterator[pa.Table]:
        """Rows that come before rows that go: nothing is taken away that is not there yet."""
        for comes in (True, False):
            for place in range(len(self.stage.inputs)):
                for piece in _signed(letters.tables(place), comes=comes):
                    deltas = [piece if n == place else self._empty(n) for n in range(len(self.stage.inputs))]
                    yield from self.stage.work(writing, deltas)
                    writing.is_first = False

    def _empty(self, place: int) -> pa.Table:
        return delta_schema(self.stage.inputs[place].fields).empty_table()

    def shards(self, place: int, delta: pa.Table, shards: int) -> list[int]:
        return self.stage.shards(place, delta, shards)

    def speaks(self, shard: int, shards: int, arrangement: Callable[[], Arrangement], epoch: int) -> bool:
        """A result over nothing is due, in the first epoch and when that one is repeated."""
        if not self.stage.speaks_first or shard != shards_of([b""], shards)[0]:
            return False
        last = arrangement().epoch
        return last is None or last == epoch


class StoreNode(Node):
    kind = "views"

    def __init__(self, name: str, level: int, store: ViewStore) -> None:
        super().__init__()
        self.name, self.level, self.store = name, level, store
        self.tables, self.identity = store.tables, store.identity

    def run(self, epoch: int, letters: Letters, arrangement: Arrangement) -> Output:
        return self.store.run(epoch, letters.all(0), arrangement)

    def shards(self, place: int, delta: pa.Table, shards: int) -> list[int]:
        return self.store.shards(delta, shards)


def _signed(tables: Iterable[pa.Table], *, comes: bool) -> Iterator[pa.Table]:
    for table in tables:
        chosen = table.filter((pc.greater if comes else pc.less)(table[WEIGHT], 0))
        for start in range(0, chosen.num_rows, SLICE_ROWS_MAX):
            yield chosen.slice(start, SLICE_ROWS_MAX)


def _sliced_events(events: Iterable[ChangeEvent]) -> Iterator[list[ChangeEvent]]:
    """Never between a delete and what follows it: a change of key is the two together."""
    piece: list[ChangeEvent] = []
    for event in events:
        if len(piece) >= SLICE_EVENTS_MAX and piece[-1].op is not Op.DELETE:
            yield piece
            piece = []
        piece.append(event)
    if piece:
        yield piece


def unreadable(entry: DeadLetter) -> DecodeError:
    return DecodeError(
        f"the record at {entry.position} cannot be read",
        detail=entry.error,
        hint=f"headwater log show {entry.position}",
    )
