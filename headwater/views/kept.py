"""Views as they are kept now: which group serves each, how far it is, what it holds. Only reads, from any process.

A view is served by the group that its frontier names: while it is built again, that is still the old one. Stores are
read in short transactions, because a long one would keep their writer from using freed pages again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from cdc.addresses import KafkaAddress, Source
from cdc.errors import ConfigurationError, ViewError
from cdc.position import Lsn
from cdc.reader import read_range
from cdc.topics import find_state
from views.arrangement.arrangement import last_epoch
from views.arrangement.environment import DATA_FILE, Environment, opened, pages
from views.arrangement.tables import Entries
from views.keys import shards_of
from views.maintain.group import FILE, Group
from views.maintain.nodes import MirrorNode, Node, StageNode, StoreNode
from views.maintain.publisher import Frontier, frontier_topic
from views.maintain.registry import Registry, ViewState, ViewStatus
from views.refusals import nearest
from views.store import ViewStore

POLL_S: Final = 0.1
CHUNK_ROWS: Final = 5_000
_ROWS: Final = "rows"
_OWN: Final = ("meta", "output", "applied", "pending")
"""Tables that an arrangement keeps for itself."""


@dataclass
class Frontiers:
    """The newest frontier of each view; asked again it reads only what is new."""

    kafka: KafkaAddress
    source: Source
    _next: int | None = None
    _found: dict[str, Frontier] = field(default_factory=dict)

    def look(self) -> dict[str, Frontier]:
        topic = frontier_topic(self.source)
        state = find_state(self.kafka, topic)
        if state is None:
            return {}
        for chunk in read_range(self.kafka, topic, state.low if self._next is None else self._next, state.high):
            for raw in chunk:
                name = (raw.key or b"").decode()
                if raw.value is None:
                    self._found.pop(name, None)
                else:
                    self._found[name] = msgspec.json.decode(raw.value, type=Frontier)
        self._next = state.high
        return dict(self._found)

    def wait(self, view: str, is_enough: Callable[[Frontier], bool], timeout_s: float) -> Frontier | None:
        """The first frontier that is enough; None when it does not come in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            found = self.look().get(view)
            if found is not None and is_enough(found):
                return found
            if time.monotonic() > deadline:
                return None
            time.sleep(POLL_S)


def includes(lsn: Lsn) -> Callable[[Frontier], bool]:
    """Commits come in the order of their LSNs, so what reached one holds all before it."""
    return lambda frontier: Lsn.parse(frontier.lsn) >= lsn


@dataclass(frozen=True)
class Occupied:
    """What an arrangement holds, over all shards."""

    kind: str
    name: str
    key: tuple[str, ...]
    rows: int
    bytes: int
    views: tuple[str, ...] = ()


