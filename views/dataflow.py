"""Views as one dataflow: stages in order, equal parts of plans shared, run in this process.

    table deltas ─ chain ─▶ stage ─ chain ─▶ stage … ─ chain ─▶ view deltas

Between stateful stages the filters and projections are one statement each. `step` runs an epoch through all of it;
every stage saves its output with its state, so an epoch that was cut off anywhere is run again with the same result.
The same stages run on Spark, where the exchange between them is a shuffle by `Stage.shards`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa

from cdc.errors import ViewError
from cdc.events import TableName
from views.arrangement import Arrangement, Statistics
from views.fingerprint import fingerprint
from views.keys import shards_of
from views.plan import Filter, Node, Project, Scan, UnionAll
from views.sql.typed import column
from views.stages import STATEFUL, Chain, Stage, stage_for
from views.zset import WEIGHT, conform, consolidate, delta_schema


@dataclass(frozen=True)
class Branch:
    """A stream's way from its source: a table, or a stage by its place."""

    source: TableName | int
    chain: Chain


@dataclass(frozen=True)
class Stream:
    """The delta of a node: of one branch, or of several put together."""

    node: Node
    branches: tuple[Branch, ...]


@dataclass(frozen=True)
class PlacedStage:
    stage: Stage
    name: str
    """What its plan is, in short: the name of its folder."""
    inputs: tuple[Stream, ...]


@dataclass
class _Compiler:
    stages: list[PlacedStage] = field(default_factory=list)
    streams: dict[Node, Stream] = field(default_factory=dict)

    def stream(self, node: Node) -> Stream:
        if node not in self.streams:
            self.streams[node] = Stream(node, self._branches(node))
        return self.streams[node]

    def _branches(self, node: Node) -> tuple[Branch, ...]:
        if isinstance(node, Scan):
            return (Branch(node.table, Chain((node,))),)
        if isinstance(node, Filter | Project):
            inner = self.stream(node.input).branches
            return tuple(Branch(branch.source, branch.chain.then(node)) for branch in inner)
        if isinstance(node, UnionAll):
            return tuple(
                Branch(branch.source, branch.chain.then(_named_as(node, each)))
                for each in node.branches
                for branch in self.stream(each).branches
            )
        if not isinstance(node, STATEFUL):
            raise ViewError(f"no stage for a {type(node).__name__}", detail="", hint="headwater explain VIEW")
        inputs = tuple(self.stream(each) for each in node.inputs)
        self.stages.append(PlacedStage(stage_for(node), fingerprint(node), inputs))
        return (Branch(len(self.stages) - 1, Chain(())),)


def _named_as(union: UnionAll, branch: Node) -> Project:
    """A branch's columns under the union's names, by place."""
    pairs = zip(union.names, branch.fields, strict=True)
    return Project(union.fields, branch, tuple((name, column(field)) for name, field in pairs))


@dataclass(frozen=True)
class Graph:
    """The stages of some views, in an order in which each comes after its inputs. Holds no state: it can be sent."""

    stages: tuple[PlacedStage, ...]
    views: Mapping[str, Stream]

    @classmethod
    def of(cls, plans: Mapping[str, Node]) -> Graph:
        """From the views' plans by name."""
        compiler = _Compiler()
        views = {name: compiler.stream(root) for name, root in plans.items()}
        return cls(tuple(compiler.stages), views)

    @property
    def columns(self) -> dict[TableName, frozenset[str]]:
        """Of each table, the columns that some view uses."""
        used: dict[TableName, frozenset[str]] = {}
        streams = [*(stream for placed in self.stages for stream in placed.inputs), *self.views.values()]
        for branch in (branch for stream in streams for branch in stream.branches):
            first = branch.chain.steps[0] if branch.chain.steps else None
            if isinstance(first, Scan):
                used[first.table] = used.get(first.table, frozenset()) | set(first.columns)
        return used


