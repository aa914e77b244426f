"""The Kafka channel: with a producer that does as it is told, and on the real broker."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from alerts.channels.channel import Delivered, Refused, Retry, Target
from alerts.channels.topic import Topic
from cdc.kafka import producer
from cdc.reader import read_range
from cdc.topics import delete_topic, ensure_topic, find_state
from headwater.deployment import Deployment
from tests.alerts.samples import notification

TARGET = Target("e", "kafka", "somebody.changes")


@dataclass
class Producer:
    """Acknowledges while it is polled, on whatever thread polls."""

    answer: KafkaError | None = None
    raises: Exception | None = None
    written: list[dict[str, Any]] = field(default_factory=list)
    callbacks: list[Callable[..., None]] = field(default_factory=list)
    polled_by: set[int] = field(default_factory=set)

    def produce(self, topic: str, *, on_delivery: Callable[..., None], **record: Any) -> None:
        if self.raises:
            raise self.raises
        self.written.append({"topic": topic, **record})
        self.callbacks.append(on_delivery)

    def poll(self, _timeout_s: float) -> None:
        self.polled_by.add(threading.get_ident())
        while self.callbacks:
            self.callbacks.pop()(self.answer, None)


def deliver(given: Producer) -> object:
    return asyncio.run(Topic(given, "shop.alerts").deliver(notification(), TARGET))


def test_keyed_by_owner_in_the_operators_topic() -> None:
    given = Producer()
    assert deliver(given) == Delivered()
    record = given.written[0]
    assert (record["topic"], record["key"], record["headers"]) == ("shop.alerts", b"ada", [("id", b"msg_1")])
    assert json.loads(record["value"])["data"]["sequence"] == 1
    assert threading.get_ident() not in given.polled_by, "the loop goes on meanwhile"


def test_many_at_once() -> None:
    given = Producer()

    async def run() -> list[object]:
        channel = Topic(given, "shop.alerts")
        return await asyncio.gather(*(channel.deliver(notification(f"m{n}"), TARGET) for n in range(50)))

    assert asyncio.run(run()) == [Delivered()] * 50


@pytest.mark.parametrize(
    ("answer", "kind"), [(KafkaError._MSG_TIMED_OUT, Retry), (KafkaError.MSG_SIZE_TOO_LARGE, Refused)]
)
def test_not_acknowledged(answer: int, kind: type) -> None:
    assert isinstance(deliver(Producer(KafkaError(answer))), kind)


@pytest.mark.parametrize(
    ("raises", "kind"),
    [
        (BufferError("full"), Retry),
        (KafkaException(KafkaError(KafkaError._STATE)), Retry),
        (KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)), Refused),
    ],
    ids=str,
)
def test_not_taken(raises: Exception, kind: type) -> None:
    assert isinstance(deliver(Producer(raises=raises)), kind)


@pytest.mark.stack
def test_on_the_real_broker(deployment: Deployment) -> None:
    topic = f"test.{uuid.uuid4().hex}.alerts"
    ensure_topic(deployment.kafka, topic)

    async def run() -> object:
        channel = Topic(producer(deployment.kafka), topic)
        outcome = await channel.deliver(notification(), TARGET)
        await channel.close()
        return outcome

    assert asyncio.run(run()) == Delivered()
    state = find_state(deployment.kafka, topic)
    assert state is not None
    (record,) = [raw for chunk in read_range(deployment.kafka, topic, 0, state.high) for raw in chunk]
    assert record.key == b"ada"
    delete_topic(deployment.kafka, topic)
