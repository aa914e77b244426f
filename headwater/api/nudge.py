"""A commit of our own in the source database, for those who wait for a mark to pass an LSN. Not for several threads."""

from __future__ import annotations

from dataclasses import dataclass, field

import psycopg

from cdc.addresses import PostgresAddress
from cdc.errors import SourceError, SourceUnavailable
from cdc.postgres import connect


@dataclass
class Nudge:
    postgres: PostgresAddress
    _conn: psycopg.Connection | None = field(default=None, init=False)

    def __call__(self) -> None:
        """Raises SourceError when there is no database to ask."""
        try:
            if self._conn is None or self._conn.closed:
                self._conn = connect(self.postgres)
            self._conn.execute("select headwater.tick_canary()")
        except psycopg.Error as error:
            self._conn = None
            kind = SourceUnavailable if isinstance(error, psycopg.OperationalError) else SourceError
            raise kind("no commit could be made", detail=str(error).strip(), hint="headwater doctor") from error
