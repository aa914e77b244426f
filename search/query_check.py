"""A query against a view's fields: every value is made of its column's kind, or refused with what to write instead.

`clause` checks one clause (the parser calls it where it knows the place in the text), `check` a whole query, limits
included. What comes out is what evaluate and compile trust. A day that is compared with a timestamp means all of it:
`listed_at:2026-05-31` is that day, `..2026-05-31` includes it, `>2026-05-31` begins after it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from cdc.pgtypes.instants import MICROS_PER_DAY, TIMESTAMP_MAX, Timestamp
from search.analysis import words
from search.elements import inside
from search.errors import QueryRefused
from search.geo import Point, area, crosses_itself, is_on_map
from search.index import IndexDefinition, Target
from search.instants import Relative, is_relative, relative
from search.kinds import RULES, Kind
from search.query import (
    CLAUSES_MAX,
    DEPTH_MAX,
    POLYGON_CORNERS_MAX,
    RADIUS_M_MAX,
    TERMS_MAX,
    WORDS_MAX,
    And,
    AnyOf,
    Box,
    Element,
    Equals,
    Exists,
    Near,
    Not,
    Operand,
    Or,
    Polygon,
    Query,
    Range,
    Text,
    inner,
    walk,
)  # fmt: skip

_DAY: Final = re.compile(r"[+-]?\d{4,}-\d\d-\d\d(?: BC)?")


def check(query: Query, definition: IndexDefinition) -> Query:
    """Idempotent. Raises QueryRefused."""
    checked = _check(query, definition, DEPTH_MAX)
    check_limits(checked)
    return checked


def _check(query: Query, definition: IndexDefinition, depth: int) -> Query:
    if depth == 0:
        raise _too_much("levels", DEPTH_MAX)
    if isinstance(query, And | Or):
        if not query.clauses:
            raise QueryRefused("an and or an or without clauses", hint="leave it out, or write *")
        clauses = tuple(_check(clause, definition, depth - 1) for clause in query.clauses)
        return type(query)(clauses) if len(clauses) > 1 else clauses[0]
    if isinstance(query, Not):
        return Not(_check(query.clause, definition, depth - 1))
    if isinstance(query, Element):
        return Element(query.field, _check(query.clause, inside(definition, query.field), depth - 1))
    return clause(query, definition)


def check_limits(query: Query) -> None:
    clauses = list(walk(query))
    if len(clauses) > CLAUSES_MAX:
        raise _too_much("clauses", CLAUSES_MAX)
    if _depth(query) > DEPTH_MAX:
        raise _too_much("levels", DEPTH_MAX)
    if sum(len(words(c.text)) for c in clauses if isinstance(c, Text)) > WORDS_MAX:
        raise _too_much("words", WORDS_MAX)
    if sum(len(c.values) if isinstance(c, AnyOf) else 1 for c in clauses) > TERMS_MAX:
        raise _too_much("values", TERMS_MAX)


def _depth(query: Query) -> int:
    return 1 + max(map(_depth, inner(query)), default=0)


def _too_much(what: str, most: int) -> QueryRefused:
    return QueryRefused(f"the query has more than {most} {what}", hint="ask less at once")


def clause(query: Query, definition: IndexDefinition) -> Query:
    """One clause that holds no other, with its values made of their column's kind."""
    if isinstance(query, Near | Box | Polygon):
        return _place(query, definition)
    if isinstance(query, Text):
        return _text(query, definition)
    if isinstance(query, Exists):
        definition.target(query.field)
        return query
    if isinstance(query, Equals):
        return _equals(query, _asked(definition, query.field))
    if isinstance(query, AnyOf):
        target = _asked(definition, query.field)
        if not query.values:
            raise QueryRefused(f"no values for {query.field}", hint=f"write {query.field}:(…,…)")
        return replace(query, values=tuple(operand(target, value) for value in query.values))
    if isinstance(query, Range):
        return _range(query, _asked(definition, query.field))
    return query


def _asked(definition: IndexDefinition, field: str) -> Target:
    target = definition.target(field)
    if target.column.kind is Kind.JSON and not target.path:
        raise _whole_document(field)
    return target


def _whole_document(field: str) -> QueryRefused:
    return QueryRefused(
        f"{field} is a json document",
        hint=f"name a path inside it, such as {field}.name; of the elements of an array {field}:(name:value)",
    )


def operand(target: Target, value: Any) -> Operand:
    """Raises QueryRefused for a value that is not of the column's kind."""
    column = target.column
    try:
        if isinstance(value, Relative) or (isinstance(value, str) and column.kind.is_instant and is_relative(value)):
            if not column.kind.is_instant:
                raise ValueError("only dates and timestamps are relative to now")
            return relative(str(value), column.kind)
        if column.kind is Kind.JSON:
            return _json_value(value)
        if isinstance(value, int) and type(value) is not int and column.kind.is_instant:
            value = str(value)
        return RULES[column.kind].from_person(value)
    except ValueError as error:
        name = f"{column.name}.{target.path}" if target.path else column.name
        kind = "a value" if column.kind is Kind.JSON else f"of type {column.type or column.kind.value}"
        raise QueryRefused(f"{name} is {kind}, which {value!r} is not", hint=str(error)) from None


