"""How often rows have what is asked: from rows that were seen, or guessed where none were.

Only the speed of the matcher depends on it, never what it finds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from alerts.matcher.cells import SIZES_DEGREES, Cover
from alerts.matcher.lexicon import Lexicon
from alerts.matcher.literals import Between
from alerts.matcher.rows import Rows

BAND_LEVELS: Final = 6
"""The finest bands hold a 64th of the rows each."""
_WORLD_CELLS: Final = 100.0
"""Of one degree: what a row's place is guessed to be spread over."""


class Observed:
    def __init__(self, rows: Rows, lexicon: Lexicon, asked: Iterable[Between]) -> None:
        self._rows = max(1, len(rows))
        self._terms = np.bincount(rows.terms, minlength=len(lexicon)) if len(rows.terms) else np.zeros(len(lexicon))
        self._probes = lexicon.probes_of()
        self._prior = 1.0 / (1.0 + np.bincount(self._probes, minlength=len(lexicon.probes)))[self._probes]
        self._cells = _counted_cells(rows.points)
        self._placed = max(1, int(np.isfinite(rows.points).sum()) // 2)
        self._guessed = len(rows) == 0
        self._codes = _codes_by_scale(rows, len(lexicon.scales), asked)
        self.edges: list[list[int]] = [_quantiles(codes) for codes in self._codes]
        """Of the finest bands, by scale."""

    def terms(self, terms: Sequence[int]) -> float:
        """The share of rows that have one of them, at most."""
        if len(terms) == 1:
            return self._term(terms[0])
        return min(1.0, sum(map(self._term, terms)))

    def _term(self, term: int) -> float:
        return float((self._terms[term] + self._prior[term]) / (self._rows + 1))

    def tokens(self, kind: int, which: int) -> float:
        """How many a row has: of a probe's terms (kind 0), cells of a level (1) or codes of a scale (2)."""
        if kind == 0:
            return max(1.0, float(self._terms[self._probes == which].sum()) / self._rows)
        return 1.0 if kind == 1 else max(1.0, len(self._codes[which]) / self._rows)

    def cover(self, cover: Cover) -> float:
        counts, size = self._cells[cover.level], SIZES_DEGREES[cover.level]
        guess = min(1.0, size * size / _WORLD_CELLS)
        if self._guessed:
            return min(1.0, guess * len(cover.cells))
        return min(1.0, sum(counts.get(cell, 0) + guess for cell in cover.cells) / (self._placed + 1))

    def between(self, literal: Between) -> float:
        codes = self._codes[literal.scale]
        found = bisect_right(codes, literal.high) - bisect_left(codes, literal.low)
        return (max(0, found) + 0.5) / (len(codes) + 1)

    def bins(self, literal: Between) -> tuple[int, int]:
        """The first and last of the finest bands that it lies in."""
        edges = self.edges[literal.scale]
        return bisect_right(edges, literal.low), bisect_right(edges, literal.high)


def _counted_cells(points: npt.NDArray[np.float64]) -> list[Counter[int]]:
    lats, lons = points[0::2], points[1::2]
    there = np.isfinite(lats)
    made = []
    for size in SIZES_DEGREES:
        north = np.floor((lats[there] + 90.0) / size).astype(np.int64)
        east = np.floor((lons[there] + 180.0) / size).astype(np.int64)
        cells, counts = np.unique(north << 32 | east, return_counts=True)
        made.append(Counter(dict(zip(cells.tolist(), counts.tolist(), strict=True))))
    return made


def _codes_by_scale(rows: Rows, scales: int, asked: Iterable[Between]) -> list[list[int]]:
    """Sorted. Of a scale that no row was seen with, the ends that are asked for."""
    made: list[list[int]] = []
    starts = rows.code_starts
    for scale in range(scales):
        seen: Any = [
            rows.codes[starts[row * rows.scales + scale] : starts[row * rows.scales + scale + 1]]
            for row in range(len(rows))
        ] if scale < rows.scales else []  # fmt: skip
        made.append(np.sort(np.concatenate(seen)).tolist() if seen else [])
    ends: dict[int, list[int]] = {}
    for literal in asked:
        if not made[literal.scale]:
            ends.setdefault(literal.scale, []).extend((literal.low, literal.high))
    for scale, found in ends.items():
        made[scale] = sorted(found)
    return made


def _quantiles(codes: list[int]) -> list[int]:
    if not codes:
        return []
    bands = 1 << BAND_LEVELS
    return sorted({codes[len(codes) * band // bands] for band in range(1, bands)})
