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


@compiled
def find(slots: Any, keys: Any, key: Any) -> Any:
    """The number of the entry with that key, or EMPTY. The key is its own hash."""
    mask = np.uint64(len(slots) - 1)
    at = key & mask
    while slots[at] != EMPTY:
        if keys[slots[at]] == key:
            return slots[at]
        at = (at + np.uint64(1)) & mask
    return EMPTY
