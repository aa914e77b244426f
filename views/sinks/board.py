"""How far every sink is, told to everybody: one compacted topic, one record for each time a sink has moved.

Who serves reads follows it (headwater/api): whether an answer includes a write is known without asking the place. What
a sink has to go on from is in the place itself, so the board may lose its last words.
"""

from __future__ import annotations

import time
from typing import Final

import msgspec
from confluent_kafka import KafkaException, Producer

from cdc.addresses import KafkaAddress, Source
from cdc.kafka import producer
from cdc.reader import read_range
from cdc.topics import ensure_topic, find_state
from views.sinks.lane import SinkStatus
from views.sinks.sink import Refused, ViewShape

LETTER_BYTES_MAX: Final = 512 * 1024
LETTERS_RETENTION_MS: Final = 30 * 24 * 3_600_000


def board_topic(source: Source) -> str:
    return f"{source.name}.sinks"


def letters_topic(source: Source) -> str:
    return f"{source.name}.dead_letters"


class DeadLetter(msgspec.Struct, frozen=True):
    """A change that a sink would not take."""

    view: str
    sink: str
    key: str
    version: int
    error: str
    row: str | None
    at_us: int


class Board:
    """What a maintainer tells. Safe to share between lanes."""

    def __init__(self, kafka: KafkaAddress, source: Source) -> None:
        self._source = source
        config = {"segment.ms": "600000"}
        ensure_topic(kafka, board_topic(source), cleanup_policy="compact", config=config)
        ensure_topic(kafka, letters_topic(source), retention_ms=LETTERS_RETENTION_MS)
        self._producer: Producer = producer(kafka)

    def tell(self, status: SinkStatus) -> None:
        self._send(board_topic(self._source), status_key(status.view, status.sink), msgspec.json.encode(status))

    def forget(self, view: str, sink: str) -> None:
        self._send(board_topic(self._source), status_key(view, sink), None)

    def refuse(self, shape: ViewShape, sink: str, refused: list[Refused]) -> None:
        for change, error in refused:
            row = None if change.after is None else change.after[:LETTER_BYTES_MAX].decode(errors="replace")
            letter = DeadLetter(
                shape.view, sink, change.key.decode(), change.version, error, row, time.time_ns() // 1000
            )
            self._send(letters_topic(self._source), change.key, msgspec.json.encode(letter))

    def close(self) -> None:
        self._producer.flush(5)

    def _send(self, topic: str, key: bytes, value: bytes | None) -> None:
        """Never holds a lane up: what cannot be told now is told with the next move."""
        try:
            self._producer.produce(topic, key=key, value=value)
            self._producer.poll(0)
        except (BufferError, KafkaException):
            return


def status_key(view: str, sink: str) -> bytes:
    return f"{view}/{sink}".encode()


def read_board(kafka: KafkaAddress, source: Source) -> dict[tuple[str, str], SinkStatus]:
    """The newest of each sink."""
    found: dict[tuple[str, str], SinkStatus] = {}
    state = find_state(kafka, board_topic(source))
    for chunk in read_range(kafka, board_topic(source), state.low, state.high) if state else ():
        for raw in chunk:
            view, _, sink = (raw.key or b"").decode().partition("/")
            if raw.value is None:
                found.pop((view, sink), None)
            else:
                found[view, sink] = msgspec.json.decode(raw.value, type=SinkStatus)
    return found


def read_letters(kafka: KafkaAddress, source: Source) -> list[DeadLetter]:
    state = find_state(kafka, letters_topic(source))
    chunks = read_range(kafka, letters_topic(source), state.low, state.high) if state else ()
    return [msgspec.json.decode(raw.value, type=DeadLetter) for chunk in chunks for raw in chunk if raw.value]
