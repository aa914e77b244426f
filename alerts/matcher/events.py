"""Which of the events that a subscription watches a delta is, given whether the row matched before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from alerts.differing import differs
from alerts.subscription import Event, Watched
from search.index import IndexDefinition, Row
from search.kinds import RULES

BEFORE: Final = 1
AFTER: Final = 2
BOTH: Final = 3

Change = tuple[Row | None, Row | None]
"""A view's delta: the row before and after, None where there is none. Never both."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Arrays of one length, in no order: each subscription once a delta."""

    delta: npt.NDArray[np.int32]
    subscription: npt.NDArray[np.int64]
    event: npt.NDArray[np.uint8]
    """Bits of alerts.subscription.Event."""

    def __len__(self) -> int:
        return len(self.delta)

    def arrow(self) -> pa.RecordBatch:
        return pa.record_batch([self.delta, self.subscription, self.event], names=["delta", "subscription", "event"])

    @classmethod
    def together(cls, parts: Sequence[Matches]) -> Matches:
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.delta for part in parts] or [np.empty(0, np.int32)]),
            np.concatenate([part.subscription for part in parts] or [np.empty(0, np.int64)]),
            np.concatenate([part.event for part in parts] or [np.empty(0, np.uint8)]),
        )


def event_bits(watched: Watched, change: Change, sides: int, definition: IndexDefinition) -> int:
    """The events of this delta that are watched. `sides` are BEFORE, AFTER or BOTH: when the row matched."""
    before, after = change
    made = Event(0)
    if watched.entered and sides == AFTER:
        made |= Event.ENTERED
    if watched.left and sides == BEFORE:
        made |= Event.LEFT
    if before is not None and after is not None:
        if watched.changed and sides == BOTH and differs(watched.columns, before, after):
            made |= Event.CHANGED
        if sides & AFTER:
            if any(_may_have_moved(-1, column, before, after, sides, definition) for column in watched.dropped):
                made |= Event.DROPPED
            if any(_may_have_moved(1, column, before, after, sides, definition) for column in watched.rose):
                made |= Event.ROSE
    return int(made)


def _may_have_moved(
    direction: int, column: str, before: Row, after: Row, sides: int, definition: IndexDefinition
) -> bool:
    """Whether the column is lower (-1) or higher (1) than before; or it may be than was told, because nobody was told
    what it was just before: the row did not match, or it was NULL. NULL and arrays have no height."""
    found = definition.by_name.get(column)
    one, other = before.get(column), after.get(column)
    if other is None or found is None or found.is_array or not found.kind.has_order:
        return False
    if sides == AFTER or one is None:
        return True
    if one == other:
        return False
    rules = RULES[found.kind]
    low, high = rules.form(rules.from_row(one)), rules.form(rules.from_row(other))
    return int(high > low) - int(high < low) == direction
