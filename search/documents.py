"""A row's JSON as the document that Elasticsearch indexes. Pure, and the hot path of the sink.

    row ─▶ v, decoded: what is indexed as it stands is done ─▶ one step a kind rewrites its columns ─▶ JSON

A definition has few kinds, so a row passes through few functions, however many columns it has. A NULL stays a null of
`v`, which the index takes for nothing at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypedDict

import msgspec

from search.analysis import LANGUAGES, Stemmed, stemmer
from search.elements import ELEMENTS_MAX, place_of
from search.encoding import Encoded, encoder, scaled_digits
from search.geo import Point
from search.index import ELEMENT_LEVELS_MAX, Column, IndexDefinition
from search.json_paths import elements, escaped, leaves, token
from search.kinds import RULES, Kind, date_of, decimal_of, float_form, text_form, timestamp_of

Part: TypeAlias = dict[str, Any]
"""Of a document: what is below v, s, w or e."""
Step: TypeAlias = Callable[[Part, Part, Part, Part], None]
"""Rewrites its columns in v, which holds them as the row does, and adds their words to s and w, their elements to e."""
Columns: TypeAlias = Sequence[Column]

SHORT_TEXT_CHARACTERS: Final = 40
"""Names, cities and the like come again and again."""
SHORT_TEXTS_CACHED_MAX: Final = 20_000
_AS_IT_IS: Final = (Kind.BOOLEAN, Kind.INTEGER, Kind.UUID, Kind.TIME)
_encode: Final = msgspec.json.Encoder().encode


class DocumentBuilder:
    """Makes documents of one definition. Raises ValueError, TypeError, ArithmeticError or MsgspecError for a row that
    does not fit it."""

    def __init__(self, definition: IndexDefinition) -> None:
        self._geo = definition.geo
        self._decode = _decoder(definition).decode
        self._steps = _steps(definition)

    def document(self, row: bytes) -> dict[str, Any]:
        v = self._decode(row)
        s: Part = {}
        w: Part = {}
        e: Part = {}
        document: dict[str, Any] = {"v": v, "s": s, "w": w, "row": row.decode()}
        place = self._geo.point(v) if self._geo else None
        if place is not None:
            _add_place(document, place)
        for step in self._steps:
            step(v, s, w, e)
        if e:
            document["e"] = e
        return document

    def encoded(self, row: bytes) -> bytes:
        return _encode(self.document(row))


def _add_place(document: Part, place: Point) -> None:
    document["at"] = [place.lon, place.lat]
    document["lat"], document["lon"] = float_form(place.lat), float_form(place.lon)


def _decoder(definition: IndexDefinition) -> msgspec.json.Decoder[Part]:
    """Of the columns that a document is made of, each in the form that its step takes."""
    place = _place_names(definition)
    wanted = [column for column in definition.columns if column.kind is not Kind.OPAQUE or column.name in place]
    shape = {c.name: msgspec.Raw if _is_digits(c, place) else Any if c.is_array else _form(c.kind) for c in wanted}
    return msgspec.json.Decoder(TypedDict("Row", shape, total=False), float_hook=decimal_of)  # type: ignore[operator]


def _form(kind: Kind) -> Any:
    forms: dict[Kind, Any] = {
        Kind.TEXT: str | None,
        Kind.FLOAT: float | str | None,
        Kind.DECIMAL: Decimal | None,
    }
    return forms.get(kind, Any)


def _place_names(definition: IndexDefinition) -> tuple[str, ...]:
    return (definition.geo.lat, definition.geo.lon) if definition.geo else ()


def _is_digits(column: Column, place: Sequence[str]) -> bool:
    """A numeric that nobody needs as a number: its digits are moved as they stand in the row."""
    return column.scale is not None and not column.is_array and column.name not in place


def _steps(definition: IndexDefinition) -> list[Step]:
    place = _place_names(definition)
    asked = [column for column in definition.columns if column.kind is not Kind.OPAQUE]
    single = [column for column in asked if not column.is_array]
    digits = [column for column in single if _is_digits(column, place)]
    done = (*_AS_IT_IS, Kind.TEXT, Kind.JSON)
    values = [column for column in single if column.kind not in done and column not in digits]
    language = definition.language
    steps = [
        _texts([column for column in single if column.kind is Kind.TEXT], language),
        _digits(digits),
        _values(values),
        _arrays([column for column in asked if column.is_array], language),
        _documents([column for column in single if column.kind is Kind.JSON], language),
        _names(definition),
    ]
    return [step for step in steps if step is not None]


def _texts(columns: Columns, language: str) -> Step | None:
    long, short = stemmer(language), _short_texts(language)
    names = [(column.name, _field(column)) for column in columns]

    def step(v: Part, s: Part, w: Part, _e: Part) -> None:
        for name, field in names:
            text = v.get(name)
            if text is None:
                continue
            if len(text) <= SHORT_TEXT_CHARACTERS:
                s[field], others = short(text)
            else:
                v[name] = text_form(text)
                s[field], others = long(text)
            if others:
                w[field] = others

    return step if columns else None


@lru_cache(maxsize=len(LANGUAGES))
def _short_texts(language: str) -> Callable[[str], Stemmed]:
    return lru_cache(maxsize=SHORT_TEXTS_CACHED_MAX)(stemmer(language))


def _digits(columns: Columns) -> Step | None:
    scales = [(column.name, column.scale or 0) for column in columns]

    def step(v: Part, _s: Part, _w: Part, _e: Part) -> None:
        for name, scale in scales:
            if name in v:
                digits = bytes(v[name])
                v[name] = None if digits == b"null" else scaled_digits(digits, scale)

    return step if columns else None


def _values(columns: Columns) -> Step | None:
    encoders = [(column.name, _row_encoder(column)) for column in columns]

    def step(v: Part, _s: Part, _w: Part, _e: Part) -> None:
        for name, encode in encoders:
            value = v.get(name)
            if value is not None:
                v[name] = encode(value)

    return step if columns else None


def _row_encoder(column: Column) -> Callable[[Any], Encoded]:
    known = _SHORT_WAYS.get(column.kind)
    if known:
        return known
    encode, from_row = encoder(column.kind, column.scale), RULES[column.kind].from_row
    return lambda value: encode(from_row(value))


def _float(value: Any) -> int:
    return float_form(float(value))


_SHORT_WAYS: Final[dict[Kind, Callable[[Any], Encoded]]] = {
    Kind.FLOAT: _float,
    Kind.DATE: date_of,
    Kind.TIMESTAMP: timestamp_of,
    Kind.TIMESTAMPTZ: timestamp_of,
    Kind.TEXT: text_form,
}


def _arrays(columns: Columns, language: str) -> Step | None:
    """Each element by itself, so that a phrase does not reach from one into the next."""
    long, short = stemmer(language), _short_texts(language)
    encoders = [(column, _field(column), _row_encoder(column)) for column in columns]

    def step(v: Part, s: Part, w: Part, _e: Part) -> None:
        for column, field, encode in encoders:
            if v.get(column.name) is None:
                continue
            items = column.values(v)
            if column.kind is Kind.TEXT:
                found = [short(item) if len(item) <= SHORT_TEXT_CHARACTERS else long(item) for item in items]
                s[field] = [stems for stems, _ in found]
                w[field] = " ".join([others for _, others in found if others])
            v[column.name] = [encode(item) for item in items]

    return step if columns else None


def _documents(columns: Columns, language: str) -> Step | None:
    stemmed = stemmer(language)
    names = [(column.name, _field(column)) for column in columns]

    def step(v: Part, s: Part, w: Part, e: Part) -> None:
        left = ELEMENTS_MAX
        for name, field in names:
            document = v.get(name)
            if document is None:
                continue
            v[name], s[field], w[field] = _described(document, stemmed)
            found = _elements(document, stemmed, ELEMENT_LEVELS_MAX, left)
            if found:
                e[field] = found
                left -= sum(1 + len(each.get("e", ())) for each in found)

    return step if columns else None


def _described(document: Any, stemmed: Callable[[str], Stemmed]) -> tuple[list[str], list[str], str]:
    """The values of a json document, its stems and its words that are not their own stem."""
    tokens, texts, seen = [], [], set[str]()
    for path, leaf in leaves(document):
        tokens.append(token(path, leaf))
        if isinstance(leaf, str):
            stems, others = stemmed(leaf)
            start = f"{escaped(path)}:"
            texts.append(_started(start, stems))
            if others:
                seen.add(_started(start, others))
    return list(dict.fromkeys(tokens)), texts, " ".join(seen)


def _elements(document: Any, stemmed: Callable[[str], Stemmed], levels: int, left: int) -> list[Part]:
    """The elements of a json document, at whatever path, each with those in it. Raises ValueError for too many."""
    made: list[Part] = []
    for path, element in elements(document):
        left -= 1
        if left < 0:
            raise ValueError(
                f"more than {ELEMENTS_MAX} objects in the arrays of its json columns, those inside others counted twice"
            )
        v, s, w = _described(element, stemmed)
        one: Part = {"path": path, "v": v, "s": s, "w": w}
        place = place_of(element)
        if place is not None:
            _add_place(one, place)
        inner = _elements(element, stemmed, levels - 1, left) if levels > 1 else []
        if inner:
            one["e"] = inner
            left -= len(inner)
        made.append(one)
    return made


def _started(start: str, words: str) -> str:
    """Each word with its path in front."""
    return start + words.replace(" ", f" {start}") if words else ""


def _names(definition: IndexDefinition) -> Step | None:
    """From columns to fields, at the end; a column that only the map needs goes."""
    moved = [(c.name, _field(c)) for c in definition.columns if c.kind is not Kind.OPAQUE and c.name != _field(c)]
    gone = [c.name for c in definition.columns if c.kind is Kind.OPAQUE and c.name in _place_names(definition)]

    def step(v: Part, _s: Part, _w: Part, _e: Part) -> None:
        for name in gone:
            v.pop(name, None)
        v.update([(field, v.pop(name)) for name, field in moved if name in v])

    return step if moved or gone else None


def _field(column: Column) -> str:
    return column.field.removeprefix("v.")
