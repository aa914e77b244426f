"""What the compiled part is given: a segment's programs, and room to work in. Plain tuples of arrays."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

FOUND, DOUBTFUL, CANDIDATES, MARKED, IS_FULL = 0, 1, 2, 3, 4
_COUNTS: Final = 5
_FOUND_MIN: Final = 1 << 16
_DOUBTFUL_SHARE: Final = 16
_GROWTH: Final = 4
LOOKS_MAX: Final = 2_048
"""Collected before any is looked up."""


class Filed(NamedTuple):
    """A segment's programs, and how rows find them."""

    dims: Any
    """Kind, probe or level or scale, level of a band."""
    shapes: Any
    """Combinations of up to three dims, -1 for none."""
    edges: Any
    edge_starts: Any
    """Of bands, by scale."""
    table: Any
    """Where the list of each key begins in `words`: there stands how many words it has, then its programs."""
    words: Any
    floats: Any
    """The same words, read as floats."""


class Scratch(NamedTuple):
    """Kept between calls. `marks` are zero, and left so."""

    marks: Any
    """By query: 1 met before, 2 after."""
    touched: Any
    """Queries that are marked."""
    sure: Any
    unsure: Any
    """Delta, query, 1 before | 2 after."""
    counts: Any

    @classmethod
    def of(cls, queries: int) -> Scratch:
        return cls(
            np.zeros(queries, np.uint8),
            np.empty(queries, np.int32),
            np.empty((_FOUND_MIN, 3), np.int32),
            np.empty((_FOUND_MIN // _DOUBTFUL_SHARE, 3), np.int32),
            np.zeros(_COUNTS, np.int64),
        )

    def grown(self) -> Scratch:
        """With more room for what is found."""
        sure, unsure = (np.empty((len(room) * _GROWTH, 3), np.int32) for room in (self.sure, self.unsure))
        return self._replace(sure=sure, unsure=unsure)


class Room(NamedTuple):
    """For one delta's rows, before and after."""

    present: Any
    """By term: which of the rows have it, as bits. Zero, and left so."""
    tokens: Any
    starts: Any
    """Of each dimension's tokens."""
    is_same: Any
    """By dimension: both rows have the same tokens."""
    points: Any
    """As in worth.Pair."""
    keys: Any
    """What the rows are to be looked up by."""
    sides: Any
    """For which of the rows: bits."""
    spans: Any
    """Where the programs of those that were found begin and end."""
    keyed: Any
    """How many keys there are."""

    @classmethod
    def of(cls, present: npt.NDArray[np.uint8], dims: int, tokens: int) -> Room:
        return cls(
            present,
            np.empty((2, tokens), np.int64),
            np.zeros((2, dims + 1), np.int64),
            np.empty(dims, np.bool_),
            np.empty((2, 5)),
            np.empty(LOOKS_MAX, np.uint64),
            np.empty(LOOKS_MAX, np.uint8),
            np.empty((LOOKS_MAX, 2), np.int64),
            np.zeros(1, np.int64),
        )


class To(NamedTuple):
    """A delta, and what it is matched against."""

    delta: Any
    pair: Any
    rows: Any
    filed: Any
    scratch: Any
    room: Any
