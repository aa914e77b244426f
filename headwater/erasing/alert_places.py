"""What saved searches told of them, and what verifying noted: in Postgres, and beside the state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec
import psycopg

from alerts.matched import key_hash
from cdc.postgres import connect, explained
from headwater.erasing.person import Person
from headwater.erasing.receipt import Line
from headwater.erasing.view_places import Scans
from headwater.views.place import Place
from headwater.views.verify_view import history_of
from views.sinks.sink import GoneKeys

_FOUND: Final = {
    "outbox": "select id::text, view, key, concat_ws(' ', key, before, after) from headwater.outbox",
    "notifications": "select id, '', '', body::text from headwater.notifications",
}
_DELETE: Final = {
    "outbox": "delete from headwater.outbox where id = any(%s::bigint[])",
    "notifications": "delete from headwater.notifications where id = any(%s)",
}
_TOLD: Final = "delete from headwater.told_values where key_hash = any(%s)"

RowOfView: TypeAlias = tuple[str, bytes]
"""A view, and a key of it."""


class _Item(msgspec.Struct):
    view: str
    key: msgspec.Raw


class _Body(msgspec.Struct):
    """Of a notification: which rows it tells of."""

    items: list[_Item] = []


@dataclass(frozen=True)
class AlertTable:
    """The outbox, or the notifications that were made of it: with them goes what is in their owners' inboxes."""

    place: Place
    person: Person
    scans: Scans
    table: str

    @property
    def name(self) -> str:
        return f"headwater.{self.table}"

    def count(self) -> int:
        with connect(self.place.deployment.postgres) as conn, explained(conn):
            return len(self._theirs(conn))

    def erase(self) -> Line:
        with connect(self.place.deployment.postgres) as conn, explained(conn), conn.transaction():
            found = self._theirs(conn)
            done = conn.execute(_DELETE[self.table], [sorted(found)]).rowcount
            if self.table == "outbox":
                told = {row for rows in found.values() for row in rows} | {
                    (view, key) for view, gone in self._gone().items() for key in gone.told
                }
                conn.execute(_TOLD, [[key_hash(key) for _, key in told]])
        return Line(self.name, len(found), erased=done)

    def _theirs(self, conn: psycopg.Connection) -> dict[str, list[RowOfView]]:
        """By id, the rows of theirs that are gone and that it tells of."""
        found: dict[str, list[RowOfView]] = {}
        gone = self._gone()
        with conn.transaction(), conn.cursor(name=f"erase_{self.table}") as cursor:
            for id_, view, key, text in cursor.execute(_FOUND[self.table]):
                told = [(view, key.encode())] if view else list(_told(text.encode()))
                theirs = [(view, key) for view, key in told if view in gone and key in gone[view]]
                if theirs or self.person.holds(text.encode()):
                    found[id_] = theirs
        return found

    def _gone(self) -> dict[str, GoneKeys]:
        return {view: self.scans.gone(view) for view in self.place.registry.wanted().views}


def _told(body: bytes) -> Iterator[RowOfView]:
    for item in msgspec.json.decode(body, type=_Body).items:
        yield item.view, bytes(item.key)


@dataclass(frozen=True)
class VerifyNotes:
    """Keys that were found wrong, and rows that were shown."""

    place: Place
    person: Person
    scans: Scans
    name = "history of verifying"

    def count(self) -> int:
        return history_of(self.place).count_noted(self._is_theirs)

    def erase(self) -> Line:
        found = history_of(self.place).erase_noted(self._is_theirs)
        return Line(self.name, found, erased=found)

    def _is_theirs(self, view: str, text: str) -> bool:
        """A key, or a row, of the view."""
        if self.person.holds(text.encode()):
            return True
        return view in self.place.registry.wanted().views and self.scans.owner_of(view)(text.encode())
