"""The property market as it stands at an instant: agents, and listings with all that belongs to them. Pure.

Guarantees: the same draws give the same rows; a listing's last price is its price; everything happened before the given
instant, except viewings, which are still to come. The mover uses the same functions for what comes on the market later.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from itertools import count
from typing import Final

from headwater.demo import words
from headwater.demo.draw import Draw, Weighted, zipf
from headwater.demo.places import BY_SHARE, City
from headwater.demo.rows import Agent, Listing, Photo, Price, Viewing

PRICE_STEP_EURO: Final = 500
PHOTOS_MAX: Final = 5
SURVEY_SHARE: Final = 0.03
SURVEY_FINDINGS: Final = 60
"""About four kilobytes: twice what Postgres keeps in line."""
DEGREES_AROUND: Final = 0.05
"""How far from the centre a listing may be, some five kilometres."""

_DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    share: float
    area_m2: tuple[int, int]
    price_factor: float
    garden_share: float


KINDS: Final = (
    Kind("flat", 46, (38, 140), 1.0, 0.08),
    Kind("house", 26, (80, 260), 0.92, 0.8),
    Kind("studio", 12, (16, 38), 1.12, 0.02),
    Kind("loft", 7, (70, 220), 1.15, 0.05),
    Kind("cottage", 5, (55, 120), 0.85, 0.9),
    Kind("land", 4, (300, 2500), 0.06, 0.0),
)
KINDS_BY_SHARE: Final = Weighted(KINDS, [kind.share for kind in KINDS])
STATUSES: Final = Weighted(("for_sale", "under_offer", "sold"), (78, 8, 14))
PRICES_COUNT: Final = Weighted((1, 2, 3, 4), (62, 24, 10, 4))


@dataclass(frozen=True, slots=True)
class ListingBundle:
    """A listing and its children: they come and go together."""

    listing: Listing
    photos: list[Photo]
    prices: list[Price]
    viewings: list[Viewing]


@cache
def ascii_word(text: str) -> str:
    """For e-mail addresses: no accents, no punctuation."""
    folded = unicodedata.normalize("NFKD", text)
    return "".join(c for c in folded if c.isascii() and c.isalnum()).lower()


def person(draw: Draw) -> str:
    return f"{draw.one(words.FIRST_NAMES)} {draw.one(words.LAST_NAMES)}"


def email(name: str, agency: str) -> str:
    return f"{'.'.join(ascii_word(part) for part in name.split())}@{ascii_word(agency)}.example"


def agent(draw: Draw, number: int, at: datetime) -> Agent:
    name, agency = person(draw), draw.one(words.AGENCIES)
    return Agent(
        id=number,
        name=name,
        agency=agency,
        email=email(name, agency),
        city=BY_SHARE.draw(draw).name,
        languages=draw.some(words.LANGUAGES, 3),
        joined_on=(at - timedelta(days=draw.between(30, 6000))).date(),
    )


def asking_price(draw: Draw, city: City, kind: Kind, area_m2: Decimal, has_garden: bool) -> Decimal:
    """By place, kind and size, give or take a third."""
    euro = city.euro_per_m2 * kind.price_factor * float(area_m2) * (1.0 + draw.bell() / 3)
    euro *= 1.06 if has_garden else 1.0
    return money(max(1, round(euro / PRICE_STEP_EURO)) * PRICE_STEP_EURO)


def money(euro: int) -> Decimal:
    return Decimal(euro * 100).scaleb(-2)


def reprice(draw: Draw, price: Decimal) -> Decimal:
    """Another price within a tenth of the first, more often lower than higher; never the same."""
    percent = draw.between(1, 10) * (1 if draw.chance(0.2) else -1)
    steps = int(price * (100 + percent) / 100 / PRICE_STEP_EURO)
    other = money(max(1, steps) * PRICE_STEP_EURO)
    return other if other != price else price + PRICE_STEP_EURO


def description(draw: Draw, kind: Kind, district: str, has_garden: bool) -> str:
    opener = draw.one(words.OPENERS[kind.name])
    parts = [opener.format(district=district, year=draw.between(1990, 2025), floor=draw.one(words.FLOORS))]
    if kind.name != "land":
        parts += draw.some(words.INSIDE, draw.between(1, 3))
    if has_garden:
        parts.append(draw.one(words.GARDENS))
    parts += draw.some(words.AROUND, draw.between(1, 2))
    parts.append(draw.one(words.CLOSERS))
    return " ".join(parts)


def survey(draw: Draw) -> str:
    """A building report, too long for Postgres to keep in line with the row."""
    lines = (
        f"{n}. {draw.one(words.FINDINGS)}; reading {draw.below(10_000):04d}." for n in range(1, SURVEY_FINDINGS + 1)
    )
    return "\n".join(lines)


def attributes(draw: Draw, kind: Kind) -> dict[str, object]:
    if kind.name == "land":
        return {"zoning": draw.one(("residential", "mixed", "agricultural")), "services": draw.chance(0.7)}
    found: dict[str, object] = {"energy": draw.one("ABCDEFG"), "built": draw.between(1850, 2025)}
    if kind.name in {"flat", "studio", "loft"}:
        found["floor"] = draw.between(0, 9)
    if draw.chance(0.6):
        found["heating"] = {"fuel": draw.one(("gas", "electric", "wood", "district")), "shared": draw.chance(0.3)}
    return found


def listing(draw: Draw, number: int, agent_id: int, listed_at: datetime) -> Listing:
    """A listing for sale, not touched since it was listed."""
    city, kind = BY_SHARE.draw(draw), KINDS_BY_SHARE.draw(draw)
    district = draw.one(city.districts)
    area_m2 = Decimal(draw.between(kind.area_m2[0] * 10, kind.area_m2[1] * 10)).scaleb(-1)
    has_garden = draw.chance(kind.garden_share)
    bedrooms = 0 if kind.name in {"land", "studio"} else min(8, max(1, int(area_m2) // 32))
    rooms = f"{bedrooms} bedroom {kind.name}" if bedrooms else "Building plot" if kind.name == "land" else "Studio"
    return Listing(
        id=number,
        agent_id=agent_id,
        kind=kind.name,
        status="for_sale",
        title=f"{rooms} in {district}, {city.name}",
        description=description(draw, kind, district, has_garden),
        survey=survey(draw) if draw.chance(SURVEY_SHARE) else None,
        city=city.name,
        country=city.country,
        postcode=city.postcode(draw),
        lat=round(city.lat + draw.bell() * DEGREES_AROUND, 6),
        lon=round(city.lon + draw.bell() * DEGREES_AROUND, 6),
        price=asking_price(draw, city, kind, area_m2, has_garden),
        area_m2=area_m2,
        bedrooms=bedrooms,
        has_garden=has_garden,
        features=[] if kind.name == "land" else draw.some(words.FEATURES, 4),
        attributes=attributes(draw, kind),
        listed_at=listed_at,
        updated_at=listed_at,
    )


def photos(draw: Draw, listing_id: int) -> list[Photo]:
    root = f"https://photos.example/{listing_id}/"
    return [
        Photo(listing_id, position, f"{root}{draw.below(2**32):08x}.jpg", draw.one(words.CAPTIONS))
        for position in range(1, draw.between(0, PHOTOS_MAX) + 1)
    ]


def viewing(draw: Draw, number: int, listing_id: int, at: datetime) -> Viewing:
    """On a quarter of an hour within the next fortnight."""
    starts_at = at.replace(minute=0, second=0, microsecond=0) + timedelta(minutes=15 * draw.between(4, 1344))
    return Viewing(number, listing_id, person(draw), starts_at, timedelta(minutes=draw.one((15, 20, 30, 45))))


class Market:
    """Numbers what the functions above make, and gives it a past. One pass over `agents`, then one over `listings`."""

    def __init__(self, seed: int, listings: int, agents: int, at: datetime) -> None:
        self._draw = Draw(f"{seed}/market")
        self._listings = listings
        self._agents = agents
        self._at = at
        self._prices = count(1)
        self._viewings = count(1)

    def agents(self) -> Iterator[Agent]:
        for number in range(1, self._agents + 1):
            yield agent(self._draw, number, self._at)

    def listings(self) -> Iterator[ListingBundle]:
        """The first agents have the most listings."""
        agents = zipf(range(1, self._agents + 1))
        for number in range(1, self._listings + 1):
            listed_at = self._at - timedelta(seconds=self._draw.between(_DAY_S, 400 * _DAY_S))
            yield self._bundle(listing(self._draw, number, agents.draw(self._draw), listed_at))

    def _bundle(self, fresh: Listing) -> ListingBundle:
        draw = self._draw
        prices = self._price_path(fresh)
        status = STATUSES.draw(draw)
        updated_at = prices[-1].changed_at
        if status != "for_sale":
            updated_at += (self._at - updated_at) * draw.random()
        viewings = 0 if status == "sold" else max(0, draw.between(-2, 2))
        return ListingBundle(
            fresh._replace(price=prices[-1].price, status=status, updated_at=updated_at),
            photos(draw, fresh.id),
            prices,
            [viewing(draw, next(self._viewings), fresh.id, self._at) for _ in range(viewings)],
        )

    def _price_path(self, fresh: Listing) -> list[Price]:
        """From the first price on, in time order, the last change before now."""
        path = [Price(next(self._prices), fresh.id, fresh.price, fresh.listed_at)]
        for _ in range(PRICES_COUNT.draw(self._draw) - 1):
            last = path[-1]
            changed_at = last.changed_at + (self._at - last.changed_at) * (0.1 + 0.6 * self._draw.random())
            path.append(Price(next(self._prices), fresh.id, reprice(self._draw, last.price), changed_at))
        return path
