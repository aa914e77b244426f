"""Before capture starts: is the source set up so that every change reaches the log, and nothing of the user's breaks?

`check` only looks; it changes nothing and never raises for what it finds. `require` raises one error that has all
that stands in the way, so that a person fixes it in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from psycopg import sql

from cdc.addresses import PostgresAddress, Source
from cdc.errors import CaptureGap, HeadwaterError, PreflightError
from cdc.findings import Finding
from cdc.postgres import connect
from cdc.server import ServerFacts, facts
from cdc.table_checks import look_at_tables

__all__ = ["Finding", "check", "require"]

VERSION_MIN: Final = 140000
REPLICATION_PASSED_ON_VERSION_MIN: Final = 160000
"""From here on a user with CREATEROLE and REPLICATION can pass the latter on; before, only superusers can."""
READER: Final = "Debezium"
"""How the connector's own connections to the slot call themselves."""

RECOVER: Final = "headwater recover begins a new era with a fresh snapshot"


def check(address: PostgresAddress, source: Source, tables: Sequence[str]) -> list[Finding]:
    """All findings, good and bad, in the order in which a person would fix them."""
    try:
        conn = connect(address)
    except HeadwaterError as error:
        return [Finding("fail", "connection", error.detail, "start Postgres, or correct [postgres] in headwater.toml")]
    with conn:
        server = facts(conn, source)
        findings = server_findings(server, source)
        if server.version < VERSION_MIN:
            return findings
        return findings + look_at_tables(conn, server, tables)


def require(
    address: PostgresAddress, source: Source, tables: Sequence[str], *, may_be_lost: bool = False
) -> list[Finding]:
    """The findings of `check`; raises PreflightError when any of them stands in the way, and CaptureGap if it is the
    slot that is lost, unless it is about to be dropped."""
    findings = check(address, source, tables)
    lost = [finding for finding in findings if finding.level == "fail" and finding.name == lost_slot(source)]
    if fails := [finding for finding in findings if finding.level == "fail" and finding not in lost]:
        raise PreflightError(
            "the source database is not ready for capture",
            detail="; ".join(f"{finding.name}: {finding.detail}" for finding in fails),
            hint="; ".join(dict.fromkeys(finding.hint for finding in fails)),
        )
    if lost and not may_be_lost:
        raise CaptureGap("capture cannot go on without losing changes: slot lost", detail=lost[0].detail, hint=RECOVER)
    return findings


def lost_slot(source: Source) -> str:
    """The name of the finding."""
    return f"lost slot {source.slot}"


def server_findings(server: ServerFacts, source: Source) -> list[Finding]:
    """Pure. Each rule says what it saw, also when that is well."""
    return [finding for rule in _RULES for finding in rule(server, source)]


def _version(server: ServerFacts, source: Source) -> Iterator[Finding]:
    major, minor = divmod(server.version, 10000)
    if server.version < VERSION_MIN:
        detail = f"{major}.{minor}, and capture needs {VERSION_MIN // 10000}"
        yield Finding("fail", "version", detail, f"upgrade Postgres to {VERSION_MIN // 10000} or later")
    else:
        yield Finding("ok", "version", f"{major}.{minor}")


def _wal(server: ServerFacts, source: Source) -> Iterator[Finding]:
    if server.in_recovery:
        yield Finding("fail", "role", "the server is a standby", "point [postgres] at the primary")
    if server.wal_level != "logical":
        hint = "alter system set wal_level = logical, then restart Postgres"
        yield Finding("fail", "wal_level", f"{server.wal_level}, and capture needs logical", hint)
    else:
        yield Finding("ok", "wal_level", "logical")
    if server.wal_keep_max == "-1":
        hint = "alter system set max_slot_wal_keep_size = '10GB', then select pg_reload_conf()"
        detail = "unlimited: a stopped connector would in the end fill the disk"
        yield Finding("warn", "max_slot_wal_keep_size", detail, hint)
    else:
        yield Finding("ok", "max_slot_wal_keep_size", server.wal_keep_max)


