"""Saved searches in Postgres: made, read, changed and removed by their owner, and by nobody else.

Every call names the owner; a search of somebody else is one that is not there. Each is one transaction under a lock of
the owner's row, so limits hold however many calls come at once. A search is live in the matcher with its commit: it
comes down the log like any change.
"""

from __future__ import annotations

import secrets
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from alerts.clock import system_clock
from alerts.owners import lock_owner, withdraw
from alerts.refusals import NoSuchSearch, TooManySearches, too_broad
from alerts.saved_search import FIELDS, SavedSearch, Wish
from alerts.troubles import WHY_CLOSED
from alerts.waiting import Wanted, by_event, judge, wait_anew
from cdc.errors import ConfigurationError

SECRET_BYTES: Final = 32
Estimate = Callable[[], int]
"""How many rows match a query now, about."""

_COLUMNS: Final[LiteralString] = """
    id, owner, view, query, events, columns, watched_column, threshold, threshold_unit, reenter_s, channel, target,
    frequency, time_zone, digest_hour, digest_weekday, quiet_from, quiet_to, cap_per_day, label, paused, expires_at,
    unsubscribed_at, unsubscribe_token, created_at, updated_at
"""
_ONE: Final = f"select {_COLUMNS} from headwater.subscriptions where id = %s and owner = %s"
_LIST: Final = f"select {_COLUMNS} from headwater.subscriptions where owner = %s order by id"
_ALL: Final = f"select {_COLUMNS} from headwater.subscriptions where id > %s order by id limit %s"
_BY_IDS: Final = f"select {_COLUMNS} from headwater.subscriptions where id = any(%s)"
_OF_VIEW: Final = f"select {_COLUMNS} from headwater.subscriptions where view = %s and id > %s order by id limit %s"
_COUNT: Final = "select count(*) from headwater.subscriptions where owner = %s"
_FORGET_TOLD: Final = "delete from headwater.told_values where subscription_id = %s"
_REMOVE: Final = "delete from headwater.subscriptions where id = %s and owner = %s"
_SUPPRESSED: Final = "select reason from headwater.suppressions where channel = %s and target = %s"
_ENDPOINT: Final = """
    insert into headwater.endpoints (owner, channel, target, secrets) values (%s, %s, %s, %s)
    on conflict (owner, channel, target) do update set disabled_reason = null, failing_since = null
    where endpoints.disabled_reason is not null
"""
_SECRETS: Final = "select secrets from headwater.endpoints where owner = %s and channel = %s and target = %s"
_ROTATE: Final = """
    update headwater.endpoints set secrets = %s::text || secrets[:1]
    where owner = %s and channel = %s and target = %s and cardinality(secrets) > 0
"""


@dataclass(frozen=True, slots=True)
class Limits:
    searches_per_owner_max: int = 100
    hits_max: int = 10_000
    """A query that more rows match now is too broad."""


DEFAULT_LIMITS: Final = Limits()


def create(
    conn: psycopg.Connection, owner: str, wish: Wish, limits: Limits = DEFAULT_LIMITS, estimate: Estimate | None = None
) -> SavedSearch:
    """Raises TooManySearches, QueryTooBroad, or ConfigurationError for a target that wants nothing any more."""
    _require_narrow(estimate, limits)
    with conn.transaction():
        lock_owner(conn, owner)
        _require_room(conn, owner, limits)
        _require_willing(conn, wish)
        _keep_endpoint(conn, owner, wish)
        names = [*FIELDS, "owner", "unsubscribe_token"]
        values = [*_values(wish), owner, secrets.token_urlsafe(24)]
        made = sql.SQL("insert into headwater.subscriptions ({}) values ({}) returning " + _COLUMNS).format(
            sql.SQL(", ").join(map(sql.Identifier, names)), sql.SQL(", ").join([sql.Placeholder()] * len(names))
        )
        return _one(conn, made, values)


def read(conn: psycopg.Connection, owner: str, id_: int) -> SavedSearch:
    found = _found(conn, _ONE, [id_, owner])
    if not found:
        raise _missing(id_)
    return found[0]


def listed(conn: psycopg.Connection, owner: str) -> list[SavedSearch]:
    return _found(conn, _LIST, [owner])


def by_ids(conn: psycopg.Connection, ids: Sequence[int]) -> dict[int, SavedSearch]:
    """Whoever they belong to: for what runs between matching and telling."""
    return {search.id: search for search in _found(conn, _BY_IDS, [list(ids)])}


def of_view(conn: psycopg.Connection, view: str, after: int, most: int) -> list[SavedSearch]:
    """Whoever they belong to, in the order of their numbers."""
    return _found(conn, _OF_VIEW, [view, after, most])


def everybodys(conn: psycopg.Connection, most: int, after: int = 0) -> list[SavedSearch]:
    """For administrators, in the order of their numbers."""
    return _found(conn, _ALL, [after, most])


