"""Z-sets: changes of a multiset of rows as an Arrow table with a weight a row. Pure.

Rows are the same only if all their bytes are: 1.0 and 1.00, or 0.0 and -0.0, are different rows here, because what is
published must be what Postgres prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from views.columns import Ints
from views.plan import Field
from views.rows import RowCodec

WEIGHT: Final = "__weight"


def row_schema(fields: Iterable[Field]) -> pa.Schema:
    return pa.schema([(field.name, field.type.arrow) for field in fields])


def delta_schema(fields: Iterable[Field]) -> pa.Schema:
    return row_schema(fields).append(pa.field(WEIGHT, pa.int64()))


def weights(delta: pa.Table) -> Ints:
    found: Ints = delta[WEIGHT].to_numpy()
    return found


def rows_of(delta: pa.Table) -> pa.Table:
    return delta.drop_columns([WEIGHT])


def weighted(rows: pa.Table, weight: Ints | int) -> pa.Table:
    values = np.full(rows.num_rows, weight, np.int64) if isinstance(weight, int) else weight
    return rows.append_column(WEIGHT, pa.array(values, pa.int64()))


def negate(delta: pa.Table) -> pa.Table:
    return weighted(rows_of(delta), -weights(delta))


def union(deltas: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(deltas)


def consolidate(delta: pa.Table) -> pa.Table:
    """Each row once, none with weight 0, in the order of their first appearance."""
    if delta.num_rows <= 1:
        return delta.filter(pc.not_equal(delta[WEIGHT], 0))
    rows = rows_of(delta)
    codes = RowCodec(rows.schema).encoded(rows).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    _, first = np.unique(codes, return_index=True)
    totals = np.zeros(len(first), np.int64)
    np.add.at(totals, codes, weights(delta))
    if len(first) == delta.num_rows and totals.all():
        return delta
    kept = np.flatnonzero(totals)
    return weighted(rows.take(pa.array(first[kept])), totals[kept])


def diff(new: pa.Table, old: pa.Table) -> pa.Table:
    """The delta that leads from the one multiset of rows (with weights) to the other."""
    return consolidate(union([new, negate(old)]))


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same columns by place, with the schema's names and types. A value that does not fit is an ArrowInvalid."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)
