"""What the source's server says about itself that matters to capture: one query, one value. Preflight judges it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg.rows import class_row

from cdc.addresses import Source

# current_setting with `missing_ok`, and rows read through jsonb, because older servers know fewer of these.
_FACTS: Final = """
    select
        current_setting('server_version_num')::int as version,
        current_setting('wal_level') as wal_level,
        pg_is_in_recovery() as in_recovery,
        current_setting('server_encoding') as encoding,
        current_setting('max_replication_slots')::int as slots_max,
        (select count(*) from pg_replication_slots)::int as slots_used,
        current_setting('max_wal_senders')::int as senders_max,
        (select count(*) from pg_stat_replication)::int as senders_used,
        coalesce(current_setting('max_slot_wal_keep_size', true), '-1') as wal_keep_max,
        u.rolsuper as superuser, u.rolcreaterole as creates_roles, u.rolreplication as replicates,
        u.rolbypassrls as bypasses_row_security,
        has_database_privilege(current_database(), 'CREATE') as creates_in_database,
        exists (select from pg_publication where pubname = %(publication)s) as publication_exists,
        current_database() as database,
        s.slot_name is not null as slot_exists,
        coalesce(s.database, '') as slot_database,
        coalesce(s.plugin, '') as slot_plugin,
        coalesce(s.wal_status, '') as slot_wal_status,
        coalesce(to_jsonb(s) ->> 'invalidation_reason', '') as slot_invalidation,
        (select a.application_name from pg_stat_replication a where a.pid = s.active_pid) as slot_reader,
        to_regclass('headwater.catalog') is not null as migrated,
        (
            select count(*) from pg_event_trigger
            where evtname in ('headwater_ddl', 'headwater_drop') and evtenabled <> 'D'
        )::int as event_triggers
    from pg_roles u left join pg_replication_slots s on s.slot_name = %(slot)s
    where u.rolname = current_user
"""
_STALE: Final = """
    select c.schema_name || '.' || c.table_name
    from headwater.catalog c left join lateral headwater.describe(c.relation) d on true
    where (d.schema_name, d.table_name, d.columns, d.key_columns, d.replica_identity)
        is distinct from (c.schema_name, c.table_name, c.columns, c.key_columns, c.replica_identity)
    order by 1
"""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    version: int
    """As in server_version_num: 180006 is 18.6."""
    wal_level: str = "logical"
    in_recovery: bool = False
    encoding: str = "UTF8"
    slots_max: int = 10
    slots_used: int = 0
    senders_max: int = 10
    senders_used: int = 0
    wal_keep_max: str = "10GB"
    superuser: bool = True
    creates_roles: bool = True
    replicates: bool = True
    bypasses_row_security: bool = True
    creates_in_database: bool = True
    publication_exists: bool = False
    database: str = ""
    slot_exists: bool = False
    slot_database: str = ""
    slot_plugin: str = ""
    slot_wal_status: str = ""
    slot_invalidation: str = ""
    slot_reader: str | None = None
    """The application that is reading the slot now."""
    migrated: bool = True
    event_triggers: int = 2


def facts(conn: psycopg.Connection, source: Source) -> ServerFacts:
    with conn.cursor(row_factory=class_row(ServerFacts)) as cursor:
        row = cursor.execute(_FACTS, {"slot": source.slot, "publication": source.publication}).fetchone()
    assert row is not None, "current_user is always in pg_roles"
    return row


def stale_tables(conn: psycopg.Connection) -> list[str]:
    """Published tables that no longer look as headwater.catalog says."""
    return [name for (name,) in conn.execute(_STALE)]
