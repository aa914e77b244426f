"""How far every sink is, told to everybody: one compacted topic, one record for each time a sink has moved.

Who serves reads follows it (headwater/api): whether an answer includes a write is known without asking the place. What
a sink has to go on from is in the place itself, so the board may lose its last words.
"""

from __future__ import annotations

from typing import Final

import msgspec
from confluent_kafka import KafkaException, Producer

from cdc.addresses import KafkaAddress, Source
from cdc.kafka import producer
from cdc.reader import read_range
from cdc.topics import ensure_topic, find_state
from views.sinks.lane import SinkStatus

LINGER_MS: Final = 5
"""An epoch moves every lane at about the same time: what they tell goes out together."""


def board_topic(source: Source) -> str:
    return f"{source.name}.sinks"


class Board:
    """What a maintainer tells. Safe to share between lanes."""

    def __init__(self, kafka: KafkaAddress, source: Source) -> None:
        self._source = source
        config = {"segment.ms": "600000"}
        ensure_topic(kafka, board_topic(source), cleanup_policy="compact", config=config)
        self._producer: Producer = producer(kafka, linger_ms=LINGER_MS)

    def tell(self, status: SinkStatus) -> None:
        self._send(board_topic(self._source), status_key(status.view, status.sink), msgspec.json.encode(status))

    def forget(self, view: str, sink: str) -> None:
        self._send(board_topic(self._source), status_key(view, sink), None)

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
