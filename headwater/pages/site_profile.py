"""What a view's values are like, asked of its index now and then: which columns sort its rows, where numbers lie."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Final

from headwater.pages.site_layout import Layout, Profile, Span, Values, candidates, layout, spanned
from search.answers import Bucket, Facet, Sort
from search.facets import FACETS_MAX
from search.index import IndexDefinition, decode_row
from search.query import Range

if TYPE_CHECKING:
    from search.engine import SearchEngine

KNOWN_S: Final = 300.0
TOP: Final = 30
LOOKS: Final = 50
"""Steps of the first look, which finds where most of the values lie."""
STEPS: Final = 24
MOST: Final = 0.97
"""Of the rows lie below a plot's last step: one palace does not flatten a town."""


@dataclass(frozen=True)
class Known:
    definition: IndexDefinition
    at: float
    profile: Profile
    layout: Layout


class Profiles:
    """By view; looked at again after a while, and when its shape changes."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}

    def of(self, engine: SearchEngine) -> Known:
        definition, now = engine.definition, time.monotonic()
        known = self._known.get(definition.view)
        if known is None or known.definition != definition or now - known.at > KNOWN_S:
            found = look(engine)
            known = self._known[definition.view] = Known(definition, now, found, layout(definition, found))
        return known


def look(engine: SearchEngine) -> Profile:
    names = [column.name for column in candidates(engine.definition)][:FACETS_MAX]
    page = engine.search("", size=1, facets=[Facet(name, TOP) for name in names], pages=False)
    values = {
        name: Values(tuple((bucket.value, bucket.count) for bucket in buckets), page.total)
        for name, buckets in page.facets.items()
    }
    spans = {column.name: _span(engine, column.name, page.total) for column in spanned(engine.definition)}
    return Profile(values, {name: span for name, span in spans.items() if span is not None})


def _span(engine: SearchEngine, name: str, rows: int) -> Span | None:
    low, high = _end(engine, name, descending=False), _end(engine, name, descending=True)
    if low is None or high is None or low >= high:
        return None
    edges = _edges(low, high, LOOKS)
    counts = [bucket.count for bucket in _counted(engine, name, edges)]
    reached = 0
    for number, count in enumerate(counts):
        reached += count
        if reached >= MOST * rows:
            high = edges[number + 1] if number + 1 < len(edges) else high
            break
    return Span(_edges(low, high, STEPS))


def _end(engine: SearchEngine, name: str, *, descending: bool) -> float | None:
    page = engine.search("", size=1, sort=[Sort(name, descending)], pages=False)
    found = [decode_row(engine.definition, hit.row).get(name) for hit in page.hits]
    value = float(found[0]) if found and found[0] is not None else None
    return value if value is not None and isfinite(value) else None


def _edges(low: float, high: float, steps: int) -> tuple[float, ...]:
    """Whole numbers where there are enough of them."""
    if float(low).is_integer() and float(high).is_integer() and high - low < steps:
        return tuple(float(edge) for edge in range(int(low), int(high) + 1))
    step = (high - low) / steps
    return tuple(low + step * number for number in range(steps))


def _counted(engine: SearchEngine, name: str, edges: tuple[float, ...]) -> tuple[Bucket, ...]:
    return engine.search("", size=1, facets=[steps_of(name, edges)], pages=False).facets[name]


def steps_of(name: str, edges: tuple[float, ...]) -> Facet:
    """A number's values, counted step by step."""
    ends: list[float | None] = [*edges[1:], None]
    steps = (Range(name, low, high, high_open=high is not None) for low, high in zip(edges, ends, strict=True))
    return Facet(name, ranges=tuple(steps))
