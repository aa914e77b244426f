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
)
DOWN = ("drop table headwater.numbering",)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)