def _encoding(server: ServerFacts, source: Source) -> Iterator[Finding]:
    if server.encoding == "UTF8":
        yield Finding("ok", "encoding", "UTF8")
    else:
        hint = "create a database with encoding 'UTF8' and move the tables there"
        yield Finding("fail", "encoding", f"{server.encoding}, and capture needs UTF8", hint)


def _room(server: ServerFacts, source: Source) -> Iterator[Finding]:
    """One slot and one sender; a slot that is there already needs no other, one that is read has its sender."""
    slots = server.slots_max - server.slots_used + server.slot_exists
    senders = server.senders_max - server.senders_used + (server.slot_reader is not None)
    for name, free, used, most in (
        ("max_replication_slots", slots, server.slots_used, server.slots_max),
        ("max_wal_senders", senders, server.senders_used, server.senders_max),
    ):
        if free < 1:
            yield Finding(
                "fail", name, f"all {most} are in use", f"alter system set {name} = {most + 10}, then restart"
            )
        else:
            yield Finding("ok", name, f"{used} of {most} in use")


def _slot(server: ServerFacts, source: Source) -> Iterator[Finding]:
    name = f"slot {source.slot}"
    drop = f"select pg_drop_replication_slot('{source.slot}')"
    if not server.slot_exists:
        yield Finding("ok", name, "not there yet")
    elif server.slot_database != server.database:
        detail = f"it belongs to database {server.slot_database or '(none)'}"
        yield Finding("fail", name, detail, "give this one another `source` name in headwater.toml")
    elif server.slot_plugin != "pgoutput":
        yield Finding("fail", name, f"its output plugin is {server.slot_plugin or '(none)'}, not pgoutput", drop)
    elif server.slot_wal_status == "lost" or server.slot_invalidation:
        detail = (
            f"lost ({server.slot_invalidation or 'its log was removed'}): changes are gone from the write-ahead log"
        )
        yield Finding("fail", lost_slot(source), detail, RECOVER)
    elif server.slot_reader is not None and not server.slot_reader.startswith(READER):
        detail = f"it is being read by {server.slot_reader or 'an application without a name'}"
        yield Finding("fail", name, detail, "stop the other reader, or choose another `source` name in headwater.toml")
    else:
        yield Finding("ok", name, "being read" if server.slot_reader is not None else "there, not being read")


def _privileges(server: ServerFacts, source: Source) -> Iterator[Finding]:
    name = "privileges"
    if server.superuser:
        yield Finding("ok", name, "superuser")
        return
    if not server.creates_in_database and not (server.migrated and server.publication_exists):
        detail = "the user may not create a schema and a publication"
        yield Finding("fail", name, detail, f"grant create on database {_quoted(server.database)} to current_user")
    if not server.replicates:
        detail = "the user lacks REPLICATION: it can neither read the slot nor let a capture role read it"
        yield Finding("fail", name, detail, "alter role … replication, as a superuser")
    elif server.creates_roles and server.version >= REPLICATION_PASSED_ON_VERSION_MIN:
        yield Finding("ok", name, "may make the capture role")
    else:
        detail = "the user may not make the least-privilege capture role"
        yield Finding("warn", name, detail, "have a superuser make it, or capture as this user")


def _migrated(server: ServerFacts, source: Source) -> Iterator[Finding]:
    if not server.migrated:
        yield Finding("warn", "migrations", "schema headwater is not there", "headwater migrate up")
    elif server.event_triggers < 2:
        detail = "the event triggers are missing or disabled: schema changes are not followed"
        hint = "headwater migrate up, as a superuser; else select headwater.refresh_catalog() after each change"
        yield Finding("warn", "migrations", detail, hint)
    else:
        yield Finding("ok", "migrations", "schema headwater is there and follows schema changes")


_RULES: Final[tuple[Callable[[ServerFacts, Source], Iterator[Finding]], ...]] = (
    _version,
    _wal,
    _encoding,
    _room,
    _privileges,
    _migrated,
    _slot,
)


def _quoted(name: str) -> str:
    return sql.Identifier(name).as_string(None)
