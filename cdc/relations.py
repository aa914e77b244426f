"""The tables of the source as capture sees them: which ones a pattern means, and which of them can be captured.

`relations` asks Postgres once; everything else here decides on what it answered. Publication and preflight share these
decisions, so that what preflight lets through can be published and never breaks the user's own writes.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from cdc.errors import ConfigurationError
from cdc.events import TableName
from cdc.findings import Finding

OWN_SCHEMA: Final = "headwater"
SUBSCRIPTIONS: Final = TableName(OWN_SCHEMA, "subscriptions")
QUIET: Final = TableName(OWN_SCHEMA, "quiet")
PRIVATE: Final = tuple((SUBSCRIPTIONS, column) for column in ("target", "unsubscribe_token"))
"""Columns of our own that are nobody's business downstream: they stay out of the log, and so out of its archive."""
OWN_TABLES: Final = (
    *(TableName(OWN_SCHEMA, name) for name in ("canary", "catalog", "heartbeat")),
    QUIET,
    TableName(OWN_SCHEMA, "signal"),
    SUBSCRIPTIONS,
)

TABLE: Final = "r"
PARTITIONED: Final = "p"
FOREIGN: Final = "f"
_KINDS: Final = {
    TABLE: "table",
    PARTITIONED: "partitioned table",
    FOREIGN: "foreign table",
    "v": "view",
    "m": "materialized view",
}
_UNLOGGED: Final = "u"
_TEMPORARY: Final = "t"

# usable_index: the index that the replica identity names is one that Postgres can log old keys by.
_RELATIONS: Final = """
    select
        c.oid::bigint as oid, n.nspname as schema, c.relname as name, c.relkind::text as kind,
        c.relpersistence::text as persistence, c.relreplident::text as replica_identity,
        case when c.relispartition then pg_partition_root(c.oid)::oid::bigint end as root,
        exists (
            select from pg_index i
            where i.indrelid = c.oid and i.indisvalid and i.indimmediate
                and case c.relreplident when 'i' then i.indisreplident else i.indisprimary end
        ) as usable_index,
        exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary) as has_primary_key,
        pg_has_role(c.relowner, 'USAGE') as owned,
        c.relrowsecurity as row_security,
        array(
            select a.attname::text from pg_attribute a
            where a.attrelid = c.oid and a.attgenerated::text = 's' and not a.attisdropped order by a.attnum
        ) as stored_columns,
        array(
            select a.attname::text from pg_attribute a
            where a.attrelid = c.oid and a.attgenerated::text = 'v' and not a.attisdropped order by a.attnum
        ) as virtual_columns
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p', 'f', 'v', 'm')
        and n.nspname <> 'information_schema' and not starts_with(n.nspname, 'pg_')
    order by n.nspname, c.relname
"""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, or something that a person may take for one."""

    oid: int
    schema: str
    name: str
    kind: str = TABLE
    persistence: str = "p"
    replica_identity: str = "d"
    root: int | None = None
    """For a partition, the partitioned table at the top."""
    usable_index: bool = True
    has_primary_key: bool = True
    owned: bool = True
    row_security: bool = False
    stored_columns: Sequence[str] = ()
    virtual_columns: Sequence[str] = ()

    @property
    def table(self) -> TableName:
        return TableName(self.schema, self.name)

    @property
    def quoted(self) -> str:
        return sql.Identifier(self.schema, self.name).as_string(None)


def relations(conn: psycopg.Connection) -> list[Relation]:
    with conn.cursor(row_factory=class_row(Relation)) as cursor:
        return cursor.execute(_RELATIONS).fetchall()


def resolve(patterns: Sequence[str], known: Sequence[Relation]) -> tuple[Relation, ...]:
    """The tables that the patterns name, in the order of their names, Headwater's own left out.

    `*` stands for any letters. A table that is named in full must be one that can be captured; under a `*`, views,
    foreign, unlogged and temporary tables are passed over. Partitions come with the table that they are part of.
    """
    chosen: dict[TableName, Relation] = {}
    for pattern in patterns:
        found = [relation for relation in known if _matches(pattern, relation) and relation.schema != OWN_SCHEMA]
        if "*" in pattern:
            found = [relation for relation in found if not refusal(relation)]
        if not found:
            raise _unknown(pattern, known)
        for relation in found:
            if reason := refusal(relation):
                raise ConfigurationError(f"{relation.table} cannot be captured", detail=reason, hint=_hint(relation))
            chosen[relation.table] = relation
    return tuple(chosen[table] for table in sorted(chosen))


def passed_over(patterns: Sequence[str], known: Sequence[Relation]) -> tuple[Relation, ...]:
    """Tables with rows of their own that a `*` would have meant but that cannot be captured."""
    tables = (
        r for r in known if r.kind in (TABLE, FOREIGN) and r.root is None and r.schema != OWN_SCHEMA and refusal(r)
    )
    return tuple(r for r in tables if any("*" in pattern and _matches(pattern, r) for pattern in patterns))


def refusal(relation: Relation) -> str | None:
    """Why this relation has no changes in the write-ahead log under its own name, if so."""
    if relation.kind not in (TABLE, PARTITIONED):
        return f"it is a {_KINDS[relation.kind]}: its changes are not in the write-ahead log"
    if relation.root is not None:
        return "it is a partition, and its rows are logged as those of the table it is part of"
    if relation.persistence == _UNLOGGED:
        return "it is unlogged: its changes are not in the write-ahead log"
    if relation.persistence == _TEMPORARY:
        return "it is temporary"
    return None


def identity_findings(relation: Relation, known: Iterable[Relation]) -> list[Finding]:
    """What stands against publishing updates and deletes: Postgres would refuse the user's own statements."""
    return [finding for member in members(relation, known) for finding in _identity(member)]


