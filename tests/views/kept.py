"""Views kept by an engine in this process, beside the Postgres that says what they must be.

    events ─▶ Kept.epoch ─▶ every view == its SQL in Postgres, now

Also what may go wrong on the way: stopped and started, an epoch run again, an epoch cut off between its stages.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from cdc.catalog import Catalog
from cdc.events import ChangeEvent
from views.changes import Delta, changes, python_values
from views.dataflow import Dataflow
from views.definition import parse
from views.engine import Engine
from views.sql import ViewPlan, plan_view
from views.sqltypes import Family, SqlType
from views.zset import WEIGHT, consolidate, union

Rows = Counter[tuple[str | None, ...]]
_SPECIAL = re.compile(r'[\s{},"\\]')


def planned(text: str, catalog: Catalog) -> dict[str, ViewPlan]:
    return {definition.name: plan_view(definition, catalog) for definition in parse(text)}


def printed(column: pa.ChunkedArray, type_: SqlType) -> list[str | None]:
    """As Postgres casts it to text; numbers whose scale varies as the number."""
    return [None if value is None else _printed(value, type_) for value in python_values(column)]


def _printed(value: Any, type_: SqlType) -> str:
    match type_.family:
        case Family.BOOLEAN:
            return "true" if value else "false"
        case Family.ARRAY:
            items = ("NULL" if item is None else _element(item, type_.element) for item in value)
            return "{" + ",".join(items) + "}"
        case Family.FLOAT:
            return _float(value)
        case Family.BYTES:
            return f"\\x{bytes(value).hex()}"
        case _ if type_.scale_varies:
            return _number(str(value))
    return str(value)


def _element(value: Any, type_: SqlType) -> str:
    """Of an array, in quotes where it needs them."""
    if type_.family is Family.BOOLEAN:
        return "t" if value else "f"
    item = _printed(value, type_)
    if item and not _SPECIAL.search(item) and item.lower() != "null":
        return item
    return '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _read(text: str | None, type_: SqlType) -> str | None:
    """Postgres' text, in the form of `printed`."""
    if text is None:
        return None
    if type_.family is Family.FLOAT:
        return _float(text)
    return _number(text) if type_.scale_varies else text


def _float(value: float | str) -> str:
    """Python and Postgres write the same number with another exponent."""
    return repr(float(value))


def _number(text: str) -> str:
    return str(Decimal(text).normalize() + 0)


def held(plan: ViewPlan, deltas: Sequence[pa.Table]) -> Rows:
    """What a view holds after these deltas. Rows that left more often than they came stay in it, with their weight."""
    whole = consolidate(union(list(deltas)))
    columns = [printed(whole[field.name], field.type) for field in plan.root.fields]
    found: Rows = Counter()
    for row, weight in zip(zip(*columns, strict=True), whole[WEIGHT].to_pylist(), strict=True):
        found[row] += weight
    return found


def expected(plan: ViewPlan, connection: psycopg.Connection) -> Rows:
    columns = ", ".join(f'"{field.name}"::text' for field in plan.root.fields)
    types = [field.type for field in plan.root.fields]
    rows = connection.execute(f"select {columns} from ({plan.view.sql}) v").fetchall()
    return Counter(tuple(_read(value, type_) for value, type_ in zip(row, types, strict=True)) for row in rows)


class CutOff(Exception):
    pass


def run_cut_off(engine: Engine, epoch: int, events: Sequence[ChangeEvent], after: int) -> None:
    """An epoch that ends after some stages."""
    left = after
    genuine = Dataflow._run

    def cut(self: Dataflow, *arguments: Any) -> pa.Table:
        nonlocal left
        if left == 0:
            raise CutOff
        left -= 1
        return genuine(self, *arguments)

    Dataflow._run = cut  # type: ignore[method-assign, assignment]
    try:
        with pytest.raises(CutOff):
            engine.step(epoch, events)
    finally:
        Dataflow._run = genuine  # type: ignore[method-assign]


class Kept:
    """Not for several threads. `epoch` for each, then `check`; `close` removes its folder."""

    def __init__(self, plans: Mapping[str, ViewPlan], catalog: Catalog, *, shards: int = 1) -> None:
        self.plans = plans
        self.outputs: dict[str, list[pa.Table]] = {name: [] for name in plans}
        self._catalog, self._shards = catalog, shards
        self._folder = tempfile.TemporaryDirectory()
        self._number = -1
        self._last: Sequence[ChangeEvent] = []
        self.engine = self._opened()

    def _opened(self) -> Engine:
        roots = {name: plan.root for name, plan in self.plans.items()}
        return Engine(roots, self._catalog, Path(self._folder.name), shards=self._shards, durable=False)

    def epoch(self, events: Iterable[ChangeEvent]) -> dict[str, list[Delta]]:
        """The next one: what changed in each view, by key."""
        self._last = list(events)
        self._number += 1
        deltas = self.engine.step(self._number, self._last)
        for name, delta in deltas.items():
            self.outputs[name].append(delta)
        return {name: changes(name, p.root.fields, p.key, deltas[name]) for name, p in self.plans.items()}

    def restart(self) -> None:
        self.engine.close()
        self.engine = self._opened()

    def repeat(self) -> None:
        """The last epoch once more gives the same."""
        if self._number < 0:
            return
        again = self.engine.step(self._number, self._last)
        for name, outputs in self.outputs.items():
            plan = self.plans[name]
            assert held(plan, [again[name]]) == held(plan, outputs[-1:]), f"{name} differs when repeated"

    def cut_off(self, events: Sequence[ChangeEvent], after: int) -> None:
        """The next epoch, which ends after so many of its stages, or before the last; to be followed by `epoch`."""
        stages = len(self.engine.dataflow.graph.stages)
        if stages:
            run_cut_off(self.engine, self._number + 1, events, after % stages)

    def check(self, connection: psycopg.Connection) -> None:
        for name, plan in self.plans.items():
            ours, theirs = held(plan, self.outputs[name]), expected(plan, connection)
            differs = {row: (ours[row], theirs[row]) for row in {*ours, *theirs} if ours[row] != theirs[row]}
            assert not differs, f"{name} after epoch {self._number}: ours and Postgres' {differs}\n{plan.view.sql}"

    def close(self) -> None:
        self.engine.close()
        self._folder.cleanup()

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
