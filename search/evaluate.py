"""What a query means: a predicate over one row, in plain Python. The definition that the index must agree with.

    compile(query, definition) ─▶ predicate(row) ─▶ True or False        row: decode_row(definition, bytes)

`query` is checked and resolved (query_check.check, query.resolve). A comparison with NULL is False; Not is negation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from search.analysis import Analysed, analyse
from search.elements import as_rows, inside
from search.geo import Point, distance_m, in_box, in_polygon
from search.index import IndexDefinition, Row, Target
from search.instants import Relative
from search.json_paths import at_path, below, leaf_form, leaves
from search.kinds import RULES, Kind
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

Predicate: TypeAlias = Callable[[Row], bool]
Forms: TypeAlias = Callable[[Row], Iterable[Any]]


def compile(query: Query, definition: IndexDefinition) -> Predicate:
    return _COMPILERS[type(query)](query, definition)


def _and(query: And, definition: IndexDefinition) -> Predicate:
    each = [compile(clause, definition) for clause in query.clauses]
    return lambda row: all(holds(row) for holds in each)


def _or(query: Or, definition: IndexDefinition) -> Predicate:
    each = [compile(clause, definition) for clause in query.clauses]
    return lambda row: any(holds(row) for holds in each)


def _not(query: Not, definition: IndexDefinition) -> Predicate:
    holds = compile(query.clause, definition)
    return lambda row: not holds(row)


def _element(query: Element, definition: IndexDefinition) -> Predicate:
    target, holds = definition.target(query.field), compile(query.clause, inside(definition, query.field))
    return lambda row: any(holds(element) for element in as_rows(row, target))


def _equals(query: Equals, definition: IndexDefinition) -> Predicate:
    forms, form = _forms(definition.target(query.field))
    wanted = form(query.value)
    return lambda row: wanted in forms(row)


def _any_of(query: AnyOf, definition: IndexDefinition) -> Predicate:
    forms, form = _forms(definition.target(query.field))
    wanted = frozenset(form(value) for value in query.values)
    return lambda row: any(found in wanted for found in forms(row))


def _range(query: Range, definition: IndexDefinition) -> Predicate:
    forms, form = _forms(definition.target(query.field))
    low = None if query.low is None else form(query.low)
    high = None if query.high is None else form(query.high)
    sort = None if not definition.target(query.field).path else (low or high or ("",))[0]

    def within(found: Any) -> bool:
        if sort is not None and found[0] != sort:
            return False
        if low is not None and (found <= low if query.low_open else found < low):
            return False
        return high is None or (found < high if query.high_open else found <= high)

    return lambda row: any(within(found) for found in forms(row))


def _forms(target: Target) -> tuple[Forms, Callable[[Any], Any]]:
    """What a row has there, ready to be compared, and the same for a query's values."""
    column, path = target.column, target.path
    if path:
        return lambda row: [leaf_form(leaf) for leaf in at_path(row.get(column.name), path)], _absolute(leaf_form)
    rules = RULES[column.kind]
    from_row, form = rules.from_row, rules.form
    return lambda row: [form(from_row(value)) for value in column.values(row)], _absolute(form)


def _absolute(form: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def made(value: Any) -> Any:
        if isinstance(value, Relative):
            raise ValueError(f"{value} is not resolved")
        return form(value)

    return made


def _exists(query: Exists, definition: IndexDefinition) -> Predicate:
    target = definition.target(query.field)
    name, path = target.column.name, target.path
    if path:
        return lambda row: below(row.get(name), path)
    if target.column.kind is Kind.JSON:
        return lambda row: any(True for _ in leaves(row.get(name)))
    return lambda row: bool(target.column.values(row))


def texts(row: Row, target: Target) -> list[str]:
    """The texts of a row that a target names: of a column, of an array, or at a path."""
    if target.path:
        return [leaf for leaf in at_path(row.get(target.column.name), target.path) if isinstance(leaf, str)]
    return target.column.values(row)


def text_targets(field: str | None, definition: IndexDefinition) -> list[Target]:
    """Where a text is looked for."""
    return [Target(c) for c in definition.text_columns] if field is None else [definition.target(field)]


def _text(query: Text, definition: IndexDefinition) -> Predicate:
    targets = text_targets(query.field, definition)
    holds = text_test(query, definition.language)

    def found(row: Row) -> bool:
        return holds([analyse(text, definition.language) for target in targets for text in texts(row, target)])

    return found


def text_test(query: Text, language: str) -> Callable[[Sequence[Analysed]], bool]:
    """Whether analysed texts, all that a row has to offer, hold what is asked."""
    asked = analyse(query.text, language)
    if query.mode is Mode.PHRASE:
        return lambda found: any(_has_run(text.stems, asked.stems) for text in found)
    if query.mode is Mode.PREFIX:
        *others, beginning = asked.words
        stems = asked.stems[: len(others)]
        return lambda found: _has_all(found, stems) and any(_begins(text, beginning) for text in found)
    if query.mode is Mode.ANY:
        return lambda found: any(stem in text.stems for stem in asked.stems for text in found)
    return lambda found: _has_all(found, asked.stems)


def _begins(text: Analysed, beginning: str) -> bool:
    return any(word.startswith(beginning) for word in (*text.words, *text.stems))


def _has_all(found: Sequence[Analysed], stems: Sequence[str]) -> bool:
    return all(any(stem in text.stems for text in found) for stem in stems)


def _has_run(stems: Sequence[str], run: Sequence[str]) -> bool:
    length = len(run)
    return any(stems[at : at + length] == run for at in range(len(stems) - length + 1))


def _placed(definition: IndexDefinition, holds: Callable[[Point], bool]) -> Predicate:
    geo = definition.geo

    def found(row: Row) -> bool:
        place = geo.point(row) if geo else None
        return place is not None and holds(place)

    return found


def _near(query: Near, definition: IndexDefinition) -> Predicate:
    centre = Point(query.lat, query.lon)
    return _placed(definition, lambda place: distance_m(centre, place) <= query.radius_m)


def _box(query: Box, definition: IndexDefinition) -> Predicate:
    return _placed(definition, lambda place: in_box(place, query.north, query.west, query.south, query.east))


def _polygon(query: Polygon, definition: IndexDefinition) -> Predicate:
    return _placed(definition, lambda place: in_polygon(place, query.corners))


_COMPILERS: Final[dict[type, Callable[[Any, IndexDefinition], Predicate]]] = {
    MatchAll: lambda _query, _definition: lambda _row: True,
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
