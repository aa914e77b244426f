"""What somebody has narrowed a search to, between the page's address and the query that is asked and saved. Pure.

    ?q=garden&is.kind=flat&to.price=500000&box=49,2,48,3  ◀─▶  Narrowing  ─▶  Query

Words are in the compact form that people write (docs/search.md). Clauses of it that the page has a control for are
taken out of the words: who writes kind:flat sees the facet chosen, and a saved search comes back as it was chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final
from urllib.parse import urlencode

from search.errors import QueryRefused
from search.index import IndexDefinition
from search.kinds import Kind
from search.query import And, AnyOf, Box, Equals, MatchAll, Query, Range
from search.query_check import check
from search.query_parser import parse
from search.query_text import to_text

WORDS: Final = "q"
IS: Final = "is."
FROM: Final = "from."
TO: Final = "to."
BOX: Final = "box"
SORT: Final = "sort"
VALUES_MAX: Final = 50
"""Of one column."""
DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
CHOOSABLE: Final = (Kind.BOOLEAN, Kind.EXACT, Kind.TEXT, Kind.INTEGER)
TEXTS: Final = (Kind.TEXT, Kind.EXACT, Kind.JSON)
"""A choice of theirs is taken as it is: empty, or with spaces around it, it is a value like any other."""
NUMBERS: Final = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)


@dataclass(frozen=True)
class Narrowing:
    words: str = ""
    chosen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By column: any of these values."""
    ranges: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By column: lowest and highest; empty: without end on that side."""
    box: str = ""
    """north,west,south,east"""
    sort: str = ""

    @property
    def is_everything(self) -> bool:
        return not (self.words or self.chosen or self.ranges or self.box)

    def params(self) -> list[tuple[str, str]]:
        return [
            *([(WORDS, self.words)] if self.words else []),
            *((IS + name, value) for name, values in self.chosen.items() for value in values),
            *((FROM + name, low) for name, (low, _) in self.ranges.items() if low),
            *((TO + name, high) for name, (_, high) in self.ranges.items() if high),
            *([(BOX, self.box)] if self.box else []),
            *([(SORT, self.sort)] if self.sort else []),
        ]

    def address(self, *more: tuple[str, str]) -> str:
        """What follows the page's own address."""
        return "?" + urlencode([*self.params(), *more])

    # One step further

    def toggled(self, name: str, value: str) -> Narrowing:
        values = self.chosen.get(name, ())
        left = tuple(v for v in values if v != value) if value in values else (*values, value)
        return replace(self, chosen=_without(self.chosen, name) | ({name: left} if left else {}))

    def without(self, name: str) -> Narrowing:
        return replace(self, chosen=_without(self.chosen, name), ranges=_without(self.ranges, name))

    def sorted_by(self, sort: str) -> Narrowing:
        return replace(self, sort=sort)


