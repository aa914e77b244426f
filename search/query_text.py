"""A query printed in the compact form that people write. Parsing what was printed gives the same query.

    city:paris price:..500000 bedrooms:2.. near:48.85,2.35,5km "south facing" -kind:studio

query_parser.py says what each form means; the words that both of them know are here.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from cdc.pgtypes.instants import Timestamp
from search.elements import inside
from search.index import IndexDefinition
from search.kinds import Kind
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
    Operand,
    Or,
    Polygon,
    Query,
    Range,
    Text,
)  # fmt: skip

RESERVED: Final = ("has", "near", "box", "polygon", *(mode.value for mode in Mode))
"""Not fields, in front of a colon; a column of such a name is written in quotes."""
OPERATORS: Final = ("AND", "OR", "NOT")
NUMBER: Final = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
BOOLEANS: Final = {"true": True, "false": False}
_SIMPLE: Final = re.compile(r"[^\W_]+")
_FIELD: Final = re.compile(r"[A-Za-z_][\w.]*")
_BARE: Final = re.compile(r'[^\s()",<>=:*.][^\s()",<>=*]*')


def to_text(query: Query, definition: IndexDefinition) -> str:
    return _Printer(definition).printed(query)


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class _Printer:
    def __init__(self, definition: IndexDefinition) -> None:
        self._definition = definition

    def printed(self, query: Query) -> str:
        if isinstance(query, Or):
            return " OR ".join(self._inside(clause, Or) for clause in query.clauses)
        if isinstance(query, And):
            return " ".join(self._inside(clause, And) for clause in query.clauses)
        if isinstance(query, Not):
            return f"-{self._inside(query.clause, Not)}"
        if isinstance(query, Element):
            return f"{_field(query.field)}:({to_text(query.clause, inside(self._definition, query.field))})"
        return self._clause(query)

    def _inside(self, query: Query, outer: type) -> str:
        """In brackets, where it would be read otherwise without them."""
        text = self.printed(query)
        bare = not isinstance(query, And | Or) or (outer is Or and isinstance(query, And))
        return text if bare else f"({text})"

    def _clause(self, query: Query) -> str:
        if isinstance(query, Text):
            return self._text(query)
        if isinstance(query, Exists):
            return f"has:{_field(query.field)}"
        if isinstance(query, Equals | AnyOf | Range):
            return f"{_field(query.field)}{self._comparison(query)}"
        return "*" if isinstance(query, MatchAll | And | Or | Not | Element) else _place(query)

    def _comparison(self, query: Equals | AnyOf | Range) -> str:
        target = self._definition.target(query.field)
        is_json = target.column.kind is Kind.JSON
        if isinstance(query, Range):
            return f":{_range(query, is_json)}"
        sign = "=" if target.column.has_words else ":"
        if isinstance(query, Equals):
            return f"{sign}{_value(query.value, is_json)}"
        return f"{sign}({','.join(_value(value, is_json) for value in query.values)})"

    def _text(self, query: Text) -> str:
        start = "" if query.field is None else f"{_field(query.field)}:"
        simple = self._is_simple(query)
        if query.mode is Mode.PHRASE:
            return f"{start}{quoted(query.text)}"
        if query.mode is Mode.ALL and simple:
            return f"{start}{query.text}"
        if query.mode is Mode.PREFIX and simple:
            return f"{start}{query.text}*"
        return f"{start}{query.mode.value}:{quoted(query.text)}"

    def _is_simple(self, query: Text) -> bool:
        """One word, that is not read as something else."""
        if not _SIMPLE.fullmatch(query.text) or query.text in (*OPERATORS, *BOOLEANS):
            return False
        target = None if query.field is None else self._definition.target(query.field)
        return target is None or not target.path or not NUMBER.fullmatch(query.text)


def _field(name: str) -> str:
    return name if _FIELD.fullmatch(name) and name not in (*RESERVED, *OPERATORS) else quoted(name)


def _value(value: Operand, is_json: bool = False) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Timestamp):
        text = str(value).replace(" ", "T", 1) if value.is_finite else str(value)
    elif isinstance(value, float | Decimal):
        text = _number(value)
    else:
        text = str(value)
    if (isinstance(value, str) and is_json) or not _BARE.fullmatch(text) or ".." in text or text[-1] == ".":
        return quoted(text)
    return text


def _number(value: float | Decimal) -> str:
    """Without zeros that say nothing: 500000, not 500000.0."""
    text = str(Decimal(repr(value)) if isinstance(value, float) else value)
    return text.rstrip("0").rstrip(".") if "." in text and "E" not in text else text


def _range(query: Range, is_json: bool) -> str:
    low = "" if query.low is None else f"{'>' if query.low_open else ''}{_value(query.low, is_json)}"
    high = "" if query.high is None else f"{'<' if query.high_open else ''}{_value(query.high, is_json)}"
    if (query.low_open and not high) or (query.high_open and not low):
        return low or high
    return f"{low}..{high}"


def _place(query: Near | Box | Polygon) -> str:
    if isinstance(query, Near):
        return f"near:{_degrees(query.lat)},{_degrees(query.lon)},{_radius(query.radius_m)}"
    if isinstance(query, Box):
        sides = (query.north, query.west, query.south, query.east)
        return f"box:{','.join(map(_degrees, sides))}"
    return f"polygon:{','.join(f'{_degrees(c.lat)},{_degrees(c.lon)}' for c in query.corners)}"


def _degrees(value: float) -> str:
    return repr(value).removesuffix(".0")


def _radius(metres: float) -> str:
    km = repr(metres / 1000).removesuffix(".0")
    return f"{km}km" if metres >= 1000 and float(km) * 1000 == metres else f"{_degrees(metres)}m"
