"""Joins by the delta rule: the change of a join from the changes of its sides and what is stored of the other.

    Δ(L ⋈ R) = ΔL ⋈ R  +  L ⋈ ΔR  +  ΔL ⋈ ΔR          L and R as they were before the epoch

An outer join also has the rows without a partner: those of ΔL where the key has none now, and all of L where the key
came to have one (taken away) or lost its last one (put back). Stored rows are streamed in chunks, so a row that meets a
million costs time but not memory. An outer join whose condition is more than equal keys is recomputed: whether a row
has a partner is then a matter of the row and not of its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from views.arrangement import Changed, Multiset, Writing
from views.columns import Ints
from views.evaluate import evaluate
from views.keys import common
from views.plan import Field, Join, JoinKind, SemiJoin
from views.stages.presence import Presence
from views.stages.recompute import COUNT, JOINS, PLACE, SIDE, KeyedRecompute, Statement
from views.stages.scope import Scope, key_types, numbered, typed
from views.stages.stage import Keyed, KeyedDelta, Stage
from views.zset import WEIGHT, conform, delta_schema, rows_of, weighted, weights

PAIRS_MAX: Final = 131_072
"""Pairs of rows that are made at once."""
STORED_ROWS_MAX: Final = 16_384
"""Stored rows that are decoded at once."""


def keyed_inputs(node: Join | SemiJoin) -> tuple[Keyed, Keyed]:
    left = key_types(node.left_keys, node.left.fields)
    right = key_types(node.right_keys, node.right.fields)
    types = tuple(common(one, two) for one, two in zip(left, right, strict=True))
    return (
        Keyed(node.left.fields, tuple(node.left_keys), types),
        Keyed(node.right.fields, tuple(node.right_keys), types),
    )


def sides(node: Join | SemiJoin) -> Scope:
    return Scope.of(node.left.fields, "l") | Scope.of(node.right.fields, "r")


def recompute(node: Join) -> KeyedRecompute:
    scope = sides(node)
    condition = f"i0.{PLACE} = i1.{PLACE} AND i0.{SIDE} = i1.{SIDE} AND i0.{JOINS} AND i1.{JOINS}"
    if node.residual is not None:
        condition += f" AND ({scope.sql(node.residual)})"
    columns = typed(node.fields, [f'"{scope.names[name]}"' for name in node.names])
    sign = f"CASE WHEN coalesce(i0.{SIDE}, i1.{SIDE}) THEN 1 ELSE -1 END"
    count = f"coalesce(i0.{COUNT}, 1) * coalesce(i1.{COUNT}, 1)"
    sql = f"SELECT {', '.join(columns)}, {sign} * {count} AS {WEIGHT} FROM i0 {node.kind} JOIN i1 ON {condition}"
    return KeyedRecompute(node, keyed_inputs(node), Statement(sql, repeats=False))


@dataclass(frozen=True)
class _Input:
    """One side within an epoch."""

    keyed: Keyed
    multiset: Multiset
    delta: KeyedDelta
    changed: list[Changed]

    @cached_property
    def joining(self) -> dict[bytes, int]:
        """The keys of the delta that may have partners, numbered."""
        pairs = zip(self.delta.keys, self.delta.null_keys, strict=True)
        return {key: place for place, key in enumerate(dict.fromkeys(key for key, null in pairs if not null))}


@dataclass(frozen=True)
class JoinStage(Stage):
    node: Join
    inputs: tuple[Keyed, Keyed]
    tables: tuple[str, ...] = ("left", "right")

    @classmethod
    def of(cls, node: Join) -> JoinStage:
        return cls(node, keyed_inputs(node))

    @staticmethod
    def can(node: Join) -> bool:
        return node.kind is JoinKind.INNER or node.residual is None

    def work(self, writing: Writing, deltas: Sequence[pa.Table]) -> Iterable[pa.Table]:
        left, right = (self._input(writing, place, delta) for place, delta in enumerate(deltas))
        kind = self.node.kind
        keeps_left, keeps_right = kind in (JoinKind.LEFT, JoinKind.FULL), kind in (JoinKind.RIGHT, JoinKind.FULL)
        keys = {*left.joining, *right.joining}
        yield from self._delta_by_delta(left, right)
        if keeps_left:
            partners = Presence.of(right.multiset, right.changed, keys)
            yield from self._unmatched(left, partners, is_left=True)
            yield from self._stored_by_delta(left, right, is_left=True, partners=partners)
        else:
            yield from self._stored_by_delta(left, right, is_left=True, partners=None)
        if keeps_right:
            partners = Presence.of(left.multiset, left.changed, keys)
            yield from self._unmatched(right, partners, is_left=False)
            yield from self._stored_by_delta(right, left, is_left=False, partners=partners)
        else:
            yield from self._stored_by_delta(right, left, is_left=False, partners=None)
        left.multiset.write(left.changed)
        right.multiset.write(right.changed)

    def _input(self, writing: Writing, place: int, delta: pa.Table) -> _Input:
        keyed, multiset = self.inputs[place], writing.multiset(self.tables[place])
        read = keyed.read(delta)
        return _Input(keyed, multiset, read, multiset.changes(read.keys, read.rows, read.weights))

    def _delta_by_delta(self, left: _Input, right: _Input) -> Iterator[pa.Table]:
        numbers = left.joining
        one = _places(left.delta, numbers)
        two = _places(right.delta, numbers)
        for i, j in matches(one, two):
            yield self._paired(left.delta.table.take(pa.array(i)), right.delta.table.take(pa.array(j)))

    def _stored_by_delta(
        self, stored: _Input, other: _Input, *, is_left: bool, partners: Presence | None
    ) -> Iterator[pa.Table]:
        """Stored rows of one side with the other's delta; with `partners`, also those that gain or lose a partner."""
        keys = list(other.joining)
        places = _places(other.delta, other.joining)
        shifts = np.array([0 if partners is None else -partners.shift(key) for key in keys], np.int64)
        for chunk in stored.multiset.scan(keys, STORED_ROWS_MAX):
            rows = weighted(stored.keyed.codec.decode(chunk.rows), np.array(chunk.counts, np.int64))
            at = np.array(chunk.places, np.int64)
            for i, j in matches(at, places):
                mine, others = rows.take(pa.array(i)), other.delta.table.take(pa.array(j))
                yield self._paired(mine, others) if is_left else self._paired(others, mine)
            shifted = np.flatnonzero(shifts[at])
            if len(shifted):
                turned = rows.take(pa.array(shifted))
                yield self._padded(weighted(rows_of(turned), weights(turned) * shifts[at][shifted]), is_left=is_left)

    def _unmatched(self, side: _Input, partners: Presence, *, is_left: bool) -> Iterator[pa.Table]:
        pairs = zip(side.delta.keys, side.delta.null_keys, strict=True)
        alone = np.array([bool(null) or key not in partners.new for key, null in pairs], np.bool_)
        if alone.any():
            yield self._padded(side.delta.table.filter(pa.array(alone)), is_left=is_left)

    def _paired(self, left: pa.Table, right: pa.Table) -> pa.Table:
        weight = weights(left) * weights(right)
        columns = dict(zip([*left.column_names, *right.column_names], [*left.columns, *right.columns], strict=True))
        rows = pa.table([columns[name] for name in self.node.names], names=list(self.node.names))
        pairs = conform(weighted(rows, weight), self.schema)
        return pairs if self.node.residual is None else self._filtered(left, right, pairs)

    def _filtered(self, left: pa.Table, right: pa.Table, pairs: pa.Table) -> pa.Table:
        assert self.node.residual is not None
        lefts, rights = numbered(rows_of(left), "l"), numbered(rows_of(right), "r")
        both = pa.table([*lefts.columns, *rights.columns], names=[*lefts.column_names, *rights.column_names])
        held = evaluate(f"SELECT coalesce({sides(self.node).sql(self.node.residual)}, false) FROM d", {"d": both})
        return pairs.filter(held.columns[0])

    def _padded(self, rows: pa.Table, *, is_left: bool) -> pa.Table:
        """With NULLs in the place of the other side."""
        mine: Sequence[Field] = self.node.left.fields if is_left else self.node.right.fields
        names = {field.name for field in mine}
        columns = [
            rows[field.name] if field.name in names else pa.nulls(rows.num_rows, field.type.arrow)
            for field in self.node.fields
        ]
        return conform(pa.table([*columns, rows[WEIGHT]], names=self.schema.names), delta_schema(self.node.fields))


def _places(delta: KeyedDelta, numbers: dict[bytes, int]) -> Ints:
    """For each row of a delta the number of its key, -1 where it has none."""
    return np.array([numbers.get(key, -1) for key in delta.keys], np.int64)


def matches(left: Ints, right: Ints, pairs_max: int = PAIRS_MAX) -> Iterator[tuple[Ints, Ints]]:
    """Places (i, j) with the same number, which is not -1, in portions. A portion may exceed the limit by one row's."""
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    first, last = np.searchsorted(ordered, left, "left"), np.searchsorted(ordered, left, "right")
    counts = np.where(left < 0, 0, last - first)
    portions = np.cumsum(counts) // pairs_max
    cuts = [0, *(np.flatnonzero(np.diff(portions)) + 1).tolist(), len(left)]
    for start, end in pairwise(cuts):
        some = counts[start:end]
        total = int(some.sum())
        if not total:
            continue
        i = np.repeat(np.arange(start, end), some)
        within = np.arange(total) - np.repeat(np.cumsum(some) - some, some)
        yield i, order[np.repeat(first[start:end], some) + within]
