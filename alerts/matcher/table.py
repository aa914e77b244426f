"""Hash tables as plain arrays with open slots, so that they can be mapped from files and read by compiled code."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from alerts.matcher.compiled import compiled

EMPTY: Final = -1
_ROOM: Final = 2
"""Slots for each entry, at least."""


def free_slots(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
    """Entry numbers by hash: an entry lies at its hash modulo the size, or in the next free slot after it."""
    size = 1 << max(3, (len(hashes) * _ROOM - 1).bit_length())
    slots = np.full(size, EMPTY, np.int32)
    _fill(slots, hashes)
    return slots


@compiled
def _fill(slots: Any, hashes: Any) -> None:
    mask = np.uint64(len(slots) - 1)
    for entry in range(len(hashes)):
        at = hashes[entry] & mask
        while slots[at] != EMPTY:
            at = (at + np.uint64(1)) & mask
        slots[at] = entry


def placed(keys: npt.NDArray[np.uint64], values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """A table of keys with their values side by side, so that a look-up costs one line of memory."""
    slots = free_slots(keys)
    table = np.full((len(slots), 2), EMPTY, np.int64)
    taken = slots != EMPTY
    table[taken, 0] = keys[slots[taken]].view(np.int64)
    table[taken, 1] = values[slots[taken]]
    return table


@compiled
def home(table: Any, key: Any) -> Any:
    """Where its search begins. The key is its own hash."""
    return key & np.uint64(len(table) - 1)


@compiled
def find(table: Any, key: Any) -> Any:
    """The value of that key in what `placed` made, or EMPTY."""
    at = home(table, key)
    while table[at, 1] != EMPTY:
        if np.uint64(table[at, 0]) == key:
            return table[at, 1]
        at = (at + np.uint64(1)) & np.uint64(len(table) - 1)
    return EMPTY