def update(
    conn: psycopg.Connection,
    owner: str,
    id_: int,
    change: Callable[[SavedSearch], Wish],
    limits: Limits = DEFAULT_LIMITS,
    estimate: Callable[[Wish], Estimate | None] = lambda _wish: None,
    wants: Callable[[Wish], Wanted] = by_event,
    *,
    names_target: bool = False,
) -> SavedSearch:
    """The search with another wish; what is waiting to be told of it waits by the new one, and is dropped where that
    does not want it (waiting.py). What was told of one column says nothing of another, and is forgotten.

    One that was unsubscribed is paused, and comes back when its owner ends the pause. An endpoint that was switched off
    is switched on by an owner who names it, also as it was (`names_target`), and by no other change.
    """
    seen = read(conn, owner, id_)
    judged = judge(conn, seen, change(seen), wants)  # before the lock: it may take long
    with conn.transaction():
        lock_owner(conn, owner)
        old = read(conn, owner, id_)
        wish = change(old)
        if wish.query != old.wish.query:
            _require_narrow(estimate(wish), limits)
        is_elsewhere = (wish.channel, wish.target) != (old.wish.channel, old.wish.target)
        if is_elsewhere:
            _require_willing(conn, wish)
        if is_elsewhere or names_target:
            _keep_endpoint(conn, owner, wish)
        if wish.watched_column != old.wish.watched_column:
            conn.execute(_FORGET_TOLD, [id_])
        pairs = sql.SQL(", ").join(sql.SQL("{} = %s").format(sql.Identifier(name)) for name in FIELDS)
        statement = sql.SQL(
            "update headwater.subscriptions set {}, updated_at = clock_timestamp(),"
            " unsubscribed_at = case when %s then unsubscribed_at end where id = %s and owner = %s returning "
            + _COLUMNS
        ).format(pairs)
        made = _one(conn, statement, [*_values(wish), wish.paused, id_, owner])
        wait_anew(conn, old, made, wants, system_clock(), judged)
        withdraw(conn, owner)
        return made


def remove(conn: psycopg.Connection, owner: str, id_: int) -> None:
    with conn.transaction():
        lock_owner(conn, owner)
        if conn.execute(_REMOVE, [id_, owner]).rowcount == 0:
            raise _missing(id_)
        withdraw(conn, owner)


def endpoint_secrets(conn: psycopg.Connection, owner: str, channel: str, target: str) -> tuple[str, ...]:
    """What is sent there is signed with: the newest first."""
    row = conn.execute(_SECRETS, [owner, channel, target]).fetchone()
    return tuple(row[0]) if row else ()


def rotate_secret(conn: psycopg.Connection, owner: str, channel: str, target: str) -> str:
    """A new secret. The one before it goes on signing beside it until the next rotation, older ones end."""
    made = new_secret()
    if conn.execute(_ROTATE, [made, owner, channel, target]).rowcount == 0:
        raise ConfigurationError(f"nothing is signed for {channel}", hint="webhooks are")
    return made


def new_secret() -> str:
    return f"whsec_{b64encode(secrets.token_bytes(SECRET_BYTES)).decode()}"


def _require_narrow(estimate: Estimate | None, limits: Limits) -> None:
    hits = estimate() if estimate else 0
    if hits > limits.hits_max:
        raise too_broad(hits, limits.hits_max)


def _require_room(conn: psycopg.Connection, owner: str, limits: Limits) -> None:
    [[count]] = conn.execute(_COUNT, [owner]).fetchall()
    if count >= limits.searches_per_owner_max:
        raise TooManySearches(
            f"{owner} has {count} saved searches, which is as many as one may have",
            hint="remove one, or raise alerts.searches_per_owner_max",
        )


def _require_willing(conn: psycopg.Connection, wish: Wish) -> None:
    row = conn.execute(_SUPPRESSED, [wish.channel, wish.target]).fetchone()
    if row is not None:
        raise ConfigurationError(
            f"nothing is sent to {wish.target} any more", detail=f"it {WHY_CLOSED[row[0]]}", hint="name another target"
        )


def _keep_endpoint(conn: psycopg.Connection, owner: str, wish: Wish) -> None:
    """One that was switched off is switched on: its owner has saved it again."""
    if wish.channel == "webhook":
        conn.execute(_ENDPOINT, [owner, wish.channel, wish.target, [new_secret()]])


def _values(wish: Wish) -> list[Any]:
    given = {name: getattr(wish, name) for name in FIELDS}
    return [Jsonb(value) if isinstance(value, dict) else _plain(value) for value in given.values()]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _one(conn: psycopg.Connection, statement: sql.Composable, values: list[Any]) -> SavedSearch:
    try:
        [made] = _found(conn, statement, values)
    except (psycopg.DataError, UnicodeEncodeError) as error:
        raise ConfigurationError("this cannot be stored", detail=str(error).strip().splitlines()[0]) from error
    return made


def _found(conn: psycopg.Connection, statement: Any, values: list[Any]) -> list[SavedSearch]:
    rows = conn.cursor(row_factory=dict_row).execute(statement, values).fetchall()
    return [SavedSearch.of_row(row) for row in rows]


def _missing(id_: int) -> NoSuchSearch:
    return NoSuchSearch(f"no saved search {id_}", hint="headwater alerts list")
