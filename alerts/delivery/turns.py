"""The statements by which endpoints take turns, so that a claim costs what it claims, however much waits.

    TURNS: endpoints whose due_at has come, the longest first ─▶ CLAIM: of each the oldest, leased; the next due_at

`endpoints.due_at` is never later than when something of the endpoint can be claimed: whoever makes a delivery due moves
it back, a claim moves it on. So a claim looks at endpoints that it may claim of, and at a few deliveries of each: not
at those that wait for their time, at a backlog, or at endpoints that are held. Locks are taken on endpoints in the
order of their names, then on deliveries; a claim waits for none.
"""

from __future__ import annotations

from typing import Final

from alerts.delivery.wanted import TO_SEND

# A message expires with the last of the searches that it names, of those that are active.
SELECTED: Final = f"""
    select {TO_SEND},
        d.id, d.owner, d.channel, d.target, n.body::text, d.attempts, coalesce(e.secrets, '{{}}'), e.failing_since,
        (
            select case when bool_and(s.expires_at is not null) then max(s.expires_at) end
            from headwater.subscriptions s where s.id = any(n.subscription_ids) and not s.paused
        )
    from headwater.deliveries d
        join headwater.notifications n on n.id = d.notification_id
        left join headwater.endpoints e on (e.owner, e.channel, e.target) = (d.owner, d.channel, d.target)
"""
TURNS: Final = """
    select owner, channel, target from headwater.endpoints
    where due_at <= %(now)s and disabled_reason is null and (held_until is null or held_until <= %(now)s)
        and (owner, channel, target) not in (
            select * from unnest(%(owners)s::text[], %(channels)s::text[], %(targets)s::text[]))
    order by due_at limit %(most)s
    for no key update skip locked
"""
"""Whose turn it is, locked. A statement of its own, before CLAIM in one transaction: CLAIM has to see what was made due
up to the lock. Who makes something due after it waits for the lock, and moves due_at back again."""
# One delivery more than may be claimed says whether some are left; they have their turn behind the others.
# Where none is left, the next that comes: by its time, or because a lease ran out.
CLAIM: Final = f"""
    with turn as materialized (
        select * from unnest(%(owners)s::text[], %(channels)s::text[], %(targets)s::text[]) t (owner, channel, target)
    ), due as materialized (
        select d.*, row_number() over (partition by t.owner, t.channel, t.target order by d.next_attempt_at, d.id) place
        from turn t cross join lateral (
            select id, owner, channel, target, next_attempt_at from headwater.deliveries w
            where w.owner = t.owner and w.channel = t.channel and w.target = t.target and w.state = 'pending'
                and w.next_attempt_at <= %(now)s and (w.claimed_until is null or w.claimed_until <= %(now)s)
            order by w.next_attempt_at, w.id limit %(per_endpoint)s + 1
            for no key update skip locked
        ) d
    ), taken as materialized (
        select id, owner, channel, target from due where place <= %(per_endpoint)s
        order by next_attempt_at, id limit %(most)s
    ), claimed as (
        update headwater.deliveries set claimed_until = %(until)s where id in (select id from taken)
    ), left_over as (
        select owner, channel, target from due where id not in (select id from taken)
    ), moved as (
        update headwater.endpoints e set due_at = case
            when (e.owner, e.channel, e.target) not in (select * from left_over) then least(
                (
                    select w.next_attempt_at from headwater.deliveries w
                    where w.owner = e.owner and w.channel = e.channel and w.target = e.target and w.state = 'pending'
                        and w.next_attempt_at > %(now)s
                    order by w.next_attempt_at limit 1
                ), (
                    select min(w.claimed_until) from headwater.deliveries w
                    where w.owner = e.owner and w.channel = e.channel and w.target = e.target and w.state = 'pending'
                        and w.next_attempt_at <= %(now)s and w.claimed_until > %(now)s
                ),
                case when (e.owner, e.channel, e.target) in (select owner, channel, target from taken)
                    then %(until)s::timestamptz end)
            when (e.owner, e.channel, e.target) in (select owner, channel, target from taken)
                then %(now)s::timestamptz
            else e.due_at end
        from turn t where (t.owner, t.channel, t.target) = (e.owner, e.channel, e.target)
    )
    {SELECTED} where d.id in (select id from taken) order by d.next_attempt_at, d.id
"""
RELEASE: Final = """
    with wanted as materialized (
        select id, owner, channel, target, next_attempt_at from headwater.deliveries
        where id = any(%(ids)s) and state = 'pending'
    ), locked as materialized (
        select owner, channel, target from headwater.endpoints
        where (owner, channel, target) in (select owner, channel, target from wanted)
        order by owner collate "C", channel collate "C", target collate "C" for no key update
    ), released as (
        update headwater.deliveries d set claimed_until = null
        from wanted w join locked l using (owner, channel, target) where d.id = w.id and d.state = 'pending'
    )
    update headwater.endpoints e set due_at = least(e.due_at, greatest(r.at, e.held_until))
    from (
        select owner, channel, target, min(next_attempt_at) as at from wanted join locked using (owner, channel, target)
        group by owner, channel, target
    ) r where (r.owner, r.channel, r.target) = (e.owner, e.channel, e.target)
"""
AGAIN: Final = """
    with tried as (
        update headwater.deliveries set attempts = attempts + 1, claimed_until = null, next_attempt_at = %(at)s,
            last_error = %(reason)s
        where id = %(id)s and state = 'pending' returning owner, channel, target
    )
    update headwater.endpoints e
    set due_at = least(e.due_at, greatest(%(at)s, e.held_until)), failing_since = coalesce(e.failing_since, %(now)s)
    from tried t where (t.owner, t.channel, t.target) = (e.owner, e.channel, e.target)
"""
HOLD: Final = """
    insert into headwater.endpoints (owner, channel, target, held_until, held_reason)
    values (%(owner)s, %(channel)s, %(target)s, %(until)s, %(reason)s)
    on conflict (owner, channel, target) do update set held_reason = excluded.held_reason,
        held_until = greatest(endpoints.held_until, excluded.held_until),
        due_at = case when endpoints.due_at is not null then greatest(endpoints.due_at, excluded.held_until) end
"""
DUE: Final = """
    with turn as (
        insert into headwater.endpoints (owner, channel, target, due_at)
        values (%(owner)s, %(channel)s, %(target)s, %(at)s)
        on conflict (owner, channel, target) do update
            set due_at = least(endpoints.due_at, greatest(excluded.due_at, endpoints.held_until))
        returning disabled_reason
    ), made as (
        insert into headwater.deliveries (notification_id, owner, channel, target, next_attempt_at, created_at, state,
            last_error, settled_at)
        select %(notification)s, %(owner)s, %(channel)s, %(target)s, %(at)s, %(at)s,
            case when disabled_reason is null then 'pending' else 'dead' end, coalesce(disabled_reason, ''),
            case when disabled_reason is not null then %(at)s end
        from turn returning id
    )
    select id from made
"""
"""A new delivery, and its endpoint's turn; a dead letter for one that is switched off."""
