"""Mirrors and dataflow together in one process: from an epoch's change events to the views' deltas.

The same folder, opened again, goes on where it was; an epoch that did not end is run again and gives the same. Spark
runs the same parts, spread over its tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from cdc.catalog import Catalog
from cdc.events import ChangeEvent, TableName
from views.arrangement import Arrangement
from views.dataflow import Dataflow, Graph
from views.mirror import Mirror
from views.plan import Node


class Engine:
    def __init__(
        self,
        plans: Mapping[str, Node],
        catalog: Catalog,
        folder: Path,
        *,
        shards: int = 1,
        owner: int = 0,
        durable: bool = True,
    ) -> None:
        graph = Graph.of(plans)
        self.mirrors = {name: Mirror(catalog.table(name), columns) for name, columns in graph.columns.items()}
        self.dataflow = Dataflow(graph, folder / "stages", shards=shards, owner=owner, durable=durable)
        self._arrangements = {
            name: Arrangement.open(
                folder / "mirrors" / str(name), mirror.tables, identity=mirror.identity, owner=owner, durable=durable
            )
            for name, mirror in self.mirrors.items()
        }

    def step(self, epoch: int, events: Iterable[ChangeEvent]) -> dict[str, pa.Table]:
        """One epoch: the events of some whole transactions, in order."""
        by_table: dict[TableName, list[ChangeEvent]] = {}
        for event in events:
            if event.table in self.mirrors:
                by_table.setdefault(event.table, []).append(event)
        deltas = {
            name: self.mirrors[name].apply(epoch, changes, self._arrangements[name])
            for name, changes in by_table.items()
        }
        return self.dataflow.step(epoch, deltas)

    def close(self) -> None:
        self.dataflow.close()
        for arrangement in self._arrangements.values():
            arrangement.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
