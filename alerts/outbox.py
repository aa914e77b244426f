"""What matched ▶ the outbox: exactly once, through crash and replay, in an order per owner.

    matches of one view before an offset ─▶ record ─▶ rows and the view's mark, in one transaction

The mark lies beside the rows and moves with them: what is recorded again from before the mark does nothing, and what
was cut off left neither rows nor mark. It is a view's and never goes back, also when old rows were forgotten; the mark
of alert_places is a generation's, and begins anew with a place that is filled again.

Owners are locked in the order of their names: views that are recorded at once wait for each other, and never for ever.
What is more than a part is locked part by part, so it is recorded while no other view is.
A number of an owner's sequence is taken under that lock, so who reads up to one has read all before it.

Whom a change concerns may be thousands: they come as arrays, and Postgres makes rows of them. Here are looked at, one
by one, only those whose judgement hangs on what was told before (judging.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec
import psycopg

from alerts import numbering
from alerts.clock import Clock, system_clock
from alerts.grouping import first_due
from alerts.int_array import Bigints
from alerts.judging import CHANGING, News, still_wanted, worth_telling
from alerts.matched import NAMES, Matched, Part, at, key_hash, parts
from alerts.moves import REENTER_S, decoded, reason
from alerts.owners import RECORDING
from alerts.store import by_ids
from search.index import IndexDefinition

_MARK: Final = """
    insert into headwater.outbox_marks (view, topic_id, next_offset) values (%s, %s, 0)
    on conflict (view) do update set view = excluded.view
    returning topic_id, next_offset
"""
_MOVE: Final = """
    update headwater.outbox_marks set topic_id = %s, next_offset = %s, moved_at = now() where view = %s
"""
_LOCK_OWNERS: Final = """
    insert into headwater.owners (owner, last_sequence, last_notification)
    select distinct owner, first, first from headwater.subscriptions, headwater.numbering
    where id = any(%(searches)s) order by 1
    on conflict (owner) do update set owner = excluded.owner
"""
_ENTER: Final = "select pg_advisory_xact_lock_shared(%s)"
_ENTER_ALONE: Final = "select pg_advisory_xact_lock(%s)"

# Of searches that are active, as SavedSearch.silence says, the events that they want. What is judged one by one: what
# was told before may be of this part, or is a value; or the search was changed since, and matched as it was. A schedule
# is '' where everything is due at once. By `coalesce`, and outer joins where there is always a partner, the planner
# knows that they are many: else it takes them for one, and compares each with each.
_MATCHED: Final = f"""
    with changes as materialized (
        select number - 1 as number, key_hash, position, committed_at, is_again
        from unnest(%(hashes)s::bytea[], %(positions)s::text[], %(committed)s::timestamptz[], %(again)s::boolean[])
            with ordinality c (key_hash, position, committed_at, is_again, number)
    ), matched as materialized (
        select m.place, e.bit, e.event, c.*, s.id, s.owner, coalesce(s.reenter_s, %(reenter)s) as reenter_s,
            c.is_again or s.watched_column is not null or coalesce(
                s.updated_at > s.created_at and s.updated_at > c.committed_at - %(changing)s, false) as is_judged,
            case when e.event = 'changed' then to_json(s.columns)::text else '[]' end as columns,
            case when s.frequency <> 'instant' or s.quiet_from is not null then concat_ws(
                ' ', s.frequency, s.time_zone, s.digest_hour, s.digest_weekday, s.quiet_from, s.quiet_to)
                else '' end as schedule
        from unnest(%(searches_of)s, %(numbers)s, %(bits)s) with ordinality m (id, number, bits, place)
            left join changes c on c.number = m.number
            join headwater.subscriptions s on s.id = m.id
            join (values {", ".join(f"({bit}, '{name}')" for bit, name in NAMES)}) e (bit, event)
                on m.bits & e.bit <> 0
        where coalesce(
            s.view = %(view)s and e.event = any(s.events) and not s.paused and s.unsubscribed_at is null
                and (s.expires_at is null or s.expires_at > %(now)s), false)
    )
