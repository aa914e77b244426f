"""A row of the canary that nothing ever changes: the one by which an incremental snapshot says that it is complete.

Debezium leaves a row out of a snapshot when it changes while it is read, and the first row is ticked all the time.
"""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

UP = (
    "alter table headwater.canary drop constraint canary_id_check",
    "alter table headwater.canary alter column number drop not null",
    "alter table headwater.canary add constraint canary_rows check (id = 1 and number is not null or id = 2)",
    "insert into headwater.canary values (2, null, now())",
)
DOWN = (
    "delete from headwater.canary where id = 2",
    "alter table headwater.canary drop constraint canary_rows",
    "alter table headwater.canary alter column number set not null",
    "alter table headwater.canary add constraint canary_id_check check (id = 1)",
)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)