class KeptView:
    """One view in the group that serves it."""

    def __init__(self, group: Group, view: str) -> None:
        self.group, self.view = group, view
        self.store: ViewStore = group.store(view)
        node = StoreNode(view, 0, self.store)
        self.folders = [group.state_folder(node, shard) for shard in range(group.spec.shards)]

    @property
    def epoch(self) -> int:
        """The offset at which the last epoch that changed it ended; its frontier says the same once it is published."""
        found = [_epoch(folder) for folder in self.folders]
        return max((epoch for epoch in found if epoch is not None), default=0)

    def read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The rows under encoded keys, as they are now."""
        found: dict[bytes, bytes] = {}
        wanted: dict[int, list[bytes]] = {}
        for key, shard in zip(keys, shards_of(keys, len(self.folders)), strict=True):
            wanted.setdefault(shard, []).append(key)
        for shard, mine in wanted.items():
            found |= _read(self.folders[shard], mine)
        return found

    def read_anywhere(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The same, also where they do not belong: on whatever shard."""
        found: dict[bytes, bytes] = {}
        for folder in self.folders:
            found |= _read(folder, keys)
        return found

    def chunks(self) -> Iterator[list[tuple[bytes, bytes]]]:
        """All rows with their encoded keys, chunk by chunk, each chunk as of its own moment."""
        for folder in self.folders:
            start = b""
            while True:
                with _reading(folder) as rows:
                    chunk = list(islice(rows.all(start), CHUNK_ROWS))
                if chunk:
                    yield chunk
                if len(chunk) < CHUNK_ROWS:
                    break
                start = chunk[-1][0] + b"\x00"

    def walk(self, shard: int, start: bytes, rows_max: int) -> tuple[list[tuple[bytes, bytes]], tuple[int, bytes]]:
        """The rows from a place on, and the place after them: who goes on from there has seen every row, in turns."""
        found: list[tuple[bytes, bytes]] = []
        for _ in range(len(self.folders) + 1):
            shard %= len(self.folders)
            with _reading(self.folders[shard]) as rows:
                found += islice(rows.all(start), rows_max - len(found))
            if len(found) >= rows_max:
                return found, (shard, found[-1][0] + b"\x00")
            shard, start = shard + 1, b""
        return found, (shard, b"")

    def occupied(self) -> Occupied:
        rows, size = _size(self.folders)
        return Occupied("view", self.view, self.store.key, rows, size, (self.view,))

    def arrangements(self) -> list[Occupied]:
        """Of everything on the way from the tables to the view."""
        places: dict[int, list[Path]] = {}
        nodes = list(self.group.nodes)
        for node, shard in self.group.places():
            places.setdefault(nodes.index(node), []).append(self.group.state_folder(node, shard))
        found = []
        for number, folders in places.items():
            views = self.group.views_after(number)
            if self.view in views:
                rows, size = _size(folders)
                kind, name, key = _told(nodes[number])
                found.append(Occupied(kind, name, key, rows, size, tuple(sorted(views))))
        return found


def open_view(registry: Registry, frontiers: dict[str, Frontier], view: str) -> KeptView:
    """Raises ViewError, which says why, for a view that has nothing to be read yet."""
    known, status = registry.wanted().views, registry.state().views.get(view)
    if view not in known:
        raise ConfigurationError(f"no view {view}", detail=nearest(view, known), hint="headwater views")
    frontier = frontiers.get(view)
    if frontier is None or not (registry.groups / frontier.group / FILE).exists():
        raise not_ready(view, status, registry)
    return KeptView(Group.load(registry.groups / frontier.group), view)


def not_ready(view: str, status: ViewStatus | None, registry: Registry) -> ViewError:
    told = status.state if status is not None else ViewState.WAITING
    if not registry.is_kept():
        return ViewError(f"view {view} is {told}, and nobody keeps it", hint="headwater up")
    return ViewError(f"view {view} is {told}", detail=status.reason if status else "", hint="headwater views")


def _told(node: Node) -> tuple[str, str, tuple[str, ...]]:
    from views.explain import describe, shown

    if isinstance(node, MirrorNode):
        return "table", str(node.table), node.mirror.table.key
    if isinstance(node, StageNode):
        keys = tuple(", ".join(map(shown, each.expressions)) for each in node.stage.inputs)
        return "stage", describe(node.stage.node), tuple(dict.fromkeys(key for key in keys if key))
    assert isinstance(node, StoreNode)
    return "view", node.name, node.store.key


@contextmanager
def _opened(folder: Path) -> Iterator[Environment]:
    if not (folder / DATA_FILE).exists():
        raise ViewError(f"no state in {folder}", detail="the view was replaced meanwhile", hint="run it again")
    with opened(folder) as environment:
        yield environment


@contextmanager
def _reading(folder: Path) -> Iterator[Entries]:
    with _opened(folder) as environment:
        table = environment.table(_ROWS)
        with environment.reading() as transaction:
            yield Entries(transaction, table)


def _read(folder: Path, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    with _reading(folder) as rows:
        return rows.read(keys)


def _epoch(folder: Path) -> int | None:
    with _opened(folder) as environment:
        return last_epoch(environment)


def _size(folders: Sequence[Path]) -> tuple[int, int]:
    """Rows, and bytes in use."""
    rows = size = 0
    for folder in folders:
        if not (folder / DATA_FILE).exists():
            continue
        with _opened(folder) as environment:
            tables = {name: environment.table(name) for name in environment.names()}
            with environment.reading() as transaction:
                for name, table in tables.items():
                    stat = transaction.stat(table)
                    size += pages(stat) * stat["psize"]
                    rows += 0 if name in _OWN else stat["entries"]
    return rows, size
