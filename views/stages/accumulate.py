"""Groups kept from changes alone: what an epoch costs follows the change, however large the groups are.

State: for each group its columns, the number of its rows and its accumulators (accumulators.py); for each minimum,
maximum and count of different values, the group's values (group_values.py). One statement folds the delta into the
accumulators, one computes the results of the touched groups before and after.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.errors import StateError
from views.arrangement import Entries, Writing
from views.arrangement.environment import REPAIR
from views.columns import Ints
from views.evaluate import evaluate
from views.plan import Aggregate, Distinct, Field
from views.rows import RowCodec
from views.stages.accumulators import Accumulated, accumulated
from views.stages.aggregate import keyed_input
from views.stages.group_values import GroupValues, more_distinct
from views.stages.recompute import PLACE
from views.stages.scope import Scope, numbered, result, typed
from views.stages.stage import Keyed, Stage
from views.zset import WEIGHT, consolidate, rows_of, weights

GROUPS: Final = "groups"
_ROWS: Final = "rows"


@dataclass(frozen=True)
class AccumulateStage(Stage):
    node: Aggregate | Distinct
    aggregate: Aggregate
    inputs: tuple[Keyed]
    kept: Accumulated
    tables: tuple[str, ...]
    speaks_first: bool

    @classmethod
    def of(cls, aggregate: Aggregate, node: Aggregate | Distinct | None = None) -> AccumulateStage | None:
        """None where the aggregates are not algebraic."""
        kept = accumulated(aggregate)
        if kept is None:
            return None
        values = [f"values{n}" for n, accumulator in enumerate(kept.accumulators) if accumulator.keeps_values]
        inputs = (keyed_input(aggregate),)
        return cls(node or aggregate, aggregate, inputs, kept, (GROUPS, *values), not aggregate.groups)

    def work(self, writing: Writing, deltas: Sequence[pa.Table]) -> Iterable[pa.Table]:
        delta = consolidate(deltas[0])
        keys = self.inputs[0].keys(delta)
        touched = sorted(set(keys))
        if self.speaks_first and writing.is_first:
            touched = [b""]
        if not touched:
            return
        place_of = {key: place for place, key in enumerate(touched)}
        places = np.array([place_of[key] for key in keys], np.int64)
        groups = writing.entries(GROUPS)
        stored = groups.read(touched)
        old = self._placed(
            self._codec.decode([stored[key] for key in touched if key in stored]),
            np.array([place for place, key in enumerate(touched) if key in stored], np.int64),
        )
        new = self._folded(delta, places, old)
        new = self._with_values(writing, delta, keys, touched, new)
        self._write(groups, touched, new)
        yield self._results(old, new)

    @cached_property
    def _codec(self) -> RowCodec:
        """Of a group's state: its columns g0, …, the number of rows, then n<i> and a<i> for the accumulators."""
        groups = [(f"g{n}", field.type.arrow) for n, field in enumerate(self._group_fields)]
        numbers: list[tuple[str, pa.DataType]] = [(_ROWS, pa.int64())]
        for place, accumulator in enumerate(self.kept.accumulators):
            if accumulator.is_extreme:
                numbers.append((f"a{place}", accumulator.argument_type))
            else:
                numbers.append((f"n{place}", pa.int64()))
            if accumulator.total:
                numbers.append((f"a{place}", accumulator.total_type))
        return RowCodec(pa.schema([*groups, *numbers]))

    @property
    def _group_fields(self) -> Sequence[Field]:
        return self.aggregate.fields[: len(self.aggregate.groups)]

    def _placed(self, states: pa.Table, places: Ints) -> pa.Table:
        return states.append_column(PLACE, pa.array(places))

    def _folded(self, delta: pa.Table, places: Ints, old: pa.Table) -> pa.Table:
        """The states with the delta added, extremes left open, ordered by place; repeated rows once for each time."""
        weight = weights(delta)
        repeated = np.repeat(np.arange(delta.num_rows), np.abs(weight))
        rows = numbered(rows_of(delta).take(pa.array(repeated)))
        rows = rows.append_column(PLACE, pa.array(places[repeated]))
        rows = rows.append_column(WEIGHT, pa.array(np.sign(weight)[repeated], pa.int64()))
        return evaluate(self._fold_sql, {"d": rows, "o": old})

    @cached_property
    def _fold_sql(self) -> str:
        scope = Scope.of(self.aggregate.input.fields)
        names, changes, sums = [], [], []
        for place, (_, expression) in enumerate(self.aggregate.groups):
            kind = self.aggregate.fields[place].type.duckdb
            names.append(f"g{place}")
            changes.append(f"CAST({scope.sql(expression)} AS {kind}) AS g{place}")
            sums.append(f"first(g{place}) AS g{place}")
        names.append(_ROWS)
        changes.append(f"{WEIGHT} AS {_ROWS}")
        sums.append(f"CAST(sum({_ROWS}) AS BIGINT) AS {_ROWS}")
        for place, accumulator in enumerate(self.kept.accumulators):
            if accumulator.is_extreme:
                continue
            names.append(f"n{place}")
            changes.append(f"CASE WHEN ({accumulator.value}) IS NOT NULL THEN {WEIGHT} ELSE 0 END AS n{place}")
            sums.append(f"CAST(sum(n{place}) AS BIGINT) AS n{place}")
            if total := accumulator.total:
                names.append(f"a{place}")
                changes.append(f"CASE WHEN {WEIGHT} > 0 THEN {total} ELSE -{total} END AS a{place}")
                sums.append(f"sum(a{place}) AS a{place}")
        return (
            f"SELECT {', '.join(sums)}, {PLACE} FROM (SELECT {', '.join(names)}, {PLACE} FROM o UNION ALL "
            f"SELECT {', '.join(changes)}, {PLACE} FROM d) GROUP BY {PLACE} ORDER BY {PLACE}"
        )

    def _with_values(
        self, writing: Writing, delta: pa.Table, keys: list[bytes], touched: list[bytes], new: pa.Table
    ) -> pa.Table:
        """The states' columns in the order of the codec, with what the groups' values say in them."""
        if not new.num_rows and self.speaks_first:
            new = self._nothing
        groups = [touched[place] for place in new[PLACE].to_pylist()]
        columns = {name: new[name] for name in new.column_names}
        for place, accumulator in enumerate(self.kept.accumulators):
            if not accumulator.keeps_values:
                continue
            values = GroupValues(writing.multiset(f"values{place}"), accumulator.argument_type)
            given = evaluate(f"SELECT {accumulator.value} AS v FROM d", {"d": numbered(rows_of(delta))})["v"]
            changed = values.put(keys, given, weights(delta).tolist())
            if accumulator.is_extreme:
                columns[f"a{place}"] = values.ends(groups, least=accumulator.kind == "min")
            else:
                before = columns[f"a{place}"].cast(pa.int64())
                columns[f"a{place}"] = pc.add(before, pa.array(more_distinct(changed, groups)))
        arrays = [columns[field.name].cast(field.type) for field in self._codec.schema]
        states = pa.Table.from_arrays(arrays, schema=self._codec.schema)
        return states.append_column(PLACE, new[PLACE])

    @cached_property
    def _nothing(self) -> pa.Table:
        """The state of the one group without rows."""
        zeros = {
            field.name: pa.array([None if self._is_extreme(field.name) else 0], field.type)
            for field in self._codec.schema
        }
        return pa.table({**zeros, PLACE: pa.array([0], pa.int64())})

    def _is_extreme(self, name: str) -> bool:
        return name[0] == "a" and self.kept.accumulators[int(name[1:])].is_extreme

    def _write(self, groups: Entries, touched: list[bytes], new: pa.Table) -> None:
        if new.num_rows and pc.min(new[_ROWS]).as_py() < 0:
            raise StateError("a group has fewer rows than none", detail=str(self.node.names), hint=REPAIR)
        rows = self._codec.encode(new.drop_columns([PLACE]))
        counts, places = new[_ROWS].to_pylist(), new[PLACE].to_pylist()
        states = list(zip(places, counts, rows, strict=True))
        groups.write((touched[place], row) for place, count, row in states if count or self.speaks_first)
        groups.delete(touched[place] for place, count, _ in states if not count and not self.speaks_first)

    def _results(self, old: pa.Table, new: pa.Table) -> pa.Table:
        states = pa.concat_tables(
            [
                old.append_column(WEIGHT, pa.array(np.full(old.num_rows, -1, np.int64))),
                new.append_column(WEIGHT, pa.array(np.ones(new.num_rows, np.int64))),
            ]
        )
        return result(self.node, evaluate(self._result_sql, {"s": states}))

    @cached_property
    def _result_sql(self) -> str:
        calls = [f"{accumulator.result(n)} AS a{n}" for n, accumulator in enumerate(self.kept.accumulators)]
        names = [f"g{n}" for n in range(len(self.aggregate.groups))]
        scope = Scope({f"a{n}": f"a{n}" for n in range(len(self.kept.accumulators))})
        columns = typed(self.node.fields, [*names, *(scope.sql(expression) for expression in self.kept.results)])
        inner = ", ".join([*names, *calls, WEIGHT])
        wanted = "" if self.speaks_first else f" WHERE {_ROWS} > 0"
        return f"SELECT {', '.join([*columns, WEIGHT])} FROM (SELECT {inner} FROM s{wanted})"
