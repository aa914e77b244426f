"""Writes a change log the way Debezium does: BEGIN, rows, END inside Kafka transactions that end wherever they like."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field

from confluent_kafka import Producer, TopicPartition

from cdc.addresses import KafkaAddress, Source
from cdc.eras import Era, Identity, register
from cdc.kafka import admin
from cdc.topics import delete_topic, ensure_topic, topic_state
from tests.waiting import eventually

AT_MS = 1_760_000_000_000


def begin(xid: int, lsn: int) -> bytes:
    return _json(
        {"status": "BEGIN", "id": f"{xid}:{lsn}", "event_count": None, "data_collections": None, "ts_ms": AT_MS}
    )


def end(xid: int, lsn: int, events: int) -> bytes:
    counts = [{"data_collection": "public.items", "event_count": events}]
    return _json(
        {"status": "END", "id": f"{xid}:{lsn}", "event_count": events, "data_collections": counts, "ts_ms": AT_MS}
    )


def row(item: int, xid: int, lsn: int, *, order: int = 1, padding: int = 0) -> bytes:
    after = {"id": item, "note": f'has "snapshot":"true" and "status":"END" in it {"x" * padding}'}
    transaction = {"id": f"{xid}:{lsn}", "total_order": order, "data_collection_order": order}
    return _json(envelope(None, after, "c", snapshot="false", xid=xid, lsn=lsn, transaction=transaction))


def update(item: int, before: object, after: object, xid: int, lsn: int) -> bytes:
    transaction = {"id": f"{xid}:{lsn}", "total_order": 1, "data_collection_order": 1}
    rows = {"id": item, "note": before}, {"id": item, "note": after}
    return _json(envelope(*rows, "u", snapshot="false", xid=xid, lsn=lsn, transaction=transaction))


def snapshot_row(item: int, lsn: int, *, place: str = "true") -> bytes:
    after = {"id": item, "note": "as it was"}
    return _json(envelope(None, after, "r", snapshot=place, xid=1, lsn=lsn, transaction=None))


def envelope(
    before: object, after: object, op: str, *, snapshot: str, xid: int, lsn: int, transaction: object
) -> dict[str, object]:
    source = {
        "version": "3.6.3.Final",
        "connector": "postgresql",
        "name": "test",
        "ts_ms": AT_MS,
        "snapshot": snapshot,
        "db": "test",
        "sequence": "[null,null]",
        "ts_us": AT_MS * 1000,
        "ts_ns": AT_MS * 1_000_000,
        "schema": "public",
        "table": "items",
        "txId": xid,
        "lsn": lsn,
        "xmin": None,
    }
    return {
        "before": before,
        "after": after,
        "source": source,
        "transaction": transaction,
        "op": op,
        "ts_ms": AT_MS,
        "ts_us": AT_MS * 1000,
        "ts_ns": AT_MS * 1_000_000,
    }


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@dataclass
class LogWriter:
    """A source of its own, with its topics and its first era, and a producer that writes as Debezium would."""

    kafka: KafkaAddress
    source: Source = field(default_factory=lambda: Source(f"t{uuid.uuid4().hex[:12]}"))
    lsn: int = 1000
    xid: int = 100
    items: int = 0

    def __post_init__(self) -> None:
        self.topic_id = ensure_topic(self.kafka, self.source.changes_topic)
        self.era: Era = register(self.kafka, self.source, self.identity(), "first start")
        self._producer = Producer(
            {**self.kafka.client(), "transactional.id": f"{self.source.name}-writer", "linger.ms": 0, "log_level": 0}
        )
        self._producer.init_transactions()
        self._open = False

    def identity(self, *, timeline: int = 1) -> Identity:
        return Identity(self.topic_id, "7000000000000000001", timeline, self.source.slot)

    def write(self, *values: bytes) -> None:
        """Into the Kafka transaction that is open, or a new one."""
        if not self._open:
            self._producer.begin_transaction()
            self._open = True
        for value in values:
            self._producer.produce(self.source.changes_topic, key=b'{"id":1}', value=value)

    def commit(self) -> None:
        if self._open:
            self._producer.commit_transaction(30)
            self._settle()

    def abort(self) -> None:
        """What was written since the last commit is never seen, but occupies its offsets."""
        if self._open:
            self._producer.flush(30)
            self._producer.abort_transaction(30)
            self._settle()

    def _settle(self) -> None:
        """The broker acknowledges a commit a little before readers can see it."""
        self._open = False
        topic = self.source.changes_topic
        eventually(lambda: topic_state(self.kafka, topic).high == topic_state(self.kafka, topic, committed=False).high)

    def next_transaction(self, rows: int, *, padding: int = 0) -> list[bytes]:
        """The records of one more transaction of the source."""
        self.xid, self.lsn = self.xid + 1, self.lsn + 100
        values = [begin(self.xid, self.lsn)]
        for order in range(1, rows + 1):
            self.items += 1
            values.append(row(self.items, self.xid, self.lsn, order=order, padding=padding))
        return [*values, end(self.xid, self.lsn, rows)]

    def transaction(self, rows: int) -> list[bytes]:
        values = self.next_transaction(rows)
        self.write(*values)
        self.commit()
        return values

    def cut_off(self, before: int) -> None:
        """Deletes the records before that offset, as retention would."""
        partition = TopicPartition(self.source.changes_topic, 0, before)
        admin(self.kafka).delete_records([partition])[partition].result()

    def recreate(self) -> None:
        """The topic is deleted and made anew, under the same name."""
        delete_topic(self.kafka, self.source.changes_topic)
        self.topic_id = ensure_topic(self.kafka, self.source.changes_topic)

    def snapshot(self, rows: int) -> list[bytes]:
        first = self.items + 1
        self.items += rows
        values = [
            snapshot_row(item, self.lsn, place="last" if item == self.items else "true")
            for item in range(first, self.items + 1)
        ]
        self.write(*values)
        self.commit()
        return values
