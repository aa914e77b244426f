"""The first rows of each partition, or of all: ORDER BY … LIMIT, and row_number() up to a number.

State: the rows of a partition in the order asked for, so an epoch reads the first offset + limit rows before and after
and nothing else. A long order key is cut to fit; the few rows that agree up to the cut are compared in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from views.arrangement import Multiset, Writing
from views.arrangement.tables import SUFFIX_BYTES, row_hash
from views.columns import Ints
from views.keys import KEY_BYTES_MAX, KeyCodec, KeyType
from views.plan import TopK
from views.stages.recompute import PLACE, SIDE, SIGN, KeyedRecompute, Statement
from views.stages.scope import Scope, key_types, nulls_first, typed
from views.stages.stage import Keyed, Stage, columns_of
from views.zset import WEIGHT, conform, weighted

PARTITION_BYTES_MAX: Final = 160
ORDER_BYTES_MAX: Final = KEY_BYTES_MAX - PARTITION_BYTES_MAX
_INVERTED: Final = bytes(255 - byte for byte in range(256))


def keyed_input(node: TopK) -> Keyed:
    types = key_types(node.partition, node.input.fields)
    return Keyed(node.input.fields, tuple(node.partition), types, key_bytes_max=PARTITION_BYTES_MAX)


def recompute(node: TopK) -> KeyedRecompute:
    scope = Scope.of(node.input.fields)
    columns = typed(node.fields, [f'"{scope.names[name]}"' for name in node.names])
    order = ", ".join(map(scope.order, node.order))
    number = f"row_number() OVER (PARTITION BY {PLACE}, {SIDE} ORDER BY {order})"
    chosen = f"SELECT * FROM i0 QUALIFY {number} BETWEEN {node.offset + 1} AND {node.offset + node.limit}"
    sql = f"SELECT {', '.join(columns)}, {SIGN} AS {WEIGHT} FROM ({chosen})"
    return KeyedRecompute(node, (keyed_input(node),), Statement(sql))


@dataclass(frozen=True)
class TopKStage(Stage):
    node: TopK
    inputs: tuple[Keyed]
    order_types: tuple[KeyType, ...]
    tables: tuple[str, ...] = ("rows",)

    @classmethod
    def of(cls, node: TopK) -> TopKStage:
        return cls(node, (keyed_input(node),), key_types([o.this for o in node.order], node.input.fields))

    def work(self, writing: Writing, deltas: Sequence[pa.Table]) -> Iterable[pa.Table]:
        delta = self.inputs[0].read(deltas[0])
        rows = writing.multiset("rows")
        orders = self._order_keys(delta.table)
        suffixes = [order[:ORDER_BYTES_MAX] + row_hash(row) for order, row in zip(orders, delta.rows, strict=True)]
        changed = rows.changes(delta.keys, delta.rows, delta.weights, suffixes)
        touched = sorted({change.key for change in changed})
        old = [self._top(rows, key) for key in touched]
        rows.write(changed)
        new = [self._top(rows, key) for key in touched]
        for sign, tops in ((-1, old), (1, new)):
            for table, counts in tops:
                yield conform(weighted(table, sign * counts), self.schema)

    def _top(self, multiset: Multiset, key: bytes) -> tuple[pa.Table, Ints]:
        """The rows of a partition that are among the first, and how often each."""
        stored = multiset.beginning(key, self.node.offset + self.node.limit, ORDER_BYTES_MAX)
        table = self.inputs[0].codec.decode(stored.rows)
        counts = np.array(stored.counts, np.int64)
        if any(len(suffix) == ORDER_BYTES_MAX + SUFFIX_BYTES for suffix in stored.suffixes):
            full = list(zip(self._order_keys(table), stored.suffixes, strict=True))
            order = sorted(range(len(full)), key=full.__getitem__)
            table, counts = table.take(pa.array(order, pa.int64())), counts[order]
        before = np.cumsum(counts) - counts
        last = self.node.offset + self.node.limit
        kept = np.minimum(before + counts, last) - np.maximum(before, self.node.offset)
        chosen = np.flatnonzero(kept > 0)
        return table.take(pa.array(chosen)), kept[chosen]

    def _order_keys(self, rows: pa.Table) -> list[bytes]:
        """Bytes that sort as the rows are to be sorted, in full."""
        columns = columns_of([ordered.this for ordered in self.node.order], self.node.input.fields, rows)
        parts = []
        for ordered, column, kind in zip(self.node.order, columns, self.order_types, strict=True):
            keys = KeyCodec((kind,), key_bytes_max=None).encode([column], rows.num_rows)
            if ordered.args.get("desc"):
                keys = [key[:1] + key[1:].translate(_INVERTED) for key in keys]
            if nulls_first(ordered):
                keys = [b"\x00" + key[1:] if key[0] == 2 else key for key in keys]
            parts.append(keys)
        return [b"".join(part) for part in zip(*parts, strict=True)]
