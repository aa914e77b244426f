"""Which column of a view plays which part on a page: the title, the number that counts, what is chosen, what is ranged.

Made from the index's definition and from what its values are like (site_profile.py); by names where people's habits
decide, such as title and price. Any view with the sink `search` has one. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headwater.pages.site_words import is_money
from search.index import Column, IndexDefinition
from search.kinds import Kind

TITLES: Final = ("title", "name", "label", "headline", "subject")
SUMMARIES: Final = ("description", "summary", "abstract", "body", "content", "text", "notes", "comment")
FACETS_MAX: Final = 10
RANGES_MAX: Final = 5
FACET_LENGTH_MAX: Final = 40
COVERED_MIN: Final = 0.5
"""Of the rows, by a text column's most frequent values: a column with fewer names its rows, and sorts none of them."""
_DOCUMENTS: Final = ("{", "[")
"""How a json document begins: not a word to choose."""
_NUMBERS: Final = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)
_INSTANTS: Final = (Kind.TIMESTAMPTZ, Kind.TIMESTAMP, Kind.DATE)


@dataclass(frozen=True)
class Values:
    """What a column's values are like, of the whole view."""

    top: tuple[tuple[Any, int], ...] = ()
    """The most frequent, with how often they are there."""
    rows: int = 0

    @property
    def sorts(self) -> bool:
        if len(self.top) < 2 or not self.rows:
            return False
        if any(len(str(value)) > FACET_LENGTH_MAX or str(value)[:1] in _DOCUMENTS for value, _ in self.top):
            return False
        return sum(count for _, count in self.top) >= COVERED_MIN * self.rows


@dataclass(frozen=True)
class Span:
    """Where a number's values lie, in steps of a plot."""

    edges: tuple[float, ...]
    """Ascending; the last step has no end."""


@dataclass(frozen=True)
class Profile:
    values: Mapping[str, Values] = field(default_factory=dict)
    spans: Mapping[str, Span] = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    title: str
    """A column, or empty: then the key names the row."""
    headline: str
    """The number that people look at first."""
    summary: str
    badges: tuple[str, ...]
    subtitle: tuple[str, ...]
    facts: tuple[str, ...]
    tags: tuple[str, ...]
    when: str
    facets: tuple[str, ...]
    ranges: tuple[str, ...]


def layout(definition: IndexDefinition, profile: Profile) -> Layout:
    columns = [c for c in definition.columns if c.kind is not Kind.OPAQUE]
    names = [c.name for c in columns]
    title = next((name for name in TITLES if _is_text(definition, name)), "")
    summary = next((name for name in SUMMARIES if _is_text(definition, name)), "")
    apart = {title, summary, *definition.key, *_places(definition)}
    facets = [c for c in columns if c.name not in apart and _is_facet(c, profile)]
    facets.sort(key=_rank)
    numbers = [c.name for c in columns if _is_number(c) and c.name not in apart]
    headline = next((name for name in numbers if is_money(name)), "")
    whens = [c.name for c in columns if c.kind in _INSTANTS and not c.is_array]
    texts = [c.name for c in facets if c.kind is Kind.TEXT and not c.is_array]
    return Layout(
        title=title,
        headline=headline,
        summary=summary,
        badges=tuple(c.name for c in facets if c.kind is Kind.EXACT)[:2],
        subtitle=tuple(name for name in names if name in texts)[:2],
        facts=tuple(name for name in names if name in numbers and name != headline)[:3]
        + tuple(c.name for c in facets if c.kind is Kind.BOOLEAN)[:3],
        tags=tuple(name for name in names if name in {c.name for c in facets if c.is_array})[:1],
        when=whens[0] if whens else "",
        facets=tuple(c.name for c in facets)[:FACETS_MAX],
        ranges=tuple([*numbers, *whens][:RANGES_MAX]),
    )


def _is_text(definition: IndexDefinition, name: str) -> bool:
    column = definition.by_name.get(name)
    return column is not None and column.kind is Kind.TEXT and not column.is_array


def _places(definition: IndexDefinition) -> set[str]:
    return {definition.geo.lat, definition.geo.lon} if definition.geo else set()


def _is_number(column: Column) -> bool:
    return column.kind in _NUMBERS and not column.is_array and not _is_id(column)


def _is_id(column: Column) -> bool:
    return column.name == "id" or column.name.endswith("_id")


def _is_facet(column: Column, profile: Profile) -> bool:
    if column.kind in (Kind.BOOLEAN, Kind.EXACT):
        return True
    found = profile.values.get(column.name)
    return column.kind is Kind.TEXT and found is not None and found.sorts


def _rank(column: Column) -> int:
    """Enums, then texts, then yes or no, then arrays; each as the view has them."""
    return 3 if column.is_array else {Kind.EXACT: 0, Kind.TEXT: 1}.get(column.kind, 2)


def candidates(definition: IndexDefinition) -> list[Column]:
    """Text columns that might be facets: their values decide."""
    apart = {*TITLES, *SUMMARIES, *definition.key, *_places(definition)}
    return [c for c in definition.columns if c.kind is Kind.TEXT and c.name not in apart]


def spanned(definition: IndexDefinition) -> list[Column]:
    """Numbers whose values are worth a plot."""
    apart = {*definition.key, *_places(definition)}
    return [c for c in definition.columns if _is_number(c) and c.name not in apart][:RANGES_MAX]
