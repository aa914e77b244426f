"""Where traces are kept: the table headwater.audit, and a file beside the state for as long as it cannot be reached.

A trace is a row by (action, event), so the file may be brought in twice and by several processes: nothing is doubled.
A line that Postgres never takes is set aside in a file of its own: it holds up no other.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import psycopg
from psycopg import errors
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from cdc.errors import SourceError
from headwater.audit import BEGAN, Trace, storable
from headwater.deployment import Deployment
from headwater.events_log import get_log
from headwater.settings import Settings

SPOOL: Final = "audit.jsonl"
ASIDE: Final = "audit.refused.jsonl"
FILES: Final = (SPOOL, ASIDE)
CONNECT_TIMEOUT_S: Final = 3
STATEMENT_TIMEOUT_MS: Final = 5_000
SPOOL_BYTES_MAX: Final = 64 << 20
UNFINISHED: Final = "unfinished"
BEYOND_LIMITS: Final = "54"
"""The class of Postgres' refusals of what is too long or too deep."""

_INSERT: Final = """
    insert into headwater.audit (action, event, at, actor, host, verb, arguments, reason, result)
    values (%s, %s, %s, %s, %s, %s, %s, %s, %s) on conflict (action, event) do nothing
"""
_ACTIONS: Final = """
    select b.action::text, b.at as began_at, e.at as ended_at, coalesce(e.event, %(unfinished)s) as outcome,
        b.actor, b.host, b.verb, b.arguments, coalesce(e.reason, '') as reason, e.result
    from headwater.audit b left join headwater.audit e on e.action = b.action and e.event <> %(began)s
    where b.event = %(began)s and (%(since)s::timestamptz is null or b.at >= %(since)s)
        and (%(verb)s = '' or b.verb = %(verb)s or b.verb like %(verb)s || ' %%')
        and (%(actor)s = '' or strpos(b.actor, %(actor)s) > 0)
    order by b.at desc, b.id desc limit %(most)s
"""


@dataclass(frozen=True, slots=True)
class Audited:
    """An action from its beginning to its end."""

    action: str
    began_at: datetime
    ended_at: datetime | None
    outcome: str
    """done, failed, or unfinished: it still runs, or was killed."""
    actor: str
    host: str
    verb: str
    arguments: dict[str, Any]
    reason: str
    result: Any


def spool_file(settings: Settings) -> Path:
    return settings.data_folder / SPOOL


def keep(deployment: Deployment, trace: Trace) -> bool:
    """Writes it down, with what waited; in the file when the database does not take it. False: in the file.

    Never raises for a database that is away or not migrated, nor for a file that cannot be read or written: the action
    itself is worth more than its trace.
    """
    spool, trace = spool_file(deployment.settings), _storable(trace)
    try:
        with _connected(deployment) as conn:
            _insert(conn, trace)
            with suppress(OSError):
                _bring_in(conn, spool)
        return True
    except psycopg.Error:
        with suppress(OSError):
            _append(spool, msgspec.json.encode(trace))
        return False


def bring_in(deployment: Deployment) -> int:
    """What waits in the file goes into the table; how many that were."""
    with _connected(deployment) as conn:
        return _bring_in(conn, spool_file(deployment.settings))


def listed(
    deployment: Deployment, since: datetime | None = None, verb: str = "", actor: str = "", most: int = 100
) -> list[Audited]:
    """The newest first. Raises SourceError when it cannot be read."""
    wanted = {
        "since": since, "verb": storable(verb), "actor": storable(actor), "most": most,
        "began": BEGAN, "unfinished": UNFINISHED,
    }  # fmt: skip
    try:
        with _connected(deployment) as conn:
            _bring_in(conn, spool_file(deployment.settings))
            conn.execute("set time zone 'UTC'")
            rows = conn.cursor(row_factory=dict_row).execute(_ACTIONS, wanted)
            return [Audited(**row) for row in rows]
    except (errors.UndefinedTable, errors.InvalidSchemaName) as error:
        where = deployment.postgres.database
        raise SourceError(f"database {where} has no audit log yet", hint="headwater migrate up") from error
    except psycopg.OperationalError as error:
        waiting = f"traces wait in {spool_file(deployment.settings)}"
        raise SourceError("cannot reach the source database", detail=waiting, hint="headwater doctor") from error
    except psycopg.Error as error:
        detail = str(error).strip()
        raise SourceError("the audit log cannot be read", detail=detail, hint="headwater doctor") from error


@contextmanager
def _connected(deployment: Deployment) -> Iterator[psycopg.Connection]:
    with psycopg.connect(
        deployment.postgres.conninfo(),
        autocommit=True,
        connect_timeout=CONNECT_TIMEOUT_S,
        application_name="headwater audit",
        options=f"-c statement_timeout={STATEMENT_TIMEOUT_MS}",
    ) as conn:
        yield conn


def _storable(trace: Trace) -> Trace:
    return Trace(**{field.name: storable(getattr(trace, field.name)) for field in fields(Trace)})


def _insert(conn: psycopg.Connection, trace: Trace) -> None:
    result = None if trace.result is None else Jsonb(trace.result)
    conn.execute(
        _INSERT,
        [trace.action, trace.event, trace.at, trace.actor, trace.host, trace.verb, Jsonb(dict(trace.arguments)),
         trace.reason, result],
    )  # fmt: skip


def _append(spool: Path, line: bytes) -> None:
    spool.parent.mkdir(parents=True, exist_ok=True)
    with _locked(spool) as file:
        if os.fstat(file).st_size < SPOOL_BYTES_MAX:
            os.write(file, line + b"\n")
            os.fsync(file)


def _bring_in(conn: psycopg.Connection, spool: Path) -> int:
    """How many were taken. Raises what may pass, with the file as it was."""
    if not spool.exists():
        return 0
    taken = 0
    with _locked(spool) as file:
        content = os.pread(file, SPOOL_BYTES_MAX * 2, 0)
        with conn.transaction():
            for line, trace in _traces(content):
                try:
                    with conn.transaction():  # a savepoint: what one line does wrong undoes no other
                        _insert(conn, trace)
                    taken += 1
                except psycopg.Error as error:
                    if not _is_never_taken(error):
                        raise
                    _set_aside(spool.with_name(ASIDE), line, str(error).strip())
        os.ftruncate(file, 0)
    return taken


def _is_never_taken(error: psycopg.Error) -> bool:
    """Whether the row itself is what is wrong, and not the moment, the server or the schema."""
    is_data = isinstance(error, psycopg.DataError | psycopg.IntegrityError)
    return is_data or (error.sqlstate or "").startswith(BEYOND_LIMITS)


def _set_aside(aside: Path, line: bytes, reason: str) -> None:
    _append(aside, line)
    get_log("audit").error("a trace is not in the audit log", reason=reason, file=str(aside))


def _traces(content: bytes) -> Iterator[tuple[bytes, Trace]]:
    """With its line. One that was cut off, by a full disk or a kill, is nobody's trace."""
    for line in content.splitlines():
        try:
            yield line, _storable(msgspec.convert(json.loads(line), Trace))
        except (ValueError, msgspec.ValidationError):
            continue


@contextmanager
def _locked(spool: Path) -> Iterator[int]:
    file = os.open(spool, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)
