"""What Postgres hands out of its log: the publication, brought to what is wanted and else left alone.

It lists its tables one by one, so nothing leaves the database that nobody chose. Needs a user who owns the tables. The
role that may read them is capture_role.py's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, LiteralString

import psycopg
from psycopg import sql

from cdc.addresses import Source
from cdc.capture_role import drop_capture_role, ensure_capture_role
from cdc.errors import PreflightError, SourceError
from cdc.events import TableName
from cdc.postgres import explained
from cdc.relations import OWN_TABLES, identity_findings, relations, resolve

__all__ = [
    "PublicationChange",
    "drop_capture_role",
    "drop_publication",
    "ensure_capture_role",
    "ensure_publication",
    "published",
]

GENERATED_COLUMNS_VERSION_MIN: Final = 180000
"""From here on Postgres can publish stored generated columns."""

_PUBLISHED: Final = """
    select n.nspname, c.relname, r.prqual is not null or r.prattrs is not null
    from pg_publication p join pg_publication_rel r on r.prpubid = p.oid
    join pg_class c on c.oid = r.prrelid join pg_namespace n on n.oid = c.relnamespace
    where p.pubname = %s
    order by n.nspname, c.relname
"""
# Through jsonb, because older servers have fewer of these columns.
_OPTIONS: Final = """
    select puballtables, pubinsert and pubupdate and pubdelete and pubtruncate and pubviaroot
        and coalesce(to_jsonb(p) ->> 'pubgencols', 's') = 's'
    from pg_publication p where pubname = %s
"""


@dataclass(frozen=True, slots=True)
class PublicationChange:
    """What `ensure_publication` did."""

    tables: tuple[TableName, ...]
    created: bool
    added: tuple[TableName, ...] = ()
    removed: tuple[TableName, ...] = ()
    altered: bool = False


def ensure_publication(conn: psycopg.Connection, source: Source, tables: Sequence[str]) -> PublicationChange:
    """Publishes exactly the tables that the patterns name, and Headwater's own, in one transaction.

    Refuses tables whose updates Postgres would refuse once they are published. The catalog follows in the same
    transaction, so the log describes a table before it carries its first change.
    """
    with explained(conn), conn.transaction():
        wanted = _wanted(conn, tables)
        before = published(conn, source)
        options = conn.execute(_OPTIONS, [source.publication]).fetchone()
        if options and options[0]:
            raise SourceError(
                f"publication {source.publication} is for all tables",
                detail="Headwater publishes the chosen tables only",
                hint=f"drop publication {source.publication}",
            )
        current = bool(options and options[1] and not _narrowed(conn, source))
        change = PublicationChange(
            tables=wanted,
            created=options is None,
            added=tuple(table for table in wanted if table not in before),
            removed=tuple(table for table in before if table not in wanted),
            altered=options is not None and not current,
        )
        for statement in _statements(source, change, conn.info.server_version):
            conn.execute(statement)
        conn.execute("select headwater.refresh_catalog()")
        return change


def published(conn: psycopg.Connection, source: Source) -> tuple[TableName, ...]:
    """The tables of the publication, in the order of their names; none where there is no publication."""
    return tuple(TableName(schema, name) for schema, name, _ in conn.execute(_PUBLISHED, [source.publication]))


def drop_publication(conn: psycopg.Connection, source: Source) -> None:
    with explained(conn):
        conn.execute(sql.SQL("drop publication if exists {}").format(sql.Identifier(source.publication)))


def _wanted(conn: psycopg.Connection, patterns: Sequence[str]) -> tuple[TableName, ...]:
    known = relations(conn)
    if missing := set(OWN_TABLES) - {relation.table for relation in known}:
        names = ", ".join(map(str, sorted(missing)))
        raise SourceError("the database is not migrated", detail=f"missing: {names}", hint="headwater migrate up")
    chosen = resolve(patterns, known)
    if findings := [finding for relation in chosen for finding in identity_findings(relation, known)]:
        detail = "; ".join(f"{finding.name}: {finding.detail}" for finding in findings)
        hints = "; ".join(finding.hint for finding in findings)
        raise PreflightError("some tables cannot be captured as they are", detail=detail, hint=hints)
    return tuple(sorted({relation.table for relation in chosen} | set(OWN_TABLES)))


def _narrowed(conn: psycopg.Connection, source: Source) -> bool:
    """Whether somebody has put a row filter or a column list on the publication."""
    return any(narrowed for _, _, narrowed in conn.execute(_PUBLISHED, [source.publication]))


def _statements(source: Source, change: PublicationChange, server_version: int) -> Iterator[sql.Composed]:
    name = sql.Identifier(source.publication)
    tables = sql.SQL(", ").join(sql.SQL("only ") + sql.Identifier(t.schema, t.name) for t in change.tables)
    options: LiteralString = "publish = 'insert, update, delete, truncate', publish_via_partition_root = true"
    if server_version >= GENERATED_COLUMNS_VERSION_MIN:
        options += ", publish_generated_columns = stored"
    if change.created:
        yield (
            sql.SQL("create publication {} for table {} with (").format(name, tables) + sql.SQL(options) + sql.SQL(")")
        )
        return
    if change.altered:
        yield sql.SQL("alter publication {} set (").format(name) + sql.SQL(options) + sql.SQL(")")
    if change.altered or change.added or change.removed:
        yield sql.SQL("alter publication {} set table {}").format(name, tables)
