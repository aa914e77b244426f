"""Reads a range of one topic's only partition, and waits for it to grow: the one place that polls Kafka for records.

A range is read to its end, exactly: offsets are not dense (the markers of Kafka's transactions and the records of
aborted ones occupy some), so the end is recognised by a record at or after it, or by the broker saying that the log
ends there. Memory is bounded by what the client queues. A broker that stops answering is an error after a deadline.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

import msgspec
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from cdc.addresses import KafkaAddress
from cdc.errors import LogError
from cdc.kafka import REQUEST_S_MAX, Use, explain, lease, log_errors

CHUNK_ROWS_MAX: Final = 10_000
STALL_S_MAX: Final = 60.0
"""How long a reader waits for the next record of a range that the broker said it has; outlasts a broker's restart."""
_PARTITION: Final = 0


class Raw(msgspec.Struct, frozen=True, gc=False):
    """One record as Kafka holds it. A struct, not a dataclass: it is made once for every record that is read."""

    offset: int
    written_at_ms: int
    key: bytes | None
    value: bytes | None


def read_range(
    kafka: KafkaAddress, topic: str, start: int, end: int, *, stall_s_max: float = STALL_S_MAX
) -> Iterator[list[Raw]]:
    """The committed records with offsets in [start, end), in order, in chunks of at most CHUNK_ROWS_MAX.

    `end` must not lie beyond the end of the log as the broker told it. Raises PositionExpired if the log has meanwhile
    been cut off beyond `start`, LogError if the broker does not answer.
    """
    if start >= end:
        return
    doing = f"reading {topic} from {start} to {end}"
    with log_errors(kafka, doing), lease(kafka) as consumer:
        consumer.assign([TopicPartition(topic, _PARTITION, start)])
        reached = start
        while reached < end:
            messages = _next(consumer, stall_s_max)
            if not messages:
                raise LogError(
                    "the log stopped answering",
                    detail=f"{doing}, at {kafka.bootstrap}: nothing came after {reached} for {stall_s_max:.0f} s",
                    hint="headwater status",
                )
            chunk, reached = _take(kafka, messages, reached, end, doing)
            if chunk:
                yield chunk


def tail(kafka: KafkaAddress, topic: str, start: int, timeout_s: float) -> Iterator[list[Raw]]:
    """The committed records from `start` on as they come, without an end; nothing for each `timeout_s` without any.

    One request is held by the broker: it costs next to nothing, where asking for the extent each time costs several.
    Raises PositionExpired or LogError; a topic that was made anew is for the caller to notice.
    """
    doing = f"following {topic} from {start}"
    with log_errors(kafka, doing), lease(kafka, Use.LISTEN) as consumer:
        consumer.assign([TopicPartition(topic, _PARTITION, start)])
        while True:
            chunk, _ = _take(kafka, _next(consumer, timeout_s), start, sys.maxsize, doing)
            yield chunk


def wait_for_records(kafka: KafkaAddress, topic: str, offset: int, timeout_s: float) -> bool:
    """Waits until there is a committed record at or after `offset`, which must not lie beyond the end of the log."""
    doing = f"waiting for {topic} at {offset}"
    with log_errors(kafka, doing), lease(kafka, Use.LISTEN) as consumer:
        consumer.assign([TopicPartition(topic, _PARTITION, offset)])
        message = consumer.poll(timeout_s)
        if message is None:
            return False
        error = message.error()
        if error is not None:
            raise explain(kafka, error, doing)
        return True


def offset_at(kafka: KafkaAddress, topic: str, at_ms: int) -> int | None:
    """Of the first record written at or after that instant; None if there is none."""
    asked = TopicPartition(topic, _PARTITION, at_ms)
    with log_errors(kafka, f"asking {topic} for the offset at {at_ms} ms"), lease(kafka) as consumer:
        found = int(consumer.offsets_for_times([asked], timeout=REQUEST_S_MAX)[0].offset)
    return found if found >= 0 else None


def _next(consumer: Consumer, timeout_s: float) -> list[Message]:
    """Waits for one message, then takes along whatever is already here."""
    first = consumer.poll(timeout_s)
    return [] if first is None else [first, *consumer.consume(CHUNK_ROWS_MAX - 1, timeout=0)]


def _take(kafka: KafkaAddress, messages: list[Message], reached: int, end: int, doing: str) -> tuple[list[Raw], int]:
    """The records before `end`, and the offset up to which the log is now known."""
    chunk: list[Raw] = []
    for message in messages:
        error, offset = message.error(), message.offset()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise explain(kafka, error, doing)
            reached = max(reached, offset or 0)
            continue
        if offset is None or offset >= end:
            return chunk, end
        chunk.append(Raw(offset, message.timestamp()[1], message.key(), message.value()))
        reached = offset + 1
    return chunk, reached
