"""Outbox ▶ notifications and pending deliveries: each row once, whoever does it and however often it is cut off.

    due rows ─▶ their owners, locked, those of others skipped ─▶ decide (grouping.py) ─▶ written, in one transaction

The lock is the owner's row: two processes never look at one owner at once, so what belongs in one message cannot become
two, and `record` gives an owner's next number before or after, never in between. A round that is cut off leaves
nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final, NamedTuple

import psycopg
from psycopg.rows import class_row

from alerts import numbering
from alerts.clock import Clock, system_clock
from alerts.grouping import Decision, Draft, Knowledge, Pending, Target, decide
from alerts.messages import body
from alerts.posting import Posting, post
from alerts.store import by_ids
from cdc.failpoints import reached

JOINED_ROWS_MAX: Final = 40_000
"""That are looked at with those that are due, because they are of the same changes; others are told by themselves."""
IMAGES_AT_ONCE: Final = 20
"""Items whose rows are read together."""
LONGEST_DAY: Final = timedelta(hours=49)
"""A local day, where one was ever repeated."""

_DUE_OWNERS: Final = """
    select o.owner from headwater.owners o
    where o.owner in (
        select d.owner from (
            select owner, due_at from headwater.outbox
            where told_at is null and dropped_reason is null and due_at <= %(now)s
            order by due_at limit %(rows)s
        ) d)
    order by o.owner collate "C" limit %(owners)s
    for no key update skip locked
"""
# What is due, and what else is pending of the same changes: it is told with them. Without the rows' images: a digest
# may be of many that are large, and few of them are shown.
_ROWS: Final = """
    with due as (
        select view, key_hash, version from headwater.outbox
        where owner = %(owner)s and told_at is null and dropped_reason is null and due_at <= %(now)s
        order by sequence limit %(rows)s
    )
    select o.id, o.sequence, o.subscription_id, o.view, o.key, o.version, o.event, o.recorded_at, o.reason
    from headwater.outbox o
    where o.owner = %(owner)s and o.told_at is null and o.dropped_reason is null
        and (o.view, o.key_hash, o.version) in (select view, key_hash, version from due)
    order by o.sequence limit %(most)s
"""
_IMAGES: Final = "select id, before::text, after::text from headwater.outbox where id = any(%s)"
# Of the same searches, due as well, and more than are looked at together.
_REST: Final = """
    from headwater.outbox o
    where o.owner = %(owner)s and o.told_at is null and o.dropped_reason is null and o.due_at <= %(now)s
        and o.subscription_id = any(%(searches)s) and not o.id = any(%(looked_at)s)
"""
_COUNT_REST: Final = f"""
    select count(*), coalesce(max(o.sequence), 0), count(distinct (o.view, o.key)) filter (
        where (o.view, o.key) not in (select * from unnest(%(views)s::text[], %(keys)s::text[])))
    {_REST}
"""
_TELL_REST: Final = f"""
    update headwater.outbox set told_at = %(now)s, notification_id = %(notification)s where id in (select o.id {_REST})
"""
_SUPPRESSED: Final = """
    select x.channel, x.target from headwater.suppressions x
    join unnest(%s::text[], %s::text[]) t (channel, target) using (channel, target)
"""
_TOLD: Final = """
    select channel, target, subscription_ids, created_at from headwater.notifications
    where owner = %s and created_at >= %s and events > 0
"""
"""Without test messages, which tell nothing."""
_TELL: Final = "update headwater.outbox set told_at = %s, notification_id = %s where id = any(%s)"
_POSTPONE: Final = """
    update headwater.outbox o set due_at = n.due_at
    from unnest(%s::bigint[], %s::timestamptz[]) n (id, due_at) where o.id = n.id
"""
_DROP: Final = """
    update headwater.outbox o set dropped_reason = n.reason
    from unnest(%s::bigint[], %s::text[]) n (id, reason) where o.id = n.id
"""


_GONE: Final = None, None
"""Of a row that was erased this moment."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How much at a time."""

    burst_s: float = 60.0
    """After a message, instant news for the same target is gathered for that long."""
    owners_per_round_max: int = 100
    rows_per_owner_max: int = 10_000
    """That are looked at; what else is due of the same searches is told with them, and counted."""
    items_per_notification_max: int = 100
    """The rest is counted: a clean-up of a million rows is one message."""
    base_url: str = ""
    """What links in messages begin with."""


class Round(NamedTuple):
    owners: int = 0
    notifications: int = 0
    told: int = 0
    dropped: int = 0
    postponed: int = 0


DEFAULT_PACE: Final = Pace()


def notify(conn: psycopg.Connection, pace: Pace = DEFAULT_PACE, clock: Clock = system_clock) -> Round:
    """One round: what is due of some owners. Call it again at once while `owners` is not 0."""
    now = clock()
    limits = {"now": now, "rows": pace.rows_per_owner_max, "owners": pace.owners_per_round_max}
    with conn.transaction():
        numbering.follow(conn)
        owners = [owner for (owner,) in conn.execute(_DUE_OWNERS, limits)]
        rounds = [_notify_owner(conn, owner, pace, now) for owner in owners]
    if owners:
        reached("notified")
    return Round(len(owners), *(sum(column) for column in zip(*(each[1:] for each in rounds), strict=True)))


def next_due_at(conn: psycopg.Connection) -> datetime | None:
    """When there is something to do; None while nothing is pending."""
    pending = "select min(due_at) from headwater.outbox where told_at is null and dropped_reason is null"
    row = conn.execute(pending).fetchone()
    at: datetime | None = row[0] if row else None
    return at


