"""The general stage, exact for every stateful node: touched keys are computed anew, before and after.

State: the input rows by key. For the keys of an epoch's deltas, the node's SQL is evaluated over their rows as they
were and as they are, side by side in one statement; the output is the difference. Rows stand in the arrangement's
order, so a result that depends on order (a sum of floats) is the same whenever the same rows are there, and what was
put out is exactly what is taken back. Costs follow the size of the touched keys; join.py, semijoin.py, accumulate.py
and topk.py do better where they can, and must agree with this.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from views.arrangement import Multiset, Writing
from views.evaluate import evaluate
from views.plan import Node
from views.rows import RowCodec
from views.stages.scope import numbered, result
from views.stages.stage import Keyed, KeyedDelta, Stage

SIDE: Final = "__new"
PLACE: Final = "__place"
JOINS: Final = "__joins"
"""Its key has no NULL in it."""
COUNT: Final = "__count"
SIGN: Final = f"CASE WHEN {SIDE} THEN 1 ELSE -1 END"


@dataclass(frozen=True)
class Statement:
    """A node's SQL over the tables i0 (and i1), which hold both sides. Its columns are c0, c1, … or, of two inputs, l0,
    l1, … and r0, r1, …; its results are those of the node and the weight."""

    sql: str
    first_sql: str = ""
    """For the first epoch of a stage that has a result over nothing."""
    repeats: bool = True
    """Rows stand there as often as they are; otherwise once, with their count."""


@dataclass(frozen=True)
class KeyedRecompute(Stage):
    node: Node
    inputs: tuple[Keyed, ...]
    statement: Statement
    speaks_first: bool = False
    tables: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", tuple(f"input{n}" for n in range(len(self.inputs))))

    def work(self, writing: Writing, deltas: Sequence[pa.Table]) -> Iterable[pa.Table]:
        read = [keyed.read(delta) for keyed, delta in zip(self.inputs, deltas, strict=True)]
        touched = sorted({key for delta in read for key in delta.keys})
        if self.speaks_first and writing.is_first:
            touched = [b""]
        if not touched:
            return
        null_keys = {key for delta in read for key, null in zip(delta.keys, delta.null_keys, strict=True) if null}
        contents = {}
        for place, (keyed, delta) in enumerate(zip(self.inputs, read, strict=True)):
            multiset = writing.multiset(self.tables[place])
            content = _Content.of(multiset, delta, touched)
            joins = [key not in null_keys for key in touched]
            prefix = "lr"[place] if len(self.inputs) > 1 else "c"
            contents[f"i{place}"] = content.table(keyed.codec, prefix, joins, repeats=self.statement.repeats)
        sql = self.statement.first_sql if self.speaks_first and writing.is_first else self.statement.sql
        yield result(self.node, evaluate(sql, contents))


@dataclass(frozen=True)
class _Content:
    """The rows of the touched keys, in order, with how often each is there before and after."""

    places: list[int]
    rows: list[bytes]
    old: list[int]
    new: list[int]

    @classmethod
    def of(cls, multiset: Multiset, delta: KeyedDelta, touched: list[bytes]) -> _Content:
        """Reads them, and writes the change."""
        changed = multiset.changes(delta.keys, delta.rows, delta.weights)
        stored = multiset.read(touched)
        multiset.write(changed)
        place_of = {key: place for place, key in enumerate(touched)}
        found = {
            (place, suffix): (row, count, count)
            for place, suffix, row, count in zip(
                stored.places, stored.suffixes, stored.rows, stored.counts, strict=True
            )
        }
        for change in changed:
            found[place_of[change.key], change.suffix] = (change.row, change.old, change.new)
        ordered = sorted(found)
        rows = [found[entry] for entry in ordered]
        return cls(
            [place for place, _ in ordered], [r for r, _, _ in rows], [o for _, o, _ in rows], [n for _, _, n in rows]
        )

    def table(self, codec: RowCodec, prefix: str, joins: list[bool], *, repeats: bool) -> pa.Table:
        """Both sides: what was there, then what is."""
        old, new = np.array(self.old, np.int64), np.array(self.new, np.int64)
        every = np.arange(len(self.rows))
        if repeats:
            chosen = np.concatenate([np.repeat(every, old), np.repeat(every, new)])
            counts = np.ones(len(chosen), np.int64)
            olds = int(old.sum())
        else:
            chosen = np.concatenate([every[old > 0], every[new > 0]])
            counts = np.concatenate([old[old > 0], new[new > 0]])
            olds = int((old > 0).sum())
        places = np.array(self.places, np.int64)[chosen] if len(chosen) else np.zeros(0, np.int64)
        rows = numbered(codec.decode(self.rows).take(pa.array(chosen)), prefix)
        rows = rows.append_column(PLACE, pa.array(places))
        rows = rows.append_column(SIDE, pa.array(np.arange(len(chosen)) >= olds))
        rows = rows.append_column(JOINS, pa.array(np.array(joins, np.bool_)[places]))
        return rows.append_column(COUNT, pa.array(counts))
