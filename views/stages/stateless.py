"""Filters and projections between stateful stages: a chain of them is one SELECT over the delta, weights included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from sqlglot import exp

from views.evaluate import evaluate
from views.plan import Field, Filter, Node, Project, Scan
from views.stages.scope import Scope, numbered
from views.zset import WEIGHT, conform, delta_schema


@dataclass(frozen=True)
class Chain:
    """Steps from a source's delta to a node's; the first may be the Scan that names a table's columns."""

    steps: tuple[Node, ...]

    def then(self, node: Filter | Project) -> Chain:
        return Chain((*self.steps, node))

    def apply(self, delta: pa.Table) -> pa.Table:
        """The delta of the last step."""
        steps = self.steps
        if steps and isinstance(steps[0], Scan):
            delta, steps = scanned(steps[0], delta), steps[1:]
        while steps and (picked := _picked(steps[0])) is not None:
            delta, steps = conform(delta.select([*picked, WEIGHT]), delta_schema(steps[0].fields)), steps[1:]
        if not steps:
            return delta
        schema = delta_schema(steps[-1].fields)
        if not delta.num_rows:
            return schema.empty_table()
        return conform(evaluate(self._statement(len(self.steps) - len(steps)), {"d": numbered(delta)}), schema)

    @cached_property
    def _statements(self) -> dict[int, str]:
        return {}

    def _statement(self, start: int) -> str:
        """The steps from `start` on, each around the one before."""
        if start not in self._statements:
            steps = self.steps[start:]
            sql = "d"
            fields = steps[0].inputs[0].fields
            for step in steps:
                sql, fields = _around(sql, step, fields), step.fields
            self._statements[start] = f"FROM {sql}"
        return self._statements[start]


def scanned(scan: Scan, delta: pa.Table) -> pa.Table:
    return conform(delta.select([*scan.columns, WEIGHT]), delta_schema(scan.fields))


def _picked(step: Node) -> list[str] | None:
    """The input's columns that a projection takes, if it does nothing else."""
    if not isinstance(step, Project) or not all(isinstance(e, exp.Column) for _, e in step.columns):
        return None
    return [expression.name for _, expression in step.columns]


def _around(source: str, step: Node, fields: Sequence[Field]) -> str:
    scope = Scope.of(fields)
    if isinstance(step, Filter):
        return f"(SELECT * FROM {source} WHERE {scope.sql(step.predicate)})"
    assert isinstance(step, Project)
    columns = [
        f"CAST({scope.sql(expression)} AS {field.type.duckdb}) AS c{place}"
        for place, (field, (_, expression)) in enumerate(zip(step.fields, step.columns, strict=True))
    ]
    return f"(SELECT {', '.join([*columns, WEIGHT])} FROM {source})"
