"""A conjunction as a few 64-bit words that compiled code walks through: literals that fail most often first.

header    query number << 32 | judged by the evaluator << 16 | words that follow
literal   operand << 16 | negated << 8 | operation, then its numbers; floats as their bits
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import cos, radians, sin
from typing import Final

from alerts.matcher.literals import AnyTerm, Between, Literal, Within
from alerts.matcher.observed import Observed
from search.geo import EARTH_M

TERM: Final = 1
ANY_TERM: Final = 2
BETWEEN: Final = 3
BETWEEN_SMALL: Final = 4
"""Both ends in one word: for ends that fit 32 bits, or are none."""
BETWEEN_ROUGH: Final = 5
WITHIN: Final = 6
INSIDE: Final = 7

WORDS_MAX: Final = (1 << 16) - 1
SMALL_MIN: Final = -(2**31)
SMALL_MAX: Final = 2**31 - 1
LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1
_PLACES_MET: Final = 0.3
"""Of the rows that lie in a circle's cells, about so many lie in the circle."""


def header(query: int, is_exact: bool, words: int) -> int:
    return query << 32 | (not is_exact) << 16 | words


def literal_words(literal: Literal) -> tuple[int, ...]:
    if isinstance(literal, AnyTerm):
        if len(literal.terms) == 1:
            return (_word(TERM, literal, literal.terms[0]),)
        return (_word(ANY_TERM, literal, len(literal.terms)), *literal.terms)
    if isinstance(literal, Between):
        return _between(literal)
    if isinstance(literal, Within):
        return (_word(WITHIN, literal), *map(_bits, (*unit(literal.lat, literal.lon), chord2(literal.radius_m))))
    return (_word(INSIDE, literal), *map(_bits, literal[1:]))


def _between(literal: Between) -> tuple[int, ...]:
    if not literal.is_exact:
        return (_word(BETWEEN_ROUGH, literal, literal.scale), literal.low, literal.high)
    low = SMALL_MIN if literal.low == LONG_MIN else literal.low
    high = SMALL_MAX if literal.high == LONG_MAX else literal.high
    small = (low == SMALL_MIN) == (literal.low == LONG_MIN) and (high == SMALL_MAX) == (literal.high == LONG_MAX)
    if small and SMALL_MIN <= low <= SMALL_MAX and SMALL_MIN <= high <= SMALL_MAX:
        return (_word(BETWEEN_SMALL, literal, literal.scale), low << 32 | (high & 0xFFFF_FFFF))
    return (_word(BETWEEN, literal, literal.scale), literal.low, literal.high)


def _word(operation: int, literal: Literal, operand: int = 0) -> int:
    return operand << 16 | literal.negated << 8 | operation


def _bits(number: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def unit(lat: float, lon: float) -> tuple[float, float, float]:
    """The point on a sphere of radius 1."""
    north, east = radians(lat), radians(lon)
    return cos(north) * cos(east), cos(north) * sin(east), sin(north)


def chord2(radius_m: float) -> float:
    """The square of the straight line between two points on that sphere which lie so far apart."""
    return 4 * sin(radius_m / (2 * EARTH_M)) ** 2


def met(literal: Literal, observed: Observed, anchored_share: float | None) -> float:
    """The share of the rows that meet it, among those which come to it by its anchor."""
    if isinstance(literal, AnyTerm):
        share = observed.terms(literal.terms) if anchored_share is None else 1.0
    elif isinstance(literal, Between):
        share = observed.between(literal) / (anchored_share or 1.0)
    else:
        share = _PLACES_MET if anchored_share is not None else 0.01
    return 1.0 - share if literal.negated else share


def program(query: int, is_exact: bool, literals: Sequence[tuple[float, tuple[int, ...]]]) -> list[int]:
    """`literals` are each literal's share of rows that meet it, and its words."""
    words = [word for _, each in sorted(literals) for word in each]
    return [header(query, is_exact, len(words)), *words]
