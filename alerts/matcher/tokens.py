"""A row's tokens: what it is looked up by in each dimension that programs are filed under (anchors.py). Compiled."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from alerts.matcher.cells import SIZES_DEGREES
from alerts.matcher.compiled import borrowing

_SIZES: Final = np.array(SIZES_DEGREES)
_TERM, _CELL = 0, 1
"""As in anchors.Dimension."""


class Numbers(NamedTuple):
    """alerts.matcher.rows.Rows for compiled code."""

    probes: Any
    term_starts: Any
    terms: Any
    scales: Any
    code_starts: Any
    codes: Any
    points: Any


@borrowing
def tokens_of(row: int, rows: Any, dims: Any, edges: Any, edge_starts: Any, out: Any, starts: Any) -> None:
    """Fills `out`, and `starts` with where each dimension's tokens begin."""
    lat, lon = rows.points[2 * row], rows.points[2 * row + 1]
    end = 0
    for dim in range(len(dims)):
        starts[dim] = end
        kind, which = dims[dim, 0], dims[dim, 1]
        if kind == _TERM:
            cell = row * rows.probes + which
            for at in range(rows.term_starts[cell], rows.term_starts[cell + 1]):
                out[end] = rows.terms[at]
                end += 1
        elif kind == _CELL:
            if not np.isnan(lat):
                size = _SIZES[which]
                out[end] = (np.int64(np.floor((lat + 90.0) / size)) << 32) | np.int64(np.floor((lon + 180.0) / size))
                end += 1
        else:
            cell = row * rows.scales + which
            bands = edges[edge_starts[which] : edge_starts[which + 1]]
            for at in range(rows.code_starts[cell], rows.code_starts[cell + 1]):
                out[end] = np.int64(np.searchsorted(bands, rows.codes[at], side="right")) >> dims[dim, 2]
                end += 1
    starts[len(dims)] = end
