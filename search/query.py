"""A query as a value: what the search page, the HTTP interface and saved searches ask. Frozen, compared by structure.

    text of a person ─▶ query_parser ─┐
    JSON ───────────▶ query_json ─────┴▶ Query, checked (query_check) ─▶ resolve(now) ─▶ evaluate · compile

What a clause means (evaluate.py is the definition, compile.py must agree):
- A comparison with NULL does not match. Not is plain negation, so `-city:paris` also finds rows without a city.
- Of an array, and at a path inside a json document, any value may match; two clauses may be met by different ones.
  Element wants one element, an object in an array of a json document, that meets all of its clause by itself.
- Text is compared by stems, in one column or in all that the view's declaration chose; `Text.ALL` wants each word in
  any of them, a phrase must stand in one value.
- Values are of their column's kind; instants may be relative to now until `resolve` has been called, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, TypeAlias

from search.geo import Point
from search.instants import Relative
from search.kinds import Value

DEPTH_MAX: Final = 10
CLAUSES_MAX: Final = 200
TERMS_MAX: Final = 1_000
"""Values and words of all clauses together."""
WORDS_MAX: Final = 50
"""Of all texts together."""
TEXT_CHARACTERS_MAX: Final = 10_000
"""Of the compact form."""
POLYGON_CORNERS_MAX: Final = 100
RADIUS_M_MAX: Final = 20_000_000.0

Operand: TypeAlias = Value | Relative


class Mode(StrEnum):
    ALL = "all"
    ANY = "any"
    PHRASE = "phrase"
    PREFIX = "prefix"
    """All words, the last of them as the beginning of a word or of its stem."""


@dataclass(frozen=True)
class MatchAll:
    """Every row."""


@dataclass(frozen=True)
class And:
    clauses: tuple[Query, ...]


@dataclass(frozen=True)
class Or:
    clauses: tuple[Query, ...]


@dataclass(frozen=True)
class Not:
    clause: Query


@dataclass(frozen=True)
class Equals:
    field: str
    value: Operand


@dataclass(frozen=True)
class AnyOf:
    field: str
    values: tuple[Operand, ...]


@dataclass(frozen=True)
class Range:
    """From low to high; without one of them, without end on that side."""

    field: str
    low: Operand | None = None
    high: Operand | None = None
    low_open: bool = False
    """Greater than low, not equal to it."""
    high_open: bool = False


@dataclass(frozen=True)
class Text:
    text: str
    mode: Mode = Mode.ALL
    field: str | None = None
    """None asks all the view's chosen text columns."""


@dataclass(frozen=True)
class Exists:
    """Not NULL, and not an array or a document without values."""

    field: str


@dataclass(frozen=True)
class Element:
    """One object of an array that meets the clause by itself; the clause's fields are paths inside it."""

    field: str
    clause: Query


@dataclass(frozen=True)
class Near:
    lat: float
    lon: float
    radius_m: float


@dataclass(frozen=True)
class Box:
    north: float
    west: float
    south: float
    east: float
    """Less than west: over the date line."""


@dataclass(frozen=True)
class Polygon:
    corners: tuple[Point, ...]


Query: TypeAlias = MatchAll | And | Or | Not | Element | Equals | AnyOf | Range | Text | Exists | Near | Box | Polygon


def inner(query: Query) -> tuple[Query, ...]:
    if isinstance(query, And | Or):
        return query.clauses
    return (query.clause,) if isinstance(query, Not | Element) else ()


def walk(query: Query) -> Iterator[Query]:
    """The query and everything in it, outermost first."""
    yield query
    for clause in inner(query):
        yield from walk(clause)


def mapped(query: Query, change: Callable[[Query], Query]) -> Query:
    """The same query with every clause that holds no other changed."""
    if isinstance(query, And | Or):
        return type(query)(tuple(mapped(clause, change) for clause in query.clauses))
    if isinstance(query, Not):
        return Not(mapped(query.clause, change))
    if isinstance(query, Element):
        return Element(query.field, mapped(query.clause, change))
    return change(query)


def is_relative(query: Query) -> bool:
    """Whether it means something else at another time."""
    return resolve(query, datetime.now(UTC)) != query


def resolve(query: Query, now: datetime) -> Query:
    """With every instant that is relative to now made absolute: once, so that all of a search means the same moment."""

    def absolute(operand: Operand | None) -> Operand | None:
        return operand.resolved(now) if isinstance(operand, Relative) else operand

    def resolved(clause: Query) -> Query:
        if isinstance(clause, Equals) and isinstance(clause.value, Relative):
            return replace(clause, value=clause.value.resolved(now))
        if isinstance(clause, AnyOf):
            values = (v.resolved(now) if isinstance(v, Relative) else v for v in clause.values)
            return replace(clause, values=tuple(values))
        if isinstance(clause, Range):
            return replace(clause, low=absolute(clause.low), high=absolute(clause.high))
        return clause

    return mapped(query, resolved)
