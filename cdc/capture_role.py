"""The role that Debezium logs in as: it may read the published tables, beat the heart and signal, and nothing else.

Running it again takes away what is no longer wanted. Roles belong to the whole server, so only a role that carries
Headwater's comment is ever altered. The password reaches the server as a SCRAM verifier: neither the server's log nor
its statistics can hold the password itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, LiteralString

import psycopg
from psycopg import sql

from cdc.errors import SourceError
from cdc.events import TableName
from cdc.postgres import explained

ROLE_COMMENT: Final = "headwater: capture"

HEARTBEAT: Final = TableName("headwater", "heartbeat")
SIGNAL: Final = TableName("headwater", "signal")

_GRANTABLE: Final[dict[str, LiteralString]] = {p: p for p in ("USAGE", "SELECT", "UPDATE", "INSERT")}

_ROLE: Final = """
    select coalesce(shobj_description(oid, 'pg_authid'), ''), rolsuper, rolreplication, rolbypassrls
    from pg_roles where rolname = %s
"""
_GRANTED: Final = """
    select n.nspname, c.relname, a.privilege_type
    from pg_class c join pg_namespace n on n.oid = c.relnamespace cross join aclexplode(c.relacl) a
    where a.grantee = %(role)s::regrole and c.relkind in ('r', 'p', 'v', 'm', 'f')
    union all
    select n.nspname, '', a.privilege_type
    from pg_namespace n cross join aclexplode(n.nspacl) a
    where a.grantee = %(role)s::regrole
"""
_ROW_SECURITY: Final = """
    select exists (
        select from pg_class c join pg_namespace n on n.oid = c.relnamespace
        join unnest(%s::text[], %s::text[]) t (schema, name) on t.schema = n.nspname and t.name = c.relname
        where c.relrowsecurity)
"""


@dataclass(frozen=True, order=True, slots=True)
class Grant:
    """One privilege on a table, or on a schema where the name is empty."""

    schema: str
    name: str
    privilege: str

    def on(self) -> sql.Composed:
        if self.name:
            return sql.SQL("table {}").format(sql.Identifier(self.schema, self.name))
        return sql.SQL("schema {}").format(sql.Identifier(self.schema))


def wanted(tables: Sequence[TableName]) -> frozenset[Grant]:
    """All that the role is granted."""
    schemas = {Grant(table.schema, "", "USAGE") for table in tables}
    reads = {Grant(table.schema, table.name, "SELECT") for table in tables}
    beat = Grant(HEARTBEAT.schema, HEARTBEAT.name, "UPDATE")
    signal = Grant(SIGNAL.schema, SIGNAL.name, "INSERT")
    return frozenset(schemas | reads | {beat, signal})


def ensure_capture_role(conn: psycopg.Connection, user: str, password: str, tables: Sequence[TableName]) -> None:
    """Makes the role, or brings it to these tables and this password, in one transaction."""
    with explained(conn), conn.transaction():
        _claim(conn, user)
        conn.execute(_attributes(conn, user, password, bypass=_row_security(conn, tables)))
        database = sql.Identifier(conn.info.dbname)
        conn.execute(sql.SQL("grant connect on database {} to {}").format(database, sql.Identifier(user)))
        _bring_grants(conn, user, wanted(tables))


def drop_capture_role(conn: psycopg.Connection, user: str) -> None:
    """Takes the role's privileges in this database away, and the role itself; a role that is not there is fine."""
    with explained(conn), conn.transaction():
        if conn.execute(_ROLE, [user]).fetchone() is None:
            return
        _claim(conn, user)
        _bring_grants(conn, user, frozenset())
        role, database = sql.Identifier(user), sql.Identifier(conn.info.dbname)
        conn.execute(sql.SQL("revoke connect on database {} from {}").format(database, role))
        conn.execute(sql.SQL("drop role {}").format(role))


def _claim(conn: psycopg.Connection, user: str) -> None:
    """Makes the role if it is not there; refuses one that Headwater did not make."""
    row = conn.execute(_ROLE, [user]).fetchone()
    comment = sql.SQL("comment on role {} is {}").format(sql.Identifier(user), sql.Literal(ROLE_COMMENT))
    if row is None:
        conn.execute(sql.SQL("create role {}").format(sql.Identifier(user)))
        conn.execute(comment)
    elif row[0] != ROLE_COMMENT or row[1]:
        raise SourceError(
            f"role {user} is not Headwater's" if not row[1] else f"role {user} is a superuser",
            detail="it was there before, and altering it could lock somebody out",
            hint=f"choose another postgres.capture_user, or hand it over: {comment.as_string(conn)}",
        )


def _attributes(conn: psycopg.Connection, user: str, password: str, *, bypass: bool) -> sql.Composed:
    """Names only what must change: merely naming some attributes takes more privileges than a role's maker may have.

    `bypass`: row security would hide rows from the snapshot but not from the log, and the two must agree.
    """
    row = conn.execute(_ROLE, [user]).fetchone()
    assert row is not None, "claimed just before, in the same transaction"
    _, _, replicates, bypasses = row
    words: list[LiteralString] = ["login", "noinherit"]
    words += [] if replicates else ["replication"]
    words += [] if bypasses == bypass else ["bypassrls" if bypass else "nobypassrls"]
    verifier = conn.pgconn.encrypt_password(password.encode(), user.encode(), b"scram-sha-256").decode()
    return sql.SQL("alter role {} {} password {}").format(
        sql.Identifier(user), sql.SQL(" ").join(map(sql.SQL, words)), sql.Literal(verifier)
    )


def _row_security(conn: psycopg.Connection, tables: Sequence[TableName]) -> bool:
    names = [table.schema for table in tables], [table.name for table in tables]
    row = conn.execute(_ROW_SECURITY, names).fetchone()
    return bool(row and row[0])


def _bring_grants(conn: psycopg.Connection, user: str, goal: frozenset[Grant]) -> None:
    role = sql.Identifier(user)
    granted = frozenset(Grant(*row) for row in conn.execute(_GRANTED, {"role": role.as_string(conn)}))
    stained = {(extra.schema, extra.name) for extra in granted - goal}
    for schema, name in sorted(stained):
        conn.execute(sql.SQL("revoke all on {} from {}").format(Grant(schema, name, "ALL").on(), role))
    kept = {grant for grant in granted if (grant.schema, grant.name) not in stained}
    for grant in sorted(goal - kept):
        privilege = sql.SQL(_GRANTABLE[grant.privilege])
        conn.execute(sql.SQL("grant {} on {} to {}").format(privilege, grant.on(), role))