"""
_ASKED: Final = f"""
    {_MATCHED}
    select
        (select coalesce(json_agg(json_build_array(number, event, columns)), '[]')::text
            from (select distinct number, event, columns from matched where not is_judged) r),
        (select coalesce(json_agg(json_build_array(schedule, id)), '[]')::text
            from (select schedule, min(id) as id from matched where schedule <> '' group by schedule) d),
        (select coalesce(json_agg(json_build_array(number, id, event) order by place, bit), '[]')::text
            from matched where is_judged)
"""
# Told soon after it was told to have entered, and not that it left since: as moves.py says of one that watches nothing.
# With `limit` each is looked up: for `exists` the planner reads all of the outbox at once while it is small.
_IS_TOLD_ALREADY: Final = """
    (
        select true from headwater.outbox o
        where o.subscription_id = m.id and o.key_hash = m.key_hash and o.event = m.event and o.position = m.position
        limit 1) is true
    or m.event = 'entered' and (
        select true from headwater.outbox o
        where o.subscription_id = m.id and o.key_hash = m.key_hash and o.event = 'entered'
            and o.committed_at > m.committed_at - m.reenter_s * interval '1 s'
            and not exists (
                select from headwater.outbox l
                where l.subscription_id = m.id and l.key_hash = m.key_hash and l.event = 'left' and l.id > o.id)
        limit 1) is true
"""
_WRITE: Final = f"""
    {_MATCHED}, told as (
        select m.*, coalesce(j.reason, r.reason) as reason
        from matched m
            left join unnest(%(r_numbers)s::bigint[], %(r_events)s::text[], %(r_columns)s::text[], %(reasons)s::text[])
                r (number, event, columns, reason)
                on (r.number, r.event, r.columns) = (m.number, m.event, m.columns) and not m.is_judged
            left join unnest(%(j_numbers)s::bigint[], %(j_ids)s::bigint[], %(j_events)s::text[], %(judged)s::text[])
                j (number, id, event, reason)
                on (j.number, j.id, j.event) = (m.number, m.id, m.event) and m.is_judged
        where j.reason is not null or not m.is_judged and not ({_IS_TOLD_ALREADY})
    ), numbered as (
        select *, row_number() over (partition by owner order by place, bit) as next from told
    ), counted as (
        update headwater.owners o set last_sequence = o.last_sequence + n.most
        from (select owner, max(next) as most from numbered group by owner) n where o.owner = n.owner
        returning o.owner, o.last_sequence - n.most as before
    )
    insert into headwater.outbox (owner, sequence, subscription_id, view, key, key_hash, event, version, position,
        before, after, reason, committed_at, recorded_at, due_at)
    select n.owner, c.before + n.next, n.id, %(view)s, i.key, n.key_hash, n.event, i.version, n.position,
        i.before, i.after, n.reason, n.committed_at, %(now)s, coalesce(d.due_at, %(now)s)
    from numbered n
        left join counted c using (owner)
        left join unnest(%(keys)s::text[], %(versions)s::bigint[], %(befores)s::json[], %(afters)s::json[])
            with ordinality i (key, version, before, after, number) on i.number = n.number + 1
        left join unnest(%(schedules)s::text[], %(dues)s::timestamptz[]) d (schedule, due_at) using (schedule)
    order by n.place, n.bit
