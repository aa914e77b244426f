"""Elements: the objects that stand in arrays of a json column, each asked by itself.

    photos:(kind:plan caption:garden)     one photo that is a plan and whose caption has the garden

To a query of an element the element is what a row is to a query of rows: a document with paths in it, and a place when
it has numbers named as a row's columns would be (`lat`, `lon`). So the same code evaluates, compiles, checks and prints
it, given the definition that `inside` makes; `as_rows` is what it is evaluated on. In the index an element is a nested
document. An element that lies in another one is indexed twice: in the row, by its whole path, and in the other element.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from search.errors import QueryRefused
from search.geo import Point, point
from search.index import ELEMENT_LEVELS_MAX, LATITUDES, LONGITUDES, Column, Geo, IndexDefinition, Row, Target
from search.json_paths import elements, elements_at
from search.kinds import Kind

ELEMENTS_MAX: Final = 10_000
"""Of one row, those in others counted twice: Elasticsearch's own limit, unless it is changed there."""
_ELEMENT: Final = ""
"""The one column of what is evaluated."""


def require_few(definition: IndexDefinition, row: Row) -> None:
    """Raises ValueError for a row that is asked about too many elements: each query of them looks at every one."""
    documents = (row[column.name] for column in definition.columns if column.kind is Kind.JSON)
    if sum(len(elements(document)) for document in documents) > ELEMENTS_MAX:
        raise ValueError(f"more than {ELEMENTS_MAX} objects in the arrays of its json columns")


class ElementGeo(Geo):
    """Any element may have a place."""

    def point(self, row: Row) -> Point | None:
        return place_of(row[_ELEMENT])


def place_of(element: dict[str, Any]) -> Point | None:
    lat = next((element[name] for name in LATITUDES if _is_number(element.get(name))), None)
    lon = next((element[name] for name in LONGITUDES if _is_number(element.get(name))), None)
    try:
        return point(lat, lon)
    except OverflowError:  # a number beyond all floats
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


@dataclass(frozen=True)
class ElementDefinition(IndexDefinition):
    """What a query of one element is asked of: any path inside."""

    level: int = 1

    @property
    def nested(self) -> str:
        return self.columns[0].nested

    def target(self, name: str) -> Target:
        return Target(self.columns[0], name)


def inside(definition: IndexDefinition, field: str) -> ElementDefinition:
    """Raises QueryRefused for a field that has no elements."""
    target = definition.target(field)
    if target.column.kind is not Kind.JSON:
        raise QueryRefused(
            f"{field} has no elements",
            detail="an element is an object in an array, in a json column",
            hint=f"write {field}:(one,another)",
        )
    column = Column(_ELEMENT, Kind.JSON, target.column.type, nested=target.column.elements_field)
    view = f"an element of {field}"
    if not isinstance(definition, ElementDefinition):
        return ElementDefinition(definition.source, view, (column,), (), (), ElementGeo(""), definition.language)
    if definition.level == ELEMENT_LEVELS_MAX:
        raise QueryRefused(
            f"elements in elements are asked at most {ELEMENT_LEVELS_MAX} deep",
            hint="name a path through the arrays: rooms.windows:(kind:bay) is one window of any room",
        )
    return replace(definition, view=view, columns=(column,), level=definition.level + 1)


def as_rows(row: Row, target: Target) -> Iterator[Row]:
    """The elements that a target names, as a query of one is evaluated on them."""
    return ({_ELEMENT: element} for element in elements_at(row.get(target.column.name), target.path))
