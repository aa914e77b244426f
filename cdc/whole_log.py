"""The log's records by offset, from the archive where Kafka has let them go and from Kafka from there on.

For who plans epochs and reads their ranges; `ChangeLog` does the same by position. An archive with a gap is an error
(PositionExpired), never a skip.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from cdc.addresses import KafkaAddress, Source
from cdc.changelog import Archive
from cdc.events import Record
from cdc.reader import CHUNK_ROWS_MAX, Raw, read_range
from cdc.topics import topic_state


def read_whole(
    kafka: KafkaAddress, source: Source, archive: Archive | None, topic_id: str, start: int, end: int
) -> Iterator[list[Raw]]:
    """The committed records with offsets in [start, end), in order, in chunks. Without an archive, Kafka's."""
    if archive is not None:
        turn = min(max(start, topic_state(kafka, source.changes_topic).low), end)
        records = archive.records(topic_id, start, turn)
        while chunk := [_raw(record) for record in islice(records, CHUNK_ROWS_MAX)]:
            yield chunk
        start = turn
    yield from read_range(kafka, source.changes_topic, start, end)


def _raw(record: Record) -> Raw:
    return Raw(record.position.offset, record.written_at_ms, record.key, record.value)
