"""Where a conjunction is filed: under tokens of its most selective literals, so that few rows ever meet it.

A row that meets a literal has one of the tokens of each of its options: a term, a cell of the map, a band of values. A
conjunction is filed under all combinations of tokens of one to three of its literals. More literals mean fewer rows
that look at it in vain and more copies of it; the choice weighs both, by what was observed.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from alerts.matcher.cells import covers
from alerts.matcher.literals import AnyTerm, Between, Literal
from alerts.matcher.observed import BAND_LEVELS, Observed

LITERALS_MAX: Final = 3
COPIES_MAX: Final = 40
COPY_COST: Final = 2e-4
"""A copy is worth as much as this share of the rows looking at the conjunction in vain."""
BANDS_MAX: Final = 8
SHARE_MAX: Final = 0.8
"""An option that more of the rows have than this is none."""


class Dimension(IntEnum):
    TERM = 0
    CELL = 1
    BAND = 2


Dim: TypeAlias = tuple[int, int, int]
"""Dimension; probe, level or scale; level of a band."""


class Option(NamedTuple):
    dim: Dim
    tokens: tuple[int, ...]
    share: float
    """Of the rows that have one of the tokens."""


class Anchor(NamedTuple):
    options: tuple[Option, ...]
    """By dimension; none when every row must look."""
    literals: tuple[int, ...]
    """Which literal each is of."""


def options(literal: Literal, observed: Observed) -> list[Option]:
    """The ways in which a literal can be looked up. None for one that is negated."""
    if literal.negated:
        return []
    if isinstance(literal, AnyTerm):
        made = [Option((Dimension.TERM, literal.probe, 0), literal.terms, observed.terms(literal.terms))]
    elif isinstance(literal, Between):
        made = _bands(literal, observed)
    else:
        made = [
            Option((Dimension.CELL, cover.level, 0), cover.cells, observed.cover(cover)) for cover in covers(literal)
        ]
    return [option for option in made if option.share <= SHARE_MAX and len(option.tokens) <= COPIES_MAX]


def _bands(literal: Between, observed: Observed) -> list[Option]:
    if literal.low > literal.high:
        return [Option((Dimension.BAND, literal.scale, 0), (), 0.0)]
    first, last = observed.bins(literal)
    finest = len(observed.edges[literal.scale]) + 1
    made = []
    for level in range(BAND_LEVELS + 1):
        bands = tuple(range(first >> level, (last >> level) + 1))
        if len(bands) <= BANDS_MAX:
            share = min(1.0, len(bands) * (1 << level) / finest)
            made.append(Option((Dimension.BAND, literal.scale, level), bands, share))
        if len(bands) == 1:
            break
    return made


def choose(literals: list[tuple[int, list[Option]]]) -> Anchor:
    """The best option, then the best to add to it, and again."""
    chosen: list[tuple[int, Option]] = []
    share, copies, best = 1.0, 1, 1.0 + COPY_COST
    while len(chosen) < LITERALS_MAX:
        found: tuple[int, Option] | None = None
        for number, each in literals:
            if any(number == taken for taken, _ in chosen):
                continue
            for option in each:
                score = share * option.share + COPY_COST * copies * len(option.tokens)
                if score < best and copies * len(option.tokens) <= COPIES_MAX:
                    best, found = score, (number, option)
        if found is None:
            break
        chosen.append(found)
        share, copies = share * found[1].share, copies * len(found[1].tokens)
    chosen.sort(key=lambda taken: (taken[1].dim, taken[0]))
    return Anchor(tuple(option for _, option in chosen), tuple(number for number, _ in chosen))
