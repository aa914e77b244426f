"""Why a row matches a query, or does not: clause by clause, by the evaluator itself. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from search import evaluate
from search.geo import Point, distance_m
from search.index import IndexDefinition, Row
from search.json_paths import at_path
from search.query import And, AnyOf, Box, Equals, Exists, MatchAll, Near, Not, Or, Polygon, Query, Range, Text, inner
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
    return Explanation(
        to_text(query, definition),
        evaluate.compile(query, definition)(row),
        _found(query, row, definition),
        tuple(explain(clause, row, definition) for clause in inner(query)),
    )


def _found(query: Query, row: Row, definition: IndexDefinition) -> str:
    if isinstance(query, MatchAll | And | Or | Not):
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
