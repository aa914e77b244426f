"""Matches that hang on what was told before them, one by one: of a search that watches how a column moves, or of a row
that changed several times; or on what a search asks now, because it was changed since the commit, as which it matched.
The others are judged where they are written, all at once (outbox.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Final, NamedTuple

import psycopg

from alerts.matched import Item, Match, by_change
from alerts.moves import Memory, decoded, judged, window_s
from alerts.saved_search import SavedSearch
from alerts.waiting import Tells, telling
from search.errors import QueryRefused
from search.index import IndexDefinition

_KNOWN: Final = """
    select subscription_id, key_hash, event, position from headwater.outbox
    join unnest(%s::bigint[], %s::bytea[], %s::text[], %s::text[]) n (subscription_id, key_hash, event, position)
        using (subscription_id, key_hash, event, position)
"""
_TOLD: Final = """
    select subscription_id, key_hash, value from headwater.told_values
    join unnest(%s::bigint[], %s::bytea[]) n (subscription_id, key_hash) using (subscription_id, key_hash)
"""
# In the order in which they were recorded.
_CROSSINGS: Final = """
    select subscription_id, key_hash, event, committed_at from headwater.outbox
    join unnest(%s::bigint[], %s::bytea[]) n (subscription_id, key_hash) using (subscription_id, key_hash)
    where event in ('entered', 'left') and committed_at > %s order by id
"""
_TELL: Final = """
    insert into headwater.told_values (subscription_id, key_hash, value, told_at)
    select n.*, %s from unnest(%s::bigint[], %s::bytea[], %s::numeric[]) n
    on conflict (subscription_id, key_hash) do update set value = excluded.value, told_at = excluded.told_at
"""


CHANGING: Final = timedelta(minutes=1)
"""A search is changed by the commit, some time after the instant that it was changed at."""


class News(NamedTuple):
    match: Match
    reason: str


def worth_telling(
    conn: psycopg.Connection,
    matches: Sequence[Match],
    searches: Mapping[int, SavedSearch],
    reenter_s: float,
    now: datetime,
) -> list[News]:
    """Of matches of these searches, in their order; what is told of a watched column is remembered."""
    if not matches:
        return []
    unknown = _unknown(conn, matches)
    longest_s = max((window_s(search.wish, reenter_s) for search in searches.values()), default=0.0)
    told, entered = _told(conn, {match.item for match in unknown}), _entries(conn, unknown, longest_s)
    news, changed = list[News](), dict[Item, Decimal]()
    row = cache(decoded)
    for item, together in by_change(unknown):
        first, wish, memory = together[0], searches[item[0]].wish, Memory(told.get(item), entered.get(item))
        events = [match.event for match in together]
        reasons, then = judged(wish, events, row(first.before), row(first.after), memory, first.committed_at, reenter_s)
        news += [News(match, reasons[match.event]) for match in together if match.event in reasons]
        entered[item] = then.entered_at
        if then.value is not None and (reasons or then.value != memory.value):
            told[item] = changed[item] = then.value
    _tell(conn, changed, now)
    return news


def still_wanted(
    matches: Sequence[Match], searches: Mapping[int, SavedSearch], definition: IndexDefinition
) -> list[Match]:
    """Without those that a search matched as it was, and would not tell as it is: as news that waits (waiting.py)."""
    known: dict[int, Tells | None] = {}
    found = list[Match]()
    for match in matches:
        search = searches[match.subscription_id]
        if match.committed_at is not None and was_changed_since(search, match.committed_at):
            if search.id not in known:
                known[search.id] = _telling(search, definition)
            tells = known[search.id]
            if tells is None or not tells(match.event, match.before, match.after, match.committed_at):
                continue
        found.append(match)
    return found


def was_changed_since(search: SavedSearch, at: datetime) -> bool:
    """Or may have been: the commit of the change is what counts, and nobody has noted that."""
    return search.created_at < search.updated_at and search.updated_at > at - CHANGING


def _telling(search: SavedSearch, definition: IndexDefinition) -> Tells | None:
    """None for one that the view cannot answer."""
    try:
        return telling(search.wish, definition)
    except QueryRefused:
        return None


def _unknown(conn: psycopg.Connection, matches: Sequence[Match]) -> list[Match]:
    """Without those that are in the outbox already, and without repeats. Under the mark's lock nobody adds any."""
    by_key = {(*match.item, match.event, match.position): match for match in reversed(matches)}
    known = conn.execute(_KNOWN, [list(column) for column in zip(*by_key, strict=True)])
    for id_, hash_, event, position in known:
        del by_key[id_, bytes(hash_), event, position]
    return list(reversed(by_key.values()))


def _entries(conn: psycopg.Connection, matches: Sequence[Match], reenter_s: float) -> dict[Item, datetime | None]:
    """When the items that enter were last told to have entered; None for one that was told to have left since."""
    entering = [match for match in matches if match.event == "entered" and match.committed_at is not None]
    if not entering or not reenter_s:
        return {}
    since = min(match.committed_at for match in entering if match.committed_at) - timedelta(seconds=reenter_s)
    ids, hashes = zip(*{match.item for match in entering}, strict=True)
    found = conn.execute(_CROSSINGS, [list(ids), list(hashes), since])
    return {(id_, bytes(hash_)): at if event == "entered" else None for id_, hash_, event, at in found}


def _told(conn: psycopg.Connection, items: set[Item]) -> dict[Item, Decimal]:
    rows = conn.execute(_TOLD, [[id_ for id_, _ in items], [hash_ for _, hash_ in items]])
    return {(id_, bytes(hash_)): value for id_, hash_, value in rows}


def _tell(conn: psycopg.Connection, changed: Mapping[Item, Decimal], now: datetime) -> None:
    if changed:
        ids, hashes = zip(*changed, strict=True)
        conn.execute(_TELL, [now, list(ids), list(hashes), list(changed.values())])
