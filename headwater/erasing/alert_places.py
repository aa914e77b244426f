"""What saved searches told of them, and what verifying noted: in Postgres, and beside the state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import psycopg

from alerts.matched import key_hash
from cdc.postgres import connect, explained
from headwater.erasing.person import Person
from headwater.erasing.receipt import Line
from headwater.erasing.view_places import Scans
from headwater.views.place import Place
from headwater.views.verify_view import history_of

_FOUND: Final = {
    "outbox": "select id::text, concat_ws(' ', key, before, after) from headwater.outbox",
    "notifications": "select id, body::text from headwater.notifications",
}
_DELETE: Final = {
    "outbox": "delete from headwater.outbox where id = any(%s::bigint[])",
    "notifications": "delete from headwater.notifications where id = any(%s)",
}
_OF_KEYS: Final = "select id::text from headwater.outbox where view = %s and key = any(%s)"
_TOLD: Final = "delete from headwater.told_values where key_hash = any(%s)"


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
                conn.execute(_TOLD, [[key_hash(key) for keys in self._gone().values() for key in keys]])
        return Line(self.name, len(found), erased=done)

    def _theirs(self, conn: psycopg.Connection) -> set[str]:
        found: set[str] = set()
        with conn.transaction(), conn.cursor(name=f"erase_{self.table}") as cursor:
            for id_, text in cursor.execute(_FOUND[self.table]):
                if self.person.holds(text.encode()):
                    found.add(id_)
        if self.table == "outbox":
            for view, keys in self._gone().items():
                found |= {id_ for (id_,) in conn.execute(_OF_KEYS, [view, [key.decode() for key in keys]])}
        return found

    def _gone(self) -> dict[str, frozenset[bytes]]:
        views = self.place.registry.wanted().views
        return {view: self.scans.of(view).gone for view in views}


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
