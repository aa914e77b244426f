"""Endpoints take turns: a claim of deliveries costs what it claims, however much waits.

- deliveries.owner: with channel and target it names the endpoint, so that what waits for one is found by an index.
- endpoints.due_at: nothing of the endpoint can be claimed before; null while nothing waits (alerts/delivery/turns.py).
- told_values.told_at: since when; old ones are forgotten, as their rows are (alerts/pruning.py).
- endpoints.failing_since: the first failure since the last success, for switching off what has failed for days.
"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0010"
branch_labels = None
depends_on = None

UP = (
    "alter table headwater.deliveries add column owner text",
    """
    update headwater.deliveries d set owner = n.owner from headwater.notifications n where n.id = d.notification_id
    """,
    "alter table headwater.deliveries alter column owner set not null",
    "alter table headwater.endpoints add column due_at timestamptz, add column failing_since timestamptz",
    """
    insert into headwater.endpoints (owner, channel, target, due_at)
    select owner, channel, target, min(next_attempt_at) filter (where state = 'pending') from headwater.deliveries
    group by owner, channel, target
    on conflict (owner, channel, target) do update set due_at = excluded.due_at
    """,
    """
    create index deliveries_waiting on headwater.deliveries (owner, channel, target, next_attempt_at, id)
    where state = 'pending'
    """,
    "drop index headwater.deliveries_due",
    "alter table headwater.told_values add column told_at timestamptz not null default now()",
    "create index endpoints_due on headwater.endpoints (due_at) where disabled_reason is null",
)
DOWN = (
    "alter table headwater.told_values drop column told_at",
    "drop index headwater.endpoints_due",
    "create index deliveries_due on headwater.deliveries (next_attempt_at) where state = 'pending'",
    "drop index headwater.deliveries_waiting",
    "alter table headwater.endpoints drop column due_at, drop column failing_since",
    "alter table headwater.deliveries drop column owner",
)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)
