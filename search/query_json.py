"""A query as JSON: what the HTTP interface takes and what saved searches are stored as. The inverse of each other.

    {"and": [{"equals": {"field": "kind", "value": "flat"}},
             {"range": {"field": "price", "gt": 1, "lte": 500000}},
             {"text": {"text": "south facing", "mode": "phrase"}},
             {"element": {"field": "photos", "query": {"equals": {"field": "kind", "value": "plan"}}}},
             {"near": {"lat": 48.85, "lon": 2.35, "radius_m": 5000}}]}

Dates and times are text. A number with more digits than JSON's readers keep is {"number": "0.1234567890123456789"}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any, Final

from search.errors import QueryRefused, nearest
from search.geo import Point
from search.index import IndexDefinition
from search.query import (
    CLAUSES_MAX,
    DEPTH_MAX,
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
    Operand,
    Or,
    Polygon,
    Query,
    Range,
    Text,
)  # fmt: skip
from search.query_check import check
from search.query_text import NUMBER


def to_json(query: Query) -> dict[str, Any]:
    """Plain dicts, lists, text, numbers and booleans."""
    if isinstance(query, And | Or):
        return {"and" if isinstance(query, And) else "or": [to_json(clause) for clause in query.clauses]}
    if isinstance(query, Not):
        return {"not": to_json(query.clause)}
    if isinstance(query, Element):
        return {"element": {"field": query.field, "query": to_json(query.clause)}}
    return _PRINTERS[type(query)](query)


def from_json(written: Any, definition: IndexDefinition) -> Query:
    """Checked against the view's fields. Raises QueryRefused."""
    return check(_read(written, DEPTH_MAX, "query"), definition)


def _value(value: Operand) -> Any:
    if isinstance(value, bool | str) or type(value) is int:
        return value
    if isinstance(value, float):
        return value if isfinite(value) else str(Decimal(value))
    if isinstance(value, Decimal) and value.is_finite():
        return float(value) if Decimal(repr(float(value))) == value else {"number": str(value)}
    return str(value)


def _operand(written: Any) -> Any:
    """A number may be written as text in an object of its own, to keep all its digits."""
    if isinstance(written, dict):
        ((name, text),) = written.items() if len(written) == 1 else (("", ""),)
        if name != "number" or not isinstance(text, str) or not NUMBER.fullmatch(text):
            raise QueryRefused("a value is an object", hint='write 5, 0.5, "five", true or {"number": "0.5"}')
        return Decimal(text)
    return written


def _range(query: Range) -> dict[str, Any]:
    made: dict[str, Any] = {"field": query.field}
    if query.low is not None:
        made["gt" if query.low_open else "gte"] = _value(query.low)
    if query.high is not None:
        made["lt" if query.high_open else "lte"] = _value(query.high)
    return {"range": made}


def _text(query: Text) -> dict[str, Any]:
    field = {} if query.field is None else {"field": query.field}
    return {"text": {"text": query.text, "mode": query.mode.value, **field}}


_PRINTERS: Final[Mapping[type, Callable[[Any], dict[str, Any]]]] = {
    MatchAll: lambda _: {"match_all": {}},
    Equals: lambda q: {"equals": {"field": q.field, "value": _value(q.value)}},
    AnyOf: lambda q: {"any_of": {"field": q.field, "values": [_value(value) for value in q.values]}},
    Range: _range,
    Text: _text,
    Exists: lambda q: {"exists": {"field": q.field}},
    Near: lambda q: {"near": {"lat": q.lat, "lon": q.lon, "radius_m": q.radius_m}},
    Box: lambda q: {"box": {"north": q.north, "west": q.west, "south": q.south, "east": q.east}},
    Polygon: lambda q: {"polygon": {"corners": [[corner.lat, corner.lon] for corner in q.corners]}},
}


def _read(written: Any, depth: int, where: str) -> Query:
    if depth == 0:
        raise QueryRefused(f"the query has more than {DEPTH_MAX} levels", hint="ask less at once")
    name, inside = _one(written, where)
    if name in ("and", "or"):
        clauses = _list(inside, where, name)
        read = tuple(_read(clause, depth - 1, f"{where}.{name}[{i}]") for i, clause in enumerate(clauses))
        return And(read) if name == "and" else Or(read)
    if name == "not":
        return Not(_read(inside, depth - 1, f"{where}.not"))
    if not isinstance(inside, dict):
        raise QueryRefused(f"{where}.{name} is not an object", hint="see docs/search.md")
    if name == "element":
        members = _Members(inside, f"{where}.element")
        clause = _read(members.take("query"), depth - 1, f"{where}.element.query")
        return members.end(Element(members.text("field"), clause))
    return _READERS[name](_Members(inside, f"{where}.{name}"))