def _notify_owner(conn: psycopg.Connection, owner: str, pace: Pace, now: datetime) -> Round:
    most = pace.rows_per_owner_max + JOINED_ROWS_MAX
    asked = {"owner": owner, "now": now, "rows": pace.rows_per_owner_max, "most": most}
    rows = conn.cursor(row_factory=class_row(Pending)).execute(_ROWS, asked).fetchall()
    known = _knowledge(conn, owner, rows, pace, now)
    decision = decide(rows, known, now)
    told = 0
    # Endpoints are locked in the order of their names (alerts/delivery/turns.py), the owners' are by the statement.
    for draft in sorted(decision.drafts, key=lambda draft: (draft.target.channel, draft.target.target)):
        rest = _rest(conn, owner, draft, decision, rows, now) if len(rows) >= pace.rows_per_owner_max else None
        told += len(draft.rows) + _write(conn, owner, draft, rest, known, pace, now)
    _settle(conn, decision)
    return Round(1, len(decision.drafts), told, len(decision.dropped), len(decision.postponed))


def _knowledge(conn: psycopg.Connection, owner: str, rows: list[Pending], pace: Pace, now: datetime) -> Knowledge:
    searches = by_ids(conn, sorted({row.subscription_id for row in rows}))
    targets = {(search.wish.channel, search.wish.target) for search in searches.values()}
    asked = [[channel for channel, _ in targets], [target for _, target in targets]]
    suppressed = frozenset(Target(*row) for row in conn.execute(_SUPPRESSED, asked))
    told_at, told_times = _told(conn, owner, now - max(LONGEST_DAY, timedelta(seconds=pace.burst_s)))
    return Knowledge(searches, suppressed, told_at, told_times, pace.burst_s)


def _told(
    conn: psycopg.Connection, owner: str, since: datetime
) -> tuple[Mapping[Target, datetime], Mapping[int, tuple[datetime, ...]]]:
    """When the owner's targets were last told anything, and each search when."""
    told_at, told_times = dict[Target, datetime](), defaultdict[int, list[datetime]](list)
    for channel, target, ids, at in conn.execute(_TOLD, [owner, since]):
        place = Target(channel, target)
        told_at[place] = max(at, told_at.get(place, at))
        for id_ in ids:
            told_times[id_].append(at)
    return told_at, {id_: tuple(times) for id_, times in told_times.items()}


@dataclass(frozen=True, slots=True)
class _Rest:
    """What is told with a draft without being looked at."""

    asked: Mapping[str, object]
    rows: int
    last_sequence: int
    items: int


def _rest(
    conn: psycopg.Connection, owner: str, draft: Draft, decision: Decision, rows: list[Pending], now: datetime
) -> _Rest:
    """Of searches none of whose rows has to wait: their quiet hours and caps have let the draft's rows through."""
    waiting = {row.subscription_id for row in rows if row.id in decision.postponed}
    asked: dict[str, object] = {
        "owner": owner,
        "now": now,
        "searches": [id_ for id_ in draft.subscription_ids if id_ not in waiting],
        "looked_at": [row.id for row in rows],
        "views": [row.view for row in draft.rows],
        "keys": [row.key for row in draft.rows],
    }
    [counted] = conn.execute(_COUNT_REST, asked).fetchall()
    return _Rest(asked, *counted)


def _write(
    conn: psycopg.Connection,
    owner: str,
    draft: Draft,
    rest: _Rest | None,
    known: Knowledge,
    pace: Pace,
    now: datetime,
) -> int:
    """How many were told beyond the draft's rows."""
    rest = rest or _Rest({}, 0, 0, 0)

    def made(id_: str, number: int, url: str) -> bytes:
        most = pace.items_per_notification_max
        return body(id_, owner, number, draft, known.searches, now, url, most, rest.items, partial(_imaged, conn))

    first, last = draft.rows[0].sequence, max(draft.rows[-1].sequence, rest.last_sequence)
    to = draft.target
    posting = Posting(owner, to.channel, to.target, draft.subscription_ids, first, last, len(draft.rows) + rest.rows)
    posted = post(conn, posting, made, pace.base_url, now)
    reached("posted")
    conn.execute(_TELL, [now, posted.notification, [row.id for row in draft.rows]])
    if rest.rows:
        conn.execute(_TELL_REST, {**rest.asked, "notification": posted.notification})
    reached("told")
    return rest.rows


def _imaged(conn: psycopg.Connection, items: Sequence[list[Pending]]) -> Iterator[list[Pending]]:
    """With what each was before the first of its rows, and after the last; read only as far as somebody asks."""
    for start in range(0, len(items), IMAGES_AT_ONCE):
        some = items[start : start + IMAGES_AT_ONCE]
        found = conn.execute(_IMAGES, [[id_ for rows in some for id_ in (rows[0].id, rows[-1].id)]])
        images = {id_: (before, after) for id_, before, after in found}
        for rows in some:
            whole = [replace(rows[0], before=images.get(rows[0].id, _GONE)[0]), *rows[1:]]
            yield [*whole[:-1], replace(whole[-1], after=images.get(whole[-1].id, _GONE)[1])]


def _settle(conn: psycopg.Connection, decision: Decision) -> None:
    if decision.postponed:
        conn.execute(_POSTPONE, [list(decision.postponed), list(decision.postponed.values())])
    if decision.dropped:
        conn.execute(_DROP, [list(decision.dropped), list(decision.dropped.values())])
