"""Preflight's look at the chosen tables: can each be published, and does every value of it come through as it is?

`look_at_tables` asks Postgres; the findings on one table are pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import psycopg

from cdc.catalog import Table
from cdc.catalog_reader import load
from cdc.errors import HeadwaterError
from cdc.findings import Finding
from cdc.pgtypes import BREAKING_TYPES, full_identity_reason, unsupported_reason
from cdc.publication import GENERATED_COLUMNS_VERSION_MIN
from cdc.relations import Relation, identity_findings, members, passed_over, refusal, relations, resolve
from cdc.server import ServerFacts, stale_tables

FULL: Final = "f"


def look_at_tables(conn: psycopg.Connection, server: ServerFacts, patterns: Sequence[str]) -> list[Finding]:
    known = relations(conn)
    try:
        chosen = resolve(patterns, known)
    except HeadwaterError as error:
        return [Finding("fail", "tables", ". ".join(filter(None, (error.fact, error.detail))), error.hint)]
    described = load(conn, [relation.table for relation in chosen]).by_name
    findings = [_skipped(relation) for relation in passed_over(patterns, known)]
    for relation in chosen:
        findings += table_findings(relation, known, server)
        findings += type_findings(relation, members(relation, known), described[relation.table])
    findings += _database_findings(conn, server)
    bad = sum(finding.level == "fail" for finding in findings)
    return [*findings, Finding("ok", "tables", f"{len(chosen)} chosen, {bad} problems")]


def table_findings(relation: Relation, known: Sequence[Relation], server: ServerFacts) -> Iterator[Finding]:
    """What is to be said of one table as a whole."""
    name = f"table {relation.table}"
    yield from identity_findings(relation, known)
    if not relation.owned:
        detail = "the user does not own it, and only owners may publish"
        yield Finding("fail", name, detail, f"alter table {relation.quoted} owner to …, or use its owner in [postgres]")
    if relation.row_security and not (server.superuser or server.bypasses_row_security):
        detail = "row security would hide rows from the snapshot"
        yield Finding("fail", name, detail, "give [postgres] a user with BYPASSRLS, who can pass it on")
    if relation.virtual_columns:
        detail = f"virtual generated columns are not in the log: {', '.join(relation.virtual_columns)}"
        yield Finding("warn", name, detail, "make them stored, or compute them in the view")
    if relation.stored_columns and server.version < GENERATED_COLUMNS_VERSION_MIN:
        detail = f"this Postgres does not log generated columns: {', '.join(relation.stored_columns)}"
        yield Finding("warn", name, detail, "compute them in the view, or upgrade to Postgres 18")


def type_findings(relation: Relation, parts: Sequence[Relation], table: Table) -> Iterator[Finding]:
    """Columns whose values would be missing or wrong in the log."""
    name = f"table {relation.table}"
    narrow = [part for part in parts if part.replica_identity != FULL]
    for column in table.columns:
        what = f"column {column.name} ({column.type})"
        if reason := unsupported_reason(column.type):
            yield Finding("fail", name, f"{what}: {reason}", "change its type, or leave the table out of `tables`")
        elif narrow and (reason := full_identity_reason(column.type)):
            hint = "; ".join(f"alter table {part.quoted} replica identity full" for part in narrow)
            yield Finding("fail", name, f"{what}: {reason}", hint)


def _skipped(relation: Relation) -> Finding:
    detail = f"not captured: {refusal(relation)}"
    return Finding("warn", f"table {relation.table}", detail, "name the wanted tables one by one in `tables`")


def _database_findings(conn: psycopg.Connection, server: ServerFacts) -> Iterator[Finding]:
    for (type_text,) in conn.execute(BREAKING_TYPES):
        detail = "a domain over an enum or an enum without labels stops the connector at its start, used or not"
        yield Finding("fail", f"type {type_text}", detail, "alter type … add value …, or drop it")
    if server.migrated and (stale := stale_tables(conn)):
        yield Finding(
            "warn", "catalog", f"no longer describes {', '.join(stale)}", "select headwater.refresh_catalog()"
        )
