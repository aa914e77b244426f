"""Quiet stretches travel down the log: what was committed within one is known by its order, not by a clock.

The log says what a stretch was before it was ended, so whether it went on is known at any position (alerts/quiet.py).
"""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("alter table headwater.quiet replica identity full")


def downgrade() -> None:
    op.execute("alter table headwater.quiet replica identity default")
