"""Connections to the source database for setting capture up and watching it; its refusals become errors with a hint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import errors

from cdc.addresses import PostgresAddress
from cdc.errors import SourceError, SourceUnavailable

CONNECT_TIMEOUT_S: Final = 10
IDLE_TCP_S_MAX: Final = 30
"""A server that vanished without a word is noticed within this time."""


def connect(address: PostgresAddress, *, autocommit: bool = True) -> psycopg.Connection:
    """An open connection; raises SourceUnavailable where there is none to be had."""
    try:
        return psycopg.connect(
            address.conninfo(),
            autocommit=autocommit,
            connect_timeout=CONNECT_TIMEOUT_S,
            application_name="headwater",
            tcp_user_timeout=IDLE_TCP_S_MAX * 1000,
        )
    except psycopg.OperationalError as error:
        where = f"{address.host}:{address.port}/{address.database} as {address.user}"
        raise SourceUnavailable(
            "cannot reach the source database", detail=f"{where}: {str(error).strip()}", hint="headwater doctor"
        ) from error


@contextmanager
def explained(conn: psycopg.Connection) -> Iterator[None]:
    """Turns what Postgres refuses inside the block into a SourceError."""
    try:
        yield
    except errors.InsufficientPrivilege as error:
        raise SourceError(
            f"user {conn.info.user} may not do this in database {conn.info.dbname}",
            detail=str(error).strip(),
            hint="headwater doctor",
        ) from error
    except psycopg.OperationalError as error:
        raise SourceUnavailable(
            "lost the source database", detail=str(error).strip(), hint="headwater doctor"
        ) from error
