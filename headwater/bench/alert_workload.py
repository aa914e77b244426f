"""What `headwater bench alerts` subscribes and changes: a property market and a shop, drawn from fixed seeds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from math import cos, radians
from random import Random
from typing import Any, Final

import msgspec
import pyarrow as pa

from alerts.subscription import Entry, Watched
from search.index import IndexDefinition, define
from search.query import And, AnyOf, Equals, Near, Not, Or, Query, Range, Text
from search.query_check import check
from views import sqltypes
from views.plan import Field
from views.sinks.sink import ViewShape
from views.sqltypes import Family, SqlType

CITIES: Final = 300
KINDS: Final = ("flat", "house", "studio", "land")
KIND_SHARES: Final = (50, 33, 12, 5)
FEATURES: Final = (
    "garden", "balcony", "parking", "lift", "terrace", "garage", "cellar", "fireplace", "pool", "sauna", "view",
    "furnished", "bright", "quiet", "renovated", "attic", "bath", "loft", "patio", "porch", "shed", "solar", "storage",
    "study", "veranda", "gym", "alarm", "awning", "carport", "pond",
)  # fmt: skip
WORDS: Final = 2_000
PRODUCTS_SHARE: Final = 0.2
"""Products for each watch."""
_KM_PER_DEGREE: Final = 111.2
_PRICE_STEP: Final = 1_000
_RADII_KM: Final = (1, 2, 3, 5, 5, 8, 10, 15)

Change = tuple[bytes | None, bytes | None]


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    definition: IndexDefinition
    entries: list[Entry]
    seen: list[bytes]
    """Rows from before, which say what is frequent."""
    changes: list[Change]


def _shape(view: str, *fields: Field) -> IndexDefinition:
    return define(ViewShape("bench", view, fields, ("id",), {}))


_ENUM: Final = SqlType("public.kind", pa.string(), "VARCHAR", Family.ENUM)
LISTING: Final = _shape(
    "listing",
    Field("id", sqltypes.BIGINT, nullable=False),
    Field("kind", _ENUM),
    Field("city", sqltypes.TEXT),
    Field("price", sqltypes.named("numeric(12,2)")),
    Field("bedrooms", sqltypes.INTEGER),
    Field("features", sqltypes.array_of(sqltypes.TEXT)),
    Field("title", sqltypes.TEXT),
    Field("description", sqltypes.TEXT),
    Field("lat", sqltypes.DOUBLE),
    Field("lon", sqltypes.DOUBLE),
)
PRODUCT: Final = _shape(
    "product",
    Field("id", sqltypes.BIGINT, nullable=False),
    Field("sku", sqltypes.TEXT),
    Field("name", sqltypes.TEXT),
    Field("price", sqltypes.named("numeric(12,2)")),
    Field("stock", sqltypes.INTEGER),
)


class _Market:
    """Cities of unlike sizes; listings and searches lie around them."""

    def __init__(self, seed: int) -> None:
        self.random = draw = Random(seed)
        places = Random(1)
        self._cities = [
            (places.uniform(37, 59), places.uniform(-9, 29), places.lognormvariate(0, 0.35)) for _ in range(CITIES)
        ]
        self._shares = list(accumulate(1 / (rank + 3) for rank in range(CITIES)))
        self._words = list(accumulate(1 / (rank + 10) for rank in range(WORDS)))
        self._features = list(accumulate(1 / (rank + 2) for rank in range(len(FEATURES))))
        self._draw = draw

    def city(self) -> int:
        return self._draw.choices(range(CITIES), cum_weights=self._shares)[0]

    def near(self, city: int) -> tuple[float, float]:
        lat, lon, _ = self._cities[city]
        north, east = self._draw.gauss(0, 5), self._draw.gauss(0, 5)
        return round(lat + north / _KM_PER_DEGREE, 5), round(lon + east / (_KM_PER_DEGREE * cos(radians(lat))), 5)

    def price(self, city: int) -> int:
        return round(self._draw.lognormvariate(12.6, 0.5) * self._cities[city][2] / _PRICE_STEP) * _PRICE_STEP

    def kind(self) -> str:
        return self._draw.choices(KINDS, KIND_SHARES)[0]

    def features(self, count: int) -> list[str]:
        return list(dict.fromkeys(self._draw.choices(FEATURES, cum_weights=self._features, k=count)))

    def words(self, count: int) -> str:
        return " ".join(f"w{number}x" for number in self._draw.choices(range(WORDS), cum_weights=self._words, k=count))

    def row(self, number: int) -> dict[str, Any]:
        city = self.city()
        lat, lon = self.near(city)
        return {
            "id": number,
            "kind": self.kind(),
            "city": f"city{city}",
            "price": self.price(city),
            "bedrooms": self._draw.choices((0, 1, 2, 3, 4, 5, 6), (5, 20, 30, 25, 12, 6, 2))[0],
            "features": self.features(self._draw.randrange(8)),
            "title": self.words(5),
            "description": self.words(25),
            "lat": lat,
            "lon": lon,
        }

    def query(self) -> Query:
        draw, city = self._draw, self.city()
        asked: list[Query] = []
        chance = draw.random()
        cities = list(dict.fromkeys([f"city{city}", *(f"city{self.city()}" for _ in range(draw.randrange(3)))]))
        around = Near(*self.near(city), draw.choice(_RADII_KM) * 1000.0)
        where: Query = around if chance < 0.6 else AnyOf("city", tuple(cities))
        if chance > 0.94:
            where = Or((around, Equals("city", cities[-1])))
        asked.append(where)
        price = round(self.price(city) * draw.uniform(0.8, 1.5) / _PRICE_STEP) * _PRICE_STEP
        low = round(price * draw.uniform(0.4, 0.8) / _PRICE_STEP) * _PRICE_STEP
        asked.append(Range("price", low if draw.random() < 0.4 else None, price))
        if draw.random() < 0.75:
            asked.append(Range("bedrooms", draw.choice((1, 2, 2, 3, 3, 4)), None))
        if (kinds := draw.random()) < 0.45:
            asked.append(Equals("kind", self.kind()))
        elif kinds < 0.6:
            asked.append(AnyOf("kind", tuple(sorted({self.kind(), self.kind()}))))
        asked.extend(Equals("features", each) for each in self.features(draw.choices((0, 1, 2), (50, 38, 12))[0]))
        if draw.random() < 0.1:
            asked.append(Text(self.words(1)))
        if draw.random() < 0.08:
            asked.append(Not(Equals("features", self.features(1)[0])))
        if draw.random() < 0.04:
            asked.append(Not(Equals("kind", "land")))
        return And(tuple(asked))


def property_market(subscriptions: int, events: int, seen: int = 5_000) -> Workload:
    """Half the events are new listings, half are prices that changed."""
    market = _Market(2)
    entries = list(_distinct(market, subscriptions))
    changing, encode = _Market(3), msgspec.json.encode
    changes: list[Change] = []
    for number in range(events):
        row = changing.row(number)
        if number % 2:
            before = {
                **row,
                "price": round(row["price"] * changing.random.uniform(0.9, 1.15) / _PRICE_STEP) * _PRICE_STEP + 1,
            }
            changes.append((encode(before), encode(row)))
        else:
            changes.append((None, encode(row)))
    before_ = _Market(4)
    return Workload("property", LISTING, entries, [encode(before_.row(n)) for n in range(seen)], changes)


def _distinct(market: _Market, count: int) -> Iterator[Entry]:
    watched, known = Watched(True, True, True), set[int]()
    while len(known) < count:
        query = market.query()
        key = hash(query)
        if key not in known:
            known.add(key)
            yield Entry(len(known), check(query, LISTING), watched)


_CHEAPER: Final = Watched(False, dropped=("price",))
_BACK: Final = Watched()


def product_watch(subscriptions: int, events: int, seen: int = 5_000) -> Workload:
    """Back in stock, or cheaper: each watch is of one product, some below a price."""
    draw, products = Random(5), max(1, int(subscriptions * PRODUCTS_SHARE))
    entries = []
    for number in range(subscriptions):
        sku: Query = Equals("sku", f"SKU-{draw.randrange(products):08}")
        if number % 2:
            below = Range("price", None, draw.randrange(10, 200))
            query, watched = And((sku, below)), _CHEAPER
        else:
            query, watched = And((sku, Range("stock", 1, None))), _BACK
        entries.append(Entry(number + 1, check(query, PRODUCT), watched))
    changes: list[Change] = []
    for number in range(events):
        row = _product(draw, products)
        restocked = number % 2
        before = {**row, "stock": 0} if restocked else {**row, "price": row["price"] + draw.randrange(-20, 30)}
        changes.append((msgspec.json.encode(before), msgspec.json.encode(row)))
    rows = [msgspec.json.encode(_product(draw, products)) for _ in range(seen)]
    return Workload("product_watch", PRODUCT, entries, rows, changes)


def _product(draw: Random, products: int) -> dict[str, Any]:
    number = draw.randrange(products)
    return {
        "id": number,
        "sku": f"SKU-{number:08}",
        "name": f"Product {number} of series {number % 97}",
        "price": draw.randrange(10, 300),
        "stock": draw.randrange(1, 50),
    }
