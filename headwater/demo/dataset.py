"""The whole demo as a sequence of chunks, each to be committed as one transaction. Pure.

Guarantees: the same size, seed and instant give the same chunks, row for row; within a chunk parents stand before their
children; after every chunk the data is consistent (see the table comments in schema.sql).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final, TypeVar

from cdc.errors import ConfigurationError
from headwater.demo.hits import hits
from headwater.demo.market import ListingBundle, Market
from headwater.demo.shop import ProductBundle, products

T = TypeVar("T")

SEED: Final = 42
LISTINGS: Final = 2_000
LISTINGS_MAX: Final = 10_000_000
BASE_AT: Final = datetime(2026, 10, 1, 9, 0, tzinfo=UTC)
"""The instant at which the loaded data stands. Fixed, so that two loads of one seed are the same."""

ROWS_PER_LISTING: Final = 5.55
AGENTS_PER_CHUNK: Final = 10_000
LISTINGS_PER_CHUNK: Final = 2_500
PRODUCTS_PER_CHUNK: Final = 250
HITS_PER_CHUNK: Final = 25_000


@dataclass(frozen=True, slots=True)
class Size:
    """How many of everything, derived from the number of listings."""

    listings: int = LISTINGS

    def __post_init__(self) -> None:
        if not 1 <= self.listings <= LISTINGS_MAX:
            raise ConfigurationError(
                f"cannot load {self.listings} listings",
                detail=f"from 1 to {LISTINGS_MAX:,} can be loaded",
                hint="headwater demo load --listings 2000",
            )

    @property
    def agents(self) -> int:
        return max(5, self.listings // 40)

    @property
    def products(self) -> int:
        return min(2_000, max(40, self.listings // 20))

    @property
    def orders(self) -> int:
        return min(100_000, self.listings // 2)

    @property
    def hits(self) -> int:
        return min(200_000, self.listings * 2)

    @property
    def rows_about(self) -> int:
        """For a progress bar: what a listing has on average, and everything else."""
        return int(self.listings * ROWS_PER_LISTING) + self.agents + 2 * self.products + self.orders + self.hits


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one table."""

    table: str
    rows: Sequence[tuple[object, ...]]


Chunk = tuple[Part, ...]


def chunks(size: Size, seed: int, at: datetime = BASE_AT) -> Iterator[Chunk]:
    market = Market(seed, size.listings, size.agents, at)
    for some_agents in _batched(market.agents(), AGENTS_PER_CHUNK):
        yield (Part("agents", some_agents),)
    for some_listings in _batched(market.listings(), LISTINGS_PER_CHUNK):
        yield _listings_chunk(some_listings)
    for some_products in _batched(products(seed, size.products, size.orders, at), PRODUCTS_PER_CHUNK):
        yield _products_chunk(some_products)
    for some_hits in _batched(hits(seed, size.hits, size.listings, at), HITS_PER_CHUNK):
        yield (Part("page_hits", some_hits),)


def _listings_chunk(bundles: list[ListingBundle]) -> Chunk:
    return (
        Part("listings", [bundle.listing for bundle in bundles]),
        Part("photos", [photo for bundle in bundles for photo in bundle.photos]),
        Part("price_history", [price for bundle in bundles for price in bundle.prices]),
        Part("viewings", [viewing for bundle in bundles for viewing in bundle.viewings]),
    )


def _products_chunk(bundles: list[ProductBundle]) -> Chunk:
    return (
        Part("products", [bundle.product for bundle in bundles]),
        Part("stock", [bundle.stock for bundle in bundles]),
        Part("orders", [order for bundle in bundles for order in bundle.orders]),
    )


def _batched(items: Iterable[T], count: int) -> Iterator[list[T]]:
    source = iter(items)
    while batch := list(islice(source, count)):
        yield batch
