"""How long one commit takes to the log: from the moment at which the client's commit returned to the moment at which a
reader of committed records, on another thread of this process and so on the same clock, has its END in hand.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import TopicPartition

from cdc.addresses import KafkaAddress
from cdc.capture import Capture
from cdc.envelope import parse
from cdc.errors import LogError
from cdc.events import End, Record
from cdc.kafka import Use, consumer, explain
from cdc.position import Position
from cdc.topics import topic_state
from headwater.bench.figures import Latencies
from headwater.bench.progress import Advance
from headwater.bench.workload import Writer

PAUSE_S_MIN: Final = 0.02
PAUSE_S_MAX: Final = 0.08
SEED: Final = 42
POLL_S_MAX: Final = 0.1
ARRIVAL_S_MAX: Final = 60.0


@dataclass(frozen=True, slots=True)
class Committed:
    xid: int
    at: float
    """Monotonic, when the commit had returned."""
    at_ms: float
    """The same instant since 1970, to compare with what Kafka's records say."""


@dataclass(frozen=True, slots=True)
class Seen:
    at: float
    written_at_ms: int


@dataclass(frozen=True, slots=True)
class CommitLatency:
    to_log: Latencies
    to_written: Latencies
    """The part until Connect handed the END to Kafka: Postgres' decoding, Debezium, its poll interval."""


def measure(capture: Capture, writer: Writer, commits: int, warm_up: int, advance: Advance) -> CommitLatency:
    """Single-row commits at random intervals; the first `warm_up` of them are not counted."""
    with _watching(capture) as watch:
        done = []
        for pause_s in pauses(warm_up + commits):
            xid = writer.insert(1)
            done.append(Committed(xid, time.monotonic(), time.time() * 1000))
            advance(1)
            time.sleep(pause_s)
        seen = watch.wait({one.xid for one in done})
    return judge(done[warm_up:], seen)


def pauses(count: int) -> Iterator[float]:
    """Random, so that commits do not fall in step with Debezium's polls; seeded, so that runs can be compared."""
    draw = random.Random(SEED)
    return (draw.uniform(PAUSE_S_MIN, PAUSE_S_MAX) for _ in range(count))


def judge(done: Sequence[Committed], seen: Mapping[int, Seen]) -> CommitLatency:
    """Pure."""
    return CommitLatency(
        to_log=Latencies.of([(seen[one.xid].at - one.at) * 1000 for one in done]),
        to_written=Latencies.of([seen[one.xid].written_at_ms - one.at_ms for one in done]),
    )


@dataclass(slots=True)
class _Watch:
    kafka: KafkaAddress
    topic: str
    start: int
    seen: dict[int, Seen] = field(default_factory=dict)
    failure: Exception | None = None
    news: threading.Condition = field(default_factory=threading.Condition)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        try:
            self._follow()
        except Exception as error:  # raised again by wait, on the thread that asks
            with self.news:
                self.failure = error
                self.news.notify_all()

    def _follow(self) -> None:
        client = consumer(self.kafka, Use.LISTEN)
        client.assign([TopicPartition(self.topic, 0, self.start)])
        while not self.stop.is_set():
            message = client.poll(POLL_S_MAX)
            if message is None:
                continue
            if (error := message.error()) is not None:
                raise explain(self.kafka, error, f"following {self.topic}")
            at, written_at_ms = time.monotonic(), message.timestamp()[1]
            entry = parse(Record(Position(0, message.offset() or 0), written_at_ms, message.key(), message.value()))
            if isinstance(entry, End):
                with self.news:
                    self.seen[int(entry.transaction.partition(":")[0])] = Seen(at, written_at_ms)
                    self.news.notify_all()
        client.close()

    def wait(self, xids: set[int]) -> Mapping[int, Seen]:
        with self.news:
            arrived = self.news.wait_for(lambda: self.failure or xids <= self.seen.keys(), ARRIVAL_S_MAX)
            if self.failure is not None:
                raise self.failure
            if not arrived:
                raise LogError(
                    f"{len(xids - self.seen.keys())} commits are not in the log after {ARRIVAL_S_MAX:g} s",
                    detail=f"topic {self.topic}",
                    hint="headwater status",
                )
            return dict(self.seen)


@contextmanager
def _watching(capture: Capture) -> Iterator[_Watch]:
    topic = capture.source.changes_topic
    watch = _Watch(capture.kafka, topic, topic_state(capture.kafka, topic).high)
    thread = threading.Thread(target=watch.run, name="bench-watch", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        watch.stop.set()
        thread.join()
