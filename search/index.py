"""How a view is indexed: made from the view's shape, and the one place that says which field of the index holds what.

    v.<column>  the value, encoded exactly (encoding.py): equality, ranges, sort, facets
    s.<column>  stems of a text column in their order: words and phrases
    w.<column>  those of its words that are not their own stem: beginnings of words, spelling
    e.<column>  the elements of a json column, each a nested document (elements.py): path, v, s, w, at, lat, lon, e
    at, lat, lon  the point on the map     row  the row's JSON, returned as it is     gone, gone_at  not a row (sink.py)

Options of the view's declaration: `text = 'title, description'` chooses the columns that bare words are looked for in
(every text column, without it; each can be asked by name all the same), `geo = 'lat, lon'` the columns of the point or
one column of type point (found by name, without it), `language` the stemmer's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, TypeAlias, TypedDict

import msgspec

from cdc.errors import ConfigurationError
from search.analysis import ANALYSIS, DEFAULT_LANGUAGE, LANGUAGES
from search.encoding import field_type, is_scaled
from search.errors import QueryRefused, nearest
from search.geo import Point, point, point_of_text
from search.json_paths import escaped
from search.kinds import Kind, decimal_of, kind_of
from views.plan import Field
from views.sinks.sink import ViewShape
from views.sqltypes import Family

Row: TypeAlias = Mapping[str, Any]
"""Decoded by `decode_row`; numerics are Decimal."""

LAYOUT: Final = 1
LAYOUT_WITH_ELEMENTS: Final = 2
"""Of the documents; kept with every index. Without a json column the first is as good as the second."""
ELEMENT_LEVELS_MAX: Final = 2
"""An element, and one in it, can be asked by themselves."""
LATITUDES: Final = ("lat", "latitude")
LONGITUDES: Final = ("lon", "lng", "longitude")
"""Names by which a place is found."""
_POINT: Final = "point"


@dataclass(frozen=True)
class Column:
    name: str
    kind: Kind
    type: str = ""
    """As Postgres names it, for messages."""
    is_array: bool = False
    scale: int | None = None
    """Of a numeric that is indexed as a long."""
    nested: str = ""
    """Not a row's column but what an element holds: the field that the elements are in."""

    @cached_property
    def field(self) -> str:
        return self._below("v")

    @cached_property
    def stems_field(self) -> str:
        return self._below("s")

    @cached_property
    def words_field(self) -> str:
        return self._below("w")

    @cached_property
    def elements_field(self) -> str:
        return self._below("e")

    def _below(self, part: str) -> str:
        return f"{self.nested}.{part}" if self.nested else f"{part}.{_escaped(self.name)}"

    @property
    def has_words(self) -> bool:
        return self.kind in (Kind.TEXT, Kind.JSON)

    @property
    def is_sortable(self) -> bool:
        return self.kind not in (Kind.JSON, Kind.OPAQUE) and not self.is_array

    def values(self, row: Row) -> list[Any]:
        """As they are in the row's JSON, without NULLs: none, one, or an array's, flat."""
        found = row.get(self.name)
        if found is None:
            return []
        return _flat(found) if self.is_array else [found]


@dataclass(frozen=True)
class Target:
    """What a query's field names: a column, or a path into a json column."""

    column: Column
    path: str = ""


@dataclass(frozen=True)
class Geo:
    """Two columns, or one of type point."""

    lat: str
    lon: str = ""

    def point(self, row: Row) -> Point | None:
        """None when there is none, or one that is not on the map."""
        if self.lon:
            return point(row.get(self.lat), row.get(self.lon))
        return point_of_text(row.get(self.lat))


@dataclass(frozen=True)
class IndexDefinition:
    source: str
    view: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    text: tuple[str, ...] = ()
    """Columns that bare words are looked for in."""
    geo: Geo | None = None
    language: str = DEFAULT_LANGUAGE

    @property
    def nested(self) -> str:
        """The field that elements are in, of a definition of elements; a row stands by itself."""
        return ""

    @cached_property
    def by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def target(self, name: str) -> Target:
        """Raises QueryRefused for a field that is not there, or that nothing can be asked of."""
        column, path = self.by_name.get(name), ""
        if column is None:
            column, path = self._json_column(name)
        if column is None:
            raise QueryRefused(f"no field {name} in {self.view}", hint=nearest(name, self.by_name))
        if column.kind is Kind.OPAQUE:
            raise QueryRefused(
                f"{name} cannot be searched",
                detail=f"a value of type {column.type} is stored and returned, and nothing can be asked of it",
                hint=f"there are: {', '.join(c.name for c in self.columns if c.kind is not Kind.OPAQUE)}",
            )
        return Target(column, path)

    def _json_column(self, name: str) -> tuple[Column | None, str]:
        """The json column with the longest name that begins the path."""
        for at in range(len(name) - 1, 0, -1):
            if name[at] == "." and (column := self.by_name.get(name[:at])) and column.kind is Kind.JSON:
                return column, name[at + 1 :]
        return None, ""

    @cached_property
    def text_columns(self) -> tuple[Column, ...]:
        return tuple(self.by_name[name] for name in self.text)

    def mapping(self) -> dict[str, Any]:
        """Strict: a document that does not fit is refused, never bent."""
        return {"dynamic": "strict", "_source": {"enabled": False}, "_meta": self.meta(), "properties": self._fields()}

    def meta(self) -> dict[str, Any]:
        """What an index must have been made with to be written to."""
        shape = [[c.name, c.kind.value, c.is_array, c.scale] for c in self.columns]
        geo = [self.geo.lat, self.geo.lon] if self.geo else []
        layout = LAYOUT_WITH_ELEMENTS if self.documents else LAYOUT
        made = {"layout": layout, "analysis": ANALYSIS, "language": self.language, "columns": shape, "geo": geo}
        return {"headwater": made}

    @cached_property
    def documents(self) -> tuple[Column, ...]:
        """The json columns, whose elements can be asked by themselves."""
        return tuple(column for column in self.columns if column.kind is Kind.JSON)

    def _fields(self) -> dict[str, Any]:
        asked = [column for column in self.columns if column.kind is not Kind.OPAQUE]
        worded = [column for column in asked if column.has_words]
        stems = {"type": "text", "analyzer": "whitespace"}
        words = {**stems, "index_options": "docs", "norms": False}
        point = {"at": {"type": "geo_point"}, "lat": {"type": "long"}, "lon": {"type": "long"}} if self.geo else {}
        elements = {_escaped(c.name): _elements(ELEMENT_LEVELS_MAX, stems, words) for c in self.documents}
        return {
            "v": {"properties": {_escaped(c.name): {"type": field_type(c.kind, c.scale)} for c in asked}},
            "s": {"properties": {_escaped(c.name): stems for c in worded}},
            "w": {"properties": {_escaped(c.name): words for c in worded}},
            **({"e": {"properties": elements}} if elements else {}),
            **point,
            "row": {"type": "text", "index": False, "store": True, "norms": False},
            "gone": {"type": "boolean", "doc_values": False},
            "gone_at": {"type": "long"},
        }


