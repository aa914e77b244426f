"""A group of views that are kept together: they share mirrors and equal parts of plans, and stand at one position.

A group is written down once, when views are applied, and never changes its meaning: its file holds the definitions, the
shapes of the tables that they were planned against, and the era. Every process that works on it plans it anew from the
file and gets the same nodes, so nothing but its folder and the epoch's number travels to a task.
"""

from __future__ import annotations

import hashlib
import os
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec

from cdc.addresses import Source
from cdc.catalog import Catalog, Table
from cdc.errors import StateError
from cdc.events import TableName
from views.dataflow import Graph
from views.definition import ViewDefinition, parse
from views.maintain.nodes import MirrorNode, Node, StageNode, StoreNode
from views.mirror import Mirror
from views.sinks.sink import ViewShape
from views.sql import ViewPlan, plan_view
from views.store import ViewStore

FILE: Final = "group.json"


class GroupSpec(msgspec.Struct, frozen=True):
    id: str
    era: int
    topic_id: str
    start: int
    """The offset at which it begins to read."""
    shards: int
    definitions: dict[str, str]
    """A view's text, by its name."""
    tables: list[dict[str, Any]]
    """Rows of headwater.catalog: the shapes that the views were planned against."""
    paused: dict[str, str] = {}
    """Views that are no longer fed, and why."""
    gone: dict[str, list[str]] = {}
    """By table, the columns that it lost and only paused views use."""
    incarnation: int = 0
    """Of its state: another one whenever the state was put back from a copy."""
    skip_before: dict[str, int] = {}
    """By table, the offset before which its events are passed over: a later snapshot brings its rows."""
    seed_from: str = ""
    """The group whose mirrors it begins with, if that one has what it needs (seed.py)."""
    kept_since_s: float = 0.0
    keep_until_s: float = 0.0
    """Of one that readers left: it is fed until then, for who wants it back (standing_by.py)."""

    @classmethod
    def new(
        cls, era: int, topic_id: str, start: int, shards: int, definitions: Mapping[str, str], tables: Sequence[Any]
    ) -> GroupSpec:
        return cls(uuid.uuid4().hex[:12], era, topic_id, start, shards, dict(definitions), list(tables))

    def save(self, groups: Path) -> Path:
        folder = groups / self.id
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / FILE, msgspec.json.encode(self))
        return folder


