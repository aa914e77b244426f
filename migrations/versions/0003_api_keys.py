"""API keys: who may read, subscribe, administer. Only a hash of each key is kept.

Not captured: the publication names Headwater's own tables one by one.
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        create table headwater.api_key (
            id text primary key,
            hash bytea not null unique,
            scopes text[] not null check (scopes <@ array['read', 'alerts', 'admin'] and cardinality(scopes) > 0),
            label text not null default '',
            created_at timestamptz not null default now(),
            expires_at timestamptz,
            revoked_at timestamptz
        )
        """
    )


def downgrade() -> None:
    op.execute("drop table headwater.api_key")
