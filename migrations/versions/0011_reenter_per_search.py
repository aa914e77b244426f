"""How soon a row that comes back is no news, search by search; null: as the service has it (alerts.reenter_s)."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("alter table headwater.subscriptions add column reenter_s integer check (reenter_s >= 0)")


def downgrade() -> None:
    op.execute("alter table headwater.subscriptions drop column reenter_s")
