"""Where traces are kept: the table headwater.audit, and a file beside the state for as long as it cannot be reached.

A trace is a row by (action, event), so the file may be brought in twice and by several processes: nothing is doubled.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import psycopg
from psycopg import errors
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from cdc.errors import SourceError
from headwater.audit import BEGAN, Trace
from headwater.deployment import Deployment
from headwater.settings import Settings

SPOOL: Final = "audit.jsonl"
FILES: Final = (SPOOL,)
CONNECT_TIMEOUT_S: Final = 3
STATEMENT_TIMEOUT_MS: Final = 5_000
SPOOL_BYTES_MAX: Final = 64 << 20
UNFINISHED: Final = "unfinished"

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

    Never raises for a database that is away or not migrated, nor for a file that cannot be written: the action itself
    is worth more than its trace.
    """
    spool = spool_file(deployment.settings)
    try:
        with _connected(deployment) as conn:
            _insert(conn, [trace])
            _bring_in(conn, spool)
        return True
    except psycopg.Error:
        try:
            _append(spool, trace)
        except OSError:
            return False
        return False


def bring_in(deployment: Deployment) -> int:
    """What waits in the file goes into the table; how many that were."""
    with _connected(deployment) as conn:
        return _bring_in(conn, spool_file(deployment.settings))


def listed(
    deployment: Deployment, since: datetime | None = None, verb: str = "", actor: str = "", most: int = 100
) -> list[Audited]:
    """The newest first."""
    wanted = {
        "since": since, "verb": verb, "actor": actor, "most": most, "began": BEGAN, "unfinished": UNFINISHED,
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


def _insert(conn: psycopg.Connection, traces: Iterable[Trace]) -> None:
    for each in traces:
        result = None if each.result is None else Jsonb(each.result)
        conn.execute(
            _INSERT,
            [each.action, each.event, each.at, each.actor, each.host, each.verb, Jsonb(dict(each.arguments)),
             each.reason, result],
        )  # fmt: skip


def _append(spool: Path, trace: Trace) -> None:
    spool.parent.mkdir(parents=True, exist_ok=True)
    with _locked(spool) as file:
        if os.fstat(file).st_size < SPOOL_BYTES_MAX:
            os.write(file, msgspec.json.encode(trace) + b"\n")
            os.fsync(file)


def _bring_in(conn: psycopg.Connection, spool: Path) -> int:
    if not spool.exists():
        return 0
    with _locked(spool) as file:
        content = os.pread(file, SPOOL_BYTES_MAX * 2, 0)
        traces = list(_traces(content))
        with conn.transaction():
            _insert(conn, traces)
        os.ftruncate(file, 0)
    return len(traces)


def _traces(content: bytes) -> Iterator[Trace]:
    """A line that was cut off, by a full disk or a kill, is nobody's trace."""
    for line in content.splitlines():
        try:
            yield msgspec.convert(json.loads(line), Trace)
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
