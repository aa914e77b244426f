"""Runs the nodes of a group for an epoch: all of them in one task, or those of one level on some shards.

Both ways run the same nodes over the same arrangements and give the same: which one is faster depends on the size of
the epoch. An epoch that was cut off anywhere is run again, either way. What a process has opened it keeps: Spark reuses
its workers.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from cdc.errors import DecodeError, StateDamaged, StateError, StateFenced, ViewError
from views.arrangement import Arrangement, Output
from views.maintain.failpoints import reached
from views.maintain.group import Group, mirror_shard
from views.maintain.mail import Letters, Mailbox
from views.maintain.nodes import MirrorNode, Node, StoreNode
from views.maintain.schema_changes import SchemaChanged

INLINE_BYTES_MAX: Final = 4 << 20
"""A store's output up to this size goes back with the task; a larger one is read from its state."""

_groups: dict[tuple[int, Path], Group] = {}
_arrangements: dict[tuple[int, Path], tuple[int, Arrangement]] = {}


class Letter(NamedTuple):
    dest: int
    shard: int
    place: int
    table: pa.Table


class Changed(NamedTuple):
    """What a store's shard has to publish: its tables, or None where they are to be read from its state."""

    node: int
    shard: int
    tables: list[pa.Table] | None
    rows: int


@dataclass(frozen=True)
class GroupRef:
    """What a task is told of a group."""

    folder: Path
    version: str
    owner: int
    durable: bool = False

    def open(self) -> Group:
        key = (os.getpid(), self.folder)
        known = _groups.get(key)
        if known is None or known.version != self.version:
            known = _groups[key] = Group.load(self.folder)
        return known


class Worker:
    """One group in one epoch."""

    def __init__(self, ref: GroupRef, epoch: int) -> None:
        self._ref, self._epoch = ref, epoch
        self.group = ref.open()
        self._shards = self.group.spec.shards

    @property
    def shards(self) -> int:
        return self._shards

    def run(self, mail: Mailbox) -> Iterator[Changed]:
        """Everything, from the tables' records to the views' changes."""
        for level in range(self.group.depth + 1):
            for found in self.run_level(level, mail, range(self._shards)):
                if isinstance(found, Letter):
                    mail.add(*found)
                else:
                    yield found

    def run_level(self, level: int, mail: Mailbox, shards: Iterable[int]) -> Iterator[Letter | Changed]:
        """The nodes of a level on some shards: letters to nodes of later levels, and what is to be published."""
        for number, node in enumerate(self.group.nodes):
            if node.level != level:
                continue
            for shard in shards:
                letters = mail.take(number, shard)
                if letters is None and not self._speaks(node, shard):
                    continue
                with _failing((number,)):
                    output = node.run(self._epoch, letters or Letters(), self.arrangement(node, shard))
                reached("node")
                if isinstance(node, StoreNode):
                    yield _changed(number, shard, output)
                else:
                    yield from self._sent(node, output)

    def begin(self, seed: Path, shards: Collection[int]) -> Iterator[Letter]:
        """The mirrors on some shards take the rows of those in a seed: letters to the nodes after them."""
        other = Group.load(seed)
        known = {node.table: node for node in other.nodes if isinstance(node, MirrorNode)}
        for number, node in enumerate(self.group.nodes):
            if not isinstance(node, MirrorNode) or (shard := mirror_shard(node, self._shards)) not in shards:
                continue
            one = known[node.table]
            there = mirror_shard(one, other.spec.shards)
            with (
                _failing((number,)),
                open_arrangement(other, one, there, owner=self._ref.owner, durable=False, create=False) as stored,
            ):
                output = node.begin(self._epoch, one, stored, self.arrangement(node, shard))
            reached("node")
            yield from self._sent(node, output)

    def mirror_shard(self, number: int) -> int:
        node = self.group.nodes[number]
        assert isinstance(node, MirrorNode)
        return mirror_shard(node, self._shards)

    def arrangement(self, node: Node, shard: int) -> Arrangement:
        folder = self.group.state_folder(node, shard)
        key = (os.getpid(), folder)
        owner, known = _arrangements.get(key, (-1, None))
        if known is None or owner != self._ref.owner:
            if known is not None:
                known.close()
            known = open_arrangement(
                self.group, node, shard, owner=self._ref.owner, durable=self._ref.durable, create=False
            )
            _arrangements[key] = self._ref.owner, known
        return known

    def _speaks(self, node: Node, shard: int) -> bool:
        if isinstance(node, MirrorNode):
            return False
        return node.speaks(shard, self._shards, lambda: self.arrangement(node, shard), self._epoch)

    def _sent(self, node: Node, output: Output) -> Iterator[Letter]:
        for table in output.tables():
            for way in node.ways:
                with _failing(tuple(dest for dest, _ in way.ends)):
                    delta = way.follow(table)
                for dest, place in way.ends:
                    yield from self._split(dest, place, delta)

    def _split(self, dest: int, place: int, delta: pa.Table) -> Iterator[Letter]:
        if not delta.num_rows:
            return
        if self._shards == 1:
            yield Letter(dest, 0, place, delta)
            return
        belongs = np.array(self.group.nodes[dest].shards(place, delta, self._shards), np.int64)
        for shard in range(self._shards):
            mine = belongs == shard
            if mine.all():
                yield Letter(dest, shard, place, delta)
            elif mine.any():
                yield Letter(dest, shard, place, delta.filter(pa.array(mine)))


