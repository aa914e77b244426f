"""A number for each of an owner's notifications, in the order in which they were made.

News is numbered when it matches, but a digest of old news is told after an instant message of newer ones: a feed that
goes on from the last number it saw needs one of its own.
"""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

UP = (
    "alter table headwater.owners add column last_notification bigint not null default 0",
    "alter table headwater.notifications add column sequence bigint",
    """
    update headwater.notifications n set sequence = m.number
    from (
        select id, row_number() over (partition by owner order by created_at, id) as number
        from headwater.notifications
    ) m where m.id = n.id
    """,
    """
    update headwater.owners o set last_notification = n.most
    from (select owner, max(sequence) as most from headwater.notifications group by owner) n where n.owner = o.owner
    """,
    "alter table headwater.notifications alter column sequence set not null, add unique (owner, sequence)",
)
DOWN = (
    "alter table headwater.notifications drop column sequence",
    "alter table headwater.owners drop column last_notification",
)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)
