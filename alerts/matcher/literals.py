"""A query as alternatives of literals: what can be tested on a row's numbers alone, without looking at the row.

    Query ─▶ [Conjunction, …]   a row matches when it meets all literals of one of them

Negation is pushed down to the literals; a literal that is negated is simply not met. What no literal can say (phrases,
polygons, instants relative to now, queries with more alternatives than the limit) is left out of a conjunction, which
is then marked: it lets through every row that matches and perhaps others, and the evaluator decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any, Final, NamedTuple, TypeAlias

from alerts.matcher.codes import bounds, scale_of
from alerts.matcher.lexicon import Lexicon
from alerts.matcher.probes import Probe, Sort, wanted_key
from search.analysis import analyse
from search.index import IndexDefinition
from search.instants import Relative
from search.query import (
    And,
    AnyOf,
    Box,
    Element,
    Equals,
    Exists,
    MatchAll,
    Mode,
    Near,
    Not,
    Or,
    Polygon,
    Query,
    Range,
    Text,
)  # fmt: skip

CONJUNCTIONS_MAX: Final = 16
"""Of one query."""
LITERALS_MAX: Final = 60
"""Of one conjunction."""
TERMS_MAX: Final = 250
"""Of one literal."""
_PAD_DEGREES: Final = 1e-6
"""Around a polygon's box: more than the rounding of its edges."""


class AnyTerm(NamedTuple):
    """Has one of these terms, all of one probe."""

    negated: bool
    probe: int
    terms: tuple[int, ...]


class Between(NamedTuple):
    """Has a code from low to high, both included."""

    negated: bool
    scale: int
    low: int
    high: int
    is_exact: bool


class Within(NamedTuple):
    """Lies in a circle."""

    negated: bool
    lat: float
    lon: float
    radius_m: float


class Inside(NamedTuple):
    """Lies in a box."""

    negated: bool
    north: float
    west: float
    south: float
    east: float


Literal: TypeAlias = AnyTerm | Between | Within | Inside


class Conjunction(NamedTuple):
    literals: frozenset[Literal]
    is_exact: bool = True
    """Otherwise a row that meets all literals may still not match."""


Alternatives: TypeAlias = list[Conjunction]
EVERYTHING: Final = Conjunction(frozenset())
PERHAPS: Final = Conjunction(frozenset(), is_exact=False)