def _one(written: Any, where: str) -> tuple[str, Any]:
    if not isinstance(written, dict) or len(written) != 1:
        raise QueryRefused(f"{where} is not an object with one member", hint='such as {"exists": {"field": "photos"}}')
    ((name, inside),) = written.items()
    known = ("and", "or", "not", "element", *_READERS)
    if name not in known:
        raise QueryRefused(f'no clause "{name}" at {where}', hint=nearest(str(name), known))
    return name, inside


def _list(written: Any, where: str, name: str) -> Sequence[Any]:
    if not isinstance(written, list) or not written or len(written) > CLAUSES_MAX:
        raise QueryRefused(f"{where}.{name} is not a list of 1 to {CLAUSES_MAX} clauses")
    return written


class _Members:
    """A clause's members, each taken by name and sort; what is left over is refused."""

    def __init__(self, members: Mapping[str, Any], where: str) -> None:
        self._left, self._where = dict(members), where

    def take(self, name: str) -> Any:
        if name not in self._left:
            raise QueryRefused(f"{self._where} has no {name}")
        return self._left.pop(name)

    def maybe(self, name: str) -> Any:
        return self._left.pop(name, None)

    def text(self, name: str) -> str:
        value = self.take(name)
        if not isinstance(value, str):
            raise QueryRefused(f"{self._where}.{name} is not a text")
        return value

    def items(self, name: str) -> list[Any]:
        value = self.take(name)
        if not isinstance(value, list):
            raise QueryRefused(f"{self._where}.{name} is not a list")
        return value

    def number(self, name: str) -> float:
        value = self.take(name)
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise QueryRefused(f"{self._where}.{name} is not a number")
        return float(value)

    def end(self, query: Query) -> Query:
        if self._left:
            raise QueryRefused(f"{self._where} has a member too many: {', '.join(map(str, self._left))}")
        return query


def _read_range(members: _Members) -> Query:
    gte, gt, lte, lt = (_operand(members.maybe(name)) for name in ("gte", "gt", "lte", "lt"))
    if (gte is not None and gt is not None) or (lte is not None and lt is not None):
        raise QueryRefused("a range has one end on each side", hint="write gte or gt, lte or lt")
    low, high = gt if gte is None else gte, lt if lte is None else lte
    return members.end(Range(members.text("field"), low, high, gt is not None, lt is not None))


def _read_text(members: _Members) -> Query:
    mode, field = members.maybe("mode") or Mode.ALL.value, members.maybe("field")
    if mode not in {m.value for m in Mode} or not isinstance(field, str | None):
        raise QueryRefused(f'no mode "{mode}" of a text', hint=nearest(str(mode), [m.value for m in Mode]))
    return members.end(Text(members.text("text"), Mode(mode), field))


def _read_polygon(members: _Members) -> Query:
    corners = members.items("corners")
    for corner in corners:
        numbers = corner if isinstance(corner, list) else []
        if len(numbers) != 2 or not all(isinstance(n, int | float | Decimal) for n in numbers):
            raise QueryRefused("a polygon's corner is not [latitude, longitude]")
    return members.end(Polygon(tuple(Point(float(lat), float(lon)) for lat, lon in corners)))


_READERS: Final[Mapping[str, Callable[[_Members], Query]]] = {
    "match_all": lambda m: m.end(MatchAll()),
    "equals": lambda m: m.end(Equals(m.text("field"), _operand(m.take("value")))),
    "any_of": lambda m: m.end(AnyOf(m.text("field"), tuple(map(_operand, m.items("values"))))),
    "range": _read_range,
    "text": _read_text,
    "exists": lambda m: m.end(Exists(m.text("field"))),
    "near": lambda m: m.end(Near(m.number("lat"), m.number("lon"), m.number("radius_m"))),
    "box": lambda m: m.end(Box(m.number("north"), m.number("west"), m.number("south"), m.number("east"))),
    "polygon": _read_polygon,
}
