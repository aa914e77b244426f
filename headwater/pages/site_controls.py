"""What can be chosen beside the results: facets with their counts, ranges with their plots, the order. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from headwater.pages.site_layout import Layout
from headwater.pages.site_narrowing import NUMBERS, Narrowing, value_text
from headwater.pages.site_profile import Known
from headwater.pages.site_words import choice_label, column_label, is_money, short_number, unit_of
from search.answers import Bucket, Sort
from search.index import IndexDefinition
from search.kinds import Kind
from search.query import Query, Text, walk

OPEN: Final = 4
"""Facets that are seen without opening them."""
PLOT_HEIGHT: Final = 28
Counted: TypeAlias = Mapping[str, tuple[Bucket, ...]]


@dataclass(frozen=True)
class Value:
    label: str
    count: int | None
    is_chosen: bool
    address: str
    text: str


@dataclass(frozen=True)
class Choice:
    """A facet: values to choose, each a link."""

    name: str
    label: str
    values: tuple[Value, ...]
    is_open: bool


@dataclass(frozen=True)
class Bar:
    x: float
    height: float
    is_in: bool


@dataclass(frozen=True)
class Limits:
    """A range: two ends to type, and a plot of where the rows are."""

    name: str
    label: str
    input_type: str
    low: str
    high: str
    bars: tuple[Bar, ...]
    least: str
    most: str


@dataclass(frozen=True)
class Order:
    label: str
    sort: str
    is_current: bool


def choices(narrowing: Narrowing, plan: Layout, counted: Counted, definition: IndexDefinition) -> Iterator[Choice]:
    for number, name in enumerate(plan.facets):
        kind, chosen = definition.by_name[name].kind, narrowing.chosen.get(name, ())
        counts = {value_text(bucket.value): bucket for bucket in counted.get(name, ())}
        rare = [text for text in chosen if text not in counts]
        values = [_value(narrowing, name, kind, text, bucket.count) for text, bucket in counts.items()]
        values += [_value(narrowing, name, kind, text, None) for text in rare]
        if len(values) > 1 or chosen:
            yield Choice(name, column_label(name), tuple(values), is_open=number < OPEN or bool(chosen))


def _value(narrowing: Narrowing, name: str, kind: Kind, text: str, count: int | None) -> Value:
    is_chosen = text in narrowing.chosen.get(name, ())
    return Value(choice_label(kind, text), count, is_chosen, narrowing.toggled(name, text).address(), text)


def limits(narrowing: Narrowing, known: Known, counted: Counted, currency: str) -> Iterator[Limits]:
    for name in known.layout.ranges:
        low, high = narrowing.ranges.get(name, ("", ""))
        span = known.profile.spans.get(name)
        is_number = known.definition.by_name[name].kind in NUMBERS
        unit = currency if is_money(name) else ""
        yield Limits(
            name=name,
            label=column_label(name) + (f" ({unit_of(name)})" if unit_of(name) else ""),
            input_type="number" if is_number else "date",
            low=low,
            high=high,
            bars=_bars([bucket.count for bucket in counted.get(name, ())], span.edges, low, high) if span else (),
            least=f"{unit}{short_number(span.edges[0])}" if span else "",
            most=f"{unit}{short_number(span.edges[-1])}+" if span else "",
        )


def _bars(counts: Sequence[int], edges: Sequence[float], low: str, high: str) -> tuple[Bar, ...]:
    most = max(counts, default=0)
    ends = (_number(low, float("-inf")), _number(high, float("inf")))
    return tuple(
        Bar(
            round(100 * number / len(counts), 2),
            round(PLOT_HEIGHT * (count / most) ** 0.7, 2) if most else 0,
            ends[0] <= edge <= ends[1],
        )
        for number, (count, edge) in enumerate(zip(counts, edges, strict=False))
    )


def _number(text: str, otherwise: float) -> float:
    try:
        return float(text)
    except ValueError:
        return otherwise


def sorts(narrowing: Narrowing, query: Query, plan: Layout) -> list[Sort]:
    if narrowing.sort:
        return [Sort(narrowing.sort.lstrip("-"), narrowing.sort.startswith("-"))]
    return [] if _has_words(query) or not plan.when else [Sort(plan.when, True)]


def _has_words(query: Query) -> bool:
    return any(isinstance(clause, Text) for clause in walk(query))


def orders(narrowing: Narrowing, query: Query, plan: Layout) -> Iterator[Order]:
    known = [("", "Best match")] if _has_words(query) else [] if plan.when else [("", "In order")]
    if plan.when:
        newest = f"-{plan.when}" if known else ""
        known += [(newest, "Newest"), (plan.when, "Oldest")]
    for name in dict.fromkeys(filter(None, (plan.headline, *plan.facts))):
        if name in plan.ranges:
            label = column_label(name)
            known += [(name, f"{label}, lowest first"), (f"-{name}", f"{label}, highest first")]
    for sort, label in known:
        yield Order(label, sort, sort == narrowing.sort)
