"""What is asked beside a query, and what a search answers. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from search.highlights import Highlight
from search.query import Query, Range


@dataclass(frozen=True)
class Sort:
    """By a column's value; rows without one come last, either way round."""

    field: str
    descending: bool = False


@dataclass(frozen=True)
class Facet:
    """The most frequent values of a field, with their counts; or, with `ranges`, how many lie in each of them."""

    field: str
    size: int = 10
    ranges: tuple[Range, ...] = ()


@dataclass(frozen=True)
class Bucket:
    value: Any
    """Of the column's kind; of ranges, the Range."""
    count: int


@dataclass(frozen=True)
class Hit:
    row: bytes
    """The row's JSON, as the view has it."""
    version: int
    """Its offset in the view's topic."""
    score: float | None = None
    highlights: tuple[Highlight, ...] = ()


@dataclass(frozen=True)
class Page:
    hits: tuple[Hit, ...]
    total: int
    """Of all pages, exactly."""
    cursor: str | None = None
    """Asks for the next page, of the same moment; None on the last one."""
    facets: Mapping[str, tuple[Bucket, ...]] = field(default_factory=dict)
    took_ms: int = 0


@dataclass(frozen=True)
class DidYouMean:
    """The query with words that are nowhere replaced by near ones that are somewhere."""

    text: str
    query: Query