def members(relation: Relation, known: Iterable[Relation]) -> list[Relation]:
    """The relations that hold its rows: its partitions, or itself. Each has a replica identity of its own."""
    if relation.kind != PARTITIONED:
        return [relation]
    return [other for other in known if other.root == relation.oid and other.kind in (TABLE, FOREIGN)]


def _identity(relation: Relation) -> list[Finding]:
    name = f"table {relation.table}"
    alter = f"alter table {relation.quoted}"
    if relation.kind == FOREIGN:
        return [Finding("fail", name, "it is a foreign table: its changes are not in the log", f"{alter} … detach it")]
    if relation.replica_identity == "f":
        if relation.virtual_columns:
            columns = ", ".join(relation.virtual_columns)
            detail = f"replica identity full with virtual generated columns ({columns}): Postgres would refuse updates"
            return [Finding("fail", name, detail, f"{alter} replica identity default, or make the columns stored")]
        return []
    if relation.usable_index and relation.replica_identity in ("d", "i"):
        return []
    if relation.has_primary_key and relation.replica_identity == "n":
        detail = "replica identity nothing: Postgres would refuse updates and deletes"
        return [Finding("fail", name, detail, f"{alter} replica identity default")]
    if relation.has_primary_key and relation.replica_identity == "d":
        detail = "its primary key is deferrable or invalid and identifies no row in the log"
    else:
        detail = "no primary key and no other replica identity: Postgres would refuse updates and deletes"
    return [Finding("fail", name, detail, f"{alter} replica identity full")]


def _matches(pattern: str, relation: Relation) -> bool:
    full = pattern if "." in pattern else f"public.{pattern}"
    return re.fullmatch(".*".join(map(re.escape, full.split("*"))), f"{relation.schema}.{relation.name}") is not None


def _unknown(pattern: str, known: Sequence[Relation]) -> ConfigurationError:
    names = [str(relation.table) for relation in known if relation.schema != OWN_SCHEMA and not refusal(relation)]
    near = difflib.get_close_matches(pattern if "." in pattern else f"public.{pattern}", names, n=1)
    what = "no table to capture matches" if "*" in pattern else "no such table:"
    hint = f"did you mean {near[0]}?" if near else "see `tables` in headwater config show"
    return ConfigurationError(f"{what} {pattern}", detail=f"{len(names)} tables are there", hint=hint)


def _hint(relation: Relation) -> str:
    if relation.root is not None:
        return "name the partitioned table instead"
    if relation.persistence == _UNLOGGED:
        return f"alter table {relation.quoted} set logged"
    return "name the tables that it is made from instead"
