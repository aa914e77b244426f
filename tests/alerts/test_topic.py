"""The Kafka channel: with a producer that does as it is told, and on the real broker."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from alerts.channels.channel import Delivered, Refused, Retry, Target
from alerts.channels.topic import Topic
from cdc.addresses import KafkaAddress, Source
from cdc.errors import LogError
from cdc.kafka import client_settings
from cdc.topics import delete_topic, ensure_topic
from headwater.channels import topic
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


class _Away(LogError):
    """Kafka does not answer."""


def test_a_topic_that_cannot_be_made_is_tried_again_and_made_once() -> None:
    tries = []

    def ensure() -> None:
        tries.append(len(tries))
        if len(tries) == 1:
            raise _Away("Kafka does not answer")

    async def run() -> list[object]:
        channel = Topic(Producer(), "shop.alerts", ensure)
        return [await channel.deliver(notification(f"m{n}"), TARGET) for n in range(3)]

    first, *later = asyncio.run(run())
    assert isinstance(first, Retry)
    assert "Kafka does not answer" in first.reason
    assert later == [Delivered()] * 2
    assert len(tries) == 2


@pytest.mark.stack
@pytest.mark.parametrize("partitions", [0, 3], ids=["no topic yet", "the operator's own, with three partitions"])
def test_on_the_real_broker(deployment: Deployment, source: Source, partitions: int) -> None:
    """As a deployment has it: nobody else makes its topic."""
    if partitions:
        ensure_topic(deployment.kafka, source.alerts_topic, partitions=partitions)

    async def run() -> object:
        channel = topic(replace(deployment, source=source))
        outcome = await channel.deliver(notification(), TARGET)
        await channel.close()
        return outcome

    assert asyncio.run(run()) == Delivered()
    assert [message.key() for message in _all(deployment.kafka, source.alerts_topic)] == [b"ada"]
    delete_topic(deployment.kafka, source.alerts_topic)


def _all(kafka: KafkaAddress, name: str) -> list[Message]:
    reader = Consumer({**client_settings(kafka), "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"})
    reader.subscribe([name])
    try:
        found = reader.consume(1, timeout=30)
        return [*found, *reader.consume(1, timeout=0.5)]
    finally:
        reader.close()
