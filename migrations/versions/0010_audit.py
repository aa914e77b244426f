"""The audit log: every administrative action, when it began and how it ended. Rows are added and never changed.

Two rows an action, `began` and `done` or `failed`, so that one that was killed half-way is there as well. Not captured:
the publication names Headwater's own tables one by one.
"""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0006"
branch_labels = None
depends_on = None

UP = (
    """
    create table headwater.audit (
        id bigint generated always as identity primary key,
        action uuid not null,
        event text not null check (event in ('began', 'done', 'failed')),
        at timestamptz not null,
        actor text not null check (actor <> ''),
        host text not null,
        verb text not null check (verb <> ''),
        arguments jsonb not null default '{}',
        reason text not null default '',
        result jsonb,
        recorded_at timestamptz not null default clock_timestamp(),
        unique (action, event)
    )
    """,
    "create index audit_at on headwater.audit (at)",
    """
    create function headwater.refuse_audit_change() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
    begin
        raise exception using
            errcode = 'insufficient_privilege',
            message = 'headwater.audit is append-only: ' || lower(tg_op) || ' is refused';
    end
    $$
    """,
    """
    create trigger append_only before update or delete or truncate on headwater.audit
        for each statement execute function headwater.refuse_audit_change()
    """,
)
DOWN = (
    "drop table headwater.audit",
    "drop function headwater.refuse_audit_change()",
)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)