def write_whole(file: Path, content: bytes) -> None:
    """The whole content or the old one, whatever happens meanwhile."""
    partial = file.with_name(f".{file.name}.{os.getpid()}.{threading.get_ident()}")
    with partial.open("wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())
    partial.replace(file)


class Group:
    """A spec with the nodes that follow from it, in an order in which each comes after its inputs."""

    def __init__(self, folder: Path, spec: GroupSpec) -> None:
        self.folder, self.spec = folder, spec

    @classmethod
    def load(cls, folder: Path) -> Group:
        try:
            spec = msgspec.json.decode((folder / FILE).read_bytes(), type=GroupSpec)
        except (OSError, msgspec.MsgspecError) as error:
            raise StateError(
                f"no group of views in {folder}", detail=str(error), hint="headwater apply --rebuild"
            ) from error
        return cls(folder, spec)

    @cached_property
    def catalog(self) -> Catalog:
        return Catalog.of(Table.parse(row) for row in self.spec.tables)

    @cached_property
    def declared(self) -> dict[str, ViewDefinition]:
        return {name: definition for name, text in self.spec.definitions.items() for definition in parse(text)}

    @cached_property
    def plans(self) -> dict[str, ViewPlan]:
        """Of all its views, the paused ones too: what a mirror keeps must not depend on who is paused."""
        return {name: plan_view(definition, self.catalog) for name, definition in self.declared.items()}

    @property
    def live(self) -> dict[str, ViewPlan]:
        return {name: plan for name, plan in self.plans.items() if name not in self.spec.paused}

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        graph = Graph.of({name: plan.root for name, plan in self.live.items()})
        mirrors = tuple(self._mirror_nodes(graph))
        place = {node.table: number for number, node in enumerate(mirrors)}
        stages: list[StageNode] = []
        levels: dict[TableName | int, int] = dict.fromkeys(place, 0)
        for number, placed in enumerate(graph.stages):
            level = 1 + max(levels[branch.source] for stream in placed.inputs for branch in stream.branches)
            levels[number] = level
            stages.append(StageNode(placed.name, level, placed.stage))
        stores = [
            StoreNode(name, 1 + max(levels[branch.source] for branch in stream.branches), self.store(name))
            for name, stream in graph.views.items()
        ]
        nodes: tuple[Node, ...] = (*mirrors, *stages, *stores)
        _connect(graph, nodes, place, len(mirrors))
        return nodes

    @cached_property
    def depth(self) -> int:
        return max((node.level for node in self.nodes), default=0)

    @cached_property
    def tables(self) -> dict[TableName, int]:
        """Where the events of a table go."""
        return {node.table: place for place, node in enumerate(self.nodes) if isinstance(node, MirrorNode)}

    def views_after(self, number: int) -> frozenset[str]:
        """The views that a node's output reaches."""
        node = self.nodes[number]
        if isinstance(node, StoreNode):
            return frozenset({node.name})
        ends = {dest for way in node.ways for dest, _ in way.ends}
        return frozenset().union(*(self.views_after(dest) for dest in ends))

    def uses(self, view: str, table: str, columns: frozenset[str] | None) -> bool:
        """Whether a view uses any of the columns of a table; None asks for the table itself."""
        used = Graph.of({view: self.plans[view].root}).columns
        found = next((names for name, names in used.items() if str(name) == table), None)
        return found is not None and (columns is None or bool(found & columns))

    def store(self, view: str) -> ViewStore:
        plan = self.plans[view]
        return ViewStore(view, tuple(plan.root.fields), plan.key)

    def shape(self, view: str, source: Source) -> ViewShape:
        """What sinks are told of a view."""
        store = self.store(view)
        return ViewShape(source.name, view, store.fields, store.key, dict(self.declared[view].options))

    @cached_property
    def version(self) -> str:
        """Another one whenever its file has changed: what processes keep of it by."""
        return hashlib.sha256(msgspec.json.encode(self.spec)).hexdigest()[:16]

    def state_folder(self, node: Node, shard: int) -> Path:
        return self.state / node.kind / node.name / str(shard)

    @property
    def state(self) -> Path:
        return self.folder / f"state-{self.spec.incarnation}"

    def places(self) -> Iterator[tuple[Node, int]]:
        """Every node on every shard on which it has state."""
        for node in self.nodes:
            shards = [mirror_shard(node, self.spec.shards)] if isinstance(node, MirrorNode) else None
            for shard in shards or range(self.spec.shards):
                yield node, shard

    def _mirror_nodes(self, live: Graph) -> Iterable[MirrorNode]:
        kept = Graph.of({name: plan.root for name, plan in self.plans.items()}).columns
        dealt = {name: number for number, name in enumerate(sorted(kept))}
        for name in sorted(live.columns):
            gone = frozenset(self.spec.gone.get(str(name), ()))
            yield MirrorNode(
                Mirror(self.catalog.table(name), kept[name], gone),
                self.spec.era,
                frozenset(live.columns[name]),
                self.spec.skip_before.get(str(name), 0),
                dealt[name],
            )


def mirror_shard(node: MirrorNode, shards: int) -> int:
    """Tables are dealt out one by one. A table stays where it is when views of another one are paused."""
    return node.dealt % shards


def _connect(graph: Graph, nodes: Sequence[Node], mirrors: Mapping[TableName, int], first_stage: int) -> None:
    """Tells every node where its output goes."""
    streams = [
        (stream, first_stage + number, place)
        for number, placed in enumerate(graph.stages)
        for place, stream in enumerate(placed.inputs)
    ]
    first_store = first_stage + len(graph.stages)
    streams += [(stream, first_store + number, 0) for number, stream in enumerate(graph.views.values())]
    for stream, dest, place in streams:
        for branch in stream.branches:
            source = branch.source
            node = nodes[first_stage + source if isinstance(source, int) else mirrors[source]]
            node.send(branch.chain, stream.node, dest, place)
