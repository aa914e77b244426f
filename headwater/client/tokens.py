"""The token of a write: where Postgres' log is after it. Knows psycopg and SQLAlchemy without importing either."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final, overload

from cdc.errors import ConfigurationError

if TYPE_CHECKING:
    import psycopg
    import sqlalchemy as sa
    from sqlalchemy import orm

_SQL: Final = "select pg_current_wal_insert_lsn()::text, pg_current_xact_id_if_assigned()::text"


@overload
def token_of(connection: psycopg.Connection[Any] | sa.Connection | orm.Session) -> str: ...
@overload
def token_of(connection: psycopg.AsyncConnection[Any]) -> Awaitable[str]: ...


def token_of(
    connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any] | sa.Connection | orm.Session,
) -> str | Awaitable[str]:
    """A token for everything that is committed by now, on whatever connection. Call it after your commit.

    A transaction is in Postgres' log where its commit is written, which is after everything it did. An LSN from before
    the commit is smaller than that: a read that waits for it may be answered without the write. So this refuses inside
    a transaction that has written something. It leaves no transaction open.

    psycopg.Connection, sqlalchemy.Connection and orm.Session give the token, psycopg.AsyncConnection one to await; with
    SQLAlchemy's own asyncio: `await session.run_sync(token_of)`.
    """
    known: Any = connection
    if hasattr(known, "get_bind"):
        return _of_session(known)
    if hasattr(known, "in_transaction"):
        return _of_sqlalchemy(known)
    return _of_async(known) if type(known).__name__.startswith("Async") else _of_psycopg(known)


def _of_session(session: Any) -> str:
    """After a commit on a connection of its own: a rollback of the session would expire what it has loaded."""
    if session.in_transaction():
        return _of_sqlalchemy(session.connection())
    bind = session.get_bind()
    if hasattr(bind, "in_transaction"):
        return _of_sqlalchemy(bind)
    with bind.connect() as connection:
        return _of_sqlalchemy(connection)


def _of_sqlalchemy(connection: Any) -> str:
    was_idle = not connection.in_transaction()
    row = connection.exec_driver_sql(_SQL).one()
    if was_idle:
        connection.rollback()
    return _token(row)


def _of_psycopg(connection: psycopg.Connection[Any]) -> str:
    from psycopg.rows import tuple_row

    was_idle = _is_idle(connection)
    row = connection.cursor(row_factory=tuple_row).execute(_SQL).fetchone()
    if was_idle:
        connection.rollback()
    return _token(row)


async def _of_async(connection: psycopg.AsyncConnection[Any]) -> str:
    from psycopg.rows import tuple_row

    was_idle = _is_idle(connection)
    row = await (await connection.cursor(row_factory=tuple_row).execute(_SQL)).fetchone()
    if was_idle:
        await connection.rollback()
    return _token(row)


def _is_idle(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    from psycopg.pq import TransactionStatus

    return connection.info.transaction_status == TransactionStatus.IDLE


def _token(row: Any) -> str:
    lsn, transaction = row
    if transaction is not None:
        raise ConfigurationError(
            "the transaction is not committed yet",
            detail=f"a token from before the commit does not stand for the write of transaction {transaction}",
            hint="commit, then token_of(connection)",
        )
    return str(lsn)
