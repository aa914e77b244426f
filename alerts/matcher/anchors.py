"""Where a conjunction is filed: under tokens of its most selective literals, so that few rows ever meet it.

A row that meets a literal has one of the tokens of each of its options: a term, a cell of the map, a band of values. A
conjunction is filed under all combinations of tokens of one to three of its literals. More literals mean fewer rows
that look at it in vain and more copies of it; the choice weighs both, by what was observed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable
from enum import IntEnum
from math import prod
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
LOOKS_MIN: Final = 100
LOOKS_MAX: Final = 600
CONJUNCTIONS_PER_LOOK: Final = 400
"""Combinations of its tokens that a row is looked up by, on average: more are worth it when more is filed."""


class Dimension(IntEnum):
    TERM = 0
    CELL = 1
    BAND = 2


Dim: TypeAlias = tuple[int, int, int]
"""Dimension; probe, level or scale; level of a band."""


Shape: TypeAlias = tuple[Dim, ...]


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


NOWHERE: Final = Anchor((), ())
"""Every row must look."""


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


def choose(literals: list[tuple[int, list[Option]]], allowed: Container[Shape] | None = None) -> Anchor:
    """The best option, then the best to add to it, and again. `allowed` are the combinations to end with, if given."""
    best, ended = 1.0 + COPY_COST, NOWHERE
    chosen: list[tuple[int, Option]] = []
    share, copies, taken = 1.0, 1, set()
    while len(chosen) < LITERALS_MAX:
        found: tuple[int, Option] | None = None
        for number, each in literals:
            if number in taken:
                continue
            for option in each:
                more = copies * len(option.tokens)
                score = share * option.share + COPY_COST * more
                if score < best and more <= COPIES_MAX:
                    best, found = score, (number, option)
        if found is None:
            break
        chosen.append(found)
        taken.add(found[0])
        share, copies = share * found[1].share, copies * len(found[1].tokens)
        made = sorted(chosen, key=_by_dim)
        if allowed is None or len(made) == 1 or tuple(option.dim for _, option in made) in allowed:
            ended = Anchor(tuple(option for _, option in made), tuple(number for number, _ in made))
    return ended


def _by_dim(chosen: tuple[int, Option]) -> tuple[Dim, int]:
    return chosen[1].dim, chosen[0]


def shapes_worth(chosen: Iterable[Anchor], filed: int, tokens: Callable[[Dim], float]) -> set[Shape]:
    """The shapes that most conjunctions would be filed under, as many as a row has time to look up.

    `filed` is how many conjunctions there are, `tokens` says how many a row has in a dimension.
    """
    wanted = Counter(tuple(option.dim for option in anchor.options) for anchor in chosen)
    dims = {dim for shape in wanted for dim in shape}
    made: set[Shape] = set()
    looks, most = sum(map(tokens, dims)), max(LOOKS_MIN, min(LOOKS_MAX, filed / CONJUNCTIONS_PER_LOOK))
    costs = {shape: prod(map(tokens, shape)) for shape in wanted if len(shape) > 1}
    for shape in sorted(costs, key=lambda shape: (costs[shape] / wanted[shape], shape)):
        looks += costs[shape]
        if looks > most:
            break
        made.add(shape)
    return made
