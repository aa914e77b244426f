"""Documents column by column, without a short way: the oracle of search/documents.py."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from search.analysis import stems_of, words
from search.encoding import encoder
from search.geo import point
from search.index import Column, IndexDefinition, decode_row
from search.json_paths import escaped, token
from search.kinds import RULES, Kind, float_form


def document(definition: IndexDefinition, row: bytes) -> dict[str, Any]:
    """Words that are not their own stem are sets."""
    values = decode_row(definition, row)
    made: dict[str, Any] = {"v": {}, "s": {}, "w": {}, "row": row.decode()}
    for column in definition.columns:
        if column.kind is not Kind.OPAQUE and values.get(column.name) is not None:
            _add(column, values[column.name], made, definition.language)
    place = definition.geo.point(values) if definition.geo else None
    if place is not None:
        made |= {"at": [place.lon, place.lat], "lat": float_form(place.lat), "lon": float_form(place.lon)}
    return made


def _add(column: Column, value: Any, made: dict[str, Any], language: str, levels: int = 2) -> None:
    name = column.field.removeprefix("v.")
    if column.kind is Kind.JSON:
        elements = [_element(path, each, language, levels) for path, each in _elements(value) if levels]
        if elements:
            made.setdefault("e", {})[name] = elements
        found = _leaves(value)
        made["v"][name] = list(dict.fromkeys(token(path, leaf) for path, leaf in found))
        texts = [(f"{escaped(path)}:", leaf) for path, leaf in found if isinstance(leaf, str)]
    else:
        encode, from_row = encoder(column.kind, column.scale), RULES[column.kind].from_row
        encoded = [encode(from_row(item)) for item in _items(value)]
        made["v"][name] = encoded if column.is_array else encoded[0]
        texts = [("", item) for item in _items(value)] if column.kind is Kind.TEXT else []
    if column.has_words:
        stems = stems_of(language)
        stemmed = [" ".join(start + stems[word] for word in words(text)) for start, text in texts]
        made["s"][name] = stemmed if column.is_array or column.kind is Kind.JSON else stemmed[0]
        made["w"][name] = {start + word for start, text in texts for word in words(text) if stems[word] != word}


def _element(path: str, element: dict[str, Any], language: str, levels: int) -> dict[str, Any]:
    """As a document of its own, with a json column alone."""
    inside: dict[str, Any] = {"v": {}, "s": {}, "w": {}}
    _add(Column("x", Kind.JSON), element, inside, language, levels=0)
    made: dict[str, Any] = {"path": path, **{part: inside[part]["x"] for part in "vsw"}}
    lat, lon = (_number(element, names) for names in (("lat", "latitude"), ("lon", "lng", "longitude")))
    place = point(lat, lon)
    if place is not None:
        made |= {"at": [place.lon, place.lat], "lat": float_form(place.lat), "lon": float_form(place.lon)}
    inner = [_element(at, each, language, levels - 1) for at, each in _elements(element)] if levels > 1 else []
    return made | ({"e": inner} if inner else {})


def _number(element: dict[str, Any], names: tuple[str, ...]) -> float | None:
    found = (element[name] for name in names if type(element.get(name)) in (int, float, Decimal))
    return next(map(float, found), None)


def _elements(value: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Objects that stand in arrays, outermost first."""
    if isinstance(value, dict):
        members = [_elements(inner, f"{path}.{name}" if path else name) for name, inner in value.items()]
        return [element for found in members for element in found]
    if isinstance(value, list):
        each = [([(path, inner)] if isinstance(inner, dict) else []) + _elements(inner, path) for inner in value]
        return [element for found in each for element in found]
    return []


def _items(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [item for inner in value for item in _items(inner)]
    return [] if value is None else [value]


def _leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        members = [_leaves(inner, f"{path}.{name}" if path else name) for name, inner in value.items()]
        return [leaf for found in members for leaf in found]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in _leaves(inner, path)]
    return [] if value is None else [(path, value)]
