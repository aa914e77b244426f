"""The change log: its topic, which lets go by itself, and its archive, which does not."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeVar

from cdc.archive import Archiver, archive_folder
from cdc.envelope import parse
from cdc.errors import SinkUnavailable, StateFenced
from cdc.events import ChangeEvent, Record, TableName
from cdc.position import Position
from cdc.postgres import connect, explained
from cdc.reader import read_range
from cdc.topics import find_state, topic_settings
from headwater.deployment import Deployment
from headwater.erasing.finding import find_shape, is_in_source
from headwater.erasing.person import Person
from headwater.erasing.receipt import Line

T = TypeVar("T")
ATTEMPTS_MAX: Final = 20
AGAIN_S: Final = 0.5
OFFSETS_PER_DELETE: Final = 1_000


def is_theirs(person: Person, record: Record) -> bool:
    """A record of their rows, or one that holds their values. Most are neither, and are not parsed."""
    if person.holds(record.value) or person.holds(record.key):
        return True
    return person.is_key(record.key) and _table(record) == person.table


def _table(record: Record) -> TableName | None:
    entry = parse(record)
    return entry.table if isinstance(entry, ChangeEvent) else None


Elsewhere = tuple[TableName, bytes | None]
"""A row of another table, by its key, that holds one of their values."""


Place = tuple[int, int]
"""Of a record: era and offset."""


def _place(record: Record) -> Place:
    return record.position.era, record.position.offset


@dataclass(frozen=True)
class LogTopic:
    """Records cannot be taken out of the middle of a topic: they are gone with its retention."""

    deployment: Deployment
    person: Person
    name = "change log (Kafka)"

    def records(self) -> Iterator[Record]:
        topic = self.deployment.source.changes_topic
        state = find_state(self.deployment.kafka, topic)
        for chunk in read_range(self.deployment.kafka, topic, state.low, state.high) if state else ():
            for raw in chunk:
                yield Record(Position(0, raw.offset), raw.written_at_ms, raw.key, raw.value)

    def count(self) -> int:
        return sum(is_theirs(self.person, record) for record in self.records())

    def erase(self) -> Line:
        theirs = [record.written_at_ms for record in self.records() if is_theirs(self.person, record)]
        settings = topic_settings(self.deployment.kafka, self.deployment.source.changes_topic)
        bound_ms = int(settings.get("retention.ms", "-1")) + int(settings.get("segment.ms", "0"))
        gone_by = datetime.fromtimestamp((max(theirs) + bound_ms) / 1000, UTC) if theirs else None
        note = "by retention.ms and segment.ms of the topic" if theirs else ""
        return Line(self.name, len(theirs), pending=len(theirs), gone_by=gone_by, note=note)


@dataclass(frozen=True)
class LogArchive:
    deployment: Deployment
    person: Person
    name = "change log (archive)"

    def count(self) -> int:
        return len(self._theirs()[0])

    def erase(self) -> Line:
        """What the topic still holds is archived first: else the archiver would bring it in again."""
        if archive_folder(self._folder, self.deployment.source).look() is None:
            return Line(self.name, 0, note="there is none")
        self.catch_up()
        theirs, staying = self._theirs()
        for start in range(0, len(theirs), OFFSETS_PER_DELETE):
            patiently(lambda part=theirs[start : start + OFFSETS_PER_DELETE]: self._delete(part))  # type: ignore[misc]
        note = "and the files that held them" if theirs else ""
        if staying:
            tables = ", ".join(sorted({str(table) for table, _ in staying}))
            note += f"; {len(staying)} rows of {tables} hold a value of theirs today and keep their records"
        return Line(self.name, len(theirs), erased=len(theirs), note=note.removeprefix("; "))

    def _delete(self, offsets: list[Place]) -> None:
        folder = archive_folder(self._folder, self.deployment.source)
        same = " OR ".join(f'(era = {era} AND "offset" = {offset})' for era, offset in offsets)
        folder.erase(same)

    def catch_up(self) -> None:
        """All that the topic holds; what it let go before is nowhere."""
        archiver = Archiver(self.deployment.kafka, self.deployment.source, self._folder)
        state = find_state(self.deployment.kafka, self.deployment.source.changes_topic)
        while state is not None and patiently(lambda: archiver.step(accept_gap=True)).end.offset < state.high:
            pass

    def _theirs(self) -> tuple[list[Place], set[Elsewhere]]:
        """What is to be erased; and rows of others that the source still has: a view that is built from the log needs
        each of their records."""
        own, elsewhere = list[Place](), set[Elsewhere]()
        for record in self._records():
            if is_theirs(self.person, record):
                table = _table(record)
                if table is None or table == self.person.table:
                    own.append(_place(record))
                else:
                    elsewhere.add((table, record.key))
        staying = self._still_there(elsewhere)
        return sorted([*own, *self._all_of(elsewhere - staying)]), staying

    def _all_of(self, rows: Collection[Elsewhere]) -> Iterator[Place]:
        """Of a row that is gone, everything: a part of its story is none."""
        keys = {key for _, key in rows}
        for record in self._records() if rows else ():
            if record.key in keys and (_table(record), record.key) in rows:
                yield _place(record)

    def _still_there(self, rows: Collection[Elsewhere]) -> set[Elsewhere]:
        with connect(self.deployment.postgres) as conn, explained(conn):
            shapes = {table: find_shape(conn, table) for table in {table for table, _ in rows}}
            return {row for row in rows if is_in_source(conn, shapes[row[0]], row[1])}

    def _records(self) -> Iterator[Record]:
        table = archive_folder(self._folder, self.deployment.source).open()
        columns = ["era", "offset", "written_at_ms", "key", "value"]
        for batch in table.to_pyarrow_dataset().to_batches(columns=columns) if table is not None else ():
            for row in batch.to_pylist():
                yield Record(Position(row["era"], row["offset"]), row["written_at_ms"], row["key"], row["value"])

    @property
    def _folder(self) -> str:
        return str(self.deployment.settings.warehouse_folder)


def patiently(do: Callable[[], T]) -> T:
    """Beside others who write to the same table: whose turn it was not tries again."""
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return do()
        except (StateFenced, SinkUnavailable):
            time.sleep(AGAIN_S)
    return do()
