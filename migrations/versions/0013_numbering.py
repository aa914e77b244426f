"""Which history the numbers of what owners are told belong to (alerts/numbering.py).

A database that was put back gives no number again that somebody has had.
"""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

UP = (
    """
    create table headwater.numbering (
        is_one boolean primary key default true check (is_one),
        history text,
        first bigint not null default 0
    )
    """,
    """
    insert into headwater.numbering (history) select concat_ws('/', (select system_identifier from pg_control_system()),
        left(pg_walfile_name(pg_current_wal_lsn()), 8), 'headwater.numbering'::regclass::oid)
    """,
    # Nobody knows whether a database in which somebody was told something is as it was then, or was put back since.
    """
    update headwater.numbering set first = (extract(epoch from clock_timestamp()) * 1000000)::bigint
        where exists (select from headwater.owners)
    """,
    """
    update headwater.owners o set last_sequence = greatest(o.last_sequence, n.first),
        last_notification = greatest(o.last_notification, n.first) from headwater.numbering n
    """,
)
DOWN = ("drop table headwater.numbering",)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)
