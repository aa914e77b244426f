"""Why a saved search that its owner wants tells them nothing all the same: silent by itself, which nobody should be.

- broken: its view has changed, or is gone, so that nothing can match it any more. Pure.
- unreachable: what it tells cannot be sent: its endpoint is switched off, or its address closed to everybody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import psycopg

from alerts.saved_search import SavedSearch, Wish
from alerts.wish_reading import check_columns, read_query
from cdc.errors import ConfigurationError
from search.errors import QueryRefused
from search.index import IndexDefinition

BROKEN: Final = "broken"
UNREACHABLE: Final = "unreachable"
WHY_CLOSED: Final[Mapping[str, str]] = {
    "bounced": "bounced",
    "unsubscribed": "unsubscribed from everything",
    "complained": "complained",
    "gone": "said that it is gone",
}
"""By the reason of a suppression."""

# An address that is closed is closed to everybody; an endpoint is its owner's.
_CLOSED: Final = """
    select s.id, x.reason, e.disabled_reason
    from headwater.subscriptions s
        left join headwater.suppressions x on (x.channel, x.target) = (s.channel, s.target)
        left join headwater.endpoints e on (e.owner, e.channel, e.target) = (s.owner, s.channel, s.target)
    where s.id = any(%s) and (x.reason is not null or e.disabled_reason is not null)
"""


def misfit(wish: Wish, definition: IndexDefinition) -> str | None:
    """What the view, as it is now, cannot answer of a wish; None when it can."""
    try:
        read_query(wish.query, definition)
        check_columns(wish, definition)
    except (QueryRefused, ConfigurationError) as error:
        return f"it does not fit {definition.view} any more: {error.fact}"
    return None


def unreachable(conn: psycopg.Connection, searches: Sequence[SavedSearch]) -> dict[int, str]:
    """By id, those to whose owners nothing can be sent: why."""
    found = conn.execute(_CLOSED, [[search.id for search in searches]])
    return {id_: _closed(closed, switched_off) for id_, closed, switched_off in found}


def _closed(closed: str | None, switched_off: str | None) -> str:
    if closed is not None:
        return f"the address is closed: it {WHY_CLOSED[closed]}"
    return f"the endpoint is switched off: {switched_off}"
