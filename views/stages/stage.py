"""The contract of every stateful operator.

A stage is a pure function of its inputs' deltas and its arrangement: `run` gives the change of the operator's result,
in one transaction that also saves it. The rows of an input are arranged by the node's key, so shards never need each
other: a row's shard follows from its key alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa
from sqlglot import exp

from views.arrangement import Arrangement, Output, Writing
from views.columns import Flags
from views.evaluate import evaluate
from views.keys import KEY_BYTES_MAX, KeyCodec, KeyType, any_null, shards_of
from views.plan import Field, Node
from views.rows import RowCodec
from views.stages.scope import Scope, numbered
from views.zset import consolidate, delta_schema, row_schema, rows_of, union, weights

OUTPUT_ROWS_MAX: Final = 131_072
"""Rows of output that a stage gathers before it hands them on."""


@dataclass(frozen=True)
class KeyedDelta:
    """An input's delta with the key and the bytes of each row."""

    table: pa.Table
    keys: list[bytes]
    rows: list[bytes]
    weights: list[int]
    null_keys: Flags


@dataclass(frozen=True)
class Keyed:
    """One input of a stage: its columns, and the key by which it is arranged."""

    fields: tuple[Field, ...]
    expressions: tuple[exp.Expression, ...]
    types: tuple[KeyType, ...]
    key_bytes_max: int = KEY_BYTES_MAX

    @cached_property
    def codec(self) -> RowCodec:
        return RowCodec(row_schema(self.fields))

    @cached_property
    def codec_of_keys(self) -> KeyCodec:
        return KeyCodec(self.types, self.key_bytes_max)

    def key_columns(self, delta: pa.Table) -> list[pa.ChunkedArray]:
        return columns_of(self.expressions, self.fields, delta)

    def keys(self, delta: pa.Table) -> list[bytes]:
        return self.codec_of_keys.encode(self.key_columns(delta), delta.num_rows)

    def read(self, delta: pa.Table) -> KeyedDelta:
        """Consolidated, so that no row appears twice."""
        table = consolidate(delta)
        columns = self.key_columns(table)
        return KeyedDelta(
            table=table,
            keys=self.codec_of_keys.encode(columns, table.num_rows),
            rows=self.codec.encode(rows_of(table)),
            weights=weights(table).tolist(),
            null_keys=any_null(columns, table.num_rows),
        )


def columns_of(expressions: Sequence[exp.Expression], fields: Sequence[Field], rows: pa.Table) -> list[pa.ChunkedArray]:
    """The values of expressions over rows, in their order."""
    if all(isinstance(expression, exp.Column) for expression in expressions):
        return [rows[expression.name] for expression in expressions]
    scope = Scope.of(fields)
    listed = ", ".join(f"{scope.sql(expression)} AS k{n}" for n, expression in enumerate(expressions))
    return list(evaluate(f"SELECT {listed} FROM d", {"d": numbered(rows)}).columns)


class Stage(ABC):
    """One stateful node."""

    node: Node
    inputs: tuple[Keyed, ...]
    tables: tuple[str, ...]
    """Of its arrangement."""
    speaks_first: bool = False
    """Has a result over nothing, which it gives in its first epoch on the shard of the empty key."""

    @property
    def schema(self) -> pa.Schema:
        return delta_schema(self.node.fields)

    def apply(self, epoch: int, deltas: Sequence[pa.Table], arrangement: Arrangement) -> pa.Table:
        return self.run(epoch, deltas, arrangement).table(self.schema)

    def run(self, epoch: int, deltas: Sequence[pa.Table], arrangement: Arrangement) -> Output:
        """The same, in chunks: for results that are too large to hold."""
        return arrangement.step(epoch, lambda writing: gathered(self.work(writing, deltas)))

    def shards(self, place: int, delta: pa.Table, shards: int) -> list[int]:
        """Where the rows of an input's delta belong."""
        return shards_of(self.inputs[place].keys(delta), shards)

    @abstractmethod
    def work(self, writing: Writing, deltas: Sequence[pa.Table]) -> Iterable[pa.Table]:
        """Deltas of the result, in pieces; also changes the arrangement's tables."""


def gathered(pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Small pieces put together and consolidated; what nets out within a piece is gone."""
    held: list[pa.Table] = []
    for piece in pieces:
        held.append(piece)
        if sum(table.num_rows for table in held) >= OUTPUT_ROWS_MAX:
            yield consolidate(union(held))
            held = []
    if held:
        yield consolidate(union(held))
