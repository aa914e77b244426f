"""Heartbeat, signal and canary: three small tables that travel down the same log as the user's.

- heartbeat: updated by the connector, so that the slot advances while the captured tables are quiet.
- signal: rows inserted here tell the connector what to do (incremental snapshots).
- canary: a number that grows by exactly one a commit. A reader of the log who sees n and then anything but n + 1 has
  proof of a gap or a repeat, whatever the connector says. It is counted in its row and not by a Postgres sequence: a
  sequence keeps numbers of rolled-back transactions and hands them out in another order than that of the commits.
"""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

UP = (
    """
    create table headwater.heartbeat (
        id integer primary key check (id = 1),
        beat_at timestamptz not null,
        beats bigint not null
    )
    """,
    "insert into headwater.heartbeat values (1, now(), 0)",
    "create table headwater.signal (id varchar(64) primary key, type varchar(32) not null, data text)",
    """
    create table headwater.canary (
        id integer primary key check (id = 1),
        number bigint not null,
        written_at timestamptz not null
    )
    """,
    "insert into headwater.canary values (1, 0, now())",
    """
    create function headwater.tick_canary() returns bigint
    language sql set search_path = pg_catalog, pg_temp
    begin atomic
        update headwater.canary set number = number + 1, written_at = clock_timestamp() where id = 1 returning number;
    end
    """,
    "revoke execute on function headwater.tick_canary() from public",
)

DOWN = (
    "drop function headwater.tick_canary()",
    "drop table headwater.canary",
    "drop table headwater.signal",
    "drop table headwater.heartbeat",
)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)
