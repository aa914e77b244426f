"""One page of a search, asked and laid out: cards, facets with their counts, ranges with their plots, what is chosen.

Counts of a facet are of what the other choices leave: who has chosen Paris sees how many Lyon would add. A column of
which something is chosen is therefore counted by a question of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from headwater.pages.site_cards import Card, Dresser
from headwater.pages.site_chips import Chip, chips
from headwater.pages.site_controls import Choice, Limits, Order, choices, limits, orders, sorts
from headwater.pages.site_narrowing import Narrowing, query_of
from headwater.pages.site_profile import Known, steps_of
from search.answers import Bucket, Facet, Page
from search.index import decode_row
from search.query import Query

if TYPE_CHECKING:
    from search.engine import SearchEngine

SIZE: Final = 20
VALUES: Final = 8


@dataclass(frozen=True)
class Results:
    narrowing: Narrowing
    query: Query
    cards: tuple[Card, ...]
    total: int
    next: str
    """The address of the next page; empty on the last."""
    choices: tuple[Choice, ...]
    limits: tuple[Limits, ...]
    chips: tuple[Chip, ...]
    orders: tuple[Order, ...]
    did_you_mean: str
    took_ms: int


def results(engine: SearchEngine, known: Known, narrowing: Narrowing, cursor: str, currency: str) -> Results:
    """Raises QueryRefused, and CursorExpired for a page that was kept too long."""
    query, plan = query_of(narrowing, engine.definition), known.layout
    sort = sorts(narrowing, query, plan)
    facets = _facets(known)
    page = engine.search(
        query, sort=sort, size=SIZE, cursor=cursor or None, facets=list(facets.values()), highlight=True
    )
    counted = {**page.facets, **_counted_apart(engine, narrowing, facets)}
    dresser = Dresser(engine.definition, plan, currency, datetime.now(UTC))
    meant = engine.did_you_mean(query) if not page.total else None
    return Results(
        narrowing=narrowing,
        query=query,
        cards=tuple(dresser.card(decode_row(engine.definition, hit.row), hit.highlights) for hit in page.hits),
        total=page.total,
        next=narrowing.address(("cursor", page.cursor)) if _has_more(page, cursor) and page.cursor else "",
        choices=tuple(choices(narrowing, plan, counted, engine.definition)),
        limits=tuple(limits(narrowing, known, counted, currency)),
        chips=tuple(chips(narrowing, engine.definition, currency)),
        orders=tuple(orders(narrowing, query, plan)),
        did_you_mean=meant.text if meant else "",
        took_ms=page.took_ms,
    )


def _has_more(page: Page, cursor: str) -> bool:
    return bool(cursor) or page.total > len(page.hits)


def _facets(known: Known) -> dict[str, Facet]:
    """By column: values to choose, and steps of a plot."""
    spans = known.profile.spans
    plots = {name: steps_of(name, spans[name].edges) for name in known.layout.ranges if name in spans}
    return {**{name: Facet(name, VALUES) for name in known.layout.facets}, **plots}


def _counted_apart(
    engine: SearchEngine, narrowing: Narrowing, facets: Mapping[str, Facet]
) -> dict[str, tuple[Bucket, ...]]:
    made: dict[str, tuple[Bucket, ...]] = {}
    for name, facet in facets.items():
        if name in narrowing.chosen or name in narrowing.ranges:
            query = query_of(narrowing.without(name), engine.definition)
            made |= engine.search(query, size=1, facets=[facet], pages=False).facets
    return made
