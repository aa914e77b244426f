"""The embedded Kafka after kill -9: what was committed is read, and nothing holds readers up."""

from __future__ import annotations

import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from cdc.addresses import KafkaAddress
from cdc.reader import read_range
from cdc.topics import ensure_topic, find_state, topic_state
from headwater.stack.servers import kafka as kafka_server
from headwater.stack.stack import Stack, StackPlan
from tests.waiting import eventually

pytestmark = pytest.mark.stack

WRITERS = 16
"""So many that one of them is always between its commit and the marks of it."""
ROUNDS = 2
WRITTEN_S = 1.5
COMMIT_S = 5.0
"""On a busy machine, too; from one that was killed nothing comes."""
REQUEST_S = 30.0
FROZEN_S = 12.0
"""Longer than the session that Kafka gives a broker by itself."""


@pytest.fixture
def stack() -> Iterator[Stack]:
    folder = Path(tempfile.mkdtemp(prefix="headwater-kafka-"))
    folder.chmod(0o755)
    stack = Stack(StackPlan(folder=folder, servers=("kafka",)))
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Writer:
    """Small transactions, one after the other, until the broker is gone."""

    kafka: KafkaAddress
    topic: str
    committed: list[int] = field(default_factory=list)

    def producer(self) -> Producer:
        """Whatever its predecessor had begun is over."""
        found = Producer({**self.kafka.client(), "transactional.id": self.topic, "linger.ms": 0, "log_level": 0})
        found.init_transactions(REQUEST_S)
        return found

    def write(self, stop: threading.Event) -> None:
        producer, number = self.producer(), len(self.committed)
        while not stop.is_set():
            try:
                producer.begin_transaction()
                producer.produce(self.topic, value=str(number).encode())
                producer.commit_transaction(COMMIT_S)
            except KafkaException:  # killed: that is what this test does to it
                return
            self.committed.append(number)
            number += 1


@contextmanager
def writing(writers: list[Writer]) -> Iterator[None]:
    stop, before = threading.Event(), [len(writer.committed) for writer in writers]
    threads = [threading.Thread(target=writer.write, args=(stop,)) for writer in writers]
    for thread in threads:
        thread.start()
    time.sleep(WRITTEN_S)

    def all_have_written() -> None:
        assert all(len(writer.committed) >= known + 2 for writer, known in zip(writers, before, strict=True))

    try:
        eventually(all_have_written)
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def hanging(kafka: KafkaAddress, topics: list[str]) -> list[str]:
    return [topic for topic in topics if find_state(kafka, topic) != find_state(kafka, topic, committed=False)]


def read(kafka: KafkaAddress, topic: str) -> set[int]:
    state = topic_state(kafka, topic)
    chunks = read_range(kafka, topic, state.low, state.high)
    return {int(raw.value) for chunk in chunks for raw in chunk if raw.value is not None}


def test_no_transaction_hangs_after_kill_9(stack: Stack, unique: str) -> None:
    kafka = kafka_server.address(stack.site)
    writers = [Writer(kafka, f"{unique}.{number}") for number in range(WRITERS)]
    for writer in writers:
        ensure_topic(kafka, writer.topic, retention_ms=3_600_000, config={})
    for _ in range(ROUNDS):
        with writing(writers):
            stack.child("kafka").kill()
        stack.forgive()
        stack.restart("kafka")
        for writer in writers:
            writer.producer()

        def none_hangs() -> None:
            assert hanging(kafka, [writer.topic for writer in writers]) == []

        eventually(none_hangs)
    for writer in writers:
        assert set(writer.committed) <= read(kafka, writer.topic)
        assert len(writer.committed) > ROUNDS


def test_a_frozen_broker_is_not_taken_for_dead(stack: Stack) -> None:
    stack.child("kafka").signal(signal.SIGSTOP)
    time.sleep(FROZEN_S)
    stack.child("kafka").signal(signal.SIGCONT)
    stack.wait_ready("kafka")
    assert "Fencing broker" not in stack.child("kafka").log.read_text()


class Alone:
    """A controller that says and writes what it is told to, a step each time it is looked at."""

    def __init__(self, folder: Path, steps: list[tuple[str, int]]) -> None:
        self.log, self.metadata, self._steps = folder / "controller.log", folder / "metadata", iter(steps)
        self.metadata.mkdir()

    def exit_code(self) -> int | None:
        step = next(self._steps, None)
        if step is None:
            return 1
        with self.log.open("a") as log, (self.metadata / "0.log").open("ab") as metadata:
            log.write(step[0])
            metadata.write(bytes(step[1]))
        return None

    def left(self) -> int:
        return len(list(self._steps))


TOOK_OVER, FENCED, WRITES, RESTS = ("Becoming the active controller", 10), ("Fencing broker 1", 0), ("", 10), ("", 0)


@pytest.mark.parametrize(
    ("steps", "left"),
    [
        ([TOOK_OVER, FENCED, WRITES, WRITES, RESTS], 1),
        ([TOOK_OVER, FENCED, WRITES, *[RESTS] * 50, WRITES, RESTS], 1),
        ([TOOK_OVER, *[WRITES] * 20, FENCED, *[RESTS] * 30], 0),
        ([TOOK_OVER, *[WRITES] * kafka_server.KNOWN_DEAD_GROWTHS, RESTS], 1),
        ([*[WRITES] * 40, TOOK_OVER, *[RESTS] * 40], 0),
    ],
)
def test_a_controller_is_heard_when_its_log_holds_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: list[tuple[str, int]], left: int
) -> None:
    monkeypatch.setattr(kafka_server, "FENCING_POLL_S", 0)
    controller = Alone(tmp_path, steps)
    kafka_server._wait_until_fenced(controller, controller.metadata)  # type: ignore[arg-type]
    assert controller.left() == left
