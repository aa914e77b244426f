"""How far saved searches are matched, and where their owners are told.

- subscriptions: the log says what a search was before it was changed, so it is known what it was at any position of the
  log (alerts/book.py).
- alert_places: how far each view is matched, as a sink keeps its mark (alerts/sink.py), and since where.
- endpoints: held for a while, or switched off; deliveries: when each was settled (alerts/delivery/postgres_store.py).
"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

UP = (
    "alter table headwater.subscriptions replica identity full",
    """
    create table headwater.alert_places (
        view text,
        generation integer,
        mark json,
        is_shown boolean not null default false,
        is_silent boolean not null,
        first_offset bigint,
        primary key (view, generation)
    )
    """,
    "alter table headwater.endpoints add column held_until timestamptz, add column held_reason text",
    "alter table headwater.deliveries add column settled_at timestamptz",
)
DOWN = (
    "alter table headwater.deliveries drop column settled_at",
    "alter table headwater.endpoints drop column held_until, drop column held_reason",
    "drop table headwater.alert_places",
    "alter table headwater.subscriptions replica identity default",
)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)
