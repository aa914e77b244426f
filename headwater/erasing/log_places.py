"""The change log: its topic, which lets go by itself, and its archive, which does not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeVar

from cdc.archive import Archiver, archive_folder
from cdc.envelope import parse
from cdc.errors import SinkUnavailable, StateFenced
from cdc.events import ChangeEvent, Record
from cdc.position import Position
from cdc.reader import read_range
from cdc.topics import find_state, topic_settings
from headwater.deployment import Deployment
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
    if not person.is_key(record.key):
        return False
    entry = parse(record)
    return isinstance(entry, ChangeEvent) and entry.table == person.table


@dataclass(frozen=True)
class LogTopic:
    """Records cannot be taken out of the middle of a topic: they are gone with its retention."""

    deployment: Deployment
    person: Person
    name = "change log (Kafka)"

    def _records(self) -> Iterator[Record]:
        topic = self.deployment.source.changes_topic
        state = find_state(self.deployment.kafka, topic)
        for chunk in read_range(self.deployment.kafka, topic, state.low, state.high) if state else ():
            for raw in chunk:
                yield Record(Position(0, raw.offset), raw.written_at_ms, raw.key, raw.value)

    def count(self) -> int:
        return sum(is_theirs(self.person, record) for record in self._records())

    def erase(self) -> Line:
        theirs = [record.written_at_ms for record in self._records() if is_theirs(self.person, record)]
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
        return len(self._theirs())

    def erase(self) -> Line:
        """What the topic still holds is archived first: else the archiver would bring it in again."""
        if archive_folder(self._folder, self.deployment.source).look() is None:
            return Line(self.name, 0, note="there is none")
        self._catch_up()
        theirs = self._theirs()
        for start in range(0, len(theirs), OFFSETS_PER_DELETE):
            patiently(lambda part=theirs[start : start + OFFSETS_PER_DELETE]: self._delete(part))  # type: ignore[misc]
        return Line(self.name, len(theirs), erased=len(theirs), note="and the files that held them" if theirs else "")

    def _delete(self, offsets: list[tuple[int, int]]) -> None:
        folder = archive_folder(self._folder, self.deployment.source)
        same = " OR ".join(f'(era = {era} AND "offset" = {offset})' for era, offset in offsets)
        folder.erase(same)

    def _catch_up(self) -> None:
        archiver = Archiver(self.deployment.kafka, self.deployment.source, self._folder)
        state = find_state(self.deployment.kafka, self.deployment.source.changes_topic)
        while state is not None and patiently(archiver.step).end.offset < state.high:
            pass

    def _theirs(self) -> list[tuple[int, int]]:
        table = archive_folder(self._folder, self.deployment.source).open()
        found: list[tuple[int, int]] = []
        columns = ["era", "offset", "written_at_ms", "key", "value"]
        for batch in table.to_pyarrow_dataset().to_batches(columns=columns) if table is not None else ():
            for row in batch.to_pylist():
                record = Record(Position(row["era"], row["offset"]), row["written_at_ms"], row["key"], row["value"])
                if is_theirs(self.person, record):
                    found.append((row["era"], row["offset"]))
        return found

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