def _elements(levels: int, stems: dict[str, Any], words: dict[str, Any]) -> dict[str, Any]:
    """Elements are only ever filtered by: their values need no columns beside the index."""
    by_index = {"doc_values": False}
    fields = {
        "path": {"type": "keyword", **by_index},
        "v": {"type": "keyword", **by_index},
        "s": stems,
        "w": words,
        "at": {"type": "geo_point", **by_index},
        "lat": {"type": "long", **by_index},
        "lon": {"type": "long", **by_index},
    }
    inner = {"e": _elements(levels - 1, stems, words)} if levels > 1 else {}
    return {"type": "nested", "properties": fields | inner}


def define(shape: ViewShape) -> IndexDefinition:
    """Raises ConfigurationError for options that do not fit the view."""
    columns = tuple(_column(field) for field in shape.fields)
    texts = tuple(c.name for c in columns if c.kind is Kind.TEXT)
    chosen = _names(shape, "text", texts, "text columns") if "text" in shape.options else texts
    language = shape.options.get("language", DEFAULT_LANGUAGE)
    if language not in LANGUAGES:
        raise ConfigurationError(f'no stemmer for the language "{language}"', hint=nearest(language, LANGUAGES))
    return IndexDefinition(shape.source, shape.view, columns, shape.key, chosen, _geo(shape), language)


def _column(field: Field) -> Column:
    array = field.type.family is Family.ARRAY
    type_ = field.type.element if array else field.type
    kind = kind_of(type_)
    if array and kind is Kind.JSON:
        kind = Kind.OPAQUE
    fits = kind is Kind.DECIMAL and is_scaled(type_.precision, type_.scale)
    return Column(field.name, kind, str(field.type), array, type_.scale if fits else None)


def _names(shape: ViewShape, option: str, known: tuple[str, ...], what: str) -> tuple[str, ...]:
    names = tuple(word.strip() for word in shape.options[option].split(",") if word.strip())
    for name in names:
        if name not in known:
            raise ConfigurationError(
                f'option {option} of view {shape.view}: "{name}" is not one of its {what}', hint=nearest(name, known)
            )
    return names


def _geo(shape: ViewShape) -> Geo | None:
    types = {field.name: field.type for field in shape.fields}
    numbers = {n for n, t in types.items() if t.family in (Family.FLOAT, Family.NUMERIC, Family.INTEGER)}
    points = [name for name, type_ in types.items() if type_.name == _POINT]
    if "geo" in shape.options:
        names = _names(shape, "geo", (*numbers, *points), "numbers or points")
        if len(names) != (1 if names and names[0] in points else 2):
            raise ConfigurationError(f"option geo of view {shape.view} names a latitude and a longitude, or one point")
        return Geo(*names)
    lat = next((name for name in LATITUDES if name in numbers), "")
    lon = next((name for name in LONGITUDES if name in numbers), "")
    if lat and lon:
        return Geo(lat, lon)
    return Geo(points[0]) if len(points) == 1 else None


def _escaped(name: str) -> str:
    """A column's name as one step of a field's path."""
    return escaped(name).replace(".", "%2e;")


def _flat(found: Any) -> list[Any]:
    """Arrays of any dimensions, as any element is asked."""
    if list not in map(type, found):
        return [item for item in found if item is not None]
    return [item for inner in found if inner is not None for item in (_flat(inner) if type(inner) is list else [inner])]


@lru_cache(maxsize=100)
def row_decoder(definition: IndexDefinition) -> msgspec.json.Decoder[dict[str, Any]]:
    from decimal import Decimal

    decimals = {c.name: Decimal | None for c in definition.columns if c.kind is Kind.DECIMAL and not c.is_array}
    shape = {c.name: decimals.get(c.name, Any) for c in definition.columns}
    return msgspec.json.Decoder(TypedDict("Row", shape, total=False), float_hook=decimal_of)  # type: ignore[operator]


def decode_row(definition: IndexDefinition, row: bytes | str) -> dict[str, Any]:
    """A row's JSON without loss: numerics keep every digit."""
    return row_decoder(definition).decode(row)
