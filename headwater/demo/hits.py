"""Page hits, an access log of the market's site: many small rows that are only ever added. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote

from headwater.demo import words
from headwater.demo.draw import Draw
from headwater.demo.places import BY_SHARE
from headwater.demo.rows import PageHit

LISTING_PAGE_SHARE: Final = 0.7
PAST: Final = timedelta(days=2)
SLOW_SHARE: Final = 0.02


def hit(draw: Draw, number: int, listings: int, hit_at: datetime) -> PageHit:
    """A page of one of the first `listings` listings, low numbers more often, or a page of search results."""
    listing_id = 1 + int(listings * draw.random() ** 3) if listings and draw.chance(LISTING_PAGE_SHARE) else None
    return PageHit(
        id=number,
        hit_at=hit_at,
        path=f"/listings/{listing_id}" if listing_id else f"/search?city={quote(BY_SHARE.draw(draw).name)}",
        listing_id=listing_id,
        visitor=draw.uuid(),
        client=f"198.51.100.{draw.below(256)}" if draw.chance(0.8) else f"2001:db8::{draw.below(65536):x}",
        referrer=draw.one(words.REFERRERS),
        took_ms=draw.between(800, 4000) if draw.chance(SLOW_SHARE) else draw.between(3, 90),
    )


def hits(seed: int, count: int, listings: int, at: datetime) -> Iterator[PageHit]:
    """In the order of time, evenly over the past two days."""
    draw = Draw(f"{seed}/hits")
    for number in range(1, count + 1):
        yield hit(draw, number, listings, at - PAST * ((count - number + draw.random()) / count))
