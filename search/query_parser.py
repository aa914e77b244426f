"""The compact form that people write, read and checked against a view. Errors say where, and what to write instead.

garden "south facing" gard*            words (by stem), a phrase, the beginning of a word; all must hold
city:paris  city="Paris"               words in one text column; the exact value
kind:flat  kind:(flat,house)           one value, any of them         agent.name:paul  inside a json document
price:..500000  bedrooms:2..  1..3     ranges, ends included; >1 and <9 exclude them: price:>1..<9
listed_at:now-7d..  listed_at:2026-05-31
photos:(kind:plan caption:garden)      one element of an array of objects that meets all of it
has:photos  near:48.85,2.35,5km  box:north,west,south,east  polygon:lat,lon,lat,lon,lat,lon
-kind:studio  a OR b  (a b) OR c       not, or, brackets; a space is and, and binds more tightly than OR
any:"sea garden"  title:any:"…"  all:"…"  prefix:"south fac"   several words; * is everything
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from search.elements import inside
from search.errors import QueryRefused
from search.geo import Point
from search.index import IndexDefinition, Target
from search.kinds import Kind
from search.query import (
    DEPTH_MAX,
    TEXT_CHARACTERS_MAX,
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
from search.query_check import check, clause
from search.query_scanner import Scanner
from search.query_text import BOOLEANS, NUMBER, OPERATORS, RESERVED

_RADIUS: Final = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)(m|km|mi)")
_METRES: Final = {"m": 1.0, "km": 1000.0, "mi": 1609.344}
_MODES: Final = tuple(mode.value for mode in Mode)


def parse(text: str, definition: IndexDefinition) -> Query:
    """Checked. Nothing at all is everything. Raises QueryRefused."""
    if len(text) > TEXT_CHARACTERS_MAX:
        raise QueryRefused(f"the query has more than {TEXT_CHARACTERS_MAX} characters", hint="ask less at once")
    return _Parser(Scanner(text), definition).query()


class _Parser:
    def __init__(self, scanner: Scanner, definition: IndexDefinition) -> None:
        self._scanner = scanner
        self._definition = definition
        self._depth = 0

    def query(self) -> Query:
        if self._scanner.is_at_end:
            return MatchAll()
        made = self._or()
        if self._scanner.at < len(self._scanner.text):
            raise self._scanner.refused("a bracket closes that was not opened", "write (a OR b)")
        return check(made, self._definition)

    def _or(self) -> Query:
        clauses = [self._and()]
        while self._scanner.take_operator("OR"):
            clauses.append(self._and())
        return clauses[0] if len(clauses) == 1 else Or(tuple(clauses))

    def _and(self) -> Query:
        clauses = [self._unary()]
        while self._scanner.take_operator("AND") or self._more():
            clauses.append(self._unary())
        return clauses[0] if len(clauses) == 1 else And(tuple(clauses))

    def _more(self) -> bool:
        scanner = self._scanner
        if scanner.is_at_end or scanner.sees(")"):
            return False
        start, is_or = scanner.at, scanner.take_operator("OR")
        scanner.at = start
        return not is_or

    def _unary(self) -> Query:
        scanner = self._scanner
        scanner.skip_space()
        if scanner.take("-") or scanner.take_operator("NOT"):
            return self._deeper(lambda: Not(self._unary()))
        if scanner.take("("):
            return self._deeper(self._bracket)
        return self._clause()

    def _deeper(self, read: Callable[[], Query]) -> Query:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._scanner.refused(f"more than {DEPTH_MAX} levels", "ask less at once")
        made = read()
        self._depth -= 1
        return made

    def _bracket(self) -> Query:
        start = self._scanner.at - 1
        made = self._or()
        self._scanner.skip_space()
        if not self._scanner.take(")"):
            raise self._scanner.refused("a bracket is not closed", "write (a OR b)", start)
        return made

    def _clause(self) -> Query:
        scanner, start = self._scanner, self._scanner.at
        if scanner.is_at_end or scanner.sees(")"):
            raise scanner.refused("a clause is missing here", "write a word or field:value")
        is_quoted = scanner.sees('"')
        word = scanner.quoted() if is_quoted else scanner.word()
        if word in OPERATORS and not is_quoted:
            raise scanner.refused(f"{word} stands alone", "write a OR b", start)
        if scanner.take(":"):
            if not is_quoted and word in RESERVED:
                return self._reserved(word, start)
            return self._field(word, start)
        if scanner.take("="):
            return self._exact(word, start)
        if is_quoted:
            return self._checked(Text(word, Mode.PHRASE), start)
        return MatchAll() if word == "*" else self._checked(_words(word, None), start)

    def _checked(self, query: Query, start: int) -> Query:
        try:
            return clause(query, self._definition)
        except QueryRefused as refusal:
            raise refusal.at(self._scanner.text, start + 1) from None

    def _target(self, name: str, start: int) -> Target:
        try:
            return self._definition.target(name)
        except QueryRefused as refusal:
            raise refusal.at(self._scanner.text, start + 1) from None

    def _reserved(self, word: str, start: int) -> Query:
        if word in _MODES:
            return self._checked(Text(self._any_text(), Mode(word)), start)
        if word == "has":
            name = self._any_text()
            return self._checked(Exists(name), start)
        return self._checked(self._place(word, start), start)

    def _any_text(self) -> str:
        return self._scanner.quoted() if self._scanner.sees('"') else self._scanner.value()

    def _field(self, name: str, start: int) -> Query:
        """After `name:`."""
        scanner, target = self._scanner, self._target(name, start)
        for mode in _MODES:
            if scanner.take(f"{mode}:"):
                return self._checked(Text(self._any_text(), Mode(mode), name), start)
        if scanner.take("("):
            if target.column.kind is Kind.JSON and not scanner.sees_list:
                return self._deeper(lambda: self._element(name, start))
            return self._any_of(name, start, self._is_worded(target))
        if scanner.sees("..") or scanner.sees(">") or scanner.sees("<"):
            return self._range(name, target, None, start)
        is_quoted = scanner.sees('"')
        value = self._operand(target)
        if scanner.sees(".."):
            return self._range(name, target, value, start)
        if self._is_worded(target) and isinstance(value, str):
            made = Text(value, Mode.PHRASE, name) if is_quoted else _words(value, name)
            return self._checked(made, start)
        return self._checked(Equals(name, value), start)

    @staticmethod
    def _is_worded(target: Target) -> bool:
        return target.column.has_words

    def _element(self, name: str, start: int) -> Query:
        """After the opening bracket; inside, names are paths in the element."""
        outer = self._definition
        try:
            self._definition = inside(outer, name)
        except QueryRefused as refusal:
            raise refusal.at(self._scanner.text, start + 1) from None
        made = self._bracket()
        self._definition = outer
        return Element(name, made)

    def _exact(self, name: str, start: int) -> Query:
        """After `name=`."""
        target = self._target(name, start)
        if self._scanner.take("("):
            return self._any_of(name, start, worded=False)
        return self._checked(Equals(name, self._operand(target)), start)

    def _operand(self, target: Target, *, in_list: bool = False) -> Operand:
        scanner = self._scanner
        if scanner.sees('"'):
            return scanner.quoted()
        start, text = scanner.at, scanner.item() if in_list else scanner.value()
        if not text:
            raise scanner.refused("a value is missing here", f"write {target.column.name}:value", start)
        if target.column.kind is Kind.JSON:
            return BOOLEANS[text] if text in BOOLEANS else _number(text)
        return text

    def _any_of(self, name: str, start: int, worded: bool) -> Query:
        """After the opening bracket."""
        scanner, target = self._scanner, self._target(name, start)
        values: list[tuple[bool, Operand]] = []
        while True:
            scanner.skip_space()
            is_quoted = scanner.sees('"')
            values.append((is_quoted, self._operand(target, in_list=True)))
            scanner.skip_space()
            if scanner.take(")"):
                break
            if not scanner.take(","):
                raise scanner.refused("a list goes on with a comma", f"write {name}:(one,another)")
        if not worded:
            return self._checked(AnyOf(name, tuple(value for _, value in values)), start)
        made = tuple(self._checked(_one_of(name, value, is_quoted), start) for is_quoted, value in values)
        return made[0] if len(made) == 1 else Or(made)

    def _range(self, name: str, target: Target, low: Operand | None, start: int) -> Query:
        """At the two points, or at a sign before the first end."""
        scanner = self._scanner
        low_open = high_open = False
        high: Operand | None = None
        if low is None and scanner.take(">"):
            low_open = not scanner.take("=")
            low = self._operand(target)
        if scanner.take("..") or low is None:
            if scanner.take("<"):
                high_open = not scanner.take("=")
                high = self._operand(target)
            elif self._has_value():
                high = self._operand(target)
        return self._checked(Range(name, low, high, low_open, high_open), start)

    def _has_value(self) -> bool:
        scanner = self._scanner
        return scanner.at < len(scanner.text) and not scanner.text[scanner.at].isspace() and not scanner.sees(")")

    def _place(self, word: str, start: int) -> Query:
        parts = self._scanner.value().split(",")
        try:
            if word == "near":
                lat, lon, radius = parts
                return Near(float(lat), float(lon), _metres(radius))
            numbers = [float(part) for part in parts]
            if word == "box":
                north, west, south, east = numbers
                return Box(north, west, south, east)
            return Polygon(tuple(Point(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)))
        except ValueError:
            raise self._scanner.refused(f"not a {word}", f"write {_PLACES[word]}", start) from None


_PLACES: Final = {
    "near": "near:48.85,2.35,5km (latitude, longitude, radius in m, km or mi)",
    "box": "box:49,2,48,3 (north, west, south, east)",
    "polygon": "polygon:48,2,49,2,49,3 (latitude, longitude of each corner)",
}


def _words(text: str, field: str | None) -> Text:
    if len(text) > 1 and text.endswith("*"):
        return Text(text[:-1], Mode.PREFIX, field)
    return Text(text, Mode.ALL, field)


def _one_of(name: str, value: Operand, is_quoted: bool) -> Query:
    if not isinstance(value, str):
        return Equals(name, value)
    return Text(value, Mode.PHRASE, name) if is_quoted else _words(value, name)


def _number(text: str) -> Operand:
    from decimal import Decimal

    return Decimal(text) if NUMBER.fullmatch(text) else text


def _metres(text: str) -> float:
    found = _RADIUS.fullmatch(text)
    if not found:
        raise ValueError(text)
    return float(found[1]) * _METRES[found[2]]