class Dataflow:
    """A graph with its state, in this process."""

    def __init__(self, graph: Graph, folder: Path, *, shards: int = 1, owner: int = 0, durable: bool = True) -> None:
        self.graph = graph
        self._shards = shards
        self._arrangements = [
            [
                Arrangement.open(
                    folder / placed.name / str(shard),
                    placed.stage.tables,
                    identity=f"{placed.name} {shard}/{shards}",
                    owner=owner,
                    durable=durable,
                )
                for shard in range(shards)
            ]
            for placed in graph.stages
        ]

    @classmethod
    def build(
        cls, plans: Mapping[str, Node], folder: Path, *, shards: int = 1, owner: int = 0, durable: bool = True
    ) -> Dataflow:
        return cls(Graph.of(plans), folder, shards=shards, owner=owner, durable=durable)

    def step(self, epoch: int, deltas: Mapping[TableName, pa.Table]) -> dict[str, pa.Table]:
        """One epoch: from the tables' deltas to the views', consolidated. Tables without changes may be left out."""
        outputs: list[pa.Table] = []
        memo: dict[Node, pa.Table] = {}
        for placed, arrangements in zip(self.graph.stages, self._arrangements, strict=True):
            inputs = [_delta(stream, deltas, outputs, memo) for stream in placed.inputs]
            outputs.append(self._run(placed.stage, epoch, inputs, arrangements))
        return {name: consolidate(_delta(stream, deltas, outputs, memo)) for name, stream in self.graph.views.items()}

    def _run(
        self, stage: Stage, epoch: int, inputs: Sequence[pa.Table], arrangements: Sequence[Arrangement]
    ) -> pa.Table:
        parts = [stage.schema.empty_table()]
        split = [_split(stage, place, delta, self._shards) for place, delta in enumerate(inputs)]
        for shard, arrangement in enumerate(arrangements):
            mine = [pieces[shard] for pieces in split]
            if any(piece.num_rows for piece in mine) or must_speak(stage, shard, self._shards, arrangement, epoch):
                parts.append(stage.apply(epoch, mine, arrangement))
        return pa.concat_tables(parts)

    def statistics(self) -> dict[str, list[Statistics]]:
        """Of each stage, by shard."""
        pairs = zip(self.graph.stages, self._arrangements, strict=True)
        return {placed.name: [each.statistics() for each in arrangements] for placed, arrangements in pairs}

    def close(self) -> None:
        for arrangement in (each for arrangements in self._arrangements for each in arrangements):
            arrangement.close()

    def __enter__(self) -> Dataflow:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def must_speak(stage: Stage, shard: int, shards: int, arrangement: Arrangement, epoch: int) -> bool:
    """A result over nothing is due, in the first epoch and when that one is repeated."""
    return (
        stage.speaks_first
        and shard == shards_of([b""], shards)[0]
        and (arrangement.epoch is None or arrangement.epoch == epoch)
    )


def _split(stage: Stage, place: int, delta: pa.Table, shards: int) -> list[pa.Table]:
    if shards == 1:
        return [delta]
    belongs = np.array(stage.shards(place, delta, shards), np.int64)
    return [delta.filter(pa.array(belongs == shard)) for shard in range(shards)]


def _delta(
    stream: Stream, tables: Mapping[TableName, pa.Table], outputs: Sequence[pa.Table], memo: dict[Node, pa.Table]
) -> pa.Table:
    if stream.node not in memo:
        schema = delta_schema(stream.node.fields)
        parts = [schema.empty_table()]
        for branch in stream.branches:
            source = outputs[branch.source] if isinstance(branch.source, int) else tables.get(branch.source)
            if source is not None and source.num_rows:
                parts.append(conform(branch.chain.apply(source), schema))
        memo[stream.node] = pa.concat_tables(parts)
    return memo[stream.node]


__all__ = ["WEIGHT", "Branch", "Dataflow", "Graph", "PlacedStage", "Stream", "must_speak"]
