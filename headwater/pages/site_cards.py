"""A row as people see it: a title, the number that counts, a few facts, and all the rest below. Pure.

Rows are written by strangers: everything here stays text, and templates escape it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from headwater.pages.site_layout import Layout
from headwater.pages.site_words import (
    ago_text,
    cell_text,
    column_label,
    instant_of,
    is_money,
    number_text,
    short_number,
    unit_of,
    value_label,
)
from search.geo import Point
from search.highlights import Highlight
from search.index import IndexDefinition, Row
from search.kinds import Kind

SUMMARY_CHARACTERS: Final = 190
DETAIL_CHARACTERS: Final = 600
TAGS_MAX: Final = 5
TINTS: Final = 6
GLYPHS: Final = {
    "house": "house", "cottage": "house", "villa": "house", "home": "house", "flat": "flat", "apartment": "flat",
    "studio": "flat", "loft": "loft", "office": "loft", "land": "land", "plot": "land", "kitchen": "pot",
    "garden": "land", "light": "lamp", "textile": "cloth", "storage": "box",
}  # fmt: skip
Parts = tuple[tuple[str, bool], ...]
"""A text in pieces, each with whether the search found it."""
Changes = tuple[tuple[str, str, str], ...]
"""Column, what it was, what it is."""


@dataclass(frozen=True)
class Card:
    key: str
    """The row's key, for links to it on the page."""
    title: Parts
    headline: str
    subtitle: str
    badges: tuple[str, ...]
    facts: tuple[str, ...]
    summary: Parts
    tags: tuple[str, ...]
    when: str
    glyph: str
    tint: int
    details: tuple[tuple[str, str], ...]
    point: Point | None

    @property
    def name(self) -> str:
        return "".join(text for text, _ in self.title)


@dataclass(frozen=True)
class Dresser:
    """Makes cards of one view's rows."""

    definition: IndexDefinition
    layout: Layout
    currency: str
    now: datetime

    def card(self, row: Row, found: Sequence[Highlight] = ()) -> Card:
        layout, shown = self.layout, {each.field: each for each in found}
        sort = next((str(row[name]) for name in (*layout.badges, *layout.subtitle) if row.get(name)), self._name(row))
        return Card(
            key=self.key(row),
            title=_parts(self._name(row), shown.get(layout.title)),
            headline=self._headline(row),
            subtitle=", ".join(str(row[name]) for name in layout.subtitle if row.get(name)),
            badges=tuple(value_label(self._kind(name), row[name]) for name in layout.badges if row.get(name)),
            facts=tuple(self._facts(row)),
            summary=self._summary(row, shown.get(layout.summary)),
            tags=tuple(str(tag) for name in layout.tags for tag in row.get(name) or ())[:TAGS_MAX],
            when=self._when(row),
            glyph=GLYPHS.get(sort.lower(), "") or sort[:1].upper(),
            tint=hashlib.sha256(sort.encode("utf-8", "replace")).digest()[0] % TINTS,
            details=tuple(self._details(row)),
            point=self.definition.geo.point(row) if self.definition.geo else None,
        )

    def key(self, row: Row) -> str:
        return ",".join(str(row.get(name)) for name in self.definition.key)

    def changes(self, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Changes:
        """Of a row that was there before and is now."""
        if before is None or after is None:
            return ()
        made = []
        for column in self.definition.columns:
            was, is_ = before.get(column.name), after.get(column.name)
            if was != is_ and column.kind not in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
                old, new = (cell_text(column.name, column.kind, value, self.currency) for value in (was, is_))
                made.append((column_label(column.name), _cut(old, 60), _cut(new, 60)))
        return tuple(made)

    def _kind(self, name: str) -> Kind:
        return self.definition.by_name[name].kind

    def _name(self, row: Row) -> str:
        named = row.get(self.layout.title) if self.layout.title else None
        return str(named) if named else ", ".join(str(row.get(name)) for name in self.definition.key)

    def _headline(self, row: Row) -> str:
        name = self.layout.headline
        return number_text(name, row[name], self.currency) if name and row.get(name) is not None else ""

    def mark(self, row: Row) -> str:
        """The headline as short as a map wants it: €712k."""
        name = self.layout.headline
        if not name or row.get(name) is None:
            return ""
        short = short_number(float(row[name]))
        return f"{self.currency}{short}" if is_money(name) else short

    def _facts(self, row: Row) -> Iterator[str]:
        for name in self.layout.facts:
            value = row.get(name)
            if value is None or value is False:
                continue
            if value is True:
                yield column_label(name)
            elif unit_of(name):
                yield number_text(name, value, self.currency)
            elif value:
                yield f"{number_text(name, value, self.currency)} {_counted(column_label(name).lower(), value)}"

    def _summary(self, row: Row, found: Highlight | None) -> Parts:
        text = row.get(self.layout.summary) if self.layout.summary else None
        return _parts(_cut(str(text), SUMMARY_CHARACTERS), found) if text else ()

    def _when(self, row: Row) -> str:
        name = self.layout.when
        at = instant_of(row[name]) if name and row.get(name) else None
        return f"{column_label(name)} {ago_text(at, self.now)}" if at else ""

    def _details(self, row: Row) -> Iterator[tuple[str, str]]:
        for column in self.definition.columns:
            if column.name != self.layout.title and row.get(column.name) not in (None, []):
                text = cell_text(column.name, column.kind, row[column.name], self.currency)
                yield column_label(column.name), _cut(text, DETAIL_CHARACTERS)


def _counted(word: str, value: Any) -> str:
    return word[:-1] if value == 1 and word.endswith("s") else word


def _cut(text: str, most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _parts(text: str, found: Highlight | None) -> Parts:
    if found is None:
        return ((text, False),)
    made, at = [("" if text.startswith(found.text[:20]) else "… ", False)], 0
    for start, end in found.spans:
        made += [(found.text[at:start], False), (found.text[start:end], True)]
        at = end
    made += [(found.text[at:], False), ("" if text.endswith(found.text[-20:]) else "…", False)]
    return tuple((part, hit) for part, hit in made if part)