class Compiler:
    """Makes literals of queries, and the lexicon's terms, probes and scales on the way."""

    def __init__(self, definition: IndexDefinition, lexicon: Lexicon) -> None:
        self._definition, self._lexicon = definition, lexicon

    def alternatives(self, query: Query, negated: bool = False) -> Alternatives:
        """`query` is checked; what is relative to now in it is left to the evaluator."""
        if isinstance(query, Not):
            return self.alternatives(query.clause, not negated)
        if isinstance(query, And | Or):
            inside = [self.alternatives(clause, negated) for clause in query.clauses]
            return _all(inside) if isinstance(query, And) is not negated else _any(inside)
        return _CLAUSES[type(query)](self, query, negated)

    def everything(self, _query: MatchAll, negated: bool) -> Alternatives:
        return [] if negated else [EVERYTHING]

    def equals(self, query: Equals, negated: bool) -> Alternatives:
        return self._values(query.field, (query.value,), negated)

    def any_of(self, query: AnyOf, negated: bool) -> Alternatives:
        return self._values(query.field, query.values, negated)

    def element(self, _query: Element, _negated: bool) -> Alternatives:
        """What one element of an array is, only the row itself says."""
        return [PERHAPS]

    def exists(self, query: Exists, negated: bool) -> Alternatives:
        return [self._terms(Sort.EXISTS, query.field, ("",), negated)]

    def range(self, query: Range, negated: bool) -> Alternatives:
        if isinstance(query.low, Relative) or isinstance(query.high, Relative):
            return [PERHAPS]
        scale = self._lexicon.scale(scale_of(query, self._definition))
        return [_literal(Between(negated, scale, *bounds(query, self._definition)))]

    def text(self, query: Text, negated: bool) -> Alternatives:
        field, asked = query.field or "", analyse(query.text, self._definition.language)
        if query.mode is Mode.ANY:
            return [self._terms(Sort.STEM, field, asked.stems, negated)]
        if query.mode is Mode.PHRASE and negated:
            return [PERHAPS]
        stems = asked.stems[:-1] if query.mode is Mode.PREFIX else asked.stems
        parts = [[self._terms(Sort.STEM, field, (stem,), negated)] for stem in stems]
        if query.mode is Mode.PREFIX:
            parts.append([self._terms(Sort.BEGINNING, field, (asked.words[-1],), negated)])
        if query.mode is Mode.PHRASE:
            parts.append([PERHAPS])
        return _any(parts) if negated else _all(parts)

    def near(self, query: Near, negated: bool) -> Alternatives:
        return [_literal(Within(negated, query.lat, query.lon, query.radius_m))]

    def box(self, query: Box, negated: bool) -> Alternatives:
        return [_literal(Inside(negated, query.north, query.west, query.south, query.east))]

    def polygon(self, query: Polygon, negated: bool) -> Alternatives:
        if negated:
            return [PERHAPS]
        lats, lons = zip(*query.corners, strict=True)
        sides = (max(lats) + _PAD_DEGREES, min(lons) - _PAD_DEGREES, min(lats) - _PAD_DEGREES, max(lons) + _PAD_DEGREES)
        return [Conjunction(frozenset([Inside(False, *sides)]), is_exact=False)]

    def _values(self, field: str, values: Iterable[Any], negated: bool) -> Alternatives:
        values = tuple(values)
        if any(isinstance(value, Relative) for value in values):
            return [PERHAPS]
        return [self._terms(Sort.VALUE, field, [wanted_key(field, self._definition, v) for v in values], negated)]

    def _terms(self, sort: Sort, field: str, keys: Iterable[str], negated: bool) -> Conjunction:
        probe = self._lexicon.probe(Probe(sort, field))
        terms = sorted({self._lexicon.add(probe, key) for key in keys})
        return _literal(AnyTerm(negated, probe, tuple(terms))) if len(terms) <= TERMS_MAX else PERHAPS


_CLAUSES: Final[dict[type, Callable[[Compiler, Any, bool], Alternatives]]] = {
    MatchAll: Compiler.everything,
    Equals: Compiler.equals,
    AnyOf: Compiler.any_of,
    Range: Compiler.range,
    Text: Compiler.text,
    Exists: Compiler.exists,
    Element: Compiler.element,
    Near: Compiler.near,
    Box: Compiler.box,
    Polygon: Compiler.polygon,
}


def _literal(literal: Literal) -> Conjunction:
    assert not isinstance(literal, Within) or isfinite(literal.radius_m)
    return Conjunction(frozenset((literal,)))


def _any(parts: list[Alternatives]) -> Alternatives:
    made = list(dict.fromkeys(each for part in parts for each in part))
    if EVERYTHING in made:
        return [EVERYTHING]
    return made if len(made) <= CONJUNCTIONS_MAX else [PERHAPS]


def _all(parts: list[Alternatives]) -> Alternatives:
    """Parts with few alternatives first: where the limit is met, the others are left to the evaluator."""
    made = [EVERYTHING]
    for part in sorted(parts, key=len):
        if len(made) * len(part) > CONJUNCTIONS_MAX:
            made = [each._replace(is_exact=False) for each in made]
            continue
        made = [_both(one, other) for one in made for other in part]
    return list(dict.fromkeys(made))


def _both(one: Conjunction, other: Conjunction) -> Conjunction:
    literals = one.literals | other.literals
    if len(literals) > LITERALS_MAX:
        return Conjunction(one.literals, is_exact=False)
    return Conjunction(literals, one.is_exact and other.is_exact)