def _without(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {each: value for each, value in found.items() if each != name}


def of_params(params: Iterable[tuple[str, str]], definition: IndexDefinition) -> Narrowing:
    """Raises QueryRefused for a field that is not there."""
    made = Narrowing()
    for name, value in params:
        if name.startswith(IS):
            made = _with_choice(made, name.removeprefix(IS), value, definition)
        elif value.strip():
            made = _with_param(made, name, value.strip(), definition)
    return absorbed(made, definition)


def _with_choice(made: Narrowing, column: str, value: str, definition: IndexDefinition) -> Narrowing:
    if definition.target(column).column.kind not in TEXTS:
        value = value.strip()
        if not value:
            return made
    values = made.chosen.get(column, ())
    if value in values or len(values) >= VALUES_MAX:
        return made
    return replace(made, chosen={**made.chosen, column: (*values, value)})


def _with_param(made: Narrowing, name: str, value: str, definition: IndexDefinition) -> Narrowing:
    if name == WORDS:
        return replace(made, words=value)
    if name in (BOX, SORT):
        return replace(made, box=value) if name == BOX else replace(made, sort=value)
    for sign in (FROM, TO):
        if name.startswith(sign):
            column = name.removeprefix(sign)
            definition.target(column)
            low, high = made.ranges.get(column, ("", ""))
            ends = (value, high) if sign == FROM else (low, value)
            return replace(made, ranges={**made.ranges, column: ends})
    return made


def query_of(narrowing: Narrowing, definition: IndexDefinition) -> Query:
    """Checked. Raises QueryRefused, which says what to write instead."""
    clauses = [*_inner(parse(narrowing.words, definition)), *_clauses(narrowing)]
    if not clauses:
        return MatchAll()
    return check(clauses[0] if len(clauses) == 1 else And(tuple(clauses)), definition)


def _clauses(narrowing: Narrowing) -> Iterator[Query]:
    for name, values in narrowing.chosen.items():
        yield Equals(name, values[0]) if len(values) == 1 else AnyOf(name, values)
    for name, (low, high) in narrowing.ranges.items():
        yield Range(name, low or None, high or None)
    if narrowing.box:
        yield _box(narrowing.box)


def _box(text: str) -> Box:
    try:
        north, west, south, east = (float(part) for part in text.split(","))
    except ValueError:
        raise QueryRefused("not an area of the map", hint="box=north,west,south,east") from None
    return Box(north, west, south, east)


def _inner(query: Query) -> tuple[Query, ...]:
    if isinstance(query, MatchAll):
        return ()
    return query.clauses if isinstance(query, And) else (query,)


def of_query(query: Query, definition: IndexDefinition) -> Narrowing:
    """As somebody could have chosen it on the page; the rest is words."""
    made, left = Narrowing(), list[Query]()
    for clause in _inner(query):
        taken = _taken(made, clause, definition)
        if taken is None:
            left.append(clause)
        else:
            made = taken
    if not left:
        return made
    return replace(made, words=to_text(left[0] if len(left) == 1 else And(tuple(left)), definition))


def absorbed(narrowing: Narrowing, definition: IndexDefinition) -> Narrowing:
    """What the words say of columns that nothing is chosen of yet, as if it had been chosen."""
    if not narrowing.words:
        return narrowing
    try:
        said = of_query(parse(narrowing.words, definition), definition)
    except QueryRefused:  # told when it is asked
        return narrowing
    twice = {*said.chosen, *said.ranges} & {*narrowing.chosen, *narrowing.ranges}
    if twice or (said.box and narrowing.box):
        return narrowing
    return Narrowing(
        said.words,
        {**narrowing.chosen, **said.chosen},
        {**narrowing.ranges, **said.ranges},
        narrowing.box or said.box,
        narrowing.sort,
    )


def _taken(made: Narrowing, clause: Query, definition: IndexDefinition) -> Narrowing | None:
    """None for a clause that has no control, or whose control is taken."""
    if isinstance(clause, Box):
        sides = ",".join(f"{side:g}" for side in (clause.north, clause.west, clause.south, clause.east))
        return replace(made, box=sides) if not made.box and _box(sides) == clause else None
    if not isinstance(clause, Equals | AnyOf | Range) or clause.field in {*made.chosen, *made.ranges}:
        return None
    column = definition.by_name.get(clause.field)
    if column is None:
        return None
    if isinstance(clause, Range):
        return _taken_range(made, clause, column.kind)
    values = tuple(map(value_text, (clause.value,) if isinstance(clause, Equals) else clause.values))
    if column.kind not in CHOOSABLE or len(values) > VALUES_MAX:
        return None
    return replace(made, chosen={**made.chosen, clause.field: values})


def _taken_range(made: Narrowing, clause: Range, kind: Kind) -> Narrowing | None:
    ends = tuple("" if end is None else value_text(end) for end in (clause.low, clause.high))
    if clause.low_open or clause.high_open or kind not in (*NUMBERS, Kind.DATE):
        return None
    if kind is Kind.DATE and not all(DAY.fullmatch(end) for end in ends if end):
        return None
    return replace(made, ranges={**made.ranges, clause.field: (ends[0], ends[1])})


def value_text(value: Any) -> str:
    """A value of a query as it stands in an address."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | Decimal):
        exact = Decimal(repr(value)) if isinstance(value, float) else value
        return f"{exact.normalize():f}" if exact.is_finite() else str(exact)
    return str(value)
