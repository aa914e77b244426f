"""Why a row matches a query, or does not: clause by clause, by the evaluator itself. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from search import evaluate
from search.elements import as_rows, inside
from search.geo import Point, distance_m
from search.index import IndexDefinition, Row
from search.json_paths import at_path
from search.query import (
    And,
    AnyOf,
    Box,
    Element,
    Equals,
    Exists,
    MatchAll,
    Near,
    Not,
    Or,
    Polygon,
    Query,
    Range,
    Text,
    inner,
)  # fmt: skip
from search.query_text import to_text

VALUE_CHARACTERS_MAX: Final = 200


@dataclass(frozen=True)
class Explanation:
    clause: str
    """In the compact form."""
    matches: bool
    found: str
    """What the row has there."""
    inside: tuple[Explanation, ...] = ()

    def lines(self, indent: int = 0) -> Iterator[str]:
        sign = "yes" if self.matches else "no "
        yield f"{'  ' * indent}{sign} {self.clause}{f'   ({self.found})' if self.found else ''}"
        for each in self.inside:
            yield from each.lines(indent + 1)


def explain(query: Query, row: Row, definition: IndexDefinition) -> Explanation:
    """`query` is checked and resolved."""
    if isinstance(query, Element):
        return _element(query, row, definition)
    return Explanation(
        to_text(query, definition),
        evaluate.compile(query, definition)(row),
        _found(query, row, definition),
        tuple(explain(clause, row, definition) for clause in inner(query)),
    )


def _element(query: Element, row: Row, definition: IndexDefinition) -> Explanation:
    """By the first element that meets the clause; without one, by that which meets the most of it."""
    within = inside(definition, query.field)
    each = [explain(query.clause, found, within) for found in as_rows(row, definition.target(query.field))]
    best = max(each, key=lambda one: (one.matches, sum(part.matches for part in one.inside)), default=None)
    found = "nothing" if best is None else f"element {each.index(best) + 1} of {len(each)}"
    matches = best is not None and best.matches
    return Explanation(to_text(query, definition), matches, found, () if best is None else (best,))


def _found(query: Query, row: Row, definition: IndexDefinition) -> str:
    if isinstance(query, MatchAll | And | Or | Not | Element):
        return ""
    if isinstance(query, Near | Box | Polygon):
        return _place(query, row, definition)
    if isinstance(query, Text):
        targets = evaluate.text_targets(query.field, definition)
        return _shown([text for target in targets for text in evaluate.texts(row, target)])
    return _values(query, row, definition)


def _values(query: Equals | AnyOf | Range | Exists, row: Row, definition: IndexDefinition) -> str:
    target = definition.target(query.field)
    if target.path:
        return _shown(list(at_path(row.get(target.column.name), target.path)))
    return _shown(target.column.values(row))


def _shown(values: list[Any]) -> str:
    text = ", ".join(str(value) for value in values) or "nothing"
    return text if len(text) <= VALUE_CHARACTERS_MAX else f"{text[:VALUE_CHARACTERS_MAX]}…"


def _place(query: Near | Box | Polygon, row: Row, definition: IndexDefinition) -> str:
    place = definition.geo.point(row) if definition.geo else None
    if place is None:
        return "nothing"
    if isinstance(query, Near):
        return f"{distance_m(Point(query.lat, query.lon), place) / 1000:.3f} km away"
    return f"{place.lat},{place.lon}"