"""


class Recorded(NamedTuple):
    rows: int
    """Newly written to the outbox."""
    is_replay: bool = False
    """The mark was there already: nothing was looked at."""


def mark(conn: psycopg.Connection, view: str) -> tuple[str, int] | None:
    """How far matching of a view is: everything before this offset of that topic is in the outbox."""
    row = conn.execute("select topic_id, next_offset from headwater.outbox_marks where view = %s", [view]).fetchone()
    return (row[0], row[1]) if row else None


def record(
    conn: psycopg.Connection,
    definition: IndexDefinition,
    mark_offset: int,
    matched: Iterable[Matched],
    *,
    topic_id: str = "",
    reenter_s: float = REENTER_S,
    clock: Clock = system_clock,
) -> Recorded:
    """Writes what matched of everything before `mark_offset` in the view's topic, which comes in the order of the
    changes. Safe to repeat at any time.

    `topic_id` is the topic's incarnation: offsets of another one begin anew. Matches of searches that are paused,
    expired, unsubscribed or gone are left out; so are those of a search that was changed since the commit, and would
    not tell them as it is now.
    """
    view = definition.view
    with conn.transaction():
        [(known_topic, start)] = conn.execute(_MARK, [view, topic_id]).fetchall()
        if known_topic == topic_id and mark_offset <= start:
            return Recorded(0, is_replay=True)
        numbering.follow(conn)
        now, written = clock(), 0
        for part, is_all in parts(matched, start if known_topic == topic_id else 0, mark_offset):
            conn.execute(_ENTER if is_all else _ENTER_ALONE, [RECORDING])  # again is as good as once
            written += _write(conn, definition, part, reenter_s, now)
        conn.execute(_MOVE, [topic_id, mark_offset, view])
        return Recorded(written)


def _write(conn: psycopg.Connection, definition: IndexDefinition, part: Part, reenter_s: float, now: datetime) -> int:
    conn.execute(_LOCK_OWNERS, {"searches": Bigints(part.subscriptions)})
    given = _given(part) | {"view": definition.view, "now": now, "reenter": reenter_s, "changing": CHANGING}
    [asked] = _run(conn, _ASKED, given).fetchall()
    reasons, schedules, judged = (msgspec.json.decode(each) for each in asked)
    searches = by_ids(conn, sorted({id_ for _, id_, _ in judged})) if judged else {}
    matches = still_wanted([part.match(*each) for each in judged], searches, definition)
    given |= _reasons(part, reasons) | _dues(conn, schedules, now)
    given |= _judged(part, worth_telling(conn, matches, searches, reenter_s, now))
    return _run(conn, _WRITE, given | _images(part)).rowcount


def _run(conn: psycopg.Connection, statement: Any, given: dict[str, Any]) -> psycopg.Cursor[Any]:
    """Planned for as many as they are, each time."""
    return conn.execute(statement, given, prepare=False)


def _given(part: Part) -> dict[str, Any]:
    hashes, found = [key_hash(change.key) for change in part.changes], part.found
    times = Counter(hashes)
    return {
        "searches_of": Bigints(found.subscription), "numbers": Bigints(found.delta), "bits": Bigints(found.event),
        "hashes": hashes, "positions": part.positions, "committed": [at(each) for each in part.committed_at_us],
        "again": [times[each] > 1 for each in hashes],
    }  # fmt: skip


def _images(part: Part) -> dict[str, Any]:
    return {
        "keys": [change.key.decode() for change in part.changes],
        "versions": [change.version for change in part.changes],
        "befores": [_text(change.before) for change in part.changes],
        "afters": [_text(change.after) for change in part.changes],
    }


def _text(row: bytes | None) -> str | None:
    return None if row is None else row.decode()


def _reasons(part: Part, asked: Sequence[tuple[int, str, str]]) -> dict[str, Any]:
    rows = {number: (decoded(part.changes[number].before), decoded(part.changes[number].after)) for number, *_ in asked}
    numbers, events, columns = zip(*asked, strict=True) if asked else ((), (), ())
    reasons = [reason(event, msgspec.json.decode(narrowed), *rows[number]) for number, event, narrowed in asked]
    return {"r_numbers": list(numbers), "r_events": list(events), "r_columns": list(columns), "reasons": reasons}


def _dues(conn: psycopg.Connection, asked: Sequence[tuple[str, int]], now: datetime) -> dict[str, Any]:
    """When each schedule is due first: one search stands for all that have it."""
    searches = by_ids(conn, [id_ for _, id_ in asked]) if asked else {}
    return {
        "schedules": [schedule for schedule, _ in asked],
        "dues": [first_due(searches[id_].wish, now) for _, id_ in asked],
    }


def _judged(part: Part, news: Sequence[News]) -> dict[str, Any]:
    numbers = {(change.version, change.key): number for number, change in enumerate(part.changes)}
    return {
        "j_numbers": [numbers[match.version, match.key] for match, _ in news],
        "j_ids": [match.subscription_id for match, _ in news],
        "j_events": [match.event for match, _ in news],
        "judged": [why for _, why in news],
    }
