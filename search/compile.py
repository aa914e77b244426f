"""A query as Elasticsearch's own, with exactly the evaluator's meaning. Pure.

`query` is checked and resolved. Text scores, everything else filters. Tombstones and the mark are left out by `live`,
which every search goes through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor
from typing import Any, Final, TypeAlias

from search.analysis import analyse
from search.elements import inside
from search.encoding import LONG_MAX, LONG_MIN, encoder, scaled_bound
from search.evaluate import text_targets
from search.geo import area
from search.index import Column, IndexDefinition, Target
from search.instants import Relative
from search.json_paths import ends, escaped, token
from search.kinds import Kind, float_form
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
    walk,
)  # fmt: skip

Dsl: TypeAlias = dict[str, Any]

NOTHING: Final[Dsl] = {"match_none": {}}
EVERYTHING: Final[Dsl] = {"match_all": {}}
_GONE: Final[Dsl] = {"exists": {"field": "gone"}}
_OTHER_COLUMNS_COUNT: Final = 0.1
"""How much a word counts for the score in the columns where it counts least."""


def compile(query: Query, definition: IndexDefinition) -> Dsl:
    return _COMPILERS[type(query)](query, definition)


def live(query: Dsl) -> Dsl:
    """Of the rows alone."""
    return {"bool": {"must": [query], "must_not": [_GONE]}}


def _and(query: And, definition: IndexDefinition) -> Dsl:
    scored: list[Dsl] = []
    filtered: list[Dsl] = []
    for clause in query.clauses:
        (scored if _is_scored(clause) else filtered).append(compile(clause, definition))
    return {"bool": {"must": scored, "filter": filtered}}


def _is_scored(query: Query) -> bool:
    if isinstance(query, Element):
        return any(isinstance(clause, Text) for clause in walk(query))
    return isinstance(query, Text | And | Or)


def _or(query: Or, definition: IndexDefinition) -> Dsl:
    return _any([compile(clause, definition) for clause in query.clauses])


def _any(clauses: Sequence[Dsl]) -> Dsl:
    if len(clauses) == 1:
        return clauses[0]
    return {"bool": {"should": list(clauses), "minimum_should_match": 1}} if clauses else NOTHING


def _all(clauses: Sequence[Dsl]) -> Dsl:
    return clauses[0] if len(clauses) == 1 else {"bool": {"must": list(clauses)}}


def _not(query: Not, definition: IndexDefinition) -> Dsl:
    return {"bool": {"must_not": [compile(query.clause, definition)]}}


def _element(query: Element, definition: IndexDefinition) -> Dsl:
    """The best element counts."""
    target, nested = definition.target(query.field), definition.target(query.field).column.elements_field
    at_path = {"term": {f"{nested}.path": target.path}}
    meets = compile(query.clause, inside(definition, query.field))
    return {"nested": {"path": nested, "score_mode": "max", "query": {"bool": {"filter": [at_path], "must": [meets]}}}}


def _equals(query: Equals, definition: IndexDefinition) -> Dsl:
    return _terms(definition.target(query.field), (query.value,))


def _any_of(query: AnyOf, definition: IndexDefinition) -> Dsl:
    return _terms(definition.target(query.field), query.values)


def _terms(target: Target, values: Sequence[Any]) -> Dsl:
    encoded = [made for value in values if (made := _exact(target, value)) is not None]
    if not encoded:
        return NOTHING
    if len(encoded) == 1:
        return {"term": {target.column.field: encoded[0]}}
    return {"terms": {target.column.field: encoded}}


def _exact(target: Target, value: Any) -> Any:
    """As the index holds it; None for a value that the column cannot have."""
    column = target.column
    if isinstance(value, Relative):
        raise ValueError(f"{value} is not resolved")
    if target.path:
        return token(target.path, value)
    if _is_long_number(column):
        low, high = (_whole(column, value, up=up) for up in (True, False))
        return low if low == high and LONG_MIN <= low <= LONG_MAX else None
    return encoder(column.kind, column.scale)(value)


def _is_long_number(column: Column) -> bool:
    return column.kind is Kind.INTEGER or (column.kind is Kind.DECIMAL and column.scale is not None)


def _whole(column: Column, value: Any, *, up: bool) -> int:
    """The long at or beside any number."""
    if column.scale is not None:
        return scaled_bound(value, column.scale, up=up)
    if isinstance(value, int):
        return max(LONG_MIN - 1, min(value, LONG_MAX + 1))
    if not value.is_finite():
        return LONG_MAX + 1 if value > 0 else LONG_MIN - 1
    whole: int = ceil(value) if up else floor(value)
    return max(LONG_MIN - 1, min(whole, LONG_MAX + 1))


def _range(query: Range, definition: IndexDefinition) -> Dsl:
    target = definition.target(query.field)
    for bound in (query.low, query.high):
        if isinstance(bound, Relative):
            raise ValueError(f"{bound} is not resolved")
    if target.path:
        return _path_range(query, target)
    if _is_long_number(target.column):
        return _long_range(query, target.column)
    encode = encoder(target.column.kind, target.column.scale)
    low = {} if query.low is None else {"gt" if query.low_open else "gte": encode(query.low)}
    high = {} if query.high is None else {"lt" if query.high_open else "lte": encode(query.high)}
    return {"range": {target.column.field: {**low, **high}}}


def _long_range(query: Range, column: Column) -> Dsl:
    """Ends between two longs move to the next one inside."""
    low, high = LONG_MIN, LONG_MAX
    if query.low is not None:
        low = _whole(column, query.low, up=True)
        low += query.low_open and low == _whole(column, query.low, up=False)
    if query.high is not None:
        high = _whole(column, query.high, up=False)
        high -= query.high_open and high == _whole(column, query.high, up=True)
    if low > high or low > LONG_MAX or high < LONG_MIN:
        return NOTHING
    return {"range": {column.field: {"gte": max(low, LONG_MIN), "lte": min(high, LONG_MAX)}}}


def _path_range(query: Range, target: Target) -> Dsl:
    known = query.low if query.low is not None else query.high
    first, end = ends(target.path, known)  # type: ignore[arg-type]
    low = {"gte": first}
    high = {"lt": end}
    if query.low is not None:
        low = {"gt" if query.low_open else "gte": token(target.path, query.low)}  # type: ignore[arg-type]
    if query.high is not None:
        high = {"lt" if query.high_open else "lte": token(target.path, query.high)}  # type: ignore[arg-type]
    return {"range": {target.column.field: {**low, **high}}}


def _exists(query: Exists, definition: IndexDefinition) -> Dsl:
    target = definition.target(query.field)
    field = target.column.field
    if not target.path:
        return {"exists": {"field": field}}
    path = escaped(target.path)
    return _any([{"prefix": {field: f"{path}{sign}"}} for sign in "=."])


def _text(query: Text, definition: IndexDefinition) -> Dsl:
    asked = analyse(query.text, definition.language)
    targets = text_targets(query.field, definition)
    if query.mode is Mode.PHRASE:
        return _best([_phrase(target, asked.stems) for target in targets])
    if query.mode is Mode.PREFIX:
        clauses = [_stem(targets, stem) for stem in asked.stems[:-1]]
        beginning = asked.words[-1]
        return _all([*clauses, _best([_beginning(target, beginning) for target in targets])])
    clauses = [_stem(targets, stem) for stem in dict.fromkeys(asked.stems)]
    return _any(clauses) if query.mode is Mode.ANY else _all(clauses)


def _path(target: Target) -> str:
    """In front of the words of json documents."""
    return f"{escaped(target.path)}:" if target.path else ""


def _stem(targets: Sequence[Target], stem: str) -> Dsl:
    return _best([{"term": {target.column.stems_field: f"{_path(target)}{stem}"}} for target in targets])


def _beginning(target: Target, beginning: str) -> Dsl:
    """The index holds a word that is its own stem just once, among the stems."""
    start = f"{_path(target)}{beginning}"
    return _any([{"prefix": {field: start}} for field in (target.column.stems_field, target.column.words_field)])


def _phrase(target: Target, stems: Sequence[str]) -> Dsl:
    return {"match_phrase": {target.column.stems_field: " ".join(f"{_path(target)}{stem}" for stem in stems)}}


def _best(clauses: Sequence[Dsl]) -> Dsl:
    if len(clauses) == 1:
        return clauses[0]
    return {"dis_max": {"queries": list(clauses), "tie_breaker": _OTHER_COLUMNS_COUNT}}


def _place(definition: IndexDefinition, field: str) -> str:
    return f"{definition.nested}.{field}" if definition.nested else field


def _near(query: Near, definition: IndexDefinition) -> Dsl:
    at = _place(definition, "at")
    return {"geo_distance": {at: {"lat": query.lat, "lon": query.lon}, "distance": f"{query.radius_m!r}m"}}


def _box(query: Box, definition: IndexDefinition) -> Dsl:
    """By the exact numbers, not by the rounded point."""
    lat, lon = _place(definition, "lat"), _place(definition, "lon")
    north, west, south, east = map(float_form, (query.north, query.west, query.south, query.east))
    within_lat = {"range": {lat: {"gte": south, "lte": north}}}
    if query.west <= query.east:
        return {"bool": {"filter": [within_lat, {"range": {lon: {"gte": west, "lte": east}}}]}}
    beyond = _any([{"range": {lon: {"gte": west}}}, {"range": {lon: {"lte": east}}}])
    return {"bool": {"filter": [within_lat, beyond]}}


def _polygon(query: Polygon, definition: IndexDefinition) -> Dsl:
    """Walked with the inside on the left, as GeoJSON wants it."""
    ring = [[corner.lon, corner.lat] for corner in query.corners]
    if area(query.corners) < 0:
        ring.reverse()
    shape = {"type": "polygon", "coordinates": [[*ring, ring[0]]]}
    return {"geo_shape": {_place(definition, "at"): {"shape": shape, "relation": "intersects"}}}


_COMPILERS: Final[dict[type, Callable[[Any, IndexDefinition], Dsl]]] = {
    MatchAll: lambda _query, _definition: EVERYTHING,
    And: _and,
    Or: _or,
    Not: _not,
    Element: _element,
    Equals: _equals,
    AnyOf: _any_of,
    Range: _range,
    Text: _text,
    Exists: _exists,
    Near: _near,
    Box: _box,
    Polygon: _polygon,
}