def _json_value(value: Any) -> Operand:
    if isinstance(value, bool | str):
        return value
    made = RULES[Kind.INTEGER].from_person(value)
    if isinstance(made, Decimal) and not made.is_finite():
        raise ValueError("write a text, a number, true or false")
    return made


def _equals(query: Equals, target: Target) -> Query:
    day = _day(target, query.value)
    if day is not None:
        return Range(query.field, day, _after(day), high_open=True)
    return replace(query, value=operand(target, query.value))


def _range(query: Range, target: Target) -> Query:
    if not target.column.kind.has_order and not target.path:
        raise QueryRefused(f"{query.field} has no order", hint=f"write {query.field}:(one,another)")
    if query.low is None and query.high is None:
        raise QueryRefused(f"a range of {query.field} without ends", hint=f"write has:{query.field}")
    made = replace(
        query,
        low=None if query.low is None else operand(target, query.low),
        high=None if query.high is None else operand(target, query.high),
        low_open=query.low_open and query.low is not None,
        high_open=query.high_open and query.high is not None,
    )
    if target.path:
        _same_sort(made)
    low, high = _day(target, query.low), _day(target, query.high)
    if low is not None and made.low_open:
        made = replace(made, low=_after(low), low_open=False)
    if high is not None and not made.high_open:
        made = replace(made, high=_after(high), high_open=True)
    return made


def _same_sort(query: Range) -> None:
    bounds = [bound for bound in (query.low, query.high) if bound is not None]
    if any(isinstance(bound, bool) for bound in bounds) or len({isinstance(bound, str) for bound in bounds}) > 1:
        raise QueryRefused(f"a range of {query.field} is from number to number, or from text to text")


def _day(target: Target, value: Any) -> Timestamp | None:
    """Midnight of a day that was written without a time, for a column that has times."""
    if target.column.kind not in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return None
    if not isinstance(value, str) or not _DAY.fullmatch(value):
        return None
    made = operand(target, value)
    return made if isinstance(made, Timestamp) else None


def _after(day: Timestamp) -> Timestamp:
    return type(day)(min(day + MICROS_PER_DAY, TIMESTAMP_MAX))


def _text(query: Text, definition: IndexDefinition) -> Query:
    if query.field is None:
        if not definition.text:
            raise QueryRefused(f"{definition.view} has no text to search", hint="name a field, such as city:paris")
    else:
        target = _asked(definition, query.field)
        if not target.column.has_words:
            raise QueryRefused(f"{query.field} is not a text", hint=f"write {query.field}=…")
    if not words(query.text):
        raise QueryRefused(f"no word in {query.text!r}", hint="write letters or digits")
    return query


def _place(query: Near | Box | Polygon, definition: IndexDefinition) -> Query:
    if definition.geo is None:
        raise QueryRefused(
            f"{definition.view} has no place on the map",
            hint="give the view columns lat and lon, or the option geo = 'latitude column, longitude column'",
        )
    if not all(map(is_on_map, _points(query))):
        raise QueryRefused("not a place on the map", hint="latitudes lie within ±90, longitudes within ±180")
    if isinstance(query, Near) and not 0 < query.radius_m <= RADIUS_M_MAX:
        raise QueryRefused("not a radius", hint="write 500m or 5km, at most 20000km")
    if isinstance(query, Box) and query.south > query.north:
        raise QueryRefused("the box's south lies above its north", hint="write box:north,west,south,east")
    if isinstance(query, Polygon):
        _polygon(query)
    return query


def _points(query: Near | Box | Polygon) -> tuple[Point, ...]:
    if isinstance(query, Near):
        return (Point(query.lat, query.lon),)
    if isinstance(query, Box):
        return (Point(query.north, query.west), Point(query.south, query.east))
    return query.corners


def _polygon(query: Polygon) -> None:
    corners = query.corners
    if not 3 <= len(set(corners)) == len(corners) <= POLYGON_CORNERS_MAX:
        raise QueryRefused(
            "not a polygon", hint=f"write 3 to {POLYGON_CORNERS_MAX} different corners: polygon:lat,lon,lat,lon,…"
        )
    if max(c.lon for c in corners) - min(c.lon for c in corners) >= 180:
        raise QueryRefused("the polygon is wider than half the globe", hint="write two polygons with OR")
    if crosses_itself(corners):
        raise QueryRefused("the polygon's sides cross", hint="write its corners in the order in which they are walked")
    if not area(corners):
        raise QueryRefused("the polygon has no area", hint="write corners that do not lie on one line")
