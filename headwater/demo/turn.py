"""What an action of the mover works with: an open transaction, draws, and the time. It decides nothing itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from psycopg import Cursor, sql

from headwater.demo.draw import Draw


@dataclass(frozen=True, slots=True)
class Turn:
    """One transaction of the mover, while it is open."""

    cur: Cursor[Any]
    draw: Draw
    at: datetime

    def one(self, query: LiteralString, *values: object) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = self.cur.execute(query, values).fetchone()
        return found

    def change(self, query: LiteralString, *values: object) -> int:
        """The number of rows that the statement touched."""
        return self.cur.execute(query, values).rowcount

    def insert(self, table: str, row: NamedTuple, *, numbered: bool = False) -> int:
        """A numbered row's `id` is given by Postgres, whatever the row says."""
        fields = [field for field in row._fields if not (numbered and field == "id")]
        statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
            sql.Identifier("public", table),
            sql.SQL(", ").join(map(sql.Identifier, fields)),
            sql.SQL(", ").join(sql.Placeholder() * len(fields)),
        )
        return self.cur.execute(statement, [getattr(row, field) for field in fields]).rowcount

    def id_from(self, table: str) -> int:
        """A number that may or may not be taken: a place to start looking from. 0 in an empty table."""
        statement = sql.SQL("SELECT coalesce(min(id), 0), coalesce(max(id), 0) FROM {}").format(
            sql.Identifier("public", table)
        )
        found = self.cur.execute(statement).fetchone()
        low, high = found if found else (0, 0)
        return self.draw.between(low, high)


Action = Callable[[Turn], int]
"""Changes some rows in the open transaction and returns how many; 0 means that there was nothing to do."""