def open_arrangement(group: Group, node: Node, shard: int, *, owner: int, durable: bool, create: bool) -> Arrangement:
    """A group's arrangements are made before its first epoch: one that is not there later was lost."""
    return Arrangement.open(
        group.state_folder(node, shard),
        node.tables,
        identity=f"{node.identity} {shard}/{group.spec.shards}",
        owner=owner,
        create=create,
        durable=durable,
    )


def look_at(group: Group, node: Node, shard: int) -> Arrangement:
    """For the process that runs no epochs itself: nothing is claimed, and others may read it at the same time."""
    return Arrangement.open(group.state_folder(node, shard), node.tables, create=False, readonly=True)


class NodeFailed(ViewError):
    """A node could not do its part. `nodes` are those whose views cannot go on; `is_damage` if its state is lost."""

    nodes: tuple[int, ...] = ()
    is_damage: bool = False

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.fact, self.detail, self.hint, self.nodes, self.is_damage)


def _rebuild(fact: str, detail: str, hint: str, nodes: tuple[int, ...], is_damage: bool) -> NodeFailed:
    failed = NodeFailed(fact, detail=detail, hint=hint)
    failed.nodes, failed.is_damage = nodes, is_damage
    return failed


@contextmanager
def _failing(nodes: tuple[int, ...]) -> Iterator[None]:
    """What concerns only some views is told apart from what concerns the whole group."""
    try:
        yield
    except (StateFenced, SchemaChanged):
        raise
    except (ViewError, StateError, DecodeError) as error:
        raise _rebuild(error.fact, error.detail, error.hint, nodes, isinstance(error, StateDamaged)) from error
    except pa.ArrowException as error:
        fact = "a value does not fit its column"
        raise _rebuild(fact, str(error), "headwater explain VIEW", nodes, is_damage=False) from error


def close_all() -> None:
    """For tests, and for a process that goes on without its groups."""
    for _, arrangement in _arrangements.values():
        arrangement.close()
    _arrangements.clear()
    _groups.clear()


def _changed(node: int, shard: int, output: Output) -> Changed:
    tables: list[pa.Table] = []
    rows = size = 0
    for table in output.tables():
        rows += table.num_rows
        size += table.nbytes
        if size <= INLINE_BYTES_MAX:
            tables.append(table)
    return Changed(node, shard, tables if size <= INLINE_BYTES_MAX else None, rows)
