"""NOT IN, with NULLs: a row stays if the other side is empty, or has no NULL and the row's key, not NULL itself, is not
there.

Most epochs change keys only, and cost as much as those; when the other side gains its first row or NULL, or loses its
last, everything is looked at. It asks about the whole other side, so it has one shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from views.arrangement import Changed, Multiset, Stored, Writing
from views.arrangement.tables import SUFFIX_BYTES
from views.keys import shards_of
from views.plan import SemiJoin
from views.stages.join import STORED_ROWS_MAX, keyed_inputs
from views.stages.presence import Presence
from views.stages.stage import Keyed, Stage
from views.zset import conform, weighted

_ANYTHING: Final = b""
"""The beginning of every key."""


@dataclass(frozen=True)
class _Rule:
    """What the other side says of a key, at one time."""

    null_key: bytes
    has_rows: bool
    present: frozenset[bytes]

    @property
    def has_null(self) -> bool:
        return self.null_key in self.present

    def keeps(self, key: bytes) -> bool:
        if not self.has_rows:
            return True
        return not self.has_null and key != self.null_key and key not in self.present

    def agrees(self, other: _Rule) -> bool:
        """They differ in no more than the keys that are present."""
        return (self.has_rows, self.has_null) == (other.has_rows, other.has_null)


@dataclass(frozen=True)
class NotInStage(Stage):
    node: SemiJoin
    inputs: tuple[Keyed, Keyed]
    tables: tuple[str, ...] = ("left", "right")

    @classmethod
    def of(cls, node: SemiJoin) -> NotInStage:
        return cls(node, keyed_inputs(node))

    @staticmethod
    def can(node: SemiJoin) -> bool:
        return node.null_aware and node.residual is None and len(node.left_keys) == 1

    def shards(self, place: int, delta: pa.Table, shards: int) -> list[int]:
        return [shards_of([_ANYTHING], shards)[0]] * delta.num_rows

    def work(self, writing: Writing, deltas: Sequence[pa.Table]) -> Iterable[pa.Table]:
        left, right = (keyed.read(delta) for keyed, delta in zip(self.inputs, deltas, strict=True))
        lefts, rights = (writing.multiset(table) for table in self.tables)
        changed_left = lefts.changes(left.keys, left.rows, left.weights)
        changed_right = rights.changes(right.keys, right.rows, right.weights)
        old, new = self._rules(rights, changed_right, {*left.keys, *right.keys})
        stays = np.array([new.keeps(key) for key in left.keys], np.bool_)
        yield conform(left.table.filter(pa.array(stays)), self.schema)
        if old.agrees(new):
            moved = [key for key in dict.fromkeys(right.keys) if old.keeps(key) != new.keeps(key)]
            for chunk in lefts.scan(moved, STORED_ROWS_MAX):
                yield self._moved(chunk, [moved[place] for place in chunk.places], old, new)
        else:
            for chunk in lefts.everything(STORED_ROWS_MAX):
                keys = [entry[:-SUFFIX_BYTES] for entry in chunk.suffixes]
                yield self._moved(chunk, keys, *self._rules(rights, changed_right, set(keys)))
        lefts.write(changed_left)
        rights.write(changed_right)

    def _moved(self, chunk: Stored, keys: Sequence[bytes], old: _Rule, new: _Rule) -> pa.Table:
        """Stored rows that come or go."""
        shifts = np.array([new.keeps(key) - old.keeps(key) for key in keys], np.int64)
        rows = weighted(self.inputs[0].codec.decode(chunk.rows), np.array(chunk.counts, np.int64) * shifts)
        return conform(rows.filter(pa.array(shifts != 0)), self.schema)

    @cached_property
    def _null_key(self) -> bytes:
        return self.inputs[0].codec_of_keys.encode([pa.nulls(1, self.inputs[0].types[0].arrow)], 1)[0]

    def _rules(self, rights: Multiset, changed: Sequence[Changed], keys: set[bytes]) -> tuple[_Rule, _Rule]:
        """Before and after the change, as far as these keys go."""
        presence = Presence.of(rights, changed, {*keys, self._null_key})
        gone = sum(1 for change in changed if change.old and not change.new)
        has_rows = any(change.new for change in changed) or rights.exceeds(_ANYTHING, gone)
        return (
            _Rule(self._null_key, rights.exceeds(_ANYTHING, 0), presence.old),
            _Rule(self._null_key, has_rows, presence.new),
        )
