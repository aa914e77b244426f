"""Rows that have, or have not, a partner: EXISTS, IN, NOT EXISTS, NOT IN.

A row stays or goes by whether its key has rows on the other side, so a change there moves all rows of a key, and only
when the first partner comes or the last one leaves. More than equal keys is recomputed by key. NOT IN is in notin.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from views.arrangement import Writing
from views.plan import SemiJoin, SemiJoinKind
from views.stages.join import STORED_ROWS_MAX, keyed_inputs, sides
from views.stages.presence import Presence
from views.stages.recompute import COUNT, JOINS, PLACE, SIDE, SIGN, KeyedRecompute, Statement
from views.stages.scope import typed
from views.stages.stage import Keyed, Stage
from views.zset import WEIGHT, conform, weighted


def recompute(node: SemiJoin) -> KeyedRecompute:
    scope = sides(node)
    if node.null_aware:
        inputs = (Keyed(node.left.fields, (), ()), Keyed(node.right.fields, (), ()))
        pairs = zip(node.left_keys, node.right_keys, strict=True)
        condition = " AND ".join(f"coalesce({scope.sql(one)} = {scope.sql(two)}, true)" for one, two in pairs)
    else:
        inputs = keyed_inputs(node)
        condition = f"i0.{PLACE} = i1.{PLACE} AND i0.{JOINS} AND i1.{JOINS}"
    if node.residual is not None:
        condition += f" AND ({scope.sql(node.residual)})"
    columns = typed(node.fields, [f'"{scope.names[name]}"' for name in node.names])
    exists = f"EXISTS (SELECT 1 FROM i1 WHERE i0.{SIDE} = i1.{SIDE} AND {condition})"
    negation = "" if node.kind is SemiJoinKind.SEMI else "NOT "
    sql = f"SELECT {', '.join(columns)}, {SIGN} * {COUNT} AS {WEIGHT} FROM i0 WHERE {negation}{exists}"
    return KeyedRecompute(node, inputs, Statement(sql, repeats=False))


@dataclass(frozen=True)
class SemiJoinStage(Stage):
    node: SemiJoin
    inputs: tuple[Keyed, Keyed]
    tables: tuple[str, ...] = ("left", "right")

    @classmethod
    def of(cls, node: SemiJoin) -> SemiJoinStage:
        return cls(node, keyed_inputs(node))

    @staticmethod
    def can(node: SemiJoin) -> bool:
        return node.residual is None and not node.null_aware

    def work(self, writing: Writing, deltas: Sequence[pa.Table]) -> Iterable[pa.Table]:
        left, right = (keyed.read(delta) for keyed, delta in zip(self.inputs, deltas, strict=True))
        lefts, rights = (writing.multiset(table) for table in self.tables)
        changed_left = lefts.changes(left.keys, left.rows, left.weights)
        changed_right = rights.changes(right.keys, right.rows, right.weights)
        joining = {key for key, null in zip(right.keys, right.null_keys, strict=True) if not null}
        partners = Presence.of(rights, changed_right, {*left.keys, *joining})
        is_semi = self.node.kind is SemiJoinKind.SEMI
        pairs = zip(left.keys, left.null_keys, strict=True)
        stays = np.array([(not null and key in partners.new) is is_semi for key, null in pairs], np.bool_)
        yield conform(left.table.filter(pa.array(stays)), self.schema)
        moved = [key for key in joining if partners.shift(key)]
        for chunk in lefts.scan(moved, STORED_ROWS_MAX):
            shifts = np.array([partners.shift(moved[place]) for place in chunk.places], np.int64)
            rows = self.inputs[0].codec.decode(chunk.rows)
            counts = np.array(chunk.counts, np.int64) * (shifts if is_semi else -shifts)
            yield conform(weighted(rows, counts), self.schema)
        lefts.write(changed_left)
        rights.write(changed_right)
