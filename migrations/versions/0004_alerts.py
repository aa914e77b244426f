"""Saved searches and what becomes of them: subscriptions, the outbox, notifications and their deliveries.

Only `subscriptions` is meant to travel down the log: the matcher learns of a saved search in the order of the commits.
Everything else is derived from it and stays here.

- owners: a row to lock per person. It counts their sequence, so numbers become visible in their order: who takes the
  next one waits for the commit of the one before.
- outbox: one row per subscription, item, event and position. `position` names the epoch, `version` the change in the
  view's topic. Pending until `told_at` or `dropped_reason` is set; `due_at` is when to look at it.
- outbox_marks: how far matching is, moved in the transaction of the rows that it stands for.
- told_values: what a person was last told of a watched column, so that a price at a threshold is told once.
- endpoints: where an owner is told, with the secrets that what is sent there is signed with, the newest first.
- api_key.owner: whose saved searches a key may touch (headwater/api/owners.py).
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

SUBSCRIPTIONS = """
    create table headwater.subscriptions (
        id bigint generated always as identity primary key,
        owner text not null check (owner <> ''),
        view text not null,
        query jsonb not null,
        events text[] not null check (
            cardinality(events) > 0 and events <@ array['entered', 'left', 'changed', 'dropped', 'rose']),
        columns text[] not null default '{}',
        watched_column text,
        threshold numeric check (threshold >= 0),
        threshold_unit text not null default 'amount' check (threshold_unit in ('amount', 'percent')),
        channel text not null check (channel in ('feed', 'webhook', 'email', 'kafka')),
        target text not null default '',
        frequency text not null default 'instant' check (frequency in ('instant', 'hourly', 'daily', 'weekly')),
        time_zone text not null default 'UTC',
        digest_hour smallint not null default 8 check (digest_hour between 0 and 23),
        digest_weekday smallint not null default 1 check (digest_weekday between 1 and 7),
        quiet_from time,
        quiet_to time,
        cap_per_day integer check (cap_per_day > 0),
        label text not null default '',
        paused boolean not null default false,
        unsubscribed_at timestamptz,
        expires_at timestamptz,
        unsubscribe_token text not null unique,
        created_at timestamptz not null default now(),
        updated_at timestamptz not null default now(),
        check ((quiet_from is null) = (quiet_to is null) and (quiet_from is null or quiet_from <> quiet_to)),
        check (watched_column is not null or not events && array['dropped', 'rose'])
    )
"""

OUTBOX = """
    create table headwater.outbox (
        id bigint generated always as identity primary key,
        owner text not null,
        sequence bigint not null,
        subscription_id bigint not null,
        view text not null,
        key text not null,
        key_hash bytea not null,
        event text not null check (event in ('entered', 'left', 'changed', 'dropped', 'rose')),
        version bigint not null,
        position text not null,
        before json,
        after json,
        reason text not null default '',
        committed_at timestamptz,
        recorded_at timestamptz not null default now(),
        due_at timestamptz not null,
        told_at timestamptz,
        notification_id text,
        dropped_reason text,
        unique (subscription_id, key_hash, event, position),
        unique (owner, sequence)
    )
"""

NOTIFICATIONS = """
    create table headwater.notifications (
        id text primary key,
        owner text not null,
        channel text not null,
        target text not null,
        subscription_ids bigint[] not null,
        first_sequence bigint not null,
        last_sequence bigint not null,
        events integer not null,
        body json not null,
        unsubscribe_token text not null unique,
        created_at timestamptz not null default now()
    )
"""

DELIVERIES = """
    create table headwater.deliveries (
        id bigint generated always as identity primary key,
        notification_id text not null references headwater.notifications on delete cascade,
        channel text not null,
        target text not null,
        state text not null default 'pending' check (state in ('pending', 'delivered', 'suppressed', 'dead')),
        attempts integer not null default 0,
        next_attempt_at timestamptz not null default now(),
        claimed_until timestamptz,
        last_error text not null default '',
        delivered_at timestamptz,
        created_at timestamptz not null default now(),
        unique (notification_id, channel, target)
    )
"""

UP = (
    "alter table headwater.api_key add column owner text not null default ''",
    SUBSCRIPTIONS,
    "create index subscriptions_owner on headwater.subscriptions (owner, id)",
    "create index subscriptions_view on headwater.subscriptions (view)",
    "create table headwater.owners (owner text primary key, last_sequence bigint not null default 0)",
    OUTBOX,
    "create index outbox_due on headwater.outbox (due_at, owner) where told_at is null and dropped_reason is null",
    "create index outbox_pending on headwater.outbox (owner, view, key_hash, version)"
    " where told_at is null and dropped_reason is null",
    """
    create table headwater.outbox_marks (
        view text primary key,
        topic_id text not null,
        next_offset bigint not null,
        moved_at timestamptz not null default now()
    )
    """,
    """
    create table headwater.told_values (
        subscription_id bigint references headwater.subscriptions on delete cascade,
        key_hash bytea,
        value numeric not null,
        primary key (subscription_id, key_hash)
    )
    """,
    NOTIFICATIONS,
    "create index notifications_owner on headwater.notifications (owner, channel, target, created_at)",
    DELIVERIES,
    "create index deliveries_due on headwater.deliveries (next_attempt_at) where state = 'pending'",
    """
    create table headwater.endpoints (
        owner text,
        channel text,
        target text,
        secrets text[] not null default '{}',
        disabled_reason text,
        created_at timestamptz not null default now(),
        primary key (owner, channel, target)
    )
    """,
    """
    create table headwater.suppressions (
        channel text,
        target text,
        reason text not null check (reason in ('bounced', 'unsubscribed', 'complained', 'gone')),
        detail text not null default '',
        created_at timestamptz not null default now(),
        primary key (channel, target)
    )
    """,
    """
    create table headwater.quiet (
        id bigint generated always as identity primary key,
        view text,
        reason text not null default '',
        began_at timestamptz not null default clock_timestamp(),
        ended_at timestamptz,
        check (ended_at >= began_at)
    )
    """,
)

TABLES = (
    "quiet", "suppressions", "endpoints", "deliveries", "notifications", "told_values", "outbox_marks", "outbox",
    "owners", "subscriptions",
)  # fmt: skip


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for table in TABLES:
        op.execute(f"drop table headwater.{table}")
    op.execute("alter table headwater.api_key drop column owner")
