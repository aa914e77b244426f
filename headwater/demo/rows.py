"""One row of each demo table. The fields are the table's columns, in the order of schema.sql.

Named tuples, not dataclasses: a row goes as it is into COPY or INSERT, by the million.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final, NamedTuple
from uuid import UUID

from cdc.events import TableName


class Agent(NamedTuple):
    id: int
    name: str
    agency: str
    email: str
    city: str
    languages: list[str]
    joined_on: date


class Listing(NamedTuple):
    id: int
    agent_id: int
    kind: str
    status: str
    title: str
    description: str
    survey: str | None
    city: str
    country: str
    postcode: str
    lat: float
    lon: float
    price: Decimal
    area_m2: Decimal
    bedrooms: int
    has_garden: bool
    features: list[str]
    attributes: dict[str, object]
    listed_at: datetime
    updated_at: datetime


class Photo(NamedTuple):
    listing_id: int
    position: int
    url: str
    caption: str | None


class Price(NamedTuple):
    id: int
    listing_id: int
    price: Decimal
    changed_at: datetime


class Viewing(NamedTuple):
    id: int
    listing_id: int
    visitor: str
    starts_at: datetime
    lasts: timedelta


class Product(NamedTuple):
    sku: str
    name: str
    category: str
    price: Decimal
    weight_g: float | None
    tags: list[str]


class Stock(NamedTuple):
    sku: str
    quantity: int
    returnable: int
    moved_at: datetime


class Order(NamedTuple):
    id: UUID
    sku: str
    quantity: int
    unit_price: Decimal
    customer: str
    state: str
    placed_at: datetime
    returned_at: datetime | None


class PageHit(NamedTuple):
    id: int
    hit_at: datetime
    path: str
    listing_id: int | None
    visitor: UUID
    client: str
    referrer: str | None
    took_ms: int


ROWS: Final[dict[str, type[NamedTuple]]] = {
    "agents": Agent,
    "listings": Listing,
    "photos": Photo,
    "price_history": Price,
    "viewings": Viewing,
    "products": Product,
    "stock": Stock,
    "orders": Order,
    "page_hits": PageHit,
}
"""Parents before children."""

IDENTITIES: Final = ("agents", "listings", "price_history", "viewings", "page_hits")
"""The tables whose `id` Postgres counts on from where the load ended."""

TABLES: Final = tuple(TableName("public", name) for name in ROWS)
"""What there is to capture."""
