"""What the keeper of saved searches refuses, each with what to do instead.

HeadwaterError
├── NoSuchSearch      there is none of that number, or it is somebody else's: the two are not told apart
├── TooManySearches   the owner has as many as one may have
├── QueryTooBroad     it would tell of nearly everything; carries the estimate
└── NothingIsSent     the search is paused or has ended, or its target wants nothing any more
"""

from __future__ import annotations

from cdc.errors import HeadwaterError


class NoSuchSearch(HeadwaterError):
    """No saved search of this owner has that number, or no message that token."""


class TooManySearches(HeadwaterError):
    """One more than an owner may have."""


class NothingIsSent(HeadwaterError):
    """A message that would be sent to nobody."""


class QueryTooBroad(HeadwaterError):
    """More rows match now than a saved search may have; `figures` has both numbers."""


def too_broad(hits: int, most: int) -> QueryTooBroad:
    error = QueryTooBroad(
        "the search is too broad to be saved",
        detail=f"about {hits} rows match now, at most {most} may",
        hint="narrow it: a place, a price, a kind",
    )
    error.figures = {"hits": hits, "hits_max": most}
    return error
