"""The values of each group that an aggregate needs one by one: a multiset by group, in the order of the values.

min and max are its ends, count(distinct) the number of its entries; an epoch touches the values that changed and the
ends of their groups, nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from views.arrangement import Changed, Multiset
from views.columns import Ints, plain_type
from views.keys import KeyCodec, KeyType
from views.rows import RowCodec

VALUE_BYTES_MAX: Final = 32
"""Of a value's key inside its group; longer ones are hashed, and so only counted: an extreme is never that long."""


@dataclass(frozen=True)
class GroupValues:
    multiset: Multiset
    type: pa.DataType

    @property
    def _codec(self) -> RowCodec:
        return RowCodec(pa.schema([("v", plain_type(self.type))]))

    def put(self, groups: Sequence[bytes], values: pa.ChunkedArray, weights: Sequence[int]) -> list[Changed]:
        """Adds the values that are not NULL to their groups, or takes them away. Returns the entries that changed."""
        present = np.flatnonzero(pc.is_valid(values).to_numpy()).tolist()
        kept = pa.table([values.take(pa.array(present, pa.int64())).cast(plain_type(self.type))], names=["v"])
        changed = self.multiset.changes(
            [groups[place] for place in present],
            self._codec.encode(kept),
            [weights[place] for place in present],
            KeyCodec((KeyType(self.type),), VALUE_BYTES_MAX).encode(kept.columns, kept.num_rows),
        )
        self.multiset.write(changed)
        return changed

    def ends(self, groups: Sequence[bytes], *, least: bool) -> pa.Array:
        """The least or the greatest value of each group; NULL for one without values."""
        end = self.multiset.first if least else self.multiset.last
        found = [end(group) for group in groups]
        known = self._codec.decode([value for value in found if value is not None])["v"].combine_chunks()
        places = np.cumsum([value is not None for value in found], dtype=np.int64) - 1
        missing = np.array([value is None for value in found], np.bool_)
        return known.take(pa.array(places, mask=missing))


def more_distinct(changed: Sequence[Changed], groups: Sequence[bytes]) -> Ints:
    """By how many each group's number of different values grew."""
    place_of = {group: place for place, group in enumerate(groups)}
    grown = np.zeros(len(groups), np.int64)
    for change in changed:
        grown[place_of[change.key]] += (change.new > 0) - (change.old > 0)
    return grown
