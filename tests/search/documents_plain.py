"""Documents column by column, without a short way: the oracle of search/documents.py."""

from __future__ import annotations

from typing import Any

from search.analysis import stems_of, words
from search.encoding import encoder
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


def _add(column: Column, value: Any, made: dict[str, Any], language: str) -> None:
    name = column.field.removeprefix("v.")
    if column.kind is Kind.JSON:
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
