"""What the demo's visitor wants to be told: saved when the views are there, told as the market moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

OWNER: Final = "demo"
CURRENCY: Final = "€"
VISITOR: Final = "visitor@example.org"
WAYS: Final = ("webhook", "email", "feed")
"""How each of the searches is told, where there is such a way; by the feed where there is none."""
SEARCHES: Final[tuple[Mapping[str, Any], ...]] = (
    {
        "view": "listing_search",
        "query": "has_garden:true bedrooms:2.. price:..500000",
        "label": "two bedrooms and a garden, under 500,000",
        "events": ["entered"],
    },
    {
        "view": "listing_search",
        "query": "near:48.85,2.35,15km -kind:studio",
        "label": "around Paris, no studio: cheaper by 2 %",
        "events": ["entered", "dropped"],
        "watched_column": "price",
        "threshold": 2,
        "threshold_unit": "percent",
    },
    {"view": "back_in_stock", "query": "price:..200", "label": "back in stock, under 200", "events": ["entered"]},
)
